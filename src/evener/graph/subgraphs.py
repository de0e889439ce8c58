"""Subgraphs: of chosen vertices, of a component, around a vertex, and without duplicates.

All functions but `induced_subgraph` are methods of `Graph`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evener.device import compiled, parallel
from evener.errors import GraphError
from evener.graph import build
from evener.graph.queries import edge_list

if TYPE_CHECKING:
    from evener.graph.csr import Graph

_ROWS = 1 << 14  # rows a thread takes at a time


def induced_subgraph(graph: Graph, chosen: np.ndarray) -> Graph:
    """The subgraph of the vertices with these distinct indices, in this order."""
    position = np.full(graph.num_vertices, -1, np.int64)
    position[chosen] = np.arange(len(chosen))
    chunks = max(1, -(-len(chosen) // _ROWS))
    counts = np.zeros(len(chosen) + 1, np.int64)
    _count_kept(chunks, graph._indptr, graph._indices, chosen, position, counts)
    offsets = np.cumsum(counts)
    src = np.empty(offsets[-1], np.int64)
    dst = np.empty(offsets[-1], np.int64)
    kept = np.empty(offsets[-1], np.int64)
    _list_kept(chunks, graph._indptr, graph._indices, chosen, position, offsets, src, dst, kept)
    weights = None if graph._weights is None else graph._weights[kept]
    csr = build.build_csr(src, dst, weights, len(chosen))
    labels = graph._labels.subset(chosen)
    return type(graph)(*csr, directed=graph.directed, labels=labels)


def subgraph(graph: Graph, labels: Any) -> Graph:
    """The subgraph of some vertices, in the order given, with all arcs between them.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.Graph.from_edges([0, 1, 2], [1, 2, 0]).subgraph([1, 2])
    >>> g.labels.tolist(), g.num_edges
    ([1, 2], 1)
    """
    chosen = np.atleast_1d(graph.index_of(labels)).astype(np.int64)
    if len(np.unique(chosen)) != len(chosen):
        raise GraphError("a vertex occurs twice among the labels of the subgraph.")
    return induced_subgraph(graph, chosen)


def largest_component(graph: Graph) -> Graph:
    """The subgraph of the largest (weakly) connected component; the first one if sizes are equal.

    Examples
    --------
    >>> import evener as ev
    >>> ev.Graph.from_edges([0, 2, 3], [1, 3, 4]).largest_component().labels.tolist()
    [2, 3, 4]
    """
    if graph.num_vertices == 0:
        return graph
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(graph.to_scipy(), directed=graph.directed)
    largest = np.argmax(np.bincount(component))
    return induced_subgraph(graph, np.flatnonzero(component == largest))


def ego(graph: Graph, label: Any, k: int = 1) -> Graph:
    """The subgraph of all vertices at most ``k`` hops from a vertex, or from any of several.

    Hops follow the direction of arcs. All arcs between these vertices are kept.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.generate.grid(5, 5)
    >>> g.ego(12).labels.tolist(), g.ego(12, 2).num_vertices
    ([7, 11, 12, 13, 17], 13)
    """
    from evener.graph.generate.common import whole

    hops = whole("k", k)
    centres = np.unique(np.atleast_1d(graph.index_of(label)))
    found = np.zeros(graph.num_vertices, np.bool_)
    queue = np.empty(graph.num_vertices, np.int64)
    found[centres] = True
    queue[: len(centres)] = centres
    _spread(graph._indptr, graph._indices, found, queue, len(centres), hops)
    return induced_subgraph(graph, np.flatnonzero(found))


def simplify(graph: Graph, duplicates: str = "first") -> Graph:
    """The graph without self-loops and parallel edges; the graph itself if it has none.

    Parameters
    ----------
    duplicates
        The weight that replaces those of parallel edges: the ``"first"`` given, or their
        ``"min"``, ``"max"`` or ``"sum"``; ``"keep"`` only drops self-loops.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.Graph.from_edges([0, 0, 1, 1], [1, 1, 1, 0], [5, 3, 9, 4])
    >>> g.simplify().edges().rows(), g.simplify("sum").weights.tolist()
    ([(0, 1, 5), (1, 0, 4)], [8, 4])
    """
    from evener.graph.arguments import require_combination

    require_combination(duplicates)
    src, dst, weights = edge_list(graph)
    is_doubled = (src[1:] == src[:-1]) & (dst[1:] == dst[:-1])
    if not (src == dst).any() and (duplicates == "keep" or not is_doubled.any()):
        return graph
    return type(graph).from_edges(
        src, dst, weights, num_vertices=graph.num_vertices, directed=graph.directed,
        self_loops="drop", duplicates=duplicates, labels=graph._labels,
    )  # fmt: skip


@parallel
def _count_kept(chunk, indptr, indices, chosen, position, counts):
    for i in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(chosen))):
        kept = 0
        for e in range(indptr[chosen[i]], indptr[chosen[i] + 1]):
            kept += position[indices[e]] >= 0
        counts[i + 1] = kept


@parallel
def _list_kept(chunk, indptr, indices, chosen, position, offsets, src, dst, kept):
    for i in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(chosen))):
        at = offsets[i]
        for e in range(indptr[chosen[i]], indptr[chosen[i] + 1]):
            target = position[indices[e]]
            if target >= 0:
                src[at], dst[at], kept[at] = i, target, e
                at += 1


@compiled
def _spread(indptr, indices, found, queue, filled, hops):
    """Mark and queue the vertices at most ``hops`` hops from those already in the queue."""
    first = 0
    for _ in range(hops):
        last = filled
        for i in range(first, last):
            for e in range(indptr[queue[i]], indptr[queue[i] + 1]):
                v = indices[e]
                if not found[v]:
                    found[v] = True
                    queue[filled] = v
                    filled += 1
        if filled == last:
            break
        first = last
