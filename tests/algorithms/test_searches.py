"""Searches on every device, in every direction, against a serial reference and `verify`."""

import math

import numpy as np
import pytest

import evener as ev
import references
from comparing import case
from device_sets import DEVICES, on_devices
from evener.algorithms import bfs, sssp, sswp
from evener.engine.request import DIRECTIONS
from graphs import FAMILIES, NOT_EMPTY, random_graph, weighted
from references import verify

pytestmark = pytest.mark.usefixtures("whole_crews")

everywhere = pytest.mark.parametrize(
    ("device", "direction"),
    [(name, way) for name in DEVICES for way in (DIRECTIONS if "+" not in name else ["auto"])],
)


def sources_of(graph):
    """One source, and several of them, as labels."""
    labels = graph.labels
    return [labels[0], labels[:: max(1, len(labels) // 3)].tolist()]


def indices(graph, source):
    return np.atleast_1d(graph.index_of(source)).tolist()


@everywhere
def test_bfs(direction, device):
    for name in NOT_EMPTY:
        graph = FAMILIES[name]
        for source in sources_of(graph):
            with case(name, source):
                result = bfs(graph, source, device=device, direction=direction)
                expected = references.depths(graph, indices(graph, source))
                assert result.depth.tolist() == expected.tolist()
                verify(bfs, graph, result, source)


@on_devices
def test_bfs_up_to_a_depth_or_a_target(device):
    for name in NOT_EMPTY:
        graph = FAMILIES[name]
        source, last = graph.labels[0], graph.labels[-1]
        full = references.depths(graph, [0])
        for cutoff in (0, 1, 2, 10**12):
            with case(name, cutoff):
                result = bfs(graph, source, cutoff=cutoff, device=device)
                assert result.depth.tolist() == np.where(full > cutoff, -1, full).tolist()
                verify(bfs, graph, result, source, cutoff=cutoff)
        for target in (source, last):
            with case(name, target):
                result = bfs(graph, source, target=target, device=device)
                level = full[graph.index_of(target)]
                seen = full if level < 0 else np.where(full > level, -1, full)
                assert result.depth.tolist() == seen.tolist()


@everywhere
def test_sssp(direction, device):
    for name in NOT_EMPTY:
        graph = weighted(FAMILIES[name])
        for source in sources_of(graph):
            with case(name, source):
                result = sssp(graph, source, device=device, direction=direction)
                expected = references.distances(graph, indices(graph, source))
                assert result.distance.tolist() == expected.tolist()
                assert result.distance.dtype.kind == "f"
                if direction == "auto":  # parents are found by a program that has directions
                    verify(sssp, graph, result, source)


@on_devices
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("spread", [1, 5, 1000])
def test_sssp_of_any_weights(spread, dtype, device):
    for directed in (True, False):
        graph = weighted(random_graph(50, 150, directed=directed, seed=8), dtype, spread)
        result = sssp(graph, 3, device=device)
        assert result.distance.tolist() == references.distances(graph, [3]).tolist()
        if dtype in (np.int32, np.float64):  # parents are found by a program of their own
            verify(sssp, graph, result, 3)


@on_devices
@pytest.mark.parametrize("delta", [0.3, 1, 7, 1e9])
def test_sssp_of_any_delta(delta, device):
    graph = ev.generate.grid(8, 8, weights=(1, 9), seed=3)
    result = sssp(graph, 0, delta=delta, device=device)
    assert result.distance.tolist() == references.distances(graph, [0]).tolist()
    verify(sssp, graph, result, 0)
    usual = sssp(graph, 0, device=device)
    assert result.parent.tolist() == usual.parent.tolist()  # the tree does not depend on delta


@on_devices
def test_sssp_up_to_a_distance_or_a_target(device):
    for name in NOT_EMPTY:
        graph = weighted(FAMILIES[name])
        source, last = graph.labels[0], graph.labels[-1]
        full = references.distances(graph, [0])
        for cutoff in (0, 3.5, math.inf):
            with case(name, cutoff):
                result = sssp(graph, source, cutoff=cutoff, device=device)
                assert result.distance.tolist() == np.where(full > cutoff, np.inf, full).tolist()
                verify(sssp, graph, result, source, cutoff=cutoff)
        for target in (source, last):
            with case(name, target):
                result = sssp(graph, source, target=target, device=device)
                bound = full[graph.index_of(target)]
                assert result.distance.tolist() == np.where(full > bound, np.inf, full).tolist()
                verify(sssp, graph, result, source, cutoff=bound)


@on_devices
def test_sssp_of_awkward_weights(device):
    infinite = ev.Graph.from_edges([0, 1], [1, 2], [1.0, np.inf])
    result = sssp(infinite, 0, device=device)
    assert result.distance.tolist() == [0, 1, np.inf]
    assert result.parent.tolist() == [-1, 0, -1]
    # 1 is lost beside 1e20: the arcs between 1 and 2 are level in both directions.
    absorbed = ev.Graph.from_edges([0, 1, 2], [1, 2, 1], [1e20, 1.0, 1.0])
    result = sssp(absorbed, 0, device=device)
    assert result.parent.tolist() == [-1, 0, 1]
    verify(sssp, absorbed, result, 0)
    large = ev.Graph.from_edges([0, 1, 2], [1, 2, 3], [2**31 - 1] * 3)
    assert sssp(large, 0, device=device).distance[3] == 3 * (2**31 - 1)


@everywhere
def test_sswp(direction, device):
    for name in NOT_EMPTY:
        for dtype in (np.int32, np.float64) if direction == "auto" else (np.int32,):
            graph = weighted(FAMILIES[name], dtype)
            for source in sources_of(graph):
                with case(name, dtype, source):
                    result = sswp(graph, source, device=device, direction=direction)
                    expected = references.widths(graph, indices(graph, source))
                    assert result.width.tolist() == expected.tolist()
                    verify(sswp, graph, result, source)
