"""Edges in the host's memory: every algorithm finds what the CPU finds, and memory is given back."""

import contextlib
import gc
import json

import numpy as np
import pytest
from cases import (
    ALGORITHMS,
    LOOPS,
    assert_same,
    expected,
    graphs,
    random_graph,
    run,
    suits,
    weighted,
)  # fmt: skip

import evener as ev
from evener.cli import main
from evener.device.mapped_memory import mapped_bytes
from evener.engine.memory.edges import edges_mapped
from evener.engine.memory.gpu_graph import MAPPED
from evener.engine.planning.calibrate import EDGES_MAPPED, Calibration
from evener.graph.gpu import NEIGHBOURS, graph_cache
from programs.cases import parameters_for
from programs.ordered import Bounded


def fresh(graph):
    """The same graph, of which nothing is on a GPU."""
    weights = None if graph.weights is None else graph.weights.copy()
    return ev.Graph(
        graph.indptr.copy(), graph.indices.copy(), weights, directed=graph.directed,
        labels=graph.labels,
    )  # fmt: skip


def with_least(call):
    """The least limit with which a call succeeds, and its result: all edges are then mapped."""
    limit = 0
    while True:  # an algorithm of two programs has two limits
        told = "with all edges in the host's memory"
        with pytest.raises(ev.MemoryBudgetError, match=told) as raised:
            call(device="cuda", memory_limit=limit)
        limit = int(str(raised.value).split("(")[1].split(" bytes")[0].replace(",", ""))
        with contextlib.suppress(ev.MemoryBudgetError):
            return limit, call(device="cuda", memory_limit=limit)


@pytest.fixture(scope="module")
def kron():
    return weighted(ev.generate.rmat(16, 16, weights=(1, 60), seed=3))


@pytest.mark.parametrize(
    "algorithm", [pytest.param(a, marks=pytest.mark.xdist_group(f"{a} auto")) for a in ALGORITHMS]
)
def test_equals_the_cpu(algorithm):
    for name, graph in graphs().items():
        if suits(algorithm, graph):
            with edges_mapped():
                have = run(algorithm, graph, device="cuda")
            assert_same(have, expected(algorithm, name), f"{algorithm} on {name}, mapped")


@pytest.mark.parametrize("program", LOOPS, ids=lambda p: p.__name__)
def test_stages_and_loops(program):
    for seed in (1, 2, 3, 5):
        graph = random_graph(seed)
        given = parameters_for(program, graph) | ({"delta": 1.0} if program is Bounded else {})
        want = ev.run(program, graph, device="cpu", **given)
        with edges_mapped():
            have = ev.run(program, graph, device="cuda", **given)
        assert have.stats["mapped_bytes"] >= graph.indices.nbytes
        for name in LOOPS[program]:
            np.testing.assert_allclose(
                getattr(have, name), getattr(want, name), rtol=1e-9, err_msg=f"{name} {seed}"
            )


@pytest.mark.parametrize("algorithm", ["bfs", "sssp", "pagerank", "components", "betweenness"])
def test_a_limit_maps_edges(algorithm, kron):
    graph = fresh(kron)
    call, fields = ALGORITHMS[algorithm]
    want = run(algorithm, graph, device="cpu")
    gc.collect()  # graphs of earlier tests, which errors may still hold
    before = mapped_bytes()

    def complete(**options):  # parents of SSSP are found by a program of their own, when asked for
        result = call(graph, **options)
        return result, {field: np.asarray(getattr(result, field)) for field in fields}

    limit, (result, have) = with_least(complete)
    assert_same(have, want, algorithm)
    assert result.stats["mapped_bytes"] >= graph.indices.nbytes
    assert result.stats["memory"][0] < limit + (4 << 20)  # what does not grow is not counted
    assert mapped_bytes() - before >= graph.indices.nbytes
    assert "from the host's memory" in result.explain()
    assert "memory_limit allows" in result.explain()


def test_weights_go_first_and_come_back(kron):
    graph = fresh(kron)
    want = ev.sswp(graph, 0, device="cpu").width
    least, _ = with_least(lambda **options: ev.sswp(graph, 0, **options))
    limit = least + graph.indices.nbytes
    result = ev.sswp(graph, 0, device="cuda", memory_limit=limit)
    np.testing.assert_array_equal(result.width, want)
    assert result.stats["mapped_bytes"] == graph.weights.nbytes
    assert "read weights (" in result.explain()
    result = ev.sswp(graph, 0, device="cuda")
    np.testing.assert_array_equal(result.width, want)
    assert result.stats["mapped_bytes"] == 0
    assert "host's memory" not in result.explain()
    assert not any(MAPPED in key[0] for key in graph_cache(graph) if isinstance(key[0], tuple))


def test_what_was_on_the_card_makes_room(kron):
    import cupy

    graph = fresh(kron)
    want = ev.bfs(graph, 0, device="cuda").depth
    assert (NEIGHBOURS, 0) in graph_cache(graph)
    gc.collect()
    pool = cupy.get_default_memory_pool()
    used = pool.used_bytes()
    _, result = with_least(lambda **options: ev.bfs(graph, 0, **options))
    np.testing.assert_array_equal(result.depth, want)
    gc.collect()
    assert pool.used_bytes() <= used - graph.indices.nbytes
    assert (NEIGHBOURS, 0) not in graph_cache(graph)


def test_what_is_free_decides_without_a_limit(kron, monkeypatch):
    graph = fresh(kron)
    least, _ = with_least(lambda **options: ev.bfs(graph, 0, **options))
    monkeypatch.setattr("evener.device.cuda.free_memory", lambda: least)
    result = ev.bfs(graph, 0, device="cuda")
    assert result.stats["mapped_bytes"] == graph.indices.nbytes
    assert "the GPU has" in result.explain()
    np.testing.assert_array_equal(result.depth, ev.bfs(graph, 0, device="cpu").depth)


def test_memory_is_unlocked_with_the_graph(kron):
    import cupy

    pool = cupy.get_default_memory_pool()
    gc.collect()
    used, locked = pool.used_bytes(), mapped_bytes()
    graph = fresh(kron)
    with edges_mapped():
        ev.sssp(graph, 0, device="cuda")
        assert mapped_bytes() == locked + graph.indices.nbytes + graph.weights.nbytes
        ev.sssp(graph, 1, device="cuda")
        assert mapped_bytes() == locked + graph.indices.nbytes + graph.weights.nbytes
    # The same arrays in another graph are locked once.
    other = ev.Graph(graph.indptr, graph.indices, graph.weights, directed=False)
    with edges_mapped():
        ev.sssp(other, 0, device="cuda")
    assert mapped_bytes() == locked + graph.indices.nbytes + graph.weights.nbytes
    del graph
    gc.collect()
    with edges_mapped():
        ev.bfs(other, 0, device="cuda")
    del other
    gc.collect()
    assert mapped_bytes() == locked
    assert pool.used_bytes() <= used


def test_graphs_of_files(tmp_path, kron):
    kron.save(tmp_path / "kron.evg")
    graph = ev.load(tmp_path / "kron.evg")
    with edges_mapped():
        have = ev.sssp(graph, graph.labels[0], device="cuda")
    assert have.stats["mapped_bytes"] > 0
    want = ev.sssp(kron, kron.labels[0], device="cpu")
    np.testing.assert_array_equal(have.distance, want.distance)


@pytest.mark.parametrize("directed", [True, False])
def test_large_graphs_keep_their_order_where_edges_are_mapped(directed):
    graph = ev.generate.rmat(17, 16, seed=5, directed=directed)
    want = ev.pagerank(graph, device="cpu").rank
    ordered = ev.pagerank(graph, device="cuda")
    assert "order of their degrees" in ordered.explain()
    with edges_mapped():
        result = ev.pagerank(graph, device="cuda")
    assert "order of their degrees" not in result.explain()
    np.testing.assert_allclose(result.rank, want, rtol=1e-6)
    again = ev.pagerank(graph, device="cuda")
    assert "order of their degrees" in again.explain()
    np.testing.assert_allclose(again.rank, want, rtol=1e-6)


def test_too_little_memory_of_the_host(kron, monkeypatch, tmp_path):
    kron.save(tmp_path / "kron.evg")
    graph = ev.load(tmp_path / "kron.evg")
    monkeypatch.setattr("evener.device.limits.available_memory", lambda: 1000)
    before = mapped_bytes()
    with edges_mapped(), pytest.raises(ev.MemoryBudgetError, match="edges in the host's memory"):
        ev.bfs(graph, graph.labels[0], device="cuda")
    assert mapped_bytes() == before
    assert not graph.__dict__.get("_on_gpus")


def test_auto_runs_what_does_not_fit(kron, monkeypatch):
    class Rates(Calibration):
        def rate(self, workload, device, like):
            return 1e9 if device.endswith(EDGES_MAPPED) else 1e6

    monkeypatch.delenv("EVENER_DEVICE", raising=False)
    monkeypatch.setattr("evener.engine.planning.larger_than_gpu.Calibration", Rates)
    graph = fresh(kron)
    least, _ = with_least(lambda **options: ev.bfs(graph, 0, **options))
    result = ev.bfs(graph, 0, memory_limit={"cuda": least})
    assert result.stats["device"] == "cuda"
    assert result.stats["mapped_bytes"] == graph.indices.nbytes
    assert "the planner predicts" in result.explain()
    np.testing.assert_array_equal(result.depth, ev.bfs(graph, 0, device="cpu").depth)
    assert ev.bfs(graph, 0).stats["mapped_bytes"] == 0


def test_a_plan_shows_edges_in_both_places(capsys):
    words = ["plan", "rmat:scale=16,seed=1", "--device", "cuda", "--program", "pagerank"]
    assert main([*words, "--json", "--measure"]) == 0
    rows = json.loads(capsys.readouterr().out)["placements"]
    assert [row["edges_mapped"] for row in rows] == [False, True]
    assert all(row["seconds"] > 0 for row in rows)
    assert rows[0]["memory_bytes"] > rows[1]["memory_bytes"]
    assert main(words) == 0
    assert "cuda, edges mapped" in capsys.readouterr().out
