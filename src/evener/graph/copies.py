"""Several copies of a graph as one graph, on which a program runs from several sources at once."""

from __future__ import annotations

import numpy as np

from evener.graph.csr import Graph


def copies_of(graph: Graph, count: int) -> Graph:
    """A graph of ``count`` disjoint copies without weights; made once and cached on the graph.

    Vertex ``v`` of copy ``k`` has the index ``k * graph.num_vertices + v``.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.graph.copies import copies_of
    >>> copies_of(ev.generate.path(2), 3).indices.tolist()
    [1, 0, 3, 2, 5, 4]
    """
    if count == 1:
        return graph
    kept = graph.__dict__.setdefault("_copies", {})
    if count not in kept:
        kept[count] = _copy(graph, count)
        if graph.directed:
            kept[count].__dict__["_transpose"] = _copy(graph.transpose(), count)
    return kept[count]


def _copy(graph: Graph, count: int) -> Graph:
    n, m = graph.num_vertices, graph.num_edges
    which = np.arange(count)[:, None]
    starts = (graph._indptr[:-1].astype(np.int64) + which * m).ravel()
    indptr = np.append(starts, count * m)
    indices = (graph._indices.astype(np.int64) + which * n).ravel()
    fits = np.int32 if count * max(n, m) < 2**31 else np.int64
    return Graph(indptr.astype(fits), indices.astype(fits), directed=graph.directed)
