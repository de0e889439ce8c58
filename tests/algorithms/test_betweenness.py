"""Betweenness on every device against NetworkX and `verify`."""

import numpy as np
import pytest

import evener as ev
import references
from comparing import case
from device_sets import alone, on_devices
from evener.algorithms import betweenness
from graphs import FAMILIES
from references import verify

pytestmark = pytest.mark.usefixtures("whole_crews")


def simple(graph):
    """Without parallel arcs, as NetworkX has it."""
    return ev.Graph.from_edges(
        graph._sources(), graph.indices, num_vertices=graph.num_vertices, duplicates="first",
        directed=graph.directed,
    )  # fmt: skip


@on_devices
def test_betweenness(device):
    """Scores are scaled after the run: on every third graph both ways."""
    for number, (name, graph) in enumerate(FAMILIES.items()):
        for normalized in (True, False) if number % 3 == 0 else (number % 2 == 0,):
            with case(name, normalized):
                plain = simple(graph)
                result = betweenness(plain, normalized=normalized, device=device)
                expected = references.betweenness(plain, normalized=normalized)
                np.testing.assert_allclose(result.score, expected, rtol=1e-9, atol=1e-12)
                verify(betweenness, plain, result, normalized=normalized)


@on_devices
def test_betweenness_of_some_sources(device):
    for number, (name, graph) in enumerate(FAMILIES.items()):
        few = graph.labels[:3].tolist()
        if len(few) < 3 or graph.num_vertices == 3:
            continue
        for sources in (few, 2, graph.num_vertices):
            with case(name, sources):
                given = {"sources": sources, "normalized": number % 2 == 0}
                result = betweenness(graph, device=device, **given)
                verify(betweenness, graph, result, **given)


@on_devices
def test_betweenness_from_a_sample_as_networkx_scales_it(device, monkeypatch):
    import networkx as nx

    graph = ev.generate.rmat(5, 4, seed=2)
    other = graph.to_networkx()
    chosen = [3, 7, 11, 20]
    monkeypatch.setattr("random.Random.sample", lambda self, population, k: chosen)
    for normalized in (True, False):
        expected = nx.betweenness_centrality(other, k=4, normalized=normalized, seed=1)
        result = betweenness(graph, sources=chosen, normalized=normalized, device=device)
        np.testing.assert_allclose(result.score, [expected[v] for v in range(32)], rtol=1e-9)
    single = betweenness(graph, sources=[3], device=device).score
    assert np.flatnonzero(np.isnan(single)).tolist() == [3]


@alone
@pytest.mark.parametrize("directed", [True, False])
def test_betweenness_of_several_sources_side_by_side(device, directed, monkeypatch):
    whole = ev.generate.rmat(6, 4, seed=3)
    graph = ev.Graph.from_edges(whole._sources(), whole.indices[::-1], directed=directed)
    sources = [3, 5, 9, 11, 20, 21, 30]
    monkeypatch.setattr("evener.engine.sources_at_once.sources_at_once", lambda *given: 3)
    result = betweenness(graph, sources=sources, device=device)
    assert result.graph is graph
    assert len(result.score) == graph.num_vertices
    verify(betweenness, graph, result, sources=sources)


@alone
def test_betweenness_where_counts_exceed_floats(device):
    # A float holds counts up to 2^1024; this chain of diamonds has 2^1200 paths from end to end,
    # and beside it runs a plain path of the same length, so that a level holds 1 and 2^1200.
    links = 1200
    left = np.arange(0, 3 * links, 3)
    src = np.concatenate([left, left, left + 1, left + 2])
    dst = np.concatenate([left + 1, left + 2, left + 3, left + 3])
    beside = np.arange(3 * links + 1, 5 * links)
    src = np.concatenate([src, [0], beside])
    dst = np.concatenate([dst, beside, [3 * links]])
    for directed in (True, False):
        chain = ev.Graph.from_edges(src, dst, directed=directed)
        result = betweenness(chain, sources=[0, 3 * links], device=device)
        assert np.isfinite(result.score).all()
        verify(betweenness, chain, result, sources=[0, 3 * links])


@alone
def test_betweenness_of_a_lattice(device):
    side = 200 if device != "python" else 40
    lattice = ev.generate.grid(side, side)
    result = betweenness(lattice, sources=[0], device=device)
    verify(betweenness, lattice, result, sources=[0])
