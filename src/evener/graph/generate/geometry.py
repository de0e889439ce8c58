"""Graphs of random points in the unit square: neighbours within a radius, and triangulations.

Points are numbered cell by cell of a grid, row by row, so that points close together in the square
are close in memory.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from evener import progress
from evener.device import compiled, parallel, require_memory, sort_keys
from evener.device.random import random_unit
from evener.graph import build
from evener.graph.csr import Graph
from evener.graph.generate.common import (
    Stream,
    chunks_of,
    key_of,
    real,
    require_build,
    require_rows,
    row_starts,
    seed_of,
    whole,
)
from evener.graph.generate.weights import dtype_of, weight_range, with_weights

_CHUNK = 1 << 10  # points a thread takes at a time
_ONE, _TWO = np.uint64(1), np.uint64(2)
_POINT_BYTES = 40  # two copies of a sort key, x, y and the start of a cell
_QHULL_BYTES = 700  # bytes that Qhull takes per point, measured with SciPy 1.17


def geometric(
    num_vertices: int,
    radius: float | None = None,
    *,
    weights: tuple[float, float] | None = None,
    seed: int = 0,
) -> Graph:
    """A random geometric graph: points in the unit square, joined when they are close.

    Parameters
    ----------
    num_vertices
        Number of points; they are numbered cell by cell of a grid, so neighbours are close in
        memory.
    radius
        Largest distance of two neighbours; by default ``0.55 * sqrt(ln(n) / n)``, at which most
        points are in one component.
    weights, seed
        As in `rmat`.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.geometric(100, radius=2.0).num_edges == 100 * 99
    True
    """
    n = whole("num_vertices", num_vertices)
    if radius is None:
        radius = 0.55 * math.sqrt(math.log(n) / n) if n else 0.0
    radius = real("radius", radius, 0.0, math.inf)
    drawn, seed = weight_range(weights), seed_of(seed)
    expected = math.ceil(n * n * min(1.0, math.pi * min(radius, 1.0) ** 2))
    require_rows("A geometric graph", n, expected, dtype_of(drawn), _POINT_BYTES * n)
    # Cells are a little wider than the radius, so that neighbours lie in adjacent cells in spite of
    # rounding.
    side = max(1, math.isqrt(n))
    if radius > 0:
        side = max(1, int(min(side, (1 - 1e-9) / radius)))
    with progress.task("generating a geometric graph"):
        graph = _near(_points(n, side, seed), side, radius * radius)
        return with_weights(graph, drawn, seed)


def delaunay(
    num_vertices: int, *, weights: tuple[float, float] | None = None, seed: int = 0
) -> Graph:
    """The Delaunay triangulation of random points in the unit square, a planar graph.

    Parameters
    ----------
    num_vertices
        Number of points; they are numbered as in `geometric`.
    weights, seed
        As in `rmat`.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.delaunay(3).num_edges
    6
    """
    n = whole("num_vertices", num_vertices)
    drawn, seed = weight_range(weights), seed_of(seed)
    what = "A Delaunay triangulation"
    require_memory((_QHULL_BYTES + _POINT_BYTES) * n, what)
    require_build(what, n, 6 * n, dtype_of(drawn), directed=False)
    with progress.task("generating a Delaunay triangulation"):
        if n < 3:
            first = np.arange(n // 2, dtype=np.int32)  # one edge if there are two points
            ends = first, first + 1
        else:
            from scipy.spatial import Delaunay

            points = _points(n, math.isqrt(n), seed)
            corners = Delaunay(np.column_stack((points.x, points.y))).simplices
            ends = corners.ravel(), np.roll(corners, 1, axis=1).ravel()
        graph = Graph.from_edges(*ends, num_vertices=n, directed=False, duplicates="first")
        return with_weights(graph, drawn, seed)


class _Points(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    starts: np.ndarray  # the first point of each cell, and the number of points


def _points(n: int, side: int, seed: int) -> _Points:
    """Random points, ordered by the ``side * side`` cells of the square."""
    key = key_of(seed, Stream.POINTS)
    num_chunks = chunks_of(n, _CHUNK)
    index_bits = n.bit_length()
    keys = np.empty(n, np.uint64)
    _locate(num_chunks, key, side, index_bits, keys)
    keys = sort_keys(keys, (side * side - 1).bit_length() + index_bits)
    points = _Points(np.empty(n), np.empty(n), np.zeros(side * side + 1, np.int64))
    _place(num_chunks, key, index_bits, keys, *points)
    return points


def _near(points: _Points, side: int, limit: float) -> Graph:
    n = len(points.x)
    num_chunks = chunks_of(n, _CHUNK)
    counts = np.zeros(n + 1, build.index_dtype(n))
    _neighbours(num_chunks, *points, side, limit, False, counts, np.empty(0, counts.dtype))
    indptr = row_starts(counts)
    indices = np.empty(int(indptr[-1]), build.index_dtype(n))
    _neighbours(num_chunks, *points, side, limit, True, indptr, indices)
    return Graph(indptr, indices, directed=False)


@compiled
def _cell(coordinate, side):
    return min(np.int64(coordinate * side), side - 1)


@parallel
def _locate(chunk, key, side, index_bits, keys):
    for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(keys))):
        counter = _TWO * np.uint64(i)
        column = _cell(random_unit(key, counter), side)
        row = _cell(random_unit(key, counter + _ONE), side)
        keys[i] = (np.uint64(row * side + column) << np.uint64(index_bits)) | np.uint64(i)


@parallel
def _place(chunk, key, index_bits, keys, x, y, starts):
    shift = np.uint64(index_bits)
    low = (_ONE << shift) - _ONE
    for v in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(keys))):
        counter = _TWO * (keys[v] & low)
        x[v] = random_unit(key, counter)
        y[v] = random_unit(key, counter + _ONE)
        before = -1 if v == 0 else np.int64(keys[v - 1] >> shift)
        cell = np.int64(keys[v] >> shift)
        for c in range(before + 1, cell + 1):
            starts[c] = v
        if v == len(keys) - 1:
            for c in range(cell + 1, len(starts)):
                starts[c] = v + 1


@parallel
def _neighbours(chunk, x, y, starts, side, limit, listing, rows, indices):
    """Count the neighbours of v in ``rows[v + 1]``; or, if ``rows`` are row starts, list them.

    The cells around v are three ascending runs of consecutive vertices, so the lists are sorted.
    """
    for v in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(x))):
        column, row = _cell(x[v], side), _cell(y[v], side)
        at = np.int64(rows[v]) if listing else np.int64(0)
        for r in range(max(row - 1, 0), min(row + 2, side)):
            first = starts[r * side + max(column - 1, 0)]
            last = starts[r * side + min(column + 2, side)]
            for w in range(first, last):
                dx, dy = x[w] - x[v], y[w] - y[v]
                if dx * dx + dy * dy <= limit and w != v:
                    if listing:
                        indices[at] = w
                    at += 1
        if not listing:
            rows[v + 1] = at
