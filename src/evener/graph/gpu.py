"""Graphs on GPUs: building rows there from edge ends, and the cache of a graph's GPU arrays.

For one range of rows at a time, arcs are packed into 64-bit keys (source in the upper bits, target
in the lower), sorted, and deduplicated. A range has about `ARCS_AT_ONCE` arcs, so sorting needs
little memory beside the edges and the neighbours, however large the graph is. The order in which
threads write the keys does not matter: equal keys are indistinguishable once sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evener.device import atomic, parallel
from evener.device.download import downloaded
from evener.device.processors import Gpu, Host
from evener.graph.build import index_dtype, offset_dtype
from evener.graph.csr import Graph

MAX_SCALE = 32  # two ids make a key of 64 bits
ARCS_AT_ONCE = 1 << 27  # 16 ranges at 2 G arcs; each reads all edges once, 8.6 GB in 2 ms
# Peak bytes per arc of a range: the keys, the distinct keys, the mask of distinct keys and CuPy's
# prefix sum of the mask. Sorting takes less, two copies of the keys.
_RANGE_BYTES = 32
_CHUNK = 1 << 17  # edges a thread of the CPU takes at a time


def build_simple(
    at: Gpu | Host, src: Any, dst: Any, num_vertices: int, *, symmetric: bool
) -> tuple[Any, Any]:
    """Row starts and sorted neighbours of a graph without loops and duplicates.

    The result equals `build.build_csr` with ``drop_loops=True, duplicates="first"``, in the memory
    that holds the ends. R-MAT scale 24 with edge factor 63 draws 2.1 G arcs and keeps 2.0 G: it
    takes 8.5 GB for the ends and twice 7.9 GB for the neighbours while the ranges are joined. Peak
    use was 25 GB, and CuPy's pool had reserved 29.
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
        arguments = (src, dst, symmetric, first, last, begin, bits, cursors, keys)
        at.each(_collect, len(src), _CHUNK, *arguments)
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
    """Upper bound of the bytes that the edge ends and `build_simple` take on a GPU."""
    arcs = num_edges * (2 if symmetric else 1)
    width = index_dtype(num_vertices).itemsize
    rows = num_vertices * (8 + 8 + offset_dtype(arcs).itemsize)
    range_bytes = _RANGE_BYTES * min(arcs, ARCS_AT_ONCE + ARCS_AT_ONCE // 2)
    return 2 * num_edges * width + rows + arcs * width + max(arcs * width, range_bytes)


def _ranges(library: Any, starts: Any) -> tuple[list[int], list[int]]:
    """Row bounds and first arcs of ranges of at most `ARCS_AT_ONCE` arcs plus one row."""
    num_arcs = int(starts[-1])
    ends = library.arange(ARCS_AT_ONCE, num_arcs, ARCS_AT_ONCE, dtype=np.int64)
    bounds = library.zeros(len(ends) + 2, np.int64)
    bounds[1:-1] = library.searchsorted(starts, ends)
    bounds[-1] = len(starts) - 1
    return bounds.tolist(), starts[bounds].tolist()


def _distinct(library: Any, keys: Any) -> Any:
    """Remove duplicates from sorted keys."""
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
    """Write the keys of the arcs of rows ``first..last-1``, which start at arc ``begin``."""
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


# ---- cached arrays -----------------------------------------------------------------------------


def graph_of(at: Gpu, indptr: Any, indices: Any, weights: Any, *, directed: bool) -> Graph:
    """Make a graph of rows on a GPU: they stay cached there and are copied to the host."""
    host = [None if array is None else downloaded(array) for array in (indptr, indices, weights)]
    graph = Graph(*host, directed=directed)  # type: ignore[arg-type]
    there = at.library.empty(0, np.int32) if weights is None else weights
    arrays = (_unsigned(indptr), _unsigned(indices), there)
    graph_cache(graph).update(
        {(what, at.ordinal): array for what, array in zip(ROWS, arrays, strict=True)}
    )
    return graph


STARTS, NEIGHBOURS, WEIGHTS = "row starts", "neighbours", "weights"
ROWS = (STARTS, NEIGHBOURS, WEIGHTS)  # keys of the cache; starts and neighbours are unsigned


def graph_cache(graph: Graph) -> dict[Any, Any]:
    """The cache that lives and dies with a graph: GPU arrays by name and GPU, and plans."""
    return graph.__dict__.setdefault("_on_gpus", {})


def _unsigned(array: Any) -> Any:
    return array.view(f"u{array.dtype.itemsize}")
