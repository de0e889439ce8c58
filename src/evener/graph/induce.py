"""The graph of some vertices and the arcs between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evener.device import parallel
from evener.graph import build

if TYPE_CHECKING:
    from evener.graph.csr import Graph

_ROWS = 1 << 14  # rows a thread takes at a time


def induced(graph: Graph, chosen: np.ndarray) -> Graph:
    """The graph of the vertices with these indices, all different, in this order."""
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
