"""Every program with every schedule on a simulated block: the fields that the interpreter finds.

What this leaves to a GPU (tests/gpu): several blocks, hence the barrier of the grid and what is
visible after it, the instructions themselves, and the speed.
"""

import numpy as np
import pytest
from numpy import int64

import evener as ev
from comparing import assert_job, case
from evener.algorithms.betweenness import Betweenness, DirectedBetweenness
from evener.algorithms.bfs import BFS
from evener.algorithms.sswp import SSWP
from evener.device import atomic, warp
from evener.engine.job import set_up
from evener.engine.memory import gpu
from evener.engine.reference.loop import interpret
from evener.operators.gpu.advance import SLACK
from evener.operators.gpu.schedules import SCHEDULES
from evener.programs import Field, Program, Vertex, functor
from evener.programs.stages import advance, backwards, filter, nearest, repeat
from gpu_simulator import THREADS, UNCOVERED, Block, Lanes, simulate
from graphs import SIMULATED, between_layers
from programs.cases import CASES, FEW, parameters_for, suits
from programs.examples import programs
from programs.loops import EdgesThroughout, LoopsInLoops, Nested, OverEdges
from programs.merged import Extremes, assert_extremes
from programs.ordered import FALLING, SETTLED, Bounded, BucketsFrom, NearestFrom, TwiceNearest
from programs.searches import Paths
from programs.stages import (
    Around,
    Closing,
    Everything,
    Neighbours,
    OnEdges,
    Outwards,
    Spread,
    assert_visited_whole,
)
from tables import slow_but

PROGRAMS = [p for p in CASES if not p.__name__.endswith("32")]  # the same text as without


def assert_simulated(program, graph, schedule="auto", direction="auto", **parameters):
    parameters = {**parameters_for(program, graph), **parameters}
    if program is Bounded:
        parameters.setdefault("delta", 1.0)
    want = set_up(program, graph, parameters)
    interpret(want, direction)
    assert_job(simulate(program, graph, schedule, direction, **parameters), want, any_rounds=False)


# Those with many supersteps take long.
EXAMPLES = [
    pytest.param(p, marks=pytest.mark.slow) if p.__name__ == "Rank" else p for p in programs()
]
# Those that `make test` has of each program are two, one of them with few edges or none.
FEW_GRAPHS = [("one vertex", "rmat"), ("loop", "directed")]


def two_of(programs, program):
    """Two graphs for a program, taking turns."""
    few = FEW_GRAPHS[programs.index(program) % 2]
    return few if suits(program, SIMULATED[few[1]]) else FEW_GRAPHS[0]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program):
    for name in two_of(PROGRAMS, program):
        with case(name):
            assert_simulated(program, SIMULATED[name])


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_on_all_graphs(program):
    for name, graph in SIMULATED.items():
        if suits(program, graph):
            with case(name):
                assert_simulated(program, graph)


# Widths differ in a number only, so one program each will do.
PAIRS = [(program, schedule) for program in FEW for schedule in SCHEDULES]
FEW_PAIRS = [
    (program, schedule)
    for i, program in enumerate(FEW)
    for j, schedule in enumerate(SCHEDULES)
    if ":" not in schedule or i == j % len(FEW)
]


@pytest.mark.parametrize(
    "pair", slow_but(PAIRS, *FEW_PAIRS), ids=lambda pair: f"{pair[0].__name__} {pair[1]}"
)
def test_schedules(pair):
    program, schedule = pair
    assert_simulated(program, SIMULATED["rmat"], schedule)


def test_merge_path_of_many_vertices():
    """More than a lane of each warp has: degrees are summed in several rounds."""
    graph = ev.generate.rmat(8, 8, seed=1)
    source = int(np.argmax(graph.degrees))
    assert_simulated(BFS, graph, "merge_path", "push", source=source)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_all_schedules(program, schedule):
    """On the graphs that differ most in the lengths of their lists."""
    for name in ("rmat", "long lists", "directed"):
        if suits(program, SIMULATED[name]):
            with case(name):
                assert_simulated(program, SIMULATED[name], schedule)


@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("graph", slow_but(["rmat", "grid", "long lists", "directed"], "rmat"))
@pytest.mark.parametrize("program", [BFS, SSWP, Betweenness], ids=lambda p: p.__name__)
def test_directions(program, graph, direction):
    if program is Betweenness and graph == "directed":
        program = DirectedBetweenness
    assert_simulated(program, SIMULATED[graph], direction=direction)


@pytest.mark.parametrize("graph", slow_but(["rmat", "grid"], "rmat"))
@pytest.mark.parametrize("program", EXAMPLES, ids=lambda p: p.__name__)
def test_example_programs(program, graph):
    assert_simulated(program, SIMULATED[graph])


@pytest.mark.parametrize(
    "graph", slow_but(["rmat", "long lists", "directed", "isolated"], "rmat", "long lists")
)
@pytest.mark.parametrize("name", ["PageRank", "WeightedPageRank", "Heat"])
def test_vertices_in_the_order_of_degrees(name, graph, monkeypatch):
    monkeypatch.setattr("evener.engine.memory.gpu_graph.RELABEL_ARCS", 0)
    monkeypatch.setattr("evener.engine.memory.gpu_graph.RELABEL_SKEW", 0)
    (program,) = (p for p in CASES if p.__name__ == name)
    assert_simulated(program, SIMULATED[graph])


# ---- loops, orders and edges as the tests of the CPU have them -----------------------------------

LOOPS = [
    Everything, OverEdges, EdgesThroughout, Bounded, Nested, LoopsInLoops, Neighbours, Outwards,
    Around, OnEdges,
]  # fmt: skip


@pytest.mark.parametrize("program", LOOPS, ids=lambda p: p.__name__)
def test_loops(program):
    for name in two_of(LOOPS, program):
        with case(name):
            assert_simulated(program, SIMULATED[name])


@pytest.mark.slow
@pytest.mark.parametrize("program", LOOPS, ids=lambda p: p.__name__)
def test_loops_on_more_graphs(program):
    for name in ("one vertex", "loop", "rmat", "directed"):
        with case(name):
            assert_simulated(program, SIMULATED[name])


@pytest.mark.parametrize("options", [{"limit": 2}, {"limit": 0}, {"horizon": 9.0}], ids=str)
def test_ordered_loops_with_bounds(options):
    assert_simulated(Bounded, SIMULATED["rmat"], delta=1.0, **options)


RECORDING = [Everything, EdgesThroughout, Betweenness, OverEdges, Bounded, Nested, Paths]


@pytest.mark.parametrize(
    "program", slow_but(RECORDING, EdgesThroughout, Paths), ids=lambda p: p.__name__
)
def test_kernels_that_return_for_more_room(program):
    """They go on where they were: what is found and counted is the same, wherever they returned."""
    graph = ev.generate.rmat(4, 3, weights=(1, 9), seed=1)
    given = {**parameters_for(program, graph), **({"delta": 1.0} if program is Bounded else {})}
    want = simulate(program, graph, "auto", "auto", **given)
    launches = set()
    for room in (1, 2, 5, 11, 30):
        have = simulate(program, graph, "auto", "auto", room, **given)
        launches.add(have.launches)
        for name in want.fields:
            np.testing.assert_allclose(have.fields[name], want.fields[name], err_msg=name)
        assert have.scalars == want.scalars
        assert have.stats == want.stats
        rows = [
            [dict(row, seconds=0, barriers=row["barriers"] > 0) for row in job.make_trace()]
            for job in (have, want)
        ]
        assert rows[0] == rows[1]
        assert all(row["barriers"] for row in rows[0] if row["frontier"])
    assert len(launches) > 1


class Answering(Program):
    """Goes back over its frontiers, pushed while few arcs leave them."""

    level = Field(int64, fill=-1, merge="max")
    answered = Field(int64, fill=-1, merge="max")

    @functor
    def reach(src, dst, edge, s):
        return atomic.max(s.level, dst, 0) < 0

    @functor
    def is_silent(dst, s):
        return s.answered[dst] < 0

    @functor
    def answer(src, dst, edge, s):
        return atomic.max(s.answered, dst, 0) < 0

    def start(self, source: Vertex):
        self.level[source] = 0
        return [source]

    loop = (repeat(advance(reach), record=True), backwards(advance(answer, where=is_silent)))


def test_directions_of_replays():
    """They are those of the CPU: the arcs of earlier replays do not count."""
    graph = ev.generate.path(40)
    want = ev.run(Answering, graph, device="cpu", source=0).trace
    have = simulate(Answering, graph, "auto", "auto", source=0).make_trace()
    directions = [row["direction"] for row in want]
    assert len(set(directions)) == 2
    assert [row["direction"] for row in have[: len(want)]] == directions


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if ":" not in name])
def test_schedules_of_edges(schedule):
    assert_simulated(OverEdges, SIMULATED["rmat"], schedule)


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if ":" not in name])
def test_lists_that_are_wanted_no_more(schedule):
    assert_visited_whole(
        simulate(Closing, SIMULATED["grid"], schedule, "auto").fields,
        SIMULATED["grid"],
    )


@pytest.mark.parametrize("more", [-500, 1, 70])
def test_queues_that_are_nearly_full(more, monkeypatch):
    """With room for every vertex once and some twice, none is written beyond the end."""
    graph = between_layers(20)
    room = graph.num_vertices + SLACK * THREADS // 32 + more
    assert room < graph.num_edges / 2
    monkeypatch.setattr(gpu, "queue_length", lambda *_: max(graph.num_vertices, room))
    assert_simulated(Spread, graph)


@pytest.mark.parametrize("besides", [0, 300, gpu.TWICE_BESIDES])
def test_vertices_that_are_emitted_from_duplicates(besides, monkeypatch):
    """More of them than there are arcs: small frontiers are not culled."""
    monkeypatch.setattr(gpu, "TWICE_BESIDES", besides)
    assert_simulated(Spread, between_layers(5))
    assert_simulated(Recalled, between_layers(5))


class Recalled(Program):
    """Records duplicates, which filters of a replay then hand on."""

    level = Field(int64, fill=-1, merge="max")

    @functor
    def spread(src, dst, edge, s):
        atomic.max(s.level, dst, s.superstep)
        return s.superstep < 4

    @functor
    def stay(v, s):
        return True

    def start(self, source: Vertex):
        return [source]

    loop = (
        repeat(advance(spread, idempotent=True), record=True),
        backwards(filter(stay), filter(stay)),
    )


class ThenNearest(Program):
    """Hands a frontier with duplicates on to `nearest`."""

    distance = Field(int64, fill=99, merge="min")

    @functor
    def reach(src, dst, edge, s):
        atomic.min(s.distance, dst, 1)
        return True

    @functor
    def relax(src, dst, edge, s):
        offer = s.distance[src] + 1
        return atomic.min(s.distance, dst, offer) > offer

    def start(self, source: Vertex):
        return [source]

    loop = (
        repeat(advance(reach), max_supersteps=2),
        repeat(advance(relax), order=nearest(distance, 1)),
    )


def test_nearest_after_duplicates():
    assert_simulated(ThenNearest, between_layers(5))


def test_nearest_twice():
    assert_simulated(TwiceNearest, SETTLED)


@pytest.mark.parametrize("has", [-2.5, -np.inf, np.nan])
@pytest.mark.parametrize("program", [NearestFrom, BucketsFrom], ids=lambda p: p.__name__)
def test_nearest_from_odd_values(program, has):
    assert_simulated(program, SIMULATED["grid"], has=has)


def test_values_that_fall_into_earlier_buckets():
    assert_simulated(NearestFrom, FALLING, has=0.0)


def test_the_list_of_what_is_not_covered():
    """Every instruction has a stand-in, is plain Python as it is, or is in the list."""
    ours = {name: one for name, one in vars(warp).items() if is_from(one, warp) and name.islower()}
    replaced = Block(Lanes()).replacements()
    plain = {"block", "num_blocks", "count_bits", "lowest_bit", "set_bits"}
    listed = set(", ".join(UNCOVERED).split(", "))
    assert {name for name, one in ours.items() if one not in replaced} | {"sync_warp"} == (
        plain | listed
    )


def is_from(one, module):
    return getattr(one, "__module__", "") == module.__name__


def test_scalars_of_weights_of_other_types():
    assert_extremes(lambda graph: simulate(Extremes, graph, "auto", "auto").scalars)
