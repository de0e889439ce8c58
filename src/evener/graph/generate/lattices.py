"""Graphs of a fixed shape: grid, path, star, tree, complete graph."""

from __future__ import annotations

import math

import numpy as np

from evener import progress
from evener.device import compiled, parallel
from evener.device.processors import place_of
from evener.device.random import random_unit
from evener.graph import build
from evener.graph.csr import Graph
from evener.graph.generate.common import (
    MAX_SIZE,
    Stream,
    key_of,
    real,
    require_build,
    require_rows,
    row_starts,
    seed_of,
    whole,
)
from evener.graph.generate.pairing import complement, equal_rows
from evener.graph.generate.weights import (
    WeightRange,
    dtype_of,
    graph_of_rows,
    weight_range,
    with_weights,
)

_CHUNK = 1 << 15  # vertices a thread takes at a time
_ONE, _TWO = np.uint64(1), np.uint64(2)


def grid(
    rows: int,
    columns: int | None = None,
    *,
    removed: float = 0.0,
    weights: tuple[float, float] | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> Graph:
    """A lattice in which every vertex is joined to its left, right, upper and lower neighbour.

    Parameters
    ----------
    rows, columns
        Size of the lattice, by default square; row r, column c is vertex ``r * columns + c``.
    removed
        Probability, from 0 to 1, that an edge is left out.
    weights, seed, device
        As in `rmat`.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.generate.grid(2, 3)
    >>> g.indices[: g.indptr[1]].tolist()
    [1, 3]
    """
    at = place_of(device)
    rows = whole("rows", rows)
    columns = rows if columns is None else whole("columns", columns)
    removed = real("removed", removed, 0, 1)
    drawn, seed = weight_range(weights), seed_of(seed)
    n = rows * columns
    num_arcs = math.ceil((4 * n - 2 * rows - 2 * columns) * (1 - removed)) if n else 0
    require_rows("A grid", n, num_arcs, dtype_of(drawn), 8 * n, at)
    with progress.task("generating a grid"), at:
        library, ids = at.library, build.index_dtype(n)
        shape = (rows, columns, key_of(seed, Stream.REMOVED), removed)
        counts = library.zeros(n + 1, ids)
        at.each(_lattice, n, _CHUNK, *shape, False, counts, library.empty(0, ids))
        indptr = row_starts(counts)
        indices = library.empty(int(indptr[-1]), ids)
        at.each(_lattice, n, _CHUNK, *shape, True, indptr, indices)
        return graph_of_rows(at, indptr, indices, False, drawn, seed)


def path(num_vertices: int, *, weights: tuple[float, float] | None = None, seed: int = 0) -> Graph:
    """A path: each vertex is joined to the next.

    Parameters
    ----------
    num_vertices
        Number of vertices.
    weights, seed
        As in `rmat`.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.path(4).degrees.tolist()
    [1, 2, 2, 1]
    """
    n = whole("num_vertices", num_vertices)
    drawn, seed = _check_arguments("A path", n, weights, seed)
    later = _all_but_first(n)
    return _undirected(later - 1, later, n, drawn, seed)


def star(num_vertices: int, *, weights: tuple[float, float] | None = None, seed: int = 0) -> Graph:
    """A star: vertex 0, the centre, is joined to all others.

    Parameters
    ----------
    num_vertices
        Number of vertices, including the centre.
    weights, seed
        As in `rmat`.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.star(4).degrees.tolist()
    [3, 1, 1, 1]
    """
    n = whole("num_vertices", num_vertices)
    drawn, seed = _check_arguments("A star", n, weights, seed)
    later = _all_but_first(n)
    return _undirected(np.zeros_like(later), later, n, drawn, seed)


def tree(
    height: int,
    branching: int = 2,
    *,
    weights: tuple[float, float] | None = None,
    seed: int = 0,
) -> Graph:
    """A perfect tree: all leaves at the same depth, numbered level by level from root 0.

    Parameters
    ----------
    height
        Edges from the root to a leaf.
    branching
        Children of every vertex that is not a leaf.
    weights, seed
        As in `rmat`.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.generate.tree(2)
    >>> g.num_vertices, g.degrees.tolist()
    (7, [2, 3, 3, 1, 1, 1, 1])
    """
    height, branching = whole("height", height), whole("branching", branching, 1)
    n = _tree_size(height, branching)
    drawn, seed = _check_arguments("A tree", n, weights, seed)
    later = _all_but_first(n)
    return _undirected((later - 1) // later.dtype.type(branching), later, n, drawn, seed)


def complete(
    num_vertices: int, *, weights: tuple[float, float] | None = None, seed: int = 0
) -> Graph:
    """A complete graph: every pair of vertices is joined.

    Parameters
    ----------
    num_vertices
        Number of vertices.
    weights, seed
        As in `rmat`.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.complete(3).indices.tolist()
    [1, 2, 0, 2, 0, 1]
    """
    n = whole("num_vertices", num_vertices)
    drawn, seed = weight_range(weights), seed_of(seed)
    degree = max(n - 1, 0)
    require_rows("A complete graph", n, n * degree, dtype_of(drawn))
    with progress.task("generating a complete graph"):
        indices = complement(n, 0, np.empty(0, build.index_dtype(n)))
        return with_weights(equal_rows(n, degree, indices), drawn, seed)


def _check_arguments(
    what: str, n: int, weights: object, seed: object
) -> tuple[WeightRange | None, int]:
    drawn, seed = weight_range(weights), seed_of(seed)
    require_build(what, n, n, dtype_of(drawn), directed=False)
    return drawn, seed


def _all_but_first(n: int) -> np.ndarray:
    """All vertices but 0: in a tree each has one edge to an earlier vertex."""
    return np.arange(1, max(n, 1), dtype=build.index_dtype(n))


def _undirected(
    src: np.ndarray, dst: np.ndarray, n: int, drawn: WeightRange | None, seed: int
) -> Graph:
    return with_weights(Graph.from_edges(src, dst, num_vertices=n, directed=False), drawn, seed)


def _tree_size(height: int, branching: int) -> int:
    if branching == 1:
        return height + 1
    levels = min(height + 1, MAX_SIZE.bit_length())  # more exceed MAX_SIZE with any branching
    return min((branching**levels - 1) // (branching - 1), MAX_SIZE)


@compiled
def _has_edge(key, edge, removed):
    return random_unit(key, edge) >= removed


@parallel
def _lattice(chunk, size, rows, columns, key, removed, listing, starts, indices):
    """Count the neighbours of v in ``starts[v + 1]``; or, if ``starts`` are row starts, list them.

    Edge 2v joins v to its right neighbour, edge 2v+1 to its lower one.
    """
    width = np.uint64(columns)
    for v in range(chunk * size, min((chunk + 1) * size, rows * columns)):
        row, column = v // columns, v % columns
        edge = _TWO * np.uint64(v)
        above = row > 0 and _has_edge(key, edge - _TWO * width + _ONE, removed)
        left = column > 0 and _has_edge(key, edge - _TWO, removed)
        right = column + 1 < columns and _has_edge(key, edge, removed)
        below = row + 1 < rows and _has_edge(key, edge + _ONE, removed)
        if not listing:
            starts[v + 1] = np.int64(above) + np.int64(left) + np.int64(right) + np.int64(below)
            continue
        at = starts[v]
        if above:
            indices[at] = v - columns
            at += 1
        if left:
            indices[at] = v - 1
            at += 1
        if right:
            indices[at] = v + 1
            at += 1
        if below:
            indices[at] = v + columns
