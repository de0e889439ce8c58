"""Check betweenness on large graphs, for which the exact verifier takes minutes.

This is Brandes' algorithm in NumPy, level by level. Path counts are extended floats because a
lattice has more shortest paths than a 64-bit float can count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evener.graph.csr import Graph


def check_betweenness(graph: Graph, result: Any, sources: Sequence[int]) -> None:
    """Assert that scores equal the normalized betweenness from these sources, within 1e-6.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.bench.brandes import check_betweenness
    >>> grid = ev.generate.grid(5)
    >>> check_betweenness(grid, ev.betweenness(grid, sources=[0, 7], device="cpu"), [0, 7])
    """
    found = np.asarray(result.score)
    expected = _normalized(graph, dependencies(graph, sources), sources)
    assert not (found < 0).any(), "a score is negative"
    close = np.isclose(found, expected, rtol=1e-6, atol=1e-12, equal_nan=True)
    assert close.all(), "a score differs from that of Brandes' algorithm"


def dependencies(graph: Graph, sources: Sequence[int]) -> np.ndarray:
    """The dependency of the sources on each vertex, summed over the sources; 0 at each source.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.bench.brandes import dependencies
    >>> dependencies(ev.generate.path(4), [0]).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    into = graph.transpose()
    score = np.zeros(graph.num_vertices)
    for source in sources:
        depth = np.full(graph.num_vertices, -1, np.int32)
        paths = np.zeros(graph.num_vertices, np.longdouble)
        depth[source], paths[source] = 0, 1
        levels = [np.array([source])]
        while len(levels[-1]):
            _, targets = _arcs(graph, levels[-1])
            following = np.unique(targets[depth[targets] < 0])
            depth[following] = len(levels)
            _sum_over(into, following, paths, depth, len(levels) - 1, out=paths)
            levels.append(following)
        share = np.zeros(graph.num_vertices, np.longdouble)  # (1 + dependency) ÷ paths
        delta = np.zeros(graph.num_vertices, np.longdouble)
        for number in range(len(levels) - 1, -1, -1):
            level = levels[number]
            _sum_over(graph, level, share, depth, number + 1, out=delta)
            delta[level] *= paths[level]
            share[level] = (1 + delta[level]) / paths[level]
        delta[source] = 0
        score += delta.astype(np.float64)
    return score


def _arcs(graph: Graph, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the targets of all arcs of some vertices, and the start of each vertex in that list."""
    degrees = graph.degrees[vertices].astype(np.int64)
    begins = np.cumsum(degrees) - degrees
    within = np.arange(degrees.sum()) - np.repeat(begins, degrees)
    return begins, graph.indices[np.repeat(graph.indptr[vertices], degrees) + within]


def _sum_over(
    graph: Graph, vertices: np.ndarray, values: np.ndarray, depth: np.ndarray, level: int,
    *, out: np.ndarray,
) -> None:  # fmt: skip
    """Sum, for each vertex, the values of its neighbours on one level."""
    vertices = vertices[graph.degrees[vertices] > 0]  # reduceat does not support empty runs
    if len(vertices):
        begins, neighbours = _arcs(graph, vertices)
        chosen = np.where(depth[neighbours] == level, values[neighbours], np.longdouble(0))
        out[vertices] = np.add.reduceat(chosen, begins)


def _normalized(graph: Graph, score: np.ndarray, sources: Sequence[int]) -> np.ndarray:
    """Scale like `evener.betweenness`: by pairs of other vertices, extrapolated from sources."""
    n, k = graph.num_vertices, len(sources)
    if n < 3:
        return score
    searches = np.full(n, float(k if k < n else n - 1))
    if k < n:
        searches[np.asarray(sources)] = k - 1 if k > 1 else np.nan  # without their own search
    return score / searches / (n - 2)
