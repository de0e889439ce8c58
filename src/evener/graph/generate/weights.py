"""Random weights: a function of the seed and the two ends of an edge.

They are computed on the finished rows. So the build sorts ids only, parallel edges need no rule,
and the two directions of an undirected edge agree without a lookup.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from evener import progress
from evener.device import compiled, parallel
from evener.device.processors import HOST, Gpu, Host
from evener.device.random import random_bits, rounded_product
from evener.errors import GraphError
from evener.graph import gpu
from evener.graph.csr import Graph
from evener.graph.generate.common import Stream, is_real, is_whole, key_of

_CHUNK = 1 << 18  # arcs a thread takes at a time
_LOW32 = np.uint64(0xFFFFFFFF)
_S32, _S11 = np.uint64(32), np.uint64(11)
_TO_UNIT = 2.0**-53


class WeightRange(NamedTuple):
    """Integer weights from ``low`` to ``high``, or float weights below ``high``."""

    low: int | float
    high: int | float
    dtype: np.dtype


def weight_range(weights: Any) -> WeightRange | None:
    """Check the argument ``weights`` of a generator.

    Examples
    --------
    >>> from evener.graph.generate.weights import weight_range
    >>> weight_range((1, 255)).dtype, weight_range((0, 1.5)).dtype
    (dtype('int32'), dtype('float64'))
    """
    if weights is None:
        return None
    if not isinstance(weights, tuple | list) or len(weights) != 2 or not all(map(is_real, weights)):
        raise GraphError(f"weights is {weights!r}; it must be two numbers (low, high), or None.")
    low, high = weights
    if all(map(is_whole, weights)):
        low, high = int(low), int(high)
        if -(1 << 63) <= low <= high < 1 << 63 and high - low < 1 << 63:
            narrow = -(1 << 31) <= low <= high < 1 << 31
            return WeightRange(low, high, np.dtype(np.int32 if narrow else np.int64))
        allowed = "whole numbers of 64 bits, less than 2^63 apart"
    else:
        low, high = float(low), float(high)
        if low <= high and math.isfinite(high - low):
            return WeightRange(low, high, np.dtype(np.float64))
        allowed = "finite numbers"
    raise GraphError(f"weights is {weights!r}; low must not exceed high, both {allowed}.")


def dtype_of(weights: WeightRange | None) -> np.dtype | None:
    """The dtype of the weights; None without weights."""
    return None if weights is None else weights.dtype


def with_weights(graph: Graph, weights: WeightRange | None, seed: int) -> Graph:
    """The graph with random weights on its arcs; the graph itself if ``weights`` is None."""
    if weights is None:
        return graph
    indptr, indices = graph._indptr, graph._indices  # writable views compile once for all graphs
    drawn = draw_weights(HOST, indptr, indices, graph.directed, weights, seed)
    return Graph(indptr, indices, drawn, directed=graph.directed)


def graph_of_rows(
    at: Host | Gpu,
    indptr: Any,
    indices: Any,
    directed: bool,
    drawn: WeightRange | None,
    seed: int,
) -> Graph:
    """Make a graph of finished rows, with random weights if ``drawn`` is not None."""
    weights = draw_weights(at, indptr, indices, directed, drawn, seed)
    if isinstance(at, Gpu):
        graph = gpu.graph_of(at, indptr, indices, weights, directed=directed)
        at.release()
        return graph
    return Graph(indptr, indices, weights, directed=directed)


def draw_weights(
    at: Host | Gpu,
    indptr: Any,
    indices: Any,
    directed: bool,
    drawn: WeightRange | None,
    seed: int,
) -> Any:
    """Random weights for the arcs of finished rows, in their memory; None without a range.

    On a GPU each thread searches for the row of its arc: neighbouring threads take the same path,
    so their reads hit the caches.
    """
    if drawn is None:
        return None
    key = key_of(seed, Stream.WEIGHTS)
    out = at.library.empty(len(indices), drawn.dtype)
    low, high = drawn.low, drawn.high
    rows = (indptr, indices, directed, key)
    with progress.task("drawing weights"):
        if drawn.dtype.kind == "i":
            span = np.uint64(int(high) - int(low) + 1)
            at.each(_draw_whole, len(indices), _CHUNK, *rows, np.int64(low), span, out)
        else:
            top = np.nextafter(high, low)  # rounding may reach the excluded end high
            at.each(_draw_real, len(indices), _CHUNK, *rows, low, high - low, top, out)
    return out


@compiled
def pair_bits(key, u, v, directed):
    """64 random bits of the arc (u, v), or of the edge between u and v (all uint64)."""
    if not directed and u > v:
        u, v = v, u
    return random_bits(random_bits(key, u), v)


@compiled
def scaled(bits, span):
    """Scale random bits to ``0..span-1``: the upper half of the 128-bit product of both."""
    high, low = bits >> _S32, bits & _LOW32
    span_high, span_low = span >> _S32, span & _LOW32
    cross = high * span_low + ((low * span_low) >> _S32)
    carry = (low * span_high + (cross & _LOW32)) >> _S32
    return high * span_high + (cross >> _S32) + carry


@compiled
def _row_of(indptr, arc):
    """The row of an arc: the last non-empty row that starts at or before it."""
    first, last = 0, len(indptr) - 2
    while first < last:
        middle = (first + last + 1) // 2
        if indptr[middle] <= arc:
            first = middle
        else:
            last = middle - 1
    return first


@parallel
def _draw_whole(chunk, size, indptr, indices, directed, key, low, span, out):
    start, stop = chunk * size, min((chunk + 1) * size, len(indices))
    row = _row_of(indptr, start)
    for arc in range(start, stop):
        while indptr[row + 1] <= arc:
            row += 1
        bits = pair_bits(key, np.uint64(row), np.uint64(indices[arc]), directed)
        out[arc] = low + np.int64(scaled(bits, span))


@parallel
def _draw_real(chunk, size, indptr, indices, directed, key, low, width, top, out):
    start, stop = chunk * size, min((chunk + 1) * size, len(indices))
    row = _row_of(indptr, start)
    for arc in range(start, stop):
        while indptr[row + 1] <= arc:
            row += 1
        bits = pair_bits(key, np.uint64(row), np.uint64(indices[arc]), directed)
        out[arc] = min(low + rounded_product((bits >> _S11) * _TO_UNIT, width), top)
