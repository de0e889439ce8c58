"""Parts on one GPU, and CPU and GPU together: whatever one cpu device finds, they find too."""

import importlib
import itertools
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from cases import ALGORITHMS, LOOPS, random_graph, star_and_more, weighted

import evener as ev
from comparing import compare
from device_sets import SPLIT, Half
from evener.engine.targets.parts_gpu import Card
from evener.errors import DeviceError, MemoryBudgetError
from evener.operators.shared.policies import NAMES
from failing import fail_at
from graphs import DEGENERATE
from programs.cases import parameters_for, parameters_of, suits
from programs.examples import programs
from programs.loops import Echoes
from programs.ordered import Bounded
from programs.stages import Around, OnEdges

SETS = {k: "+".join(["cuda"] * k) for k in (2, 3, 8)}
SETS |= {"hybrid": "cpu:4+cuda", "more": "cuda+cpu:2+cuda+cpu:1"}


def check(algorithm, name, graph, k=2, **options):
    call, fields = ALGORITHMS[algorithm]
    if graph.num_vertices == 0 and algorithm not in ("components", "pagerank"):
        return
    options.setdefault("partition", "random")  # "auto" leaves little to a CPU
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some do not converge in so few iterations
        want = call(graph, device="cpu", direction=options.get("direction", "auto"))
        have = call(graph, device=SETS[k], **options)
    for field in fields:
        a, b = getattr(want, field), getattr(have, field)
        message = f"{algorithm} {field} of {name} with {k} parts and {options}"
        if np.asarray(a).dtype.kind == "f":
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9, err_msg=message)
        else:
            np.testing.assert_array_equal(b, a, err_msg=message)
    if algorithm == "bfs":
        importlib.import_module("evener.algorithms.bfs").verify(graph, have, graph.labels[:1])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_random_graphs(algorithm):
    for seed in range(6):
        check(algorithm, seed, random_graph(seed), k=(2, 3, 8)[seed % 3])
    check(algorithm, "star", star_and_more())
    check(algorithm, "rmat", ev.generate.rmat(13, 16, weights=(1, 60), seed=2), k=3)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_cpu_and_gpu(algorithm):
    for seed in range(6):
        check(algorithm, seed, random_graph(seed), ("hybrid", "more")[seed % 2])
    check(algorithm, "star", star_and_more(), "hybrid")
    rmat = ev.generate.rmat(13, 16, weights=(1, 60), seed=2)
    check(algorithm, "rmat", rmat, "hybrid", partition="auto")
    check(algorithm, "rmat", rmat, "hybrid", partition="high:alpha=0.5")
    check(algorithm, "rmat", rmat, "hybrid", partition="low:alpha=0.75")


ON_CARD, WITH_CPU = (SETS[2], SETS[3]), (SETS["hybrid"], SETS["more"])


@pytest.mark.parametrize("sets", [ON_CARD, WITH_CPU], ids=["parts", "hybrid"])
def test_the_way_to_a_target(sets):
    """In the order of buckets, with an end that depends on the supersteps."""
    for seed in range(6):
        graph = random_graph(seed)
        goal = graph.labels[-1]
        want = ev.sssp(graph, graph.labels[0], target=goal, device="cpu")
        have = ev.sssp(graph, graph.labels[0], target=goal, device=sets[seed % 2])
        assert have[goal] == want[goal]


# Edges, both directions, a loop within `backwards`, and an order that tells supersteps apart; the
# longer ones of their kind are left to the simulator, since kernels over parts compile for long.
FOUND = {OnEdges: ["heavy", "after"], Around: ["total"], Echoes: ["level", "heard"],
         Bounded: LOOPS[Bounded]}  # fmt: skip


@pytest.mark.parametrize("sets", [ON_CARD, WITH_CPU], ids=["parts", "hybrid"])
@pytest.mark.parametrize("program", FOUND, ids=lambda p: p.__name__)
def test_stages_and_loops(program, sets):
    for seed in range(6):
        graph = random_graph(seed)
        given = parameters_for(program, graph)
        # Buckets no wider than a weight: within one, nothing depends on who comes first.
        given |= {"delta": 1.0} if program is Bounded else {}
        want = ev.run(program, graph, device="cpu", **given)
        have = ev.run(program, graph, device=sets[seed % 2], **given)
        for field in FOUND[program]:
            np.testing.assert_allclose(
                getattr(have, field), getattr(want, field), rtol=1e-6, atol=1e-9,
                err_msg=f"{field} of seed {seed}",
            )  # fmt: skip


@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("algorithm", ["bfs", "sswp"])
def test_directions_of_both(algorithm, direction):
    for seed in range(4):
        check(algorithm, seed, random_graph(seed), "hybrid", direction=direction)


@pytest.mark.parametrize("sets", [2, "hybrid"])
def test_many_small_runs_are_equal(sets):
    """Thousands, so that what meets at the wrong moment now and then does."""
    graph = ev.generate.rmat(8, 8, seed=1)
    want = ev.bfs(graph, 0, device="cpu").depth
    for _ in range(1500):
        np.testing.assert_array_equal(ev.bfs(graph, 0, device=SETS[sets]).depth, want)


@pytest.mark.parametrize("sets", [2, "hybrid"])
@pytest.mark.parametrize("algorithm", ["bfs", "sssp", "pagerank", "components"])
def test_partitioners_and_policies(algorithm, sets):
    graph = random_graph(3)
    for partition, policy in itertools.product(SPLIT, [*NAMES, Half()]):
        check(algorithm, "random", graph, sets, partition=partition, exchange=policy)


@pytest.mark.parametrize("sets", [2, "hybrid"])
@pytest.mark.parametrize("program", list(programs()), ids=lambda p: p.__name__)
def test_examples(program, sets):
    for seed in range(6):
        graph = random_graph(seed)
        given = parameters_of(program, graph)
        if given is not None and suits(program, graph):
            want, have = (
                ev.run(program, graph, device=device, **given) for device in ("cpu", SETS[sets])
            )
            # Sums in another order: what iterates to a tolerance may end elsewhere.
            compare(program, have, want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("sets", [2, "hybrid"])
def test_limits_of_memory(sets):
    graph = ev.generate.rmat(10, 8, seed=1)
    with pytest.raises(MemoryBudgetError, match="memory_limit allows"):
        ev.bfs(graph, 0, device=SETS[sets], memory_limit="1kB")
    found = ev.bfs(graph, 0, device=SETS[sets], memory_limit="1GB")
    assert len(found.stats["memory"]) == 2


def test_a_cpu_takes_what_the_gpu_has_no_memory_for():
    graph = ev.generate.rmat(12, 16, seed=1)
    want, names = ev.bfs(graph, 0, device="cpu").depth, []
    for limit in (None, {"cuda": graph.nbytes}):
        found = ev.bfs(graph, 0, device="cpu:4+cuda", memory_limit=limit)
        np.testing.assert_array_equal(found.depth, want)
        names.append(found.explain().partition("Partition: ")[2].partition(",")[0])
    assert names[0] == "high:alpha=0.0625"
    assert float(names[1].removeprefix("high:alpha=")) > 0.25


def test_many_hybrid_runs_are_equal():
    grid = ev.generate.grid(100, 100)
    want = ev.bfs(grid, 0, device="cpu").depth
    for _ in range(50):
        np.testing.assert_array_equal(ev.bfs(grid, 0, device=SETS["hybrid"]).depth, want)


def test_a_cpu_part_that_fails_ends_the_run(monkeypatch):
    grid = ev.generate.grid(60, 60)
    ev.bfs(grid, 0, device=SETS["hybrid"])
    fail_at(monkeypatch, 0, 5)
    ev.bfs(grid, 0, device="cpu")
    with pytest.raises(DeviceError, match="partition 0 on cpu:4 failed"):
        ev.bfs(grid, 0, device=SETS["hybrid"])
    monkeypatch.undo()
    assert ev.bfs(grid, 0, device=SETS["hybrid"]).depth[-1] == 118


@pytest.mark.parametrize("devices", [SETS["hybrid"], SETS[2]])
def test_a_gpu_that_fails_ends_the_run(devices, monkeypatch):
    if devices == SETS[2]:  # as if each part had a card
        monkeypatch.setattr("evener.engine.targets.hybrid.machines_of", lambda ordinals: [0, 1])
    path = ev.generate.path(1 << 19)
    ev.bfs(ev.generate.path(100), 0, device=devices)
    asked = []

    def is_done(card):
        asked.append(time.perf_counter())
        if asked[-1] - asked[0] > 0.3:
            raise DeviceError("cuda:0 has failed.")
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Card, "is_done", is_done)
        with pytest.raises(DeviceError, match=r"cuda:0 has failed."):
            ev.bfs(path, 0, device=devices)
    assert ev.bfs(ev.generate.path(100), 0, device=devices).depth[-1] == 99


@pytest.mark.parametrize("algorithm", ["bfs", "sssp", "pagerank", "components", "betweenness"])
def test_degenerate_graphs(algorithm):
    for i, (name, make) in enumerate(DEGENERATE.items()):
        for directed in (True, False):
            graph = make(directed=directed)
            if graph.labels.dtype.kind in "iu":
                check(algorithm, name, weighted(graph), k=(2, 3, 8, "hybrid", "more")[i % 5])


@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize("algorithm", ["bfs", "sswp", "betweenness"])
def test_directions(algorithm, direction):
    for seed in range(4):
        check(algorithm, seed, random_graph(seed), direction=direction)
    rmat = ev.generate.rmat(12, 16, weights=(1, 60), seed=3)
    check(algorithm, "rmat", rmat, 8, direction=direction)


def test_shares_and_empty_parts():
    graph = ev.generate.rmat(12, 8, seed=1)
    for algorithm in ("bfs", "pagerank", "components"):
        check(algorithm, "shares", graph, k=3, partition="random:shares=9/0/1")
        check(algorithm, "high", graph, k=2, partition="high:shares=3/1")


def test_many_runs_are_equal():
    grid = ev.generate.grid(300, 300)
    want = ev.bfs(grid, 0, device="cpu").depth
    for _ in range(50):
        np.testing.assert_array_equal(ev.bfs(grid, 0, device=SETS[8]).depth, want)


def test_policies_count_the_same_useful_bytes():
    graph = ev.generate.rmat(12, 8, seed=1)
    told = {
        name: ev.bfs(graph, 1, device=SETS[2], exchange=name, direction="push").stats
        for name in ("all", "maximal_subset", "refined")
    }
    on_cpu = ev.bfs(graph, 1, device="cpu:1+cpu:1", direction="push").stats
    assert len({stats["bytes_useful"] for stats in told.values()}) == 1
    assert told["refined"]["bytes_sent"] < told["maximal_subset"]["bytes_sent"]
    assert told["refined"]["bytes_useful"] == on_cpu["bytes_useful"]


def test_results_may_stay_there():
    graph = ev.generate.rmat(10, 8, seed=1)
    found = ev.bfs(graph, 1, device=SETS[2], device_arrays=True)
    assert hasattr(found.depth, "__cuda_array_interface__")
    np.testing.assert_array_equal(found.depth.get(), ev.bfs(graph, 1, device="cpu").depth)


def test_trace():
    graph = ev.generate.rmat(12, 8, seed=1)
    rows = ev.bfs(graph, 1, device=SETS[2]).trace
    assert sum(row["frontier"] for row in rows) > graph.num_vertices // 2
    assert all(len(row["communication_seconds"]) == 2 for row in rows)


@pytest.mark.parametrize("devices", [SETS[2], SETS["hybrid"]])
def test_interrupt(devices):
    path = ev.generate.path(1 << 20)
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    ev.bfs(ev.generate.path(100), 0, device=devices)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ev.bfs(path, 0, device=devices)
    assert ev.bfs(ev.generate.path(100), 0, device=devices).depth[-1] == 99


def test_an_interrupt_before_the_cpu_begins(monkeypatch):
    """The card waits for threads that nobody starts."""
    path = ev.generate.path(100)
    with monkeypatch.context() as patch:
        patch.setattr("evener.engine.targets.parts_cpu.run_teams", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            ev.bfs(path, 0, device=SETS["hybrid"], partition="contiguous")
    assert ev.bfs(path, 0, device=SETS["hybrid"], partition="contiguous").depth[-1] == 99


def _interrupted(*given):
    raise KeyboardInterrupt


@pytest.mark.parametrize("devices", [SETS[2], SETS["hybrid"]])
def test_runs_of_several_threads_take_turns(devices):
    graph = ev.generate.rmat(10, 8, seed=1)
    want = ev.bfs(graph, 0, device="cpu").depth
    found = []

    def run():
        found.extend(ev.bfs(graph, 0, device=devices).depth for _ in range(10))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 30
    for one in found:
        np.testing.assert_array_equal(one, want)


@pytest.mark.parametrize("partition", ["contiguous", "static"])
def test_a_card_without_vertices(partition):
    alone = ev.Graph.from_edges([], [], num_vertices=1)
    found = ev.bfs(alone, 0, device=SETS["hybrid"], partition=partition)
    assert found.depth.tolist() == [0]


def test_a_card_that_is_not_there_is_refused():
    with pytest.raises(DeviceError, match="there is no GPU 9"):
        ev.bfs(ev.generate.path(4), 0, device="cuda:0+cuda:9")


@pytest.fixture(params=["peers", "hub"])
def apart(request, monkeypatch):
    """Parts on one card run as if each had a card of its own, with boxes there or in the hub."""

    def each_alone(ordinals):
        numbers = itertools.count(int(None in ordinals))  # CPUs are machine 0
        return [0 if ordinal is None else next(numbers) for ordinal in ordinals]

    monkeypatch.setattr("evener.engine.targets.hybrid.machines_of", each_alone)
    if request.param == "hub":
        monkeypatch.setattr("evener.device.cuda.join_peers", lambda ordinals: False)


@pytest.mark.parametrize("algorithm", ["bfs", "sssp", "pagerank", "components", "betweenness"])
def test_several_cards(apart, algorithm):
    for seed in range(4):
        check(algorithm, seed, random_graph(seed), k=(2, 3)[seed % 2])
    check(algorithm, "star", star_and_more(), 2)
    rmat = ev.generate.rmat(13, 16, weights=(1, 60), seed=2)
    check(algorithm, "rmat", rmat, 2)
    check(algorithm, "rmat", rmat, "more")


def test_several_cards_tell(apart):
    graph = ev.generate.rmat(12, 8, seed=1)
    found = ev.bfs(graph, 1, device=SETS[3])
    assert sum(row["frontier"] for row in found.trace) > graph.num_vertices // 2
    assert all(len(row["communication_seconds"]) == 3 for row in found.trace)
    assert found.stats["supersteps"] == ev.bfs(graph, 1, device=SETS[2]).stats["supersteps"]
    assert len(found.stats["memory"]) == 3
    assert found.stats["bytes_sent"] > 0


@pytest.mark.parametrize("patience", [-1, 0, 1 << 40], ids=["never", "at once", "once all came"])
def test_running_ahead(patience, monkeypatch):
    """Whoever waits for another machine pushes from its own frontier meanwhile."""
    monkeypatch.setattr("evener.operators.shared.handshake.CPU_PATIENCE", patience)
    monkeypatch.setattr("evener.operators.shared.handshake.GPU_PATIENCE", patience)
    for seed in range(20):
        graph = random_graph(seed) if seed % 2 else ev.generate.rmat(
            12, 12, weights=(1, 60), seed=seed
        )  # fmt: skip
        for algorithm in ("sssp", "sswp"):
            check(algorithm, seed, graph, k="hybrid")
    graph = ev.generate.grid(300, 300, weights=(1, 99), seed=1)
    check("sssp", "grid", graph, k="hybrid", partition="contiguous")
    with monkeypatch.context() as patch:
        patch.setattr(
            "evener.engine.targets.hybrid.machines_of", lambda ordinals: [*range(len(ordinals))]
        )
        for partition in ("contiguous", "random"):
            check("sssp", "grid", graph, k=3, partition=partition)


def test_many_runs_on_several_cards(apart):
    grid = ev.generate.grid(100, 100)
    want = ev.bfs(grid, 0, device="cpu").depth
    for _ in range(30):
        np.testing.assert_array_equal(ev.bfs(grid, 0, device=SETS[3]).depth, want)


def test_interrupt_of_several_cards(apart):
    test_interrupt(SETS[2])
