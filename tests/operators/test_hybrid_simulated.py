"""Parts of a CPU, compiled, beside simulated parts of a GPU: the fields that the interpreter finds.

What this leaves to a GPU (tests/gpu): its memory apart from the host's, and the order in which
either sees what the other wrote.
"""

import itertools

import numpy as np
import pytest

import evener as ev
import parts_gpu_simulator
from comparing import assert_job, case
from evener.algorithms.betweenness import Betweenness
from evener.algorithms.bfs import BFS
from evener.algorithms.connected_components import Components
from evener.algorithms.pagerank import DanglingPageRank, PageRank
from evener.algorithms.sssp import SSSP, CutoffSSSP, TargetSSSP
from evener.algorithms.sswp import SSWP
from evener.device import compiled
from evener.engine.job import set_up
from evener.engine.preallocation import RecordIsFull
from evener.engine.reference.loop import interpret
from evener.engine.targets import parts_gpu as gpu_parts
from evener.operators.gpu.trace import NEEDED
from evener.operators.shared import handshake
from evener.operators.shared.policies import policy_of
from evener.programs.stages import advance, backwards, compute, filter, repeat
from failing import fail_at
from graphs import SIMULATED
from parts_gpu_simulator import Simulation, simulate_hybrid
from programs.cases import CASES, COVERING, parameters_for, suits
from programs.loops import Echoes, EdgesThroughout, Nested, OverEdges, Repeats
from programs.merged import Reset, Totals
from programs.ordered import Bounded
from programs.searches import Paths
from programs.stages import Around, Everything, Labels, OnEdges, Scattered
from tables import slow_but

OWN = [Labels, Paths, Scattered, Reset, Totals]
LOOPS = [OnEdges, Everything, OverEdges, EdgesThroughout, Bounded, Nested, Echoes, Around]
PROGRAMS = [p for p in [*CASES, *OWN] if not p.__name__.endswith("32")]  # the same text
BOTH = [BFS, TargetSSSP, SSWP, PageRank, DanglingPageRank, Components, Betweenness]
COVERED = COVERING["gpu_beside_cpu"]
SETS = [["cpu", "cuda"], ["cuda", "cpu", "cpu"], ["cuda", "cpu", "cuda"]]


def check(program, graph, kinds, direction="auto", partition="random"):
    parameters = parameters_for(program, graph)
    parameters |= {Bounded: {"delta": 1.0}, Repeats: {"times": 3}}.get(program, {})
    want = set_up(program, graph, parameters)
    interpret(want, direction)
    have = simulate_hybrid(program, graph, kinds, partition, direction, **parameters)
    assert_job(have, want, any_rounds=program is not HopsThrice)


def one_or_two(program):
    """An undirected graph and a directed one, if the program takes both."""
    return [name for name in ("rmat", "directed") if suits(program, SIMULATED[name])]


ALL = list(dict.fromkeys([*BOTH, SSSP, *COVERED]))
# Their kernels for the CPU take seconds to compile. Its operators are those of sets of CPUs, and those
# of the hub are one text with the GPU's, so that few programs have something of their own here.
ON_CPU = [BFS, SSSP]


@pytest.mark.parametrize("program", slow_but(ALL, *ON_CPU), ids=lambda p: p.__name__)
def test_programs(program):
    for i, name in enumerate(one_or_two(program)):
        check(program, SIMULATED[name], SETS[(ALL.index(program) + i) % 3])


ON_CARDS = [*ALL, Everything, Labels]


@pytest.mark.parametrize(
    "program",
    slow_but(ON_CARDS, BFS, PageRank, Components, *COVERED, Everything, Labels),
    ids=lambda p: p.__name__,
)
def test_several_cards(program):
    """A kernel on each of several GPUs, which share no memory but the hub."""
    name, k = one_or_two(program)[-1], 2 + ON_CARDS.index(program) % 2
    check(program, SIMULATED[name], ["cuda"] * k)


def test_a_single_change_in_copies():
    """Of a replicated field: one part changes one element, the other none."""
    for arc in ([0], [1]), ([1], [0]):
        check(Totals, ev.Graph.from_edges(*arc), SETS[0], partition="contiguous")


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["auto", "push", "pull"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_all(program, direction):
    for i, name in enumerate(("rmat", "grid", "directed", "loop", "one vertex")):
        if suits(program, SIMULATED[name]):
            for kinds in SETS if name == "directed" else SETS[i % 3 : i % 3 + 1]:
                with case(name, kinds):
                    check(program, SIMULATED[name], kinds, direction)


@pytest.mark.slow
@pytest.mark.parametrize("program", LOOPS, ids=lambda p: p.__name__)
def test_loops(program):
    """Orders that tell supersteps apart, loops in replays, edges, both directions."""
    for i, name in enumerate(("rmat", "directed", "one vertex")):
        check(program, SIMULATED[name], SETS[(LOOPS.index(program) + i) % 3])


class Hops(ev.Program):
    """As SSSP without an order."""

    hops = ev.Field(np.int32, fill=1000, merge="min")
    pushes = ev.Field(np.int32, merge="sum")

    @ev.functor
    def step(src, dst, edge, s):
        return ev.atomic.min(s.hops, dst, s.hops[src] + 1) > s.hops[src] + 1

    @ev.functor
    def is_new(v, s):
        return s.hops[v] == 1000

    @ev.functor
    def step_and_count(src, dst, edge, s):
        ev.atomic.add(s.pushes, src, 1)
        return ev.atomic.min(s.hops, dst, s.hops[src] + 1) > s.hops[src] + 1

    def start(self):
        self.hops[:3] = 0
        return [0]

    loop = repeat(advance(step))


class HopsToNew(Hops):
    """Right only as long as all of a frontier are equally far."""

    loop = repeat(advance(Hops.step, where=Hops.is_new))


class CountedHops(Hops):
    """Likewise, since vertices that are pushed twice are counted twice."""

    loop = repeat(advance(Hops.step_and_count))


class HopsThrice(Hops):
    """A loop in a loop, which goes on after it."""

    rounds = ev.Field(np.int32)

    @ev.functor
    def is_next(v, s):
        return s.id[v] == s.superstep + 1

    @ev.functor
    def count(v, s):
        s.rounds[v] += 1

    loop = repeat(
        repeat(advance(Hops.step)), compute(count, over="all"), filter(is_next, over="all"),
        max_supersteps=3,
    )  # fmt: skip


TURNS = itertools.count()


def in_turn():
    return next(TURNS) % 3 != 0


@pytest.mark.parametrize(
    "late",
    [pytest.param(lambda: False, marks=pytest.mark.slow, id="no"),
     pytest.param(lambda: True, id="yes"), pytest.param(in_turn, id="some")],
)  # fmt: skip
@pytest.mark.parametrize(
    "program",
    [SSSP, *(pytest.param(p, marks=pytest.mark.slow) for p in (SSWP, Hops, HopsThrice))],
    ids=lambda p: p.__name__,
)
def test_running_ahead(program, late, monkeypatch):
    """Whoever waits for others pushes from its own frontier meanwhile; some do, others do not."""
    asked = []

    def are_late(hub):
        asked.append(late())
        return asked[-1]

    monkeypatch.setattr(handshake.are_late, "of_gpu", compiled(are_late))
    graphs = [("rmat", 2), ("directed", 3), ("loop", 2), ("grid", 2), ("long lists", 2)]
    for name, k in graphs[: 3 if late is in_turn else 5 - issubclass(program, Hops)]:
        check(program, SIMULATED[name], ["cuda"] * k, "push", "random" if k == 2 else "contiguous")
    assert any(asked) == late() or late is in_turn
    check(program, SIMULATED["grid"], SETS[0], "push")


@pytest.mark.parametrize("kinds", [["cuda", "cuda"], ["cuda", "cpu"]], ids="+".join)
def test_arrivals_may_be_emitted_again(kinds, monkeypatch):
    """The other part is told of v and w, and finds a better way to v by w when v is done."""
    monkeypatch.setattr(handshake.are_late, "of_gpu", compiled(lambda hub: True))
    few, v, w, x, y, z = np.arange(1, 300), 300, 301, 302, 303, 304
    arcs = [(0, v, 1000), (0, w, 1), *((w, u, 1) for u in few), (w, v, 1), (v, x, 1)]
    arcs += [(y, z, 1), (z, y, 1)]
    src, dst, weights = np.array(arcs, np.int32).T
    graph = ev.Graph.from_edges(src, dst, weights, num_vertices=305)
    for _ in range(3):
        job = simulate_hybrid(
            SSSP, graph, kinds, lambda graph, k: (np.arange(305) > 0).astype(np.int32),
            source=[0, y], delta=1.0,
        )  # fmt: skip
        assert job.fields["distance"][[v, w, x, z]].tolist() == [2, 1, 3, 1]


def test_a_loop_around_goes_on():
    check(HopsThrice, SIMULATED["rmat"], ["cuda", "cuda"], "push")


@pytest.mark.parametrize(
    ("program", "runs"),
    [
        *((program, True) for program in (SSSP, CutoffSSSP, SSWP, Hops, HopsThrice)),
        *((program, False) for program in (BFS, TargetSSSP, Components, HopsToNew, CountedHops)),
    ],
)
def test_who_may_run_ahead(program, runs):
    """Not who tells supersteps apart, pulls, records, or writes what is not merged."""
    job = set_up(
        program, SIMULATED["rmat"], parameters_for(program, SIMULATED["rmat"]), deferred=True
    )
    for hub in (True, False):
        plan = gpu_parts.lowered_parts(job, "auto", "auto", policy_of("refined"), hub)
        assert ("listen(" in plan.kernel.text) == (runs and hub)


def test_by_degree():
    check(BFS, SIMULATED["rmat"], SETS[0], partition="high:alpha=0.5")


@pytest.mark.parametrize(
    "program", slow_but([BFS, SSSP, Repeats], Repeats), ids=lambda p: p.__name__
)
def test_a_cpu_part_that_fails_lets_the_others_go(program, monkeypatch):
    fail_at(monkeypatch, 0, 1)
    with pytest.raises(ev.DeviceError, match="partition 0 on cpu:1 failed"):
        check(program, SIMULATED["grid"], SETS[0])


@pytest.mark.parametrize(("nbytes", "share"), [(1 << 40, 1 / 16), (95_000, 1 / 2), (0, 7 / 8)])
def test_the_cpu_gets_what_gpus_have_no_memory_for(nbytes, share, monkeypatch):
    from evener.engine.targets import hybrid

    monkeypatch.setattr(hybrid, "_memory_of", lambda ordinal: nbytes)
    job = set_up(BFS, ev.generate.rmat(10, 16, seed=1), {"source": 0})
    found = hybrid._by_degree(job, [None, 0], [0.5, 0.5], 0, [None, 1 << 41], "auto")
    assert found[0] == f"high:alpha={share}"
    assert found[-1] == "high:alpha=0.875"  # if the estimate was too low


def test_several_cpus_share_what_gpus_have_no_memory_for():
    from evener.engine.targets import hybrid

    found = hybrid._with_share_on_cpus(1 / 16, [None, 0, None, 1], [0.25, 0.1, 0.25, 0.4])
    assert found == "high:shares=0.03125/0.1875/0.03125/0.75"


def test_gpus_share_by_their_memory(monkeypatch):
    from evener.engine.targets import hybrid

    monkeypatch.setattr("evener.device.cuda.total_memory", lambda ordinal: (80, 20)[ordinal])
    assert hybrid._shares([None, 0, 1]) == pytest.approx([1 / 3, 8 / 15, 2 / 15])
    assert hybrid._shares([0, 0, 1]) == pytest.approx([0.4, 0.4, 0.2])
    assert hybrid._shares([None, 0]) == pytest.approx([0.5, 0.5])


def test_a_record_of_a_gpu_that_is_full_stops_all():
    """Not as an error of the cpu: with more room on the GPU the run begins again."""
    graph = SIMULATED["rmat"]
    with pytest.raises(RecordIsFull):
        simulate_hybrid(Repeats, graph, ["cpu", "cuda"], room=graph.num_vertices, times=4)
    job = simulate_hybrid(Repeats, graph, ["cpu", "cuda"], room=4 * graph.num_vertices, times=4)
    assert job.fields["visits"].tolist() == [4] * graph.num_vertices


class OneAlone(ev.Program):
    """Records twenty supersteps in which one vertex is in the frontier."""

    visits = ev.Field(np.int64)

    @ev.functor
    def stays(v, s):
        return s.superstep < 20

    @ev.functor
    def touch(v, s):
        s.visits[v] += 1

    def start(self):
        return [0]

    loop = (repeat(filter(stays), record=True), backwards(compute(touch)))


def test_a_record_that_is_full_of_empty_supersteps_asks_for_more(monkeypatch):
    """If it asked for nothing, the cpu would be taken for the one that is full."""
    given = []

    class Watched(Simulation):
        def __init__(self, kernel, arguments):
            given.extend(arguments)
            super().__init__(kernel, arguments)

    monkeypatch.setattr(parts_gpu_simulator, "Simulation", Watched)
    graph = ev.generate.path(40)
    with pytest.raises(RecordIsFull):
        simulate_hybrid(OneAlone, graph, SETS[0], "contiguous", room=11)
    assert given[0].trace[NEEDED] == 12
