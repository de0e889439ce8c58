"""Compiled partitions: what one device gives, for every program, merge and number of parts."""

import itertools
import json
import signal
import threading
import time

import numpy as np
import pytest

import evener as ev
from comparing import assert_same_jobs, case
from device_sets import ALGORITHMS, DIRECTION, FEW_PROGRAMS, PROGRAMS, small
from evener.algorithms.bfs import BFS
from evener.device import num_cores
from evener.device.compile import compiling
from evener.device.team import most_threads
from evener.engine.job import set_up
from evener.engine.partition import divide as parts
from evener.engine.partition.divide import divide_by
from evener.engine.partition.partitioners import partition as assign
from evener.engine.reference.parts import run_partitioned
from evener.engine.request import DIRECTIONS
from evener.engine.targets import parts_cpu as native_parts
from evener.engine.targets.parts_cpu import execute_parts
from evener.errors import DeviceError
from evener.operators.shared.policies import EVERY, policy_of
from failing import fail_at
from graphs import DEGENERATE, weighted_by_arc, with_int64_weights
from programs.cases import needs_source
from programs.examples import module
from programs.merged import Counted, Reset
from programs.searches import Search
from programs.stages import Frontiers, Gathered, Scattered
from tables import slow_but

K = [1, 2, 3, 8]


def run_parts(program, graph, k, partition="random", direction="auto", policy="refined", **given):
    job = set_up(program, graph, given)
    execute_parts(job, [1] * k, assign(graph, partition, [1 / k] * k), policy_of(policy), direction)
    return job


def check(program, graph, k, partition="random", direction="auto", policy="refined", **given):
    oracle = set_up(program, graph, given)
    run_partitioned(oracle, k, partition, direction)
    many = run_parts(program, graph, k, partition, direction, policy, **given)
    assert_same_jobs(oracle, many)
    return oracle, many


def given_for(program, graph):
    return {"source": graph.labels[0]} if needs_source(program) else {}


@pytest.mark.parametrize("program", slow_but(PROGRAMS, *FEW_PROGRAMS), ids=lambda p: p.__name__)
def test_parts_give_what_the_reference_gives(program):
    for i, name in enumerate(DEGENERATE):
        if name == "empty" and needs_source(program):
            continue
        graph, k = weighted_by_arc(DEGENERATE[name]()), K[(PROGRAMS.index(program) + i) % 4]
        with case(name, k):
            given = given_for(program, graph)
            check(program, graph, k, direction=DIRECTION.get(program, "auto"), **given)


def test_counts_of_worse_leaders_do_not_count():
    inwards = ev.Graph.from_edges(range(6), [6] * 6)
    for part_of in ([0, 1, 2, 0, 1, 2, 2], [2, 1, 0, 0, 1, 1, 0], [1, 1, 2, 0, 0, 0, 0]):
        at = lambda graph, shares, part_of=part_of: np.array(part_of)  # noqa: E731
        _, many = check(Counted, inwards, 3, at)
        assert (many.fields["offer"][6], many.fields["times"][6], many.fields["by"][6]) == (0, 2, 0)


@pytest.mark.slow
def test_frontiers_travel_to_their_owners():
    star = ev.Graph.from_edges([0] * 6, range(1, 7))
    for k in K:
        check(Frontiers, star, k, first=[0])


# ---- algorithms and examples ----------------------------------------------------------------

TWO, THREE = "cpu:1+cpu:1", "cpu:2+cpu:1+cpu:1"


# The others have stages and merges of these, or of those in `COVERING`.
FEW = ["bfs", "sssp parents", "pagerank", "components"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", slow_but(ALGORITHMS, *FEW))
def test_algorithms(name):
    at = list(ALGORITHMS).index(name)
    graph, algorithm = small(directed=at % 2 == 1), ALGORITHMS[name]
    expected = algorithm(graph, device="python")
    device = THREE if name in ("bfs", "components") else TWO
    found = algorithm(graph, device=device, partition=["random", "static"][at % 2])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_in_full(name, directed):
    graph, algorithm = small(directed), ALGORITHMS[name]
    expected = algorithm(graph, device="cpu:1")
    for k, partition, direction in itertools.product(
        (2, 3, 8), ("random", "static", "uneven"), DIRECTIONS
    ):
        given = uneven(k) if partition == "uneven" else partition
        devices = "+".join(["cpu:1"] * k)
        with case(k, partition, direction):
            found = algorithm(graph, device=devices, partition=given, direction=direction)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def uneven(k):
    """Nearly all in the first part, a few in the last, none in those between."""
    return f"random:shares=9/{'0/' * (k - 2)}1"


@pytest.mark.slow
def test_examples():
    widest = module("widest_path").Widest
    graph = small()
    expected = ev.run(widest, graph, source=1, device="cpu:1").width
    assert np.array_equal(ev.run(widest, graph, source=1, device=TWO).width, expected)
    assert np.array_equal(
        module("k_core").k_core(graph, TWO), module("k_core").k_core(graph, "cpu:1")
    )
    hops = module("k_hop").k_hop
    assert hops(graph, 1, 2, TWO) == hops(graph, 1, 2, "cpu:1")
    counting = module("path_counting").PathCounting
    grid = ev.generate.grid(6, 6)
    one, two = (ev.run(counting, grid, source=0, target=35, device=d) for d in ("cpu:1", TWO))
    assert one.through.tolist() == two.through.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gather_apply_scatter", "vertex_centric", "personalised_heat"])
def test_example_scripts(name, capsys):
    module(name).main("cpu:1")
    alone = capsys.readouterr().out
    module(name).main(TWO)
    assert capsys.readouterr().out == alone


# ---- shapes of parts ------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3])
def test_all_edges_cross(k):
    n = 60
    src = np.repeat(np.arange(n), 2)
    graph = weighted_by_arc(ev.Graph.from_edges(src, (src + np.tile([1, k + 1], n)) % n))
    at = lambda graph, shares: np.arange(graph.num_vertices) % len(shares)  # noqa: E731
    for program in (Search, Scattered, Reset):
        check(program, graph, k, at, **given_for(program, graph))


def test_uneven_and_empty_parts():
    graph = weighted_by_arc(small())
    for program in (Search, Scattered, Gathered):
        _, many = check(program, graph, 5, uneven(5), **given_for(program, graph))
        assert many.stats["owned"][1:4] == [0, 0, 0]


@pytest.mark.parametrize("directed", [False, True])
def test_slots_of_a_vertex(directed):
    graph = ev.generate.rmat(7, 4, seed=5, directed=directed)
    for k in (1, 3):
        found = divide_by(graph, "random", [1 / k] * k, pulls=True, in_order=False)
        ids = np.concatenate([part.ids for part in found.parts])
        for vertex in range(graph.num_vertices):
            assert found.places_of(vertex) == np.flatnonzero(ids == vertex).tolist()
    without = divide_by(
        graph, "random", [0.5, 0, 0.5], pulls=True, in_order=False, has_ghosts=False
    )
    assert [len(without.places_of(vertex)) for vertex in (0, 9, 127)] == [1, 1, 1]


def test_large_fields_are_filled_by_all_cores(monkeypatch):
    graph = ev.generate.rmat(8, 8, seed=2)
    want = ev.bfs(graph, 3, device=TWO)
    monkeypatch.setattr(parts, "_FILLED_BY_ONE", 0)
    have = ev.bfs(graph, 3, device=TWO)
    np.testing.assert_array_equal(have.depth, want.depth)


def test_threads_of_a_set():
    assert ev.bfs(small(), 1, device="cpu+cpu").stats["threads"] == [max(1, num_cores() // 2)] * 2
    assert ev.bfs(small(), 1, device=THREE).stats["threads"] == [2, 1, 1]
    most = most_threads()
    with pytest.raises(DeviceError, match=f"need {most + 1} threads that run at once"):
        ev.bfs(small(), 1, device=f"cpu:{most}+cpu:1")
    with pytest.raises(DeviceError, match="cpu:3000 asks for 3000 threads"):
        ev.bfs(small(), 1, device="cpu:3000+python")


def test_too_many_parts_of_one_thread_each():
    with pytest.raises(DeviceError, match=r"can: name fewer\.$"):
        ev.bfs(small(), 1, device="+".join(["cpu:1"] * 3000))
    with pytest.raises(DeviceError, match="name fewer, or 'cpu:1' for each"):
        ev.bfs(small(), 1, device="+".join(["cpu:2"] * 1500))


# ---- policies and what is told --------------------------------------------------------------


def test_refined_sends_less():
    graph = with_int64_weights(ev.generate.rmat(12, 16, seed=2, weights=(1, 99)))
    source = int(graph.degrees.argmax())
    runs = {
        "bfs": lambda **o: ev.bfs(graph, source, **o),
        "sssp": lambda **o: ev.sssp(graph, source, **o),
        "components": lambda **o: ev.connected_components(graph, **o),
        "pagerank": lambda **o: ev.pagerank(graph, **o),
    }
    for name, run in runs.items():
        sent = {
            policy: run(device=TWO, exchange=policy).stats["bytes_sent"]
            for policy in ("all", "maximal_subset", "refined")
        }
        most = sent["maximal_subset"] // (1 if name == "pagerank" else 2)
        assert 0 < sent["refined"] <= most <= sent["all"], (name, sent)


class Mean:
    """A policy of one's own: always every value."""

    def reduce(self, changed, ghosts, owned, width):
        return EVERY

    def broadcast(self, changed, ghosts, owned, width):
        return EVERY


def test_a_policy_of_ones_own():
    graph = small()
    own = ev.bfs(graph, 1, device=TWO, exchange=Mean())
    same = ev.bfs(graph, 1, device=TWO, exchange="maximal_subset")
    assert own.stats["bytes_sent"] == same.stats["bytes_sent"] > 0
    assert np.array_equal(own.depth, same.depth)
    assert "Exchange: Mean, " in own.explain()
    assert "Exchange: maximal_subset, " in same.explain()
    with pytest.raises(ev.EvenerError, match="exchange is 'some'; it must be 'all', "):
        ev.bfs(graph, 1, device=TWO, exchange="some")


@pytest.mark.parametrize(
    ("form", "told"), [(7, "returned 7"), (1.5, "returned 1.5"), (None, "None"), (True, "True")]
)
def test_what_a_policy_returns_is_looked_at_before_a_run(form, told):
    class Odd(Mean):
        broadcast = staticmethod(lambda changed, ghosts, owned, width: form)

    with pytest.raises(ev.EvenerError, match=f"an exchange policy .*{told}"):
        ev.bfs(small(), 1, device=TWO, exchange=Odd())


def test_a_policy_that_fails():
    class Odd(Mean):
        def reduce(self, changed, ghosts, owned, width):
            return owned // changed

    with pytest.raises(
        ev.EvenerError, match=r"Odd.reduce of an exchange policy fails for .*\(0, 1"
    ):
        ev.bfs(small(), 1, device=TWO, exchange=Odd())


@pytest.mark.parametrize("device", ["cpu:1", TWO])
def test_rows_of_loops_within_loops_add_up(device):
    found = ev.connected_components(small(), device=device)
    assert sum(row["seconds"] for row in found.trace) <= found.stats["run_seconds"]


def test_stats_and_trace():
    graph = small()
    found = ev.bfs(graph, 1, device=TWO)
    assert sum(found.stats["owned"]) == graph.num_vertices
    assert len(found.stats["ghosts"]) == len(found.stats["memory"]) == 2
    rows = found.trace.to_frame()
    assert rows["bytes"].sum() == found.stats["bytes_sent"]
    assert rows["frontier"][0] == 1
    assert all(len(row) == 2 for row in rows["communication_seconds"])
    assert "2 parts with" in found.explain()
    for row in found.trace:
        assert sum(row["device_edges"]) == row["edges"]
        assert sum(row["device_bytes"]) == row["bytes"]
        assert row["useful_bytes"] <= row["bytes_of_all"]
    assert rows["bytes_of_all"].sum() == found.stats["bytes_of_all"]
    assert rows["useful_share"].max() <= 1


@pytest.mark.parametrize("devices", [TWO, "python+python", "cpu:1+python"])
def test_trace_of_a_set_as_a_timeline(devices, tmp_path):
    graph = small()
    found, alone = ev.bfs(graph, 1, device=devices), ev.bfs(graph, 1, device="python")
    compared = found.trace.beside(alone.trace)
    told = found.trace.to_frame()
    assert told["bytes"].sum() == found.stats["bytes_sent"]
    assert told["useful_bytes"].sum() == found.stats["bytes_useful"]
    assert told["bytes_of_all"].sum() == found.stats["bytes_of_all"]
    visited = sum(row["edges"] for row in alone.trace)
    assert sum(row["edges"] for row in compared) >= visited
    assert all(row["redundant_work"] >= 1 for row in compared if row["redundant_work"])
    compared.to_chrome(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert names == devices.split("+")
    bars = [event for event in events if event["ph"] == "X"]
    assert len(bars) == 2 * 2 * len(found.trace)  # devices, computing and talking
    assert {"frontier", "edges", "bytes", "useful_share"} == set(bars[0]["args"]["device"])
    assert bars[0]["args"]["all"]["redundant_work"] == compared[0]["redundant_work"]
    assert {event["name"] for event in events if event["ph"] == "C"} == {"frontier", "bytes"}


# ---- failures -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 2))]
)
def test_a_part_that_fails_ends_the_run(part, monkeypatch):
    graph = small()
    fail_at(monkeypatch, part, 2)
    with pytest.raises(DeviceError, match=rf"partition {part} on cpu:\d failed"):
        ev.run(BFS, graph, source=1, device=THREE)
    monkeypatch.undo()
    assert ev.run(BFS, graph, source=1, device=THREE).stats["supersteps"] > 2


def test_ctrl_c_stops_all_parts():
    graph = ev.generate.path(200_000)
    ev.bfs(ev.generate.path(10), 0, device=TWO)  # compiled
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ev.bfs(graph, 0, device="cpu:1+cpu:1+cpu:1+cpu:1")
    assert ev.bfs(ev.generate.path(10), 0, device=TWO).depth.max() == 9


def test_many_runs_end():
    graph = weighted_by_arc(small())
    expected = run_parts(Search, graph, 1, source=1)
    for i in range(40):
        assert_same_jobs(expected, run_parts(Search, graph, 2 + i % 4, source=1))


def test_compiling_is_no_part_of_running(monkeypatch):
    """The first run of a set also compiles what brings fields home."""
    seconds = [0.0]  # a clock that stands still but where it is set

    def put_back(*args):
        with compiling(), compiling():
            seconds[0] += 5
        return given(*args)

    given = native_parts.put_back
    graph = ev.generate.path(9)
    ev.bfs(graph, 0, device="cpu+cpu")
    monkeypatch.setattr(native_parts, "put_back", put_back)
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    stats = ev.bfs(graph, 0, device="cpu+cpu").stats
    assert stats["compile_seconds"] == seconds[0] > 0
    assert stats["run_seconds"] == 0
