"""Frontiers of edges, ordered loops and records on the compiled device, as the interpreter has it."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy import float64, int32, int64

import evener as ev
from evener.device import atomic
from evener.engine.run import run
from evener.programs import WEIGHT, Field, Param, Program, Scalar, Vertex, functor
from evener.programs.stages import (
    advance,
    backwards,
    compute,
    edges,
    filter,
    gather,
    nearest,
    reduce,
    repeat,
)
from shared_programs import FALLING, SETTLED, BucketsFrom, NearestFrom, TwiceNearest
from test_native import GRAPHS, assert_same

pytestmark = pytest.mark.usefixtures("whole_crews")

DEVICES = ["cpu:1", "cpu:2", "cpu:3"]
on_devices = pytest.mark.parametrize("device", DEVICES)
on_graphs = pytest.mark.parametrize("graph", GRAPHS, ids=repr)


class OverEdges(Program):
    """Edges are emitted, filtered, counted, advanced over and replayed."""

    level = Field(int32, fill=-1, merge="max")
    seen = Field(int64, merge="sum")
    weights = Field(int64, merge="sum")
    backed = Field(int64, merge="sum")
    rounds = Param(int64, 4)

    @functor
    def rises(src, dst, edge, s):
        return s.level[dst] < s.superstep + 1 and s.weight[edge] % 5 != 0

    @functor
    def is_even(src, dst, edge, s):
        return (s.id[src] + s.id[dst]) % 2 == 0 or s.weight[edge] > 3

    @functor
    def weigh(src, dst, edge, s):
        atomic.add(s.weights, dst, s.weight[edge])
        atomic.max(s.level, dst, s.superstep + 1)

    @functor
    def step(src, dst, edge, s):
        atomic.add(s.seen, dst, 1)
        return s.id[dst] % 3 != 0

    @functor
    def back(src, dst, edge, s):
        atomic.add(s.backed, dst, s.superstep + 1)

    @functor
    def is_any(src, dst, edge, s):
        return True

    def start(self, source: Vertex):
        return [source]

    loop = (
        repeat(
            advance(rises, emit="edges"),
            filter(is_even),
            compute(weigh),
            advance(step),
            max_supersteps=rounds,
        ),
        advance(is_any, emit="edges", over="all"),
        repeat(
            filter(is_even),
            compute(back),
            max_supersteps=2,
            record=True,
        ),
        backwards(compute(back), advance(step)),
    )


class EdgesThroughout(Program):
    """The frontier is of vertices in the first superstep and of edges in all others.

    Which edges it has depends on no race, so that parts of a set find the same ones.
    """

    seen = Field(int64, merge="max")
    visits = Field(int64, merge="sum")

    @functor
    def visit(src, dst, edge, s):
        atomic.add(s.visits, dst, 1)
        atomic.max(s.seen, dst, s.superstep + 1)
        return s.superstep < 3

    @functor
    def touch(v, s):
        s.visits[v] += 100

    def start(self, source: Vertex):
        self.seen[source] = 1
        return [source]

    loop = (
        repeat(advance(visit, emit="edges"), compute(touch, over="all"), record=True),
        backwards(advance(visit)),
    )


@on_devices
@on_graphs
def test_frontiers_of_edges(graph, device):
    for source in (0, graph.num_vertices - 1):
        expected = run(OverEdges, graph, source=source, device="python")
        found = run(OverEdges, graph, source=source, device=device)
        assert_same(found, expected, ["level", "seen", "weights", "backed"])
        assert found.stats["supersteps"] == expected.stats["supersteps"]
        assert found.stats["edges"] == expected.stats["edges"]


@on_devices
@on_graphs
def test_frontiers_that_change_their_kind(graph, device):
    expected = run(EdgesThroughout, graph, source=0, device="python")
    found = run(EdgesThroughout, graph, source=0, device=device)
    assert_same(found, expected, ["seen", "visits"])


class Bounded(Program):
    """Distances by buckets: bounded, counted, recorded, with several stages in the loop."""

    distance = Field(WEIGHT, merge="min")
    first = Field(int32, fill=-1, merge="max")
    settled = Field(int64, merge="sum")
    replayed = Field(int64, merge="sum")
    farthest = Scalar(float64, "max")
    delta = Param(float64, 7.0)
    limit = Param(int64, 1 << 40)
    horizon = Param(float64, np.inf)

    @functor
    def count(v, s):
        s.settled[v] += 1
        s.first[v] = s.superstep

    @functor
    def relax(src, dst, edge, s):
        new = s.distance[src] + s.weight[edge]
        return atomic.min(s.distance, dst, new) > new

    @functor
    def distance_of(v, s):
        return float64(s.distance[v])

    @functor
    def is_far(s):
        return s.farthest > s.horizon

    @functor
    def replay(v, s):
        s.replayed[v] += s.superstep + 1

    def start(self, source: Vertex):
        self.distance[source] = 0
        return [source]

    loop = (
        repeat(
            compute(count),
            reduce(distance_of, "max", into=farthest),
            advance(relax),
            order=nearest(distance, delta),
            until=is_far,
            max_supersteps=limit,
            record=True,
        ),
        compute(replay),
        backwards(compute(replay)),
    )


@on_devices
@on_graphs
@pytest.mark.parametrize("options", [{}, {"limit": 2}, {"limit": 0}, {"horizon": 9.0}], ids=str)
def test_ordered_loops_with_bounds(graph, options, device):
    """With whole weights and buckets of width 1 no order of calls changes what is emitted."""
    expected = run(Bounded, graph, source=0, delta=1.0, device="python", **options)
    found = run(Bounded, graph, source=0, delta=1.0, device=device, **options)
    assert_same(found, expected, ["distance", "first", "settled", "replayed"])
    assert found.farthest == expected.farthest
    assert found.stats["supersteps"] == expected.stats["supersteps"]


@on_devices
@pytest.mark.parametrize("delta", [0.3, 7.0, 1e9])
def test_ordered_loops_of_any_width(delta, device):
    for graph in GRAPHS:
        expected = run(Bounded, graph, source=0, device="python")
        found = run(Bounded, graph, source=0, delta=delta, device=device)
        assert_same(found, expected, ["distance"])


SETS = [*DEVICES, "cpu:1+cpu:2", "python+python"]


@pytest.mark.parametrize("device", SETS)
@pytest.mark.parametrize("has", [-2.5, -1e30, -np.inf, np.nan])
@pytest.mark.parametrize("program", [NearestFrom, BucketsFrom], ids=lambda p: p.__name__)
def test_nearest_from_odd_values(program, has, device):
    graph = ev.generate.grid(6, 6, weights=(1, 9), seed=2)
    expected = run(program, graph, source=0, has=has, device="python")
    found = run(program, graph, source=0, has=has, device=device)
    assert_same(found, expected, ["distance"])
    if np.isfinite(has):
        from_zero = run(program, graph, source=0, has=0.0, device="cpu").distance
        np.testing.assert_allclose(found.distance, from_zero + has)


@pytest.mark.parametrize("device", SETS)
@pytest.mark.parametrize("program", [NearestFrom, BucketsFrom], ids=lambda p: p.__name__)
def test_values_that_fall_into_earlier_buckets(program, device):
    found = run(program, FALLING, source=0, has=0.0, device=device)
    assert found.distance.tolist() == [0, 0.5, 10, 1.5]


@pytest.mark.parametrize("device", SETS)
def test_nearest_twice(device):
    expected = run(TwiceNearest, SETTLED, source=0, device="python")
    assert_same(
        run(TwiceNearest, SETTLED, source=0, device=device), expected, ["first", "distance"]
    )


class Nested(Program):
    """Repeats within backwards, an ordered one among them, and stages around and between loops."""

    hops = Field(int64, fill=1 << 40, merge="min")
    spread = Field(int64, merge="sum")
    around = Field(int64, merge="sum")
    backs = Scalar(int64, "sum")

    @functor
    def reach(src, dst, edge, s):
        new = s.hops[src] + 1
        return atomic.min(s.hops, dst, new) > new

    @functor
    def push(src, dst, edge, s):
        atomic.add(s.spread, dst, 1)
        return s.superstep < 1

    @functor
    def always(src, dst, edge, s):
        return True

    @functor
    def touch(v, s):
        s.around[v] += s.superstep + 1

    @functor
    def around_of(v, s):
        return s.around[v]

    @functor
    def is_source(v, s):
        return s.hops[v] == 0

    def start(self, source: Vertex):
        self.hops[source] = 0
        return [source]

    loop = (
        advance(always, over="all"),
        filter(around_of, over="all"),
        advance(always, over="all"),
        compute(touch),
        filter(is_source, over="all"),
        repeat(advance(reach), record=True, max_supersteps=5),
        backwards(
            compute(touch),
            repeat(advance(push), compute(touch), max_supersteps=2),
            repeat(compute(touch), advance(reach), order=nearest(hops, 1), max_supersteps=3),
            reduce(around_of, "sum", into=backs),
        ),
        compute(touch),
    )


@on_devices
@on_graphs
def test_repeats_within_backwards(graph, device):
    source = int(np.argmax(graph.degrees))
    expected = run(Nested, graph, source=source, device="python")
    found = run(Nested, graph, source=source, device=device)
    assert_same(found, expected, ["hops", "spread", "around"])
    assert found.backs == expected.backs
    assert found.stats["supersteps"] == expected.stats["supersteps"]
    assert found.stats["edges"] == expected.stats["edges"]
    names = ["superstep", "frontier", "edges"]
    rows = [[row[name] for name in names] for row in found.trace]
    assert rows == [[row[name] for name in names] for row in expected.trace]


class Gathered(Program):
    """Trace rows of loops in loops count their own edges, and edges outside loops count too."""

    value = Field(int64, fill=1)
    rounds = Param(int64, 3)

    @functor
    def value_of(src, dst, edge, s):
        return s.value[src]

    @functor
    def keep(v, total, s):
        s.value[v] = total % 1000
        return True

    @functor
    def look(src, dst, edge, s):
        return False

    loop = (
        gather(value_of, "sum", keep),
        edges(look),
        repeat(
            gather(value_of, "any", keep),
            repeat(edges(look), gather(value_of, "sum", keep), max_supersteps=2),
            edges(look, neighbours=(0, 1)),
            max_supersteps=rounds,
        ),
    )


@on_devices
@on_graphs
def test_what_is_counted(graph, device):
    expected = run(Gathered, graph, device="python")
    found = run(Gathered, graph, device=device)
    assert_same(found, expected, ["value"])
    assert found.stats["edges"] == expected.stats["edges"]
    assert [row["edges"] for row in found.trace] == [row["edges"] for row in expected.trace]


def stress(times):
    graph = GRAPHS[5]
    cases = [
        (OverEdges, {"source": 0}, ["level", "seen", "weights", "backed"]),
        (EdgesThroughout, {"source": 0}, ["seen", "visits"]),
        (Bounded, {"source": 0, "delta": 1.0}, ["distance", "first", "settled", "replayed"]),
        (Nested, {"source": 0}, ["hops", "spread", "around"]),
    ]
    expected = [run(program, graph, device="python", **given) for program, given, _ in cases]
    for i in range(times):
        for (program, given, names), wanted in zip(cases, expected, strict=True):
            threads = 2 if i % 16 else 3  # more than there are cores wait for each other for long
            found = run(program, graph, device=f"cpu:{threads}", **given)
            assert_same(found, wanted, names)


def test_dozens_of_small_runs():
    stress(8)


@pytest.mark.slow
def test_thousands_of_small_runs():
    stress(500)


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_supersteps_of_fused_buckets(device):
    """They have one row, with the number of the last."""
    graph = ev.generate.path(40, weights=(5, 5))
    result = ev.sssp(graph, 0, delta=5, device=device)
    assert [row["superstep"] for row in result.trace] == [result.stats["supersteps"] - 1]
    assert result.stats["edges"] >= graph.num_edges


@on_devices
def test_a_record_grows(device):
    class Long(Program):
        seen = Field(int64, merge="sum")

        @functor
        def kept(v, s):
            return s.superstep < 400

        @functor
        def touch(v, s):
            s.seen[v] += 1

        loop = (repeat(filter(kept), record=True), backwards(compute(touch)))

    graph = ev.generate.path(10)
    assert run(Long, graph, device=device).seen.tolist() == [401] * 10


def test_a_record_without_backwards_is_not_kept():
    class Kept(Program):
        seen = Field(int64)

        @functor
        def touch(v, s):
            s.seen[v] += 1

        loop = repeat(compute(touch), max_supersteps=3, record=True)

    assert run(Kept, GRAPHS[3], device="cpu:2").seen.tolist() == [3] * 40


class Full(Program):
    """A record of 100 times the vertices: a run begins with room for a few times as many."""

    seen = Field(int64)

    @functor
    def touch(v, s):
        s.seen[v] += 1

    loop = (repeat(compute(touch), max_supersteps=100, record=True), backwards(compute(touch)))


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_a_record_that_outgrows_its_room_gets_more(device):
    assert run(Full, GRAPHS[3], device=device).seen.tolist() == [200] * 40


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_a_record_that_outgrows_memory_is_refused(device, monkeypatch):
    monkeypatch.setattr("evener.engine.memory.growing.available_memory", lambda: 40 * 4 * 50)
    with pytest.raises(
        ev.MemoryBudgetError, match="Full keeps more vertices in .* recorded frontiers"
    ):
        run(Full, GRAPHS[3], device=device)


def test_rooms_take_little_address_space():
    graph = ev.generate.rmat(12, 8, seed=1, weights=(1, 9))
    ev.betweenness(graph, sources=2, device="cpu:2")
    ev.sssp(graph, 0, device="cpu:2")
    before = _address_space()
    graphs = [ev.generate.rmat(12, 8, seed=seed, weights=(1, 9)) for seed in range(2, 10)]
    for one in graphs:
        ev.betweenness(one, sources=2, device="cpu:2")
        ev.sssp(one, 0, device="cpu:2")
    assert _address_space() - before < 8 * 300e6


def _address_space():
    pages = Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
