"""Neighbours, degrees and edges of a graph by label.

All functions but `edge_list` are methods of `Graph`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evener.errors import GraphError
from evener.graph.labels import label_column

if TYPE_CHECKING:
    import polars

    from evener.graph.csr import Graph


def neighbors(graph: Graph, label: Any) -> np.ndarray:
    """The labels of the out-neighbours of a vertex, each once.

    On a directed graph ``g.transpose().neighbors(label)`` lists the in-neighbours.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.Graph.from_edges([0, 0, 1], [1, 2, 2], labels=["Bern", "Thun", "Brig"])
    >>> g.neighbors("Bern").tolist(), g.transpose().neighbors("Brig").tolist()
    (['Thun', 'Brig'], ['Bern', 'Thun'])
    """
    v = graph.index_of(label)
    if not isinstance(v, int):
        raise GraphError("neighbors takes one vertex; call it once for each.")
    listed = graph._indices[graph._indptr[v] : graph._indptr[v + 1]]
    return graph._labels.take(np.unique(listed))


def degree(graph: Graph, label: Any) -> Any:
    """The out-degree of a vertex: an int for one label, an array for several.

    `Graph.degrees` has the out-degrees of all vertices, in index order.

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


def degree_spread(graph: Graph) -> tuple[int, float, int]:
    """Smallest, mean and largest out-degree.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.star(4).degree_spread()
    (1, 1.5, 3)
    """
    if graph.num_vertices == 0:
        return 0, 0.0, 0
    degrees = graph.degrees
    return int(degrees.min()), graph.num_edges / graph.num_vertices, int(degrees.max())


def edges(graph: Graph) -> polars.DataFrame:
    """A polars frame of the edges: labels ``src`` and ``dst``, and ``weight`` if there are weights.

    An edge of an undirected graph is listed once, though it is stored as two arcs; all parallel
    edges are listed. `Graph.from_frame` restores the graph except for vertices without edges.

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

    src, dst, weights = edge_list(graph)
    labels = label_column("label", graph.labels)
    columns = [labels.gather(src).alias("src"), labels.gather(dst).alias("dst")]
    if weights is not None:
        columns.append(polars.Series("weight", weights))
    return polars.DataFrame(columns)


def edge_list(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Ends and weights of the edges, in row order; an undirected edge is listed once."""
    src, dst, weights = graph._sources(), graph._indices, graph._weights
    if graph.directed:
        return src, dst, weights
    once = src <= dst
    return src[once], dst[once], None if weights is None else weights[once]
