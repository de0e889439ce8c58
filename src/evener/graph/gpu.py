"""Graphs on GPUs: rows built there from the ends of edges, and what is kept there of a graph.

The arcs of a range of rows at a time are packed into 64-bit keys, the source above and the target
below, sorted, and what equals the one before is left out. A range has about `ARCS_AT_ONCE` arcs, so
that sorting needs little memory beside the edges and the neighbours, however large the graph. The
order in which threads write the keys does not matter: sorted, equal ones cannot be told apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evener.device import atomic, parallel
from evener.device.fetch import fetched
from evener.device.places import Gpu, Host
from evener.graph.build import index_dtype, offset_dtype
from evener.graph.csr import Graph

MAX_SCALE = 32  # two ids make a key of 64 bits
ARCS_AT_ONCE = 1 << 27  # one of 16 ranges at 2 G arcs; each reads all edges once: 2 ms of 8.6 GB
# Bytes for each arc of a range, at most: keys, those without duplicates, the marks of those kept
# and CuPy's running sum of the marks; while sorting it is less, two copies of the keys.
_RANGE_BYTES = 32
_CHUNK = 1 << 17  # edges a thread of the CPU takes at a time


def build_simple(
    at: Gpu | Host, src: Any, dst: Any, num_vertices: int, *, symmetric: bool
) -> tuple[Any, Any]:
    """Row starts and sorted neighbours of a graph without loops and duplicates.

    What `build.build_csr` makes of the same ends with ``drop_loops=True, duplicates="first"``; the
    arrays are where the ends are. At R-MAT scale 24 with edge factor 63, 2.0 G arcs of 2.1 G drawn,
    it takes 8.5 GB for the ends and twice 7.9 for the neighbours while the ranges are put together:
    25 GB were in use at the peak, for which CuPy's pool had taken 29.
    """
    library = at.library
    bits = max(1, (num_vertices - 1).bit_length())
    counts = library.zeros(num_vertices + 1, np.int64)
    at.each(_count, len(src), _CHUNK, src, dst, symmetric, counts[1:])
    cursors = counts.cumsum()
    del counts
    bounds, begins = _ranges(library, cursors)
    indptr = library.zeros(num_vertices + 1, np.int64)
    ids = index_dtype(num_vertices)
    low = np.uint64((1 << bits) - 1)
    lists, total = [], 0
    for first, last, begin, end in zip(bounds, bounds[1:], begins, begins[1:], strict=False):
        if begin == end:
            indptr[first + 1 : last + 1] = total
            continue
        keys = library.empty(end - begin, np.uint64)
        given = (src, dst, symmetric, first, last, begin, bits, cursors, keys)
        at.each(_collect, len(src), _CHUNK, *given)
        keys.sort()
        keys = _distinct(library, keys)
        next_rows = library.arange(1, last - first + 1, dtype=np.uint64) << np.uint64(bits)
        indptr[first + 1 : last + 1] = library.searchsorted(keys, next_rows) + total
        lists.append((keys & low).astype(ids))
        total += len(keys)
        del keys, next_rows
    del cursors
    indices = library.concatenate(lists) if lists else library.empty(0, ids)
    return indptr.astype(offset_dtype(total)), indices


def build_bytes(num_edges: int, num_vertices: int, *, symmetric: bool) -> int:
    """Bytes that the ends of edges and `build_simple` take on a GPU, at most."""
    arcs = num_edges * (2 if symmetric else 1)
    width = index_dtype(num_vertices).itemsize
    rows = num_vertices * (8 + 8 + offset_dtype(arcs).itemsize)
    range_bytes = _RANGE_BYTES * min(arcs, ARCS_AT_ONCE + ARCS_AT_ONCE // 2)
    return 2 * num_edges * width + rows + arcs * width + max(arcs * width, range_bytes)


def _ranges(library: Any, starts: Any) -> tuple[list[int], list[int]]:
    """Bounds of ranges of rows, and where they start; in each `ARCS_AT_ONCE` arcs and a row."""
    num_arcs = int(starts[-1])
    ends = library.arange(ARCS_AT_ONCE, num_arcs, ARCS_AT_ONCE, dtype=np.int64)
    bounds = library.zeros(len(ends) + 2, np.int64)
    bounds[1:-1] = library.searchsorted(starts, ends)
    bounds[-1] = len(starts) - 1
    return bounds.tolist(), starts[bounds].tolist()


def _distinct(library: Any, keys: Any) -> Any:
    """Sorted keys without those that equal the one before."""
    kept = library.ones(len(keys), bool)
    library.not_equal(keys[1:], keys[:-1], out=kept[1:])
    return keys[kept]


@parallel
def _count(chunk, size, src, dst, symmetric, counts):
    for i in range(chunk * size, min((chunk + 1) * size, len(src))):
        u, v = src[i], dst[i]
        if u != v:
            atomic.add(counts, u, 1)
            if symmetric:
                atomic.add(counts, v, 1)


@parallel
def _collect(chunk, size, src, dst, symmetric, first, last, begin, bits, cursors, keys):
    """Keys of the arcs of rows ``first..last-1``, whose first arc is number ``begin``."""
    shift = np.uint64(bits)
    for i in range(chunk * size, min((chunk + 1) * size, len(src))):
        u, v = np.int64(src[i]), np.int64(dst[i])
        if u == v:
            continue
        if first <= u < last:
            place = atomic.add(cursors, u, 1) - begin
            keys[place] = (np.uint64(u - first) << shift) | np.uint64(v)
        if symmetric and first <= v < last:
            place = atomic.add(cursors, v, 1) - begin
            keys[place] = (np.uint64(v - first) << shift) | np.uint64(u)


# ---- keeping -----------------------------------------------------------------------------------


def graph_of(at: Gpu, indptr: Any, indices: Any, weights: Any, *, directed: bool) -> Graph:
    """A graph of rows that are on a GPU: they are kept there with it, and copied to the host."""
    host = [None if array is None else fetched(array) for array in (indptr, indices, weights)]
    graph = Graph(*host, directed=directed)  # type: ignore[arg-type]
    there = at.library.empty(0, np.int32) if weights is None else weights
    arrays = (_unsigned(indptr), _unsigned(indices), there)
    kept(graph).update(
        {(what, at.ordinal): array for what, array in zip(ROWS, arrays, strict=True)}
    )
    return graph


STARTS, NEIGHBOURS, WEIGHTS = "row starts", "neighbours", "weights"
ROWS = (STARTS, NEIGHBOURS, WEIGHTS)  # kept under these names, ids and starts unsigned


def kept(graph: Graph) -> dict[Any, Any]:
    """What is kept of a graph on GPUs, by what it is and the GPU; it goes when the graph goes."""
    return graph.__dict__.setdefault("_on_gpus", {})


def _unsigned(array: Any) -> Any:
    return array.view(f"u{array.dtype.itemsize}")
