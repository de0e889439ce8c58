"""Notes for whoever loads a graph: what was taken from a file in a way that may not be meant.

They are warnings of the category `evener.errors.GraphWarning`, so that they can be silenced.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from evener.device import parallel
from evener.errors import GraphWarning
from evener.graph.csr import Graph

_SAMPLE = 2048  # arcs looked at, evenly spread
_FEWEST = 100  # arcs of a graph below which nothing is made of a pattern
_MANY = 0.1  # the share of arcs that are parallel to another
_ROWS = 1 << 14


def remark(message: str) -> None:
    """Warn, at the line outside Evener from which it was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("evener."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, GraphWarning, stacklevel=level)


def remark_on_parallel_arcs(graph: Graph, what: str) -> None:
    """Say that many rows name a pair that another row names too.

    Examples
    --------
    >>> import warnings
    >>> import evener as ev
    >>> from evener.graph.remarks import remark_on_parallel_arcs
    >>> g = ev.Graph.from_edges([0] * 150, [1] * 150)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     remark_on_parallel_arcs(g, "calls.csv")
    >>> str(caught[0].message)[:56]
    'calls.csv has 150 rows for 1 different pair of vertices,'
    """
    if graph.num_edges < _FEWEST:
        return
    src, dst, at = _sampled(graph)
    behind = at > graph._indptr[src]
    before = graph._indices[np.maximum(at, 1) - 1]
    if np.mean(behind & (before == dst)) < _MANY:
        return
    counts = np.zeros(max(1, -(-graph.num_vertices // _ROWS)), np.int64)
    _count_pairs(len(counts), graph._indptr, graph._indices, counts)
    pairs = int(counts.sum())
    remark(
        f"{what} has {graph.num_edges:,} rows for {pairs:,} different pair{'s' * (pairs != 1)} of "
        "vertices, which are kept as parallel arcs; duplicates= (--duplicates) first, min, max or "
        "sum combines them."
    )


def remark_on_direction(graph: Graph, what: str, *, says_undirected: bool = False) -> None:
    """Say that a graph which was taken as directed looks like an undirected one."""
    how = "its comments call the graph undirected" if says_undirected else None
    if graph.num_edges >= _FEWEST:
        src, dst, _ = _sampled(graph)
        if (src == dst).mean() > 0.5:
            pass
        elif _have_mirrors(graph, src, dst):
            how = "it lists every edge in both directions"
        elif graph._labels.kind != "objects" and how is None and (src <= dst).all():
            how = "it lists every edge with the smaller id first"
    if how is not None:
        remark(
            f"{what} was taken as directed, but {how}; if it is undirected, say directed=False "
            "(--undirected), else directed=True (--directed) to be asked no more."
        )


def _sampled(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sources, targets and positions of some arcs."""
    at = np.unique(np.linspace(0, graph.num_edges - 1, _SAMPLE).astype(np.int64))
    src = np.searchsorted(graph._indptr, at, "right") - 1
    return src, graph._indices[at].astype(np.int64), at


def _have_mirrors(graph: Graph, src: np.ndarray, dst: np.ndarray) -> bool:
    for u, v in zip(src.tolist(), dst.tolist(), strict=True):
        row = graph._indices[graph._indptr[v] : graph._indptr[v + 1]]
        found = int(np.searchsorted(row, u))
        if found == len(row) or row[found] != u:
            return False
    return True


@parallel
def _count_pairs(chunk, indptr, indices, counts):
    for row in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(indptr) - 1)):
        for e in range(indptr[row], indptr[row + 1]):
            counts[chunk] += e == indptr[row] or indices[e] != indices[e - 1]
