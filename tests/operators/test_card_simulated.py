"""Runs on a card in the host's memory: what the host prepares, launches and takes back."""

import warnings

import numpy as np
import pytest

import card_simulator
import evener as ev
from evener.device.cuda import card
from programs.loops import Repeats
from tables import slow_but

GRAPH = ev.generate.rmat(5, 4, seed=3, weights=(1, 9))
DIRECTED = ev.generate.rmat(5, 4, seed=2, weights=(1, 9), directed=True)
CALLS = {
    "bfs": lambda graph, **options: ev.bfs(graph, 0, **options).depth,
    "sssp": lambda graph, **options: ev.sssp(graph, 0, **options).distance,
    "components": lambda graph, **options: ev.connected_components(graph, **options).component,
    "pagerank": lambda graph, **options: ev.pagerank(graph, max_iterations=3, **options).rank,
    "betweenness": lambda graph, **options: ev.betweenness(graph, sources=2, **options).score,
}


@pytest.fixture(autouse=True)
def simulated_card(monkeypatch):
    card_simulator.put_in_place(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # PageRank did not converge
        yield
    card.library.cache_clear()
    card.total_memory.cache_clear()


def check(name, graph, **options):
    want = CALLS[name](graph, device="python")
    for _ in range(2):  # the second run finds the graph and the launch of the first
        np.testing.assert_allclose(CALLS[name](graph, **options), want, rtol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_one_card(name):
    for graph in (GRAPH, DIRECTED):
        check(name, graph, device="cuda")


SLOW = ("pagerank", "betweenness")


WAYS = [(name, d) for name in CALLS for d in ("cuda+cuda", "cpu:1+cuda", "cuda:0+cuda:1")]
# Kernels of a CPU beside a GPU take seconds to compile: one will do.
FEW = [way for way in WAYS if way[0] == "bfs" or (way[0] not in SLOW and way[1] != "cpu:1+cuda")]


@pytest.mark.parametrize("way", slow_but(WAYS, *FEW), ids=" ".join)
def test_sets(way):
    name, device = way
    check(name, GRAPH if name in SLOW else DIRECTED, device=device)


def test_degenerate_graphs():
    for n in (0, 1):
        graph = ev.Graph.from_edges([], [], num_vertices=n)
        for device in ("cuda", "cuda+cuda"):
            assert len(ev.connected_components(graph, device=device).component) == n


@pytest.mark.parametrize(
    "device", slow_but(["cuda", "cuda+cuda", "cpu:1+cuda"], "cuda", "cuda+cuda")
)
def test_records_grow(device):
    """A run that begins with little room for what it records ends with enough."""
    r = ev.run(Repeats, ev.generate.path(6), times=12, device=device, preallocate=False)
    assert r.visits.tolist() == [12] * 6
    if device == "cuda":
        assert r.stats["kernels"] > 1


def test_edges_may_stay_in_the_hosts_memory(monkeypatch):
    monkeypatch.setattr("evener.engine.targets.gpu.bytes_of_run", lambda *given: 0)
    graph = ev.generate.rmat(5, 16, seed=1)
    needed = graph.indices.nbytes
    limit = graph.indptr.nbytes + needed // 2
    r = ev.bfs(graph, 0, device="cuda", direction="push", memory_limit=limit)
    assert r.stats["mapped_bytes"] == needed
    np.testing.assert_array_equal(r.depth, ev.bfs(graph, 0, device="python").depth)


def test_vertices_in_the_order_of_degrees(monkeypatch):
    monkeypatch.setattr("evener.engine.memory.gpu_graph.RELABEL_ARCS", 1)
    monkeypatch.setattr("evener.engine.memory.gpu_graph.RELABEL_SKEW", 1)
    r = ev.pagerank(GRAPH, max_iterations=3, device="cuda")
    assert "order of their degrees" in r.explain()
    check("pagerank", GRAPH, device="cuda")


def test_every_array_in_memory_of_its_own(monkeypatch):
    """As the suite for the sanitizer has them."""
    from gpu.sanitize import Apart

    monkeypatch.setattr("evener.engine.targets.gpu.Layout", Apart)
    monkeypatch.setattr("evener.engine.memory.layout.SCRATCH", "cleared and uploaded")
    for name in ("bfs", "sssp", "betweenness"):
        check(name, ev.Graph(GRAPH.indptr, GRAPH.indices, GRAPH.weights), device="cuda")


@pytest.mark.parametrize(
    "device", slow_but(["cuda", "cuda+cuda", "cpu:1+cuda"], "cuda", "cuda+cuda")
)
def test_trace_and_stats(device):
    want = ev.bfs(DIRECTED, 0, device="python", direction="push")
    r = ev.bfs(DIRECTED, 0, device=device, direction="push")
    assert r.stats["supersteps"] == len(r.trace) == len(want.trace)
    assert [row["frontier"] for row in r.trace] == [row["frontier"] for row in want.trace]
    assert r.stats["edges"] == want.stats["edges"]
    assert all(nbytes > 0 for nbytes in r.stats["memory"])
