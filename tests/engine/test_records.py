"""Room for what programs record: as much as is needed, or all of it beforehand."""

import numpy as np
import pytest

import evener as ev
from evener.algorithms.bfs import BFS
from evener.engine import preallocation
from evener.engine.job import set_up
from evener.engine.preallocation import Preallocation, parse_preallocate
from evener.engine.run import run
from evener.errors import MemoryBudgetError
from programs.loops import Repeats

GRAPH = ev.generate.rmat(7, 6, seed=1)
DEVICES = ("python", "cpu:1", "cpu:2", "cpu:1+cpu:1", "python+python")


@pytest.fixture
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(preallocation, "_factors", {})


@pytest.mark.parametrize("given", [True, False, 1, 3.5, np.float32(2)])
@pytest.mark.parametrize("device", DEVICES)
def test_answers_are_the_same(device, given, nothing_remembered):
    want = run(Repeats, GRAPH, device="python", times=1)
    have = run(Repeats, GRAPH, device=device, times=1, preallocate=given)
    np.testing.assert_array_equal(have.visits, want.visits)


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_what_does_not_fit_ends_the_run(device, nothing_remembered):
    message = "Repeats records more vertices for each vertex of the graph, and preallocate has room"
    for given in (True, 2):
        with pytest.raises(MemoryBudgetError, match=f"{message} for {int(given)}; give it a larg"):
            run(Repeats, GRAPH, device=device, times=4, preallocate=given)
    want = run(Repeats, GRAPH, device="python", times=4)
    for given in (4, "auto", False, True):  # the last has what those before it needed
        have = run(Repeats, GRAPH, device=device, times=4, preallocate=given)
        np.testing.assert_array_equal(have.visits, want.visits)
    with pytest.raises(MemoryBudgetError, match=f"{message} for 4"):
        run(Repeats, GRAPH, device=device, times=6, preallocate=True)


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_records_stay_within_a_limit(device):
    run(Repeats, GRAPH, device=device, times=20, memory_limit="100kB")
    with pytest.raises(MemoryBudgetError, match=r"recorded frontiers than memory_limit allows"):
        run(Repeats, GRAPH, device=device, times=2000, memory_limit="100kB")
    assert run(Repeats, GRAPH, device=device, times=2000).visits.min() == 2000


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_runs_tell_what_they_recorded(device):
    few, many = (
        sum(run(Repeats, GRAPH, device=device, times=times).stats["memory"]) for times in (1, 50)
    )
    assert many - few == 49 * GRAPH.num_vertices * GRAPH.indices.itemsize


def test_memory_of_one_cpu():
    """The graph and the fields, two queues at most, a byte and bits; buckets, where there are."""
    n = GRAPH.num_vertices
    (found,) = ev.bfs(GRAPH, 0, device="cpu:2").stats["memory"]
    least = GRAPH._indptr.nbytes + GRAPH._indices.nbytes + GRAPH.degrees.nbytes + 8 * n
    assert least < found < least + 16 * n + 1000
    weighted = ev.generate.rmat(8, 8, seed=1, weights=(1, 9))
    (ordered,) = ev.sssp(weighted, 0, device="cpu:2").stats["memory"]
    assert ordered > weighted.nbytes + 12 * weighted.num_vertices


def test_programs_that_record_nothing_take_any():
    for given in (True, False, 0.001):
        result = run(BFS, GRAPH, device="cpu:2", source=0, preallocate=given)
        np.testing.assert_array_equal(result.depth, ev.bfs(GRAPH, 0, device="python").depth)


def test_what_was_needed_is_remembered(nothing_remembered):
    job = set_up(Repeats, GRAPH, {"times": 1})
    grows = parse_preallocate("auto")
    assert grows.first(job, 100) == 101
    assert grows.more(job, 100, 101, 150) == 202
    assert grows.more(job, 100, 202, 900) == 900
    assert grows.first(job, 100) == parse_preallocate(True).first(job, 100) == 901
    assert parse_preallocate(2).first(job, 100) == 201
    assert parse_preallocate(False).first(job, 100) < 20
    of_another_kind = set_up(Repeats, ev.generate.grid(9), {"times": 1})
    assert grows.first(of_another_kind, 100) == 101
    with pytest.raises(MemoryBudgetError, match=r"records at least 9.1 vertices .* room for 9; "):
        parse_preallocate(True).more(job, 100, 901, 905)


def test_rooms_do_not_grow_beyond_a_limit(nothing_remembered):
    job = set_up(Repeats, GRAPH, {"times": 1})
    grows = parse_preallocate("auto")
    assert grows.more(job, 100, 101, 150, most=350) == 202
    assert grows.more(job, 100, 202, 210, most=350) == 350  # twice as much would not fit
    with pytest.raises(MemoryBudgetError, match="than memory_limit allows"):
        grows.more(job, 100, 350, 351, most=350)
    with pytest.raises(MemoryBudgetError, match="than memory_limit allows"):
        grows.more(job, 100, 350, 350, most=350)  # full of the ends of short supersteps
    assert grows.first(job, 100) == 351  # remembered
    assert grows.first(job, 100, most=120) == 120
    with pytest.raises(MemoryBudgetError, match="than memory_limit allows"):
        parse_preallocate(2).first(job, 100, most=120)


def test_what_parts_of_a_gpu_may_record():
    from evener.engine.partition.divide import divide
    from evener.engine.targets.parts_gpu import lowered_parts, most_recorded_on
    from evener.operators.shared.policies import policy_of

    job = set_up(Repeats, GRAPH, {"times": 1})
    plan = lowered_parts(job, "auto", "auto", policy_of("refined"))
    halves = np.arange(GRAPH.num_vertices) % 2
    parts = divide(GRAPH, halves, 2, pulls=False, in_order=False)
    assert most_recorded_on(job, plan, parts, [0, 1]) is None
    job.left, entry = [None, 1000], GRAPH.indices.itemsize + 8
    assert most_recorded_on(job, plan, parts, [0, 1]) == parts.parts[1].owned + 1000 // entry
    assert most_recorded_on(job, plan, parts, [0]) is None  # limits of others are theirs


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
@pytest.mark.parametrize("given", [1e10, 1e18, 1e308, 10**400])
def test_more_than_there_is_memory_for_is_refused_with_numbers(device, given):
    message = r"preallocate asks for .*[GTP]iB .*, but only .*iB of memory are free"
    with pytest.raises(MemoryBudgetError, match=message):
        run(Repeats, GRAPH, device=device, times=1, preallocate=given)


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_a_huge_limit_is_none(device):
    result = run(Repeats, GRAPH, device=device, times=1, memory_limit=10**400)
    assert result.visits.sum() > 0


def test_an_empty_graph():
    empty = ev.Graph.from_edges([], [])
    for device in DEVICES:
        assert run(Repeats, empty, device=device, times=1, preallocate=2).visits.tolist() == []


def test_options():
    assert parse_preallocate(True) == Preallocation(None, fixed=True)
    assert parse_preallocate("auto") == preallocation.AS_NEEDED
