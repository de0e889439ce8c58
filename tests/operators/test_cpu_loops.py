"""Frontiers of edges, ordered loops and records on the compiled device, as the interpreter has it."""

import functools
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from numpy import int64

import evener as ev
from comparing import assert_fields, case
from evener.engine.run import run
from evener.programs import Field, Program, functor
from evener.programs.stages import (
    compute,
    repeat,
)
from graphs import WHOLE_WEIGHTS, with_int64_weights
from programs.loops import EdgesThroughout, LoopsInLoops, Nested, OverEdges, Repeats
from programs.ordered import FALLING, SETTLED, Bounded, BucketsFrom, NearestFrom, TwiceNearest
from programs.stages import OnEdges
from tables import slow_but

pytestmark = pytest.mark.usefixtures("whole_crews")

DEVICES = ["cpu:1", "cpu:2", "cpu:3"]
COUNTED = ["supersteps", "edges"]


def assert_counted(found, expected):
    for name in COUNTED:
        assert found.stats[name] == expected.stats[name], name


def on_all(program, names, source=lambda graph: 0, **options):
    """Every graph on every device: what the interpreter found, and what was found there."""
    for name, graph in WHOLE_WEIGHTS.items():
        given = {**options}
        if source is not None:
            given["source"] = source(graph)
        expected = run(program, graph, device="python", **given)
        for device in DEVICES:
            with case(name, device):
                found = run(program, graph, device=device, **given)
                assert_fields(found, expected, names)
                yield found, expected


def test_frontiers_of_edges():
    for found, expected in on_all(OnEdges, ["heavy", "after"], None):
        assert_counted(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("source", [lambda graph: 0, lambda graph: graph.num_vertices - 1])
def test_frontiers_of_edges_in_loops_and_replays(source):
    for found, expected in on_all(OverEdges, ["level", "seen", "weights", "backed"], source):
        assert_counted(found, expected)


def test_frontiers_that_change_their_kind():
    assert len(list(on_all(EdgesThroughout, ["seen", "visits"]))) == 27


@pytest.mark.parametrize("options", [{}, {"limit": 2}, {"limit": 0}, {"horizon": 9.0}], ids=str)
def test_ordered_loops_with_bounds(options):
    """With whole weights and buckets of width 1 no order of calls changes what is emitted."""
    names = ["distance", "first", "settled", "replayed"]
    for found, expected in on_all(Bounded, names, delta=1.0, **options):
        assert found.farthest == expected.farthest
        assert found.stats["supersteps"] == expected.stats["supersteps"]


def test_ordered_loops_of_any_width():
    for name, graph in WHOLE_WEIGHTS.items():
        expected = run(Bounded, graph, source=0, device="python")
        for delta, device in itertools.product((0.3, 7.0, 1e9), DEVICES):
            with case(name, delta, device):
                found = run(Bounded, graph, source=0, delta=delta, device=device)
                assert_fields(found, expected, ["distance"])


SETS = [*DEVICES, "cpu:1+cpu:2", "python+python"]


@functools.cache
def grid():
    found = ev.generate.grid(6, 6, weights=(1, 9), seed=2)
    return ev.Graph(
        found.indptr, found.indices, found.weights.astype(float), directed=found.directed
    )


@pytest.mark.parametrize(
    "program", slow_but([NearestFrom, BucketsFrom], NearestFrom), ids=lambda p: p.__name__
)
def test_nearest_from_odd_values(program):
    from_zero = run(program, grid(), source=0, has=0.0, device="cpu").distance
    for has in (-2.5, -1e30, -np.inf, np.nan):
        expected = run(program, grid(), source=0, has=has, device="python")
        for device in SETS if program is NearestFrom else [*DEVICES, "python+python"]:
            with case(has, device):
                found = run(program, grid(), source=0, has=has, device=device)
                assert_fields(found, expected, ["distance"])
                if np.isfinite(has):
                    np.testing.assert_allclose(found.distance, from_zero + has)


@pytest.mark.parametrize("device", slow_but(SETS, *DEVICES, "python+python"))
@pytest.mark.parametrize("program", [NearestFrom, BucketsFrom], ids=lambda p: p.__name__)
def test_values_that_fall_into_earlier_buckets(program, device):
    found = run(program, FALLING, source=0, has=0.0, device=device)
    assert found.distance.tolist() == [0, 0.5, 10, 1.5]


@pytest.mark.parametrize(
    "device",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "cpu:1+cpu:2" else name
        for name in SETS
    ],
)
def test_nearest_twice(device):
    expected = run(TwiceNearest, SETTLED, source=0, device="python")
    found = run(TwiceNearest, SETTLED, source=0, device=device)
    assert_fields(found, expected, ["first", "distance"])


@pytest.mark.slow
def test_repeats_within_backwards():
    def busiest(graph):
        return int(np.argmax(graph.degrees))

    names = ["superstep", "frontier", "edges"]
    for found, expected in on_all(Nested, ["hops", "spread", "around"], busiest):
        assert found.backs == expected.backs
        assert_counted(found, expected)
        rows = [[row[name] for name in names] for row in found.trace]
        assert rows == [[row[name] for name in names] for row in expected.trace]


def test_what_is_counted():
    for found, expected in on_all(LoopsInLoops, ["value"], None):
        assert found.stats["edges"] == expected.stats["edges"]
        assert [row["edges"] for row in found.trace] == [row["edges"] for row in expected.trace]


def stress(times, *more):
    graph = WHOLE_WEIGHTS["random, directed"]
    cases = [
        *more,
        (EdgesThroughout, {"source": 0}, ["seen", "visits"]),
        (Bounded, {"source": 0, "delta": 1.0}, ["distance", "first", "settled", "replayed"]),
        (Nested, {"source": 0}, ["hops", "spread", "around"]),
    ]
    expected = [run(program, graph, device="python", **given) for program, given, _ in cases]
    for i in range(times):
        for (program, given, names), wanted in zip(cases, expected, strict=True):
            threads = 2 if i % 16 else 3  # more than there are cores wait for each other for long
            found = run(program, graph, device=f"cpu:{threads}", **given)
            assert_fields(found, wanted, names)


def test_dozens_of_small_runs():
    stress(8)


@pytest.mark.slow
def test_thousands_of_small_runs():
    stress(200, (OverEdges, {"source": 0}, ["level", "seen", "weights", "backed"]))


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_supersteps_of_fused_buckets(device):
    """They have one row, with the number of the last."""
    graph = with_int64_weights(ev.generate.path(40, weights=(5, 5)))
    result = ev.sssp(graph, 0, delta=5, device=device)
    assert [row["superstep"] for row in result.trace] == [result.stats["supersteps"] - 1]
    assert result.stats["edges"] >= graph.num_edges


@pytest.mark.parametrize("device", DEVICES)
def test_a_record_grows(device):
    graph = ev.generate.path(10)
    assert run(Repeats, graph, times=401, device=device).visits.tolist() == [401] * 10


def test_a_record_without_backwards_is_not_kept():
    class Kept(Program):
        seen = Field(int64)

        @functor
        def touch(v, s):
            s.seen[v] += 1

        loop = repeat(compute(touch), max_supersteps=3, record=True)

    assert run(Kept, ev.generate.path(40), device="cpu:2").seen.tolist() == [3] * 40


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_a_record_that_outgrows_its_room_gets_more(device):
    """A run begins with room for a few times as many vertices as there are."""
    graph = WHOLE_WEIGHTS["sparse, directed"]
    assert run(Repeats, graph, times=200, device=device).visits.tolist() == [200] * 40


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_a_record_that_outgrows_memory_is_refused(device, monkeypatch):
    monkeypatch.setattr("evener.engine.memory.growable.available_memory", lambda: 40 * 4 * 50)
    with pytest.raises(
        ev.MemoryBudgetError, match="Repeats keeps more vertices in .* recorded frontiers"
    ):
        run(Repeats, WHOLE_WEIGHTS["sparse, directed"], times=100, device=device)


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
