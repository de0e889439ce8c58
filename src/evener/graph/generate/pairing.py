"""Random regular graphs: pair stubs at random, then switch edges until the graph is simple.

Vertex u has the stubs ``u*d .. u*d + d-1``, and ``mate`` holds the stub that each is joined to, so
the neighbours of u are ``mate[u*d + k] // d``. A random pairing has about d²/4 loops and parallel
edges for any n. Loops, and all but one of parallel edges, are *bad* until a switch removes them: a
bad edge (s, t) and a random good edge (p, q) become (s, p) and (t, q) if both of these are new.
(McKay and Wormald 1990 show that few switches leave the distribution nearly uniform.)
"""

from __future__ import annotations

import numpy as np

from evener import progress
from evener.device import compiled, parallel, sort_keys
from evener.device.random import random_bits
from evener.errors import GraphError
from evener.graph import build
from evener.graph.csr import Graph
from evener.graph.generate.common import Stream, chunks_of, key_of, require_rows, seed_of, whole
from evener.graph.generate.weights import dtype_of, scaled, weight_range, with_weights

_MAX_TRIES = 1000  # random edges tried for one switch; half of them fit unless n is tiny
_CHUNK = 1 << 16  # stubs a thread takes at a time
_STUB_BYTES = 18  # two copies of a sort key; later its mate, its mark and the matrix
_STEPS = 1 << 22  # comparisons between two checks for Ctrl-C while switching
_ONE, _S6, _LOW6 = np.uint64(1), np.uint64(6), np.uint64(63)


def regular(
    num_vertices: int,
    degree: int,
    *,
    weights: tuple[float, float] | None = None,
    seed: int = 0,
) -> Graph:
    """A random simple undirected graph in which every vertex has the same degree.

    Parameters
    ----------
    num_vertices
        Number of vertices.
    degree
        Number of neighbours of each vertex, below ``num_vertices``; the product of both must be
        even.
    weights, seed
        As in `rmat`.

    Examples
    --------
    >>> import evener as ev
    >>> set(ev.generate.regular(100, 3, seed=1).degrees.tolist())
    {3}
    """
    n, d = whole("num_vertices", num_vertices), whole("degree", degree)
    if d > max(n - 1, 0):
        raise GraphError(f"degree is {d}; with {n} vertices it must be below {max(n, 1)}.")
    if n * d % 2:
        raise GraphError(f"{n} vertices of degree {d} are impossible: the product must be even.")
    drawn, seed = weight_range(weights), seed_of(seed)
    fewer = min(d, n - 1 - d) if n else 0  # a dense graph is the complement of a sparse one
    require_rows("A regular graph", n, n * d, dtype_of(drawn), _STUB_BYTES * n * fewer)
    with progress.task("generating a regular graph"):
        indices = _random_rows(n, fewer, seed)
        if fewer < d:
            indices = complement(n, fewer, indices)
        return with_weights(equal_rows(n, d, indices), drawn, seed)


def equal_rows(num_vertices: int, degree: int, indices: np.ndarray) -> Graph:
    """The undirected graph of neighbour lists that all have the same length."""
    starts = np.arange(num_vertices + 1, dtype=build.offset_dtype(len(indices)))
    return Graph(starts * starts.dtype.type(degree), indices, directed=False)


def complement(num_vertices: int, degree: int, indices: np.ndarray) -> np.ndarray:
    """Neighbour lists of the complement of a regular graph."""
    others = max(num_vertices - 1 - degree, 0)
    out = np.empty(num_vertices * others, build.index_dtype(num_vertices))
    rows = _rows_per_chunk(num_vertices)
    _list_others(chunks_of(num_vertices, rows), rows, num_vertices, degree, indices, out)
    return out


def _random_rows(n: int, d: int, seed: int) -> np.ndarray:
    indices = np.empty(n * d, build.index_dtype(n))
    if len(indices) == 0:
        return indices
    mate: np.ndarray | None = None
    attempt = 0
    while mate is None:
        mate = _simple_pairing(n, d, seed, attempt)
        attempt += 1
    rows = _rows_per_chunk(d)
    _list_rows(chunks_of(n, rows), rows, d, mate, indices)
    return indices


def _simple_pairing(n: int, d: int, seed: int, attempt: int) -> np.ndarray | None:
    """The mate of each stub, or None if the switches reach a dead end."""
    mate = _pairing(n * d, key_of(seed, Stream.PAIRING, attempt))
    rows = _rows_per_chunk(d)
    bad = np.zeros(len(mate), np.bool_)
    _mark_bad(chunks_of(n, rows), rows, d, max(d - 1, 1).bit_length(), mate, bad)
    todo = np.flatnonzero(bad)
    todo = todo[todo < mate[todo]]
    words = chunks_of(n, 64)  # in a row of the adjacency matrix as bits
    if words > d:
        words = 0  # the matrix would be larger than the stubs: search the stubs instead
    matrix = np.zeros(n * words, np.uint64)
    if words:
        _mark_good(chunks_of(n, rows), rows, d, mate, bad, words, matrix)
    key = key_of(seed, Stream.SWITCHES, attempt)
    step = max(1, _STEPS // d)
    for start in range(0, len(todo), step):
        stop = min(start + step, len(todo))
        if not _switch(start, stop, todo, d, mate, bad, words, matrix, key):
            return None
        progress.report(stop, len(todo))
    return mate


def _pairing(num_stubs: int, key: np.uint64) -> np.ndarray:
    index_bits = (num_stubs - 1).bit_length()
    low = np.uint64((1 << index_bits) - 1)
    keys = np.empty(num_stubs, np.uint64)
    _draw_keys(chunks_of(num_stubs, _CHUNK), key, low, keys)
    keys = sort_keys(keys, 64)
    mate = np.empty(num_stubs, build.index_dtype(num_stubs))
    _join(chunks_of(num_stubs // 2, _CHUNK), keys, low, mate)
    return mate


def _rows_per_chunk(degree: int) -> int:
    return max(1, _CHUNK // max(degree, 1))


@parallel
def _draw_keys(chunk, key, low, keys):
    for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(keys))):
        keys[i] = (random_bits(key, np.uint64(i)) & ~low) | np.uint64(i)


@parallel
def _join(chunk, keys, low, mate):
    for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(mate) // 2)):
        s, t = keys[2 * i] & low, keys[2 * i + 1] & low
        mate[s], mate[t] = t, s


@parallel
def _mark_bad(chunk, rows, degree, slot_bits, mate, bad):
    """Mark loops, and all but the first of parallel edges as listed at their lower end.

    A row marks only edges to itself and to higher rows, so no two threads write the same stub.
    """
    slots = np.empty(degree, np.uint64)
    low = (_ONE << np.uint64(slot_bits)) - _ONE
    for u in range(chunk * rows, min((chunk + 1) * rows, len(mate) // degree)):
        for k in range(degree):
            slots[k] = np.uint64(mate[u * degree + k] // degree) << np.uint64(slot_bits)
            slots[k] |= np.uint64(k)
        slots.sort()
        before = np.int64(-1)
        for k in range(degree):
            v = np.int64(slots[k] >> np.uint64(slot_bits))
            if v == u or (v > u and v == before):
                s = u * degree + np.int64(slots[k] & low)
                bad[s] = True
                bad[mate[s]] = True
            before = v


@parallel
def _mark_good(chunk, rows, degree, mate, bad, words, matrix):
    for u in range(chunk * rows, min((chunk + 1) * rows, len(mate) // degree)):
        for s in range(u * degree, (u + 1) * degree):
            if not bad[s]:
                _flip(matrix, words, u, mate[s] // degree)


@compiled
def _flip(matrix, words, u, v):
    matrix[u * words + (v >> 6)] ^= _ONE << (np.uint64(v) & _LOW6)


@compiled
def _joined(u, v, degree, mate, bad, words, matrix):
    """Whether a good edge joins u and v, by the matrix or else by the stubs of u."""
    if words > 0:
        return (matrix[u * words + (v >> 6)] >> (np.uint64(v) & _LOW6)) & _ONE == _ONE
    first = v * degree
    for s in range(u * degree, (u + 1) * degree):
        if first <= mate[s] < first + degree and not bad[s]:
            return True
    return False


@compiled
def _switch(start, stop, todo, degree, mate, bad, words, matrix, key):
    """Remove the bad edges ``todo[start:stop]`` by switches; False at a dead end."""
    for i in range(start, stop):
        s = np.int64(todo[i])
        t = np.int64(mate[s])
        u, v = s // degree, t // degree
        done = False
        for k in range(_MAX_TRIES):
            number = random_bits(key, np.uint64(i * _MAX_TRIES + k))
            p = np.int64(scaled(number, np.uint64(len(mate))))
            q = np.int64(mate[p])
            x, y = p // degree, q // degree
            if bad[p] or u == x or v == y or (u == y and v == x):
                continue
            if _joined(u, x, degree, mate, bad, words, matrix):
                continue
            if _joined(v, y, degree, mate, bad, words, matrix):
                continue
            mate[s], mate[p], mate[t], mate[q] = p, s, q, t
            bad[s], bad[t] = False, False
            if words > 0:
                for a, b in ((x, y), (u, x), (v, y)):
                    _flip(matrix, words, a, b)
                    _flip(matrix, words, b, a)
            done = True
            break
        if not done:
            return False
    return True


@parallel
def _list_rows(chunk, rows, degree, mate, indices):
    for u in range(chunk * rows, min((chunk + 1) * rows, len(mate) // degree)):
        for s in range(u * degree, (u + 1) * degree):
            indices[s] = mate[s] // degree
        indices[u * degree : (u + 1) * degree].sort()


@parallel
def _list_others(chunk, rows, num_vertices, degree, indices, out):
    for u in range(chunk * rows, min((chunk + 1) * rows, num_vertices)):
        s = u * degree
        at = u * (num_vertices - 1 - degree)
        for v in range(num_vertices):
            if s < (u + 1) * degree and indices[s] == v:
                s += 1
            elif v != u:
                out[at] = v
                at += 1
