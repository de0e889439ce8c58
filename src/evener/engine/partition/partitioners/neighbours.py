"""Partitioners that put neighbours together: biased, metis."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.random import permuted, random_unit, stream_key
from evener.errors import DeviceError, EvenerError
from evener.graph.csr import Graph

_STREAM = 42
_SLACK = 1.03  # a part is full at this multiple of its share
_METIS_INDEX = 2**31 - 1


def biased(graph: Graph, shares: np.ndarray, factor: float, seed: int) -> np.ndarray:
    """The biased random partitioner of mGPU Gunrock.

    Vertices are assigned in random order: with probability ``factor`` in proportion to the
    neighbours that parts already have, else in proportion to the shares. Full parts take no more.

    Examples
    --------
    >>> import numpy as np
    >>> from evener import generate
    >>> from evener.engine.partition.partitioners.neighbours import biased
    >>> pairs = generate.path(1000)
    >>> apart = [
    ...     int(np.count_nonzero(np.diff(biased(pairs, np.array([0.5, 0.5]), factor, seed=1))))
    ...     for factor in (0.0, 1.0)
    ... ]
    >>> apart[0] > apart[1]
    True
    """
    n = graph.num_vertices
    part_of = np.full(n, -1, np.int32)
    room = np.ceil(shares * (_SLACK * (n + graph.num_edges)))
    bits = max(1, (n - 1).bit_length())
    key = stream_key(seed, _STREAM)
    _assign_in_turn(graph._indptr, graph._indices, shares, float(factor), room, key, bits, part_of)
    return part_of


@compiled
def _assign_in_turn(indptr, indices, shares, factor, room, key, bits, part_of):
    k, n = len(shares), len(part_of)
    counts, weights = np.zeros(k), np.zeros(k)
    for turn in range(1 << bits):
        v = permuted(key, turn, bits)
        if v >= n:
            continue
        counts[:] = 0
        for e in range(indptr[v], indptr[v + 1]):
            part = part_of[indices[e]]
            if part >= 0:
                counts[part] += 1
        known = counts.sum()
        load = 1 + indptr[v + 1] - indptr[v]
        for part in range(k):
            near = counts[part] / known if known > 0 else shares[part]
            chance = factor * near + (1 - factor) * shares[part]
            weights[part] = chance if room[part] >= load else 0.0
        if weights.sum() > 0:
            left = random_unit(key, np.uint64(turn)) * weights.sum()
            part = 0
            while part < k - 1 and (left >= weights[part] or weights[part] == 0):
                left -= weights[part]
                part += 1
            while weights[part] == 0:  # rounding may have passed the last
                part -= 1
        else:
            part = np.argmax(room)
        part_of[v] = part
        room[part] -= load


def metis(graph: Graph, shares: np.ndarray, seed: int) -> np.ndarray:
    """Partition by METIS: few edges between parts, each with its share of edges and vertices."""
    try:
        import pymetis
    except ImportError:
        raise DeviceError(
            "partition 'metis' needs pymetis; install it with pip install 'evener[metis]'."
        ) from None
    n, k = graph.num_vertices, len(shares)
    if n <= k:
        return np.arange(n, dtype=np.int32)
    starts, ends, loads = _without_loops(graph)
    if starts[-1] > _METIS_INDEX:
        raise EvenerError(
            f"partition 'metis' takes graphs up to {_METIS_INDEX:,} arcs; use 'random' or 'biased'."
        )
    whole = pymetis.zero_copy_dtype()
    lists = pymetis.CSRAdjacency(starts.astype(whole), ends.astype(whole))
    _, part_of = pymetis.part_graph(
        k, lists, vweights=loads.astype(whole), tpwgts=shares.tolist(),
        options=pymetis.Options(seed=seed),
    )  # fmt: skip
    return np.asarray(part_of, np.int32)


def _without_loops(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The graph for METIS, symmetric and without loops, and the load of each vertex."""
    both = graph.symmetrize()
    sources = both._sources()
    keep = sources != both._indices
    starts = np.zeros(graph.num_vertices + 1, np.int64)
    np.cumsum(np.bincount(sources[keep], minlength=graph.num_vertices), out=starts[1:])
    return starts, both._indices[keep], graph.degrees + 1
