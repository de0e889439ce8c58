"""Warnings about files: what was read in a way that may not be intended, or is lost in a file.

Those about reading have the category `evener.errors.GraphWarning`, by which users can silence them.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from evener.device import parallel
from evener.errors import GraphWarning
from evener.graph.csr import Graph

_SAMPLE = 2048  # arcs that are examined, evenly spread
_FEWEST = 100  # in a graph with fewer arcs a pattern may be chance
_MANY = 0.1  # share of arcs parallel to another from which a warning is due
_ROWS = 1 << 14


def warn(message: str, category: type[Warning] = GraphWarning) -> None:
    """Warn at the user's line that called Evener."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("evener."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_about_parallel_arcs(graph: Graph, what: str) -> None:
    """Warn that many rows repeat the pair of vertices of another row.

    Examples
    --------
    >>> import warnings
    >>> import evener as ev
    >>> from evener.graph.load_warnings import warn_about_parallel_arcs
    >>> g = ev.Graph.from_edges([0] * 150, [1] * 150)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_about_parallel_arcs(g, "calls.csv")
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
    warn(
        f"{what} has {graph.num_edges:,} rows for {pairs:,} different pair{'s' * (pairs != 1)} of "
        "vertices, which are kept as parallel arcs; combine them by duplicates= (--duplicates) "
        "first, min, max or sum."
    )


def warn_about_direction(graph: Graph, what: str, *, says_undirected: bool = False) -> None:
    """Warn that a graph read as directed looks like an undirected one."""
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
        warn(
            f"{what} was taken as directed, but {how}; if it is undirected, say directed=False "
            "(--undirected), else silence this warning by directed=True (--directed)."
        )


def _sampled(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sources, targets and positions of a sample of the arcs."""
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
