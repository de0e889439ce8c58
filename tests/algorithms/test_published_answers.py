"""Answers that others published, on every device."""

import gzip
import warnings

import numpy as np
import pytest

import evener as ev
from device_sets import on_devices
from evener.algorithms import bfs, connected_components, pagerank, sssp
from places import DATA, needs_data


def answers(path):
    raw = path.read_bytes()
    text = gzip.decompress(raw).decode() if path.suffix == ".gz" else raw.decode()
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    return {int(vertex): float(value) for vertex, value in pairs}


def array_of(graph, found):
    return np.array([found[label] for label in graph.labels.tolist()])


def partition_of(values):
    """The first index with the same value, so that any two labellings compare."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return first[inverse].tolist()


def as_published(depth):
    return np.where(depth < 0, 2.0**63, depth).tolist()


GRAPHALYTICS = DATA / "graphalytics"


@needs_data
@on_devices
@pytest.mark.parametrize("directed", [True, False])
def test_graphalytics_examples(directed, device):
    kind = "directed" if directed else "undirected"
    folder = GRAPHALYTICS / "example"
    graph = ev.load(folder / f"example-{kind}.v", directed=directed)
    source = 1 if directed else 2

    def expected(name):
        return array_of(graph, answers(folder / f"example-{kind}-{name}"))

    depth = bfs(graph, source, device=device).depth
    assert as_published(depth) == expected("BFS").tolist()
    found = sssp(graph, source, device=device).distance
    np.testing.assert_allclose(found, expected("SSSP"), rtol=1e-6)
    component = connected_components(graph, device=device).component
    assert partition_of(component) == partition_of(expected("WCC"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rank = pagerank(graph, tol=0, max_iterations=2, device=device).rank
    np.testing.assert_allclose(rank, expected("PR"), rtol=1e-4)


@needs_data
@on_devices
@pytest.mark.parametrize("kind", ["dir", "undir"])
def test_graphalytics_validation(kind, device):
    directed = kind == "dir"

    def load(name, suffix=""):
        graph = ev.load(GRAPHALYTICS / name / f"{kind}-input{suffix}", directed=directed)
        return graph, array_of(graph, answers(GRAPHALYTICS / name / f"{kind}-output"))

    graph, expected = load("bfs")
    depth = bfs(graph, 1, device=device).depth
    assert as_published(depth) == expected.tolist()
    graph, expected = load("wcc")
    assert partition_of(connected_components(graph, device=device).component) == partition_of(
        expected
    )
    graph, expected = load("sssp", ".v")
    np.testing.assert_allclose(sssp(graph, 1, device=device).distance, expected, rtol=1e-4)
    graph, expected = load("pr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rank = pagerank(graph, tol=0, max_iterations=14 if directed else 26, device=device).rank
    np.testing.assert_allclose(rank, expected, rtol=1e-4)


@needs_data
@on_devices
def test_p2p_31(device):
    folder = DATA / "p2p-31"
    graph = ev.load(folder / "p2p-31", directed=False)
    depth = bfs(graph, 6, device=device).depth
    expected = array_of(graph, answers(folder / "p2p-31-bfs_auto.gz"))
    assert as_published(depth) == expected.tolist()
    result = connected_components(graph, device=device)
    assert result.count == 12
    expected = array_of(graph, answers(folder / "p2p-31-wcc_auto.gz"))
    assert partition_of(result.component) == partition_of(expected)
