"""Check the invariants of compressed sparse rows on which every algorithm relies.

Graphs built by Evener satisfy them. A file that was written elsewhere, is damaged, or is declared
undirected by mistake may not.
"""

from __future__ import annotations

import secrets

import numpy as np

from evener import progress
from evener.device import compiled, parallel
from evener.device.random import random_bits
from evener.errors import GraphError
from evener.graph.csr import Graph

_ROWS = 1 << 12  # rows a thread takes at a time
_ARCS = 1 << 20  # arcs checked at a time with NumPy
_LOW32 = 0xFFFFFFFF
_NOTHING = np.iinfo(np.int64).max


def check(graph: Graph) -> None:
    """Raise `GraphError` for the first invariant that the arrays of a graph violate.

    Row starts ascend from 0 to the number of arcs, neighbours are vertices and ascend within each
    row, there is one weight for each arc, and in an undirected graph every arc (parallel arcs
    counted) has a mirror image with the same weight.

    Examples
    --------
    >>> import numpy as np
    >>> import evener as ev
    >>> from evener.graph.check import check
    >>> check(ev.generate.path(3))
    >>> one_way = ev.Graph(np.array([0, 1, 1]), np.array([1]), directed=False)
    >>> check(one_way)
    Traceback (most recent call last):
    evener.errors.GraphError: the graph is undirected, but the arc 0 -> 1 has no equal arc back.
    """
    check_rows(graph)
    with progress.task("checking the graph"):
        if not _check_arcs(graph):
            _refuse_one_way(graph)


def check_rows(graph: Graph) -> None:
    """Raise `GraphError` unless row starts ascend from 0 to the number of arcs.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.graph.check import check_rows
    >>> check_rows(ev.generate.path(3))
    """
    indptr, n, m = graph.indptr, graph.num_vertices, graph.num_edges
    if indptr[0] != 0 or indptr[n] != m:
        raise GraphError(f"row starts run from {indptr[0]} to {indptr[n]}, not from 0 to {m}.")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        raise GraphError(f"row starts fall after vertex {_label(graph, int(np.argmax(falls)))}.")
    if graph.weights is not None and len(graph.weights) != m:
        raise GraphError(f"there are {len(graph.weights)} weights for {m} arcs.")


def count_self_loops(graph: Graph) -> int:
    """The number of arcs from a vertex to itself, parallel ones counted; rows must be sorted.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.graph.check import count_self_loops
    >>> count_self_loops(ev.Graph.from_edges([0, 1], [1, 1]))
    1
    """
    # Not compiled: on a mapped graph `evener info` finishes before Numba would be loaded.
    indptr, indices = graph.indptr, graph.indices
    total = 0
    for start in range(0, graph.num_edges, _ARCS):
        stop = min(start + _ARCS, graph.num_edges)
        first = int(np.searchsorted(indptr, start, "right")) - 1
        last = int(np.searchsorted(indptr, stop, "left"))
        lengths = np.diff(np.clip(indptr[first : last + 1], start, stop))
        sources = np.repeat(np.arange(first, last, dtype=indices.dtype), lengths)
        total += int(np.count_nonzero(sources == indices[start:stop]))
    return total


def _check_arcs(graph: Graph) -> bool:
    """Refuse neighbours that are out of range or out of order; return whether the arcs balance.

    In an undirected graph every arc has a mirror image. So a hash of both ends and the weight,
    added for ascending arcs and subtracted for descending ones, sums to zero. With an arc that has
    no mirror image the sum is zero with probability 2^-64 for any graph, since the hash has a
    random key. Searching for each mirror image takes fifty times as long.
    """
    chunks = max(1, -(-graph.num_vertices // _ROWS))
    bad, balance = np.full(chunks, _NOTHING), np.zeros(chunks, np.uint64)
    weights = graph._weights
    bits = None if weights is None else weights.view(f"u{weights.dtype.itemsize}")
    keys = np.frombuffer(secrets.token_bytes(24), np.uint64)
    _scan(
        chunks, graph._indptr, graph._indices, weights, bits, not graph.directed, keys, bad, balance
    )
    e = int(bad.min())
    if e == _NOTHING:
        return graph.directed or int(balance.sum(dtype=np.uint64)) == 0
    u, v = _ends(graph, e)
    if not 0 <= v < graph.num_vertices:
        raise GraphError(
            f"vertex {_label(graph, u)} has neighbour number {v}, "
            f"but there are {graph.num_vertices} vertices."
        )
    raise GraphError(f"the neighbours of vertex {_label(graph, u)} are not in ascending order.")


def _refuse_one_way(graph: Graph) -> None:
    chunks = -(-graph.num_vertices // _ROWS)
    bad = np.full(max(1, chunks), _NOTHING)
    _find_one_way(chunks, graph._indptr, graph._indices, graph._weights, bad)
    e = int(bad.min())
    if e != _NOTHING:
        u, v = (_label(graph, end) for end in _ends(graph, e))
        raise GraphError(f"the graph is undirected, but the arc {u} -> {v} has no equal arc back.")


def _ends(graph: Graph, e: int) -> tuple[int, int]:
    return int(np.searchsorted(graph.indptr, e, "right")) - 1, int(graph.indices[e])


def _label(graph: Graph, v: int) -> object:
    return graph._labels.take(np.array([v]))[0]


@parallel
def _scan(chunk, indptr, indices, weights, bits, undirected, keys, bad, balance):
    """Find the first arc that is out of range or out of order, and sum the hashes of all arcs."""
    n = len(indptr) - 1
    wide = n > _LOW32
    total = np.uint64(0)
    for row in range(chunk * _ROWS, min((chunk + 1) * _ROWS, n)):
        u = np.uint64(row)
        before = 0
        for e in range(indptr[row], indptr[row + 1]):
            other = indices[e]
            if other < before or other >= n:
                bad[chunk] = e
                return
            before = other
            if other == row or not undirected:
                continue
            v = np.uint64(other)
            low, high = min(u, v), max(u, v)
            if wide:
                low = random_bits(keys[0], low)
            hashed = random_bits(keys[1], (low << np.uint64(32)) + high)
            if weights is not None:
                hashed = random_bits(keys[2] ^ hashed, _weight_bits(weights[e], bits[e]))
            total = total + hashed if u < v else total - hashed
    balance[chunk] = total


@compiled(allocates=False)
def _weight_bits(weight, bits):
    """The bits of a weight; weights that count as equal have the same bits."""
    if weight != weight:
        return np.uint64(1)
    return np.uint64(0) if weight == 0 else np.uint64(bits)


@parallel
def _find_one_way(chunk, indptr, indices, weights, bad):
    """The first arc that starts a run of parallel arcs without an equal run the other way."""
    for row in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(indptr) - 1)):
        e = indptr[row]
        while e < indptr[row + 1]:
            length = _run_length(indices, e, indptr[row + 1])
            other = indices[e]
            if other != row:
                back = _first_at_least(indices, indptr[other], indptr[other + 1], row)
                equal = _run_length_of(indices, back, indptr[other + 1], row) == length
                if weights is not None and equal:
                    equal = _same_weights(weights, e, back, length)
                if not equal:
                    bad[chunk] = e
                    return
            e += length


@compiled
def _run_length(indices, start, stop):
    return _run_length_of(indices, start, stop, indices[start])


@compiled
def _run_length_of(indices, start, stop, value):
    at = start
    while at < stop and indices[at] == value:
        at += 1
    return at - start


@compiled
def _first_at_least(indices, start, stop, value):
    while start < stop:
        middle = (start + stop) // 2
        if indices[middle] < value:
            start = middle + 1
        else:
            stop = middle
    return start


@compiled
def _same_weights(weights, first, second, length):
    """Whether two runs hold the same weights in any order; a NaN equals a NaN."""
    if length == 1:
        return _same(weights[first], weights[second])
    a, b = weights[first : first + length].copy(), weights[second : second + length].copy()
    a.sort()
    b.sort()
    differ = 0
    for i in range(length):
        differ += not _same(a[i], b[i])
    return differ == 0


@compiled
def _same(a, b):
    return a == b or (a != a and b != b)
