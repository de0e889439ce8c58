"""Graphs of random edges: R-MAT with its few large hubs, and uniform ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from evener import progress
from evener.device import compiled, parallel
from evener.device.processors import HOST, Gpu, Host, place_of
from evener.device.random import permuted, random_bits
from evener.errors import GraphError
from evener.graph import build, gpu
from evener.graph.csr import Graph
from evener.graph.generate.common import (
    Stream,
    flag,
    key_of,
    real,
    require_build,
    seed_of,
    whole,
)
from evener.graph.generate.weights import WeightRange, dtype_of, graph_of_rows, weight_range

MAX_SCALE = 48

_CHUNK = 1 << 17  # edges a thread takes at a time
# Each level is drawn for a block of edges at once: the compiler vectorizes the loop over the block,
# which is 4 x faster than edge by edge.
_BLOCK = 256
_ONE, _TWO, _S32 = np.uint64(1), np.uint64(2), np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)


def rmat(
    scale: int,
    edge_factor: int = 16,
    *,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
    weights: tuple[float, float] | None = None,
    seed: int = 0,
    directed: bool = False,
    permute: bool = True,
    device: str = "cpu",
) -> Graph:
    """A recursive-matrix (Kronecker) graph as in Graph500: skewed degrees, small diameter.

    Each edge descends ``scale`` levels of the adjacency matrix, at each level into the upper left,
    upper right, lower left or lower right quadrant with probability a, b, c or 1-a-b-c
    (Chakrabarti, Zhan, Faloutsos 2004). Self-loops and duplicates are dropped, so there are fewer
    than ``edge_factor * 2**scale`` edges; isolated vertices are kept.

    Parameters
    ----------
    scale
        The graph has ``2**scale`` vertices.
    edge_factor
        Edges drawn per vertex.
    a, b, c
        Probabilities of the first three quadrants.
    weights
        ``(low, high)`` for random weights: two integers give integers from ``low`` to ``high``, a
        float among them gives floats below ``high``. None for no weights.
    seed
        The same seed gives the same graph with any number of threads and on any device.
    directed
        False stores every edge in both directions.
    permute
        Number the vertices at random; otherwise the hubs have the lowest numbers.
    device
        Where to make the graph: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. A graph made on a GPU also
        stays there, for the programs that run on it.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.generate.rmat(8, 4, weights=(1, 255), seed=1)
    >>> g.num_vertices, g.directed, g.weights.dtype
    (256, False, dtype('int32'))
    """
    at = place_of(device)
    quadrants = _quadrants(a, b, c)
    permute = flag("permute", permute)
    scale, num_edges, drawn, seed, directed = _arguments(
        at, "An R-MAT graph", scale, edge_factor, weights, seed, directed
    )
    with progress.task("generating an R-MAT graph"), at:
        ends = rmat_ends(at, scale, num_edges, quadrants, seed, permute)
        indptr, indices = _simple(at, *ends, 1 << scale, directed)
        del ends
        return graph_of_rows(at, indptr, indices, directed, drawn, seed)


def uniform(
    scale: int,
    edge_factor: int = 16,
    *,
    weights: tuple[float, float] | None = None,
    seed: int = 0,
    directed: bool = False,
    device: str = "cpu",
) -> Graph:
    """A graph whose edges join vertices drawn uniformly (Erdős and Rényi).

    Self-loops and duplicates are dropped.

    Parameters
    ----------
    scale
        The graph has ``2**scale`` vertices.
    edge_factor
        Edges drawn per vertex.
    weights, seed, directed, device
        As in `rmat`.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.uniform(8, 4, seed=1).num_vertices
    256
    """
    at = place_of(device)
    scale, num_edges, drawn, seed, directed = _arguments(
        at, "A uniform graph", scale, edge_factor, weights, seed, directed
    )
    with progress.task("generating a uniform graph"), at:
        ends = _uniform_ends(at, scale, num_edges, seed)
        indptr, indices = _simple(at, *ends, 1 << scale, directed)
        del ends
        return graph_of_rows(at, indptr, indices, directed, drawn, seed)


def _arguments(
    at: Host | Gpu, what: str, scale: Any, edge_factor: Any, weights: Any, seed: Any, directed: Any
) -> tuple[int, int, WeightRange | None, int, bool]:
    scale = whole("scale", scale, 0, MAX_SCALE if at is HOST else gpu.MAX_SCALE)
    num_edges = whole("edge_factor", edge_factor) << scale
    drawn, seed, directed = weight_range(weights), seed_of(seed), flag("directed", directed)
    what = f"{what} of scale {scale}"
    require_build(what, 1 << scale, num_edges, dtype_of(drawn), directed, at)
    return scale, num_edges, drawn, seed, directed


def _quadrants(a: Any, b: Any, c: Any) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Upper bounds of the first three quadrants, as 32-bit numbers."""
    a, b, c = (real(name, p, 0, 1) for name, p in (("a", a), ("b", b), ("c", c)))
    if a + b + c > 1 + 1e-9:
        raise GraphError(f"a + b + c is {a + b + c:g}; probabilities cannot sum to more than 1.")
    sums = np.minimum(np.cumsum([a, b, c]), 1.0)
    first, second, third = (np.uint64(round(float(p) * 2**32)) for p in sums)
    return first, second, third


def rmat_ends(
    at: Host | Gpu,
    scale: int,
    num_edges: int,
    quadrants: tuple[np.uint64, np.uint64, np.uint64],
    seed: int,
    permute: bool,
) -> tuple[Any, Any]:
    """Ends of the edges as drawn, including loops and duplicates."""
    src, dst = _empty_ends(at, scale, num_edges)
    at.each(_fall, num_edges, _CHUNK, key_of(seed, Stream.RMAT), scale, *quadrants, src, dst)
    if permute:
        key = key_of(seed, Stream.RMAT_IDS)
        for ends in (src, dst):
            at.each(_renumber, num_edges, _CHUNK, key, scale, ends)
    return src, dst


def _uniform_ends(at: Host | Gpu, scale: int, num_edges: int, seed: int) -> tuple[Any, Any]:
    src, dst = _empty_ends(at, scale, num_edges)
    mask = np.uint64((1 << scale) - 1)
    at.each(_draw_ends, num_edges, _CHUNK, key_of(seed, Stream.UNIFORM), mask, src, dst)
    return src, dst


def _empty_ends(at: Host | Gpu, scale: int, num_edges: int) -> tuple[Any, Any]:
    dtype = build.index_dtype(1 << scale)
    return at.library.empty(num_edges, dtype), at.library.empty(num_edges, dtype)


def _simple(
    at: Host | Gpu, src: Any, dst: Any, num_vertices: int, directed: bool
) -> tuple[Any, Any]:
    """Row starts and neighbours without loops and duplicates, in the memory of the ends."""
    if isinstance(at, Gpu):
        return gpu.build_simple(at, src, dst, num_vertices, symmetric=not directed)
    return build.build_csr(
        src, dst, None, num_vertices,
        symmetric=not directed, drop_loops=True, duplicates="first",
    )[:2]  # fmt: skip


@compiled
def descend(u, v, bits, first, second, third):
    """Descend one level: 32 random bits choose the quadrant, which appends a bit to both ends."""
    down = np.uint64(bits >= second)
    right = np.uint64(bits >= first) ^ down ^ np.uint64(bits >= third)
    return (u << _ONE) | down, (v << _ONE) | right


@parallel
def _fall(chunk, size, key, scale, first, second, third, src, dst):
    numbers = np.uint64((scale + 1) // 2)  # of 64 bits for each edge, two levels from one
    stop = min((chunk + 1) * size, len(src))
    for start in range(chunk * size, stop, _BLOCK):
        us, vs = src[start : min(start + _BLOCK, stop)], dst[start : min(start + _BLOCK, stop)]
        us[:], vs[:] = 0, 0
        counter = np.uint64(start) * numbers
        for pair in range(scale // 2):
            for i in range(len(us)):
                bits = random_bits(key, counter + np.uint64(i) * numbers + np.uint64(pair))
                u, v = np.uint64(us[i]), np.uint64(vs[i])
                u, v = descend(u, v, bits & _LOW32, first, second, third)
                us[i], vs[i] = descend(u, v, bits >> _S32, first, second, third)
        if scale % 2:
            for i in range(len(us)):
                bits = random_bits(key, counter + np.uint64(i) * numbers + numbers - _ONE)
                u, v = np.uint64(us[i]), np.uint64(vs[i])
                us[i], vs[i] = descend(u, v, bits >> _S32, first, second, third)


@parallel
def _renumber(chunk, size, key, scale, ends):
    # A separate kernel, so that the compiler hoists and vectorizes the permutation (4 x faster).
    for i in range(chunk * size, min((chunk + 1) * size, len(ends))):
        ends[i] = permuted(key, np.uint64(ends[i]), scale)


@parallel
def _draw_ends(chunk, size, key, mask, src, dst):
    for i in range(chunk * size, min((chunk + 1) * size, len(src))):
        counter = _TWO * np.uint64(i)
        src[i] = random_bits(key, counter) & mask
        dst[i] = random_bits(key, counter + _ONE) & mask
