"""Every program with every schedule on a simulated block: the fields that the interpreter finds.

What this leaves to a GPU (tests/gpu): several blocks, hence the barrier of the grid and what is
visible after it, the instructions themselves, and the speed.
"""

import numpy as np
import pytest
from numpy import int64

import evener as ev
from evener.algorithms.betweenness import Betweenness
from evener.device import atomic, warp
from evener.engine.job import set_up
from evener.engine.reference.loop import interpret
from evener.engine.targets import gpu
from evener.operators.gpu.advance import SLACK
from evener.operators.gpu.schedules import SCHEDULES
from evener.programs import Field, Program, Vertex, functor
from evener.programs.stages import advance, backwards, filter, nearest, repeat
from gpu_simulator import THREADS, UNCOVERED, Block, simulate
from graphs import SIMULATED, between_layers
from programs.cases import CASES, FEW, parameters_for, suits
from programs.examples import programs_to_simulate
from programs.loops import EdgesThroughout, LoopsInLoops, Nested, OverEdges
from programs.merged import Extremes, assert_extremes
from programs.ordered import FALLING, SETTLED, Bounded, BucketsFrom, NearestFrom, TwiceNearest
from programs.stages import (
    Around,
    Closing,
    Everything,
    Neighbours,
    Outwards,
    Spread,
    assert_visited_whole,
)

PROGRAMS = [p for p in CASES if not p.__name__.endswith("32")]  # the same text as without


def long(*names, few):
    """Names of graphs, of which only a few are not left to the long matrix."""
    return [name if name in few else pytest.param(name, marks=pytest.mark.slow) for name in names]


def assert_simulated(program, graph, schedule="auto", direction="auto", **parameters):
    parameters = {**parameters_for(program, graph), **parameters}
    want = set_up(program, graph, parameters)
    interpret(want, direction)
    have = simulate(program, graph, schedule, direction, **parameters)
    for name, array in want.fields.items():
        declared = program.declaration.fields[name]
        if declared.dtype is ev.VERTEX and declared.merge in (None, "any"):
            continue  # any of several vertices is right
        np.testing.assert_allclose(
            have.fields[name], array, rtol=1e-5, atol=1e-9, err_msg=f"{name} {schedule} {direction}"
        )


@pytest.mark.parametrize("graph", long(*SIMULATED, few=("one vertex", "loop", "rmat", "directed")))
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program, graph):
    if suits(program, SIMULATED[graph]):
        assert_simulated(program, SIMULATED[graph])


@pytest.mark.parametrize("graph", long("rmat", "grid", few=("rmat",)))
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", FEW, ids=lambda p: p.__name__)
def test_schedules(program, schedule, graph):
    assert_simulated(program, SIMULATED[graph], schedule)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_all_schedules(program, schedule):
    for graph in SIMULATED.values():
        if suits(program, graph):
            assert_simulated(program, graph, schedule)


@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("graph", long("rmat", "grid", "long lists", "directed", few=("rmat",)))
@pytest.mark.parametrize("name", ["BFS", "SSWP", "Betweenness"])
def test_directions(name, graph, direction):
    (program,) = (p for p in CASES if p.__name__ == name)
    if suits(program, SIMULATED[graph]):
        assert_simulated(program, SIMULATED[graph], direction=direction)


@pytest.mark.parametrize("graph", long("rmat", "grid", few=("rmat",)))
@pytest.mark.parametrize("program", programs_to_simulate(), ids=lambda p: p.__name__)
def test_example_programs(program, graph):
    assert_simulated(program, SIMULATED[graph])


@pytest.mark.parametrize(
    "graph", long("rmat", "long lists", "directed", "isolated", few=("rmat", "long lists"))
)
@pytest.mark.parametrize("name", ["PageRank", "WeightedPageRank", "Heat"])
def test_vertices_in_the_order_of_degrees(name, graph, monkeypatch):
    monkeypatch.setattr("evener.engine.memory.gpu.RELABEL_ARCS", 0)
    monkeypatch.setattr("evener.engine.memory.gpu.RELABEL_SKEW", 0)
    (program,) = (p for p in CASES if p.__name__ == name)
    assert_simulated(program, SIMULATED[graph])


# ---- loops, orders and edges as the tests of the CPU have them -----------------------------------

SMALL = {
    "one vertex": SIMULATED["one vertex"],
    "loop": SIMULATED["loop"],
    "rmat": SIMULATED["rmat"],
    "directed": SIMULATED["directed"],
}


@pytest.mark.parametrize("graph", SMALL)
@pytest.mark.parametrize(
    "program",
    [Everything, OverEdges, EdgesThroughout, Bounded, Nested, LoopsInLoops, Neighbours, Outwards, Around],
    ids=lambda p: p.__name__,
)  # fmt: skip
def test_loops(program, graph):
    given = {"delta": 1.0} if program is Bounded else {}
    assert_simulated(program, SMALL[graph], **given)


@pytest.mark.parametrize("options", [{"limit": 2}, {"limit": 0}, {"horizon": 9.0}], ids=str)
def test_ordered_loops_with_bounds(options):
    assert_simulated(Bounded, SMALL["rmat"], delta=1.0, **options)


RECORDING = [
    Everything, EdgesThroughout, Betweenness,
    *(pytest.param(p, marks=pytest.mark.slow) for p in (OverEdges, Bounded, Nested)),
]  # fmt: skip


@pytest.mark.parametrize("program", RECORDING, ids=lambda p: p.__name__)
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
    assert_simulated(OverEdges, SMALL["rmat"], schedule)


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if ":" not in name])
def test_lists_that_are_wanted_no_more(schedule):
    assert_visited_whole(
        simulate(Closing, SIMULATED["grid"], schedule, "auto").fields,
        SIMULATED["grid"],
    )


@pytest.mark.parametrize("more", [-500, 1, 70])
def test_queues_that_are_nearly_full(more, monkeypatch):
    """With room for every vertex once and some twice, none is written beyond the end."""
    graph = between_layers(30)
    room = graph.num_vertices + SLACK * THREADS // 32 + more
    assert room < graph.num_edges / 2
    monkeypatch.setattr(gpu, "_queue_length", lambda *_: max(graph.num_vertices, room))
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
    replaced = Block().replacements()
    plain = {"block", "num_blocks", "count_bits", "lowest_bit"}
    listed = set(", ".join(UNCOVERED).split(", "))
    assert {name for name, one in ours.items() if one not in replaced} | {"sync_warp"} == (
        plain | listed
    )


def is_from(one, module):
    return getattr(one, "__module__", "") == module.__name__


def test_scalars_of_weights_of_other_types():
    assert_extremes(lambda graph: simulate(Extremes, graph, "auto", "auto").scalars)
