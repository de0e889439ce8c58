"""Looking at a graph in its labels: neighbours, degrees, edges, what is near a vertex.

The functions here are methods of `Graph`, whose file would be too long with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evener.device import compiled
from evener.errors import GraphError
from evener.graph.induce import induced
from evener.graph.labels import label_column

if TYPE_CHECKING:
    import polars

    from evener.graph.csr import Graph


def neighbors(graph: Graph, label: Any) -> np.ndarray:
    """The labels of the vertices that arcs lead to from one vertex, each once.

    On a directed graph ``g.transpose().neighbors(label)`` are those from where arcs come.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.Graph.from_edges([0, 0, 1], [1, 2, 2], labels=["Bern", "Thun", "Brig"])
    >>> g.neighbors("Bern").tolist(), g.transpose().neighbors("Brig").tolist()
    (['Thun', 'Brig'], ['Bern', 'Thun'])
    """
    v = graph.index_of(label)
    if not isinstance(v, int):
        raise GraphError("neighbors takes one vertex; call it for each.")
    listed = graph._indices[graph._indptr[v] : graph._indptr[v + 1]]
    return graph._labels.take(np.unique(listed))


def degree(graph: Graph, label: Any) -> Any:
    """The number of arcs that leave a vertex: an int for one label, an array for several.

    `Graph.degrees` has those of all vertices, in index order.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.Graph.from_edges([0, 0, 1], [1, 2, 2], labels=["Bern", "Thun", "Brig"])
    >>> g.degree("Bern"), g.degree(["Thun", "Brig"]).tolist()
    (2, [1, 0])
    """
    index = graph.index_of(label)
    found = graph.degrees[index]
    return int(found) if isinstance(index, int) else found


def edges(graph: Graph) -> polars.DataFrame:
    """A polars frame of the edges: labels ``src`` and ``dst``, and ``weight`` if there are weights.

    An edge of an undirected graph is listed once, though it is stored as two arcs; parallel edges
    are all listed. `Graph.from_frame` makes the graph again, but for vertices without edges.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.Graph.from_edges([1, 0], [2, 1], [60, 28], labels=["Bern", "Thun", "Brig"])
    >>> g.edges().rows()
    [('Bern', 'Thun', 28), ('Thun', 'Brig', 60)]
    >>> g.symmetrize().edges().rows()
    [('Bern', 'Thun', 28), ('Thun', 'Brig', 60)]
    """
    import polars

    src, dst, weights = _listed(graph)
    labels = label_column("label", graph.labels)
    columns = [labels.gather(src).alias("src"), labels.gather(dst).alias("dst")]
    if weights is not None:
        columns.append(polars.Series("weight", weights))
    return polars.DataFrame(columns)


def ego(graph: Graph, label: Any, k: int = 1) -> Graph:
    """The graph of what is at most ``k`` hops from a vertex, or from one of several.

    Hops go along the arcs. All arcs between the vertices found are kept.

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
    return induced(graph, np.flatnonzero(found))


def simplify(graph: Graph, duplicates: str = "first") -> Graph:
    """The graph without self-loops and parallel edges; itself if it has none.

    Parameters
    ----------
    duplicates
        What becomes of the weights of parallel edges: the ``"first"`` in the order in which they
        were given, their ``"min"``, ``"max"`` or ``"sum"``; ``"keep"`` only drops self-loops.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.Graph.from_edges([0, 0, 1, 1], [1, 1, 1, 0], [5, 3, 9, 4])
    >>> g.simplify().edges().rows(), g.simplify("sum").weights.tolist()
    ([(0, 1, 5), (1, 0, 4)], [8, 4])
    """
    from evener.graph.arguments import require_combination

    require_combination(duplicates)
    src, dst, weights = _listed(graph)
    is_doubled = (src[1:] == src[:-1]) & (dst[1:] == dst[:-1])
    if not (src == dst).any() and (duplicates == "keep" or not is_doubled.any()):
        return graph
    return type(graph).from_edges(
        src, dst, weights, num_vertices=graph.num_vertices, directed=graph.directed,
        self_loops="drop", duplicates=duplicates, labels=graph._labels,
    )  # fmt: skip


def _listed(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The ends and weights of each edge, in the order of the rows; an undirected edge once."""
    src, dst, weights = graph._sources(), graph._indices, graph._weights
    if graph.directed:
        return src, dst, weights
    once = src <= dst
    return src[once], dst[once], None if weights is None else weights[once]


@compiled
def _spread(indptr, indices, found, queue, filled, hops):
    """Mark and queue what is at most so many hops from those that are queued already."""
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
