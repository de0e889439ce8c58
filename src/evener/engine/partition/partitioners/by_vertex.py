"""Partitioners that assign vertices one by one: random, static, contiguous, high, low."""

from __future__ import annotations

import numpy as np

from evener.device import compiled, parallel
from evener.device.random import random_unit, stream_key
from evener.graph.csr import Graph

_STREAM = 41  # of the random numbers: generators use other streams of a seed
_CHUNK = 1 << 16  # vertices a thread takes at a time
_TURNS = 1 << 10  # of each part in a round of `static`: the precision of unequal shares


def random(graph: Graph, shares: np.ndarray, seed: int) -> np.ndarray:
    """Each vertex to a random part, with the shares as probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from evener import generate
    >>> from evener.engine.partition.partitioners.by_vertex import random
    >>> np.bincount(random(generate.path(1000), np.array([0.9, 0.1]), seed=1)).tolist()
    [896, 104]
    """
    part_of = np.empty(graph.num_vertices, np.int32)
    _draw(_chunks(part_of), stream_key(seed, _STREAM), _upper_ends(shares), part_of)
    return part_of


def static(graph: Graph, shares: np.ndarray) -> np.ndarray:
    """Vertices to parts in turn, v mod k, more often to larger shares.

    Examples
    --------
    >>> import numpy as np
    >>> from evener import generate
    >>> from evener.engine.partition.partitioners.by_vertex import static
    >>> static(generate.path(6), np.array([2 / 3, 1 / 3])).tolist()
    [0, 1, 0, 0, 1, 0]
    """
    turns = np.empty(min(_TURNS * len(shares), graph.num_vertices), np.int32)
    # Integers, so that equal shares stay equal.
    _take_turns(np.rint(shares * (1 << 40)).astype(np.int64), turns)
    return np.resize(turns, graph.num_vertices)


def contiguous(graph: Graph, shares: np.ndarray) -> np.ndarray:
    """Ranges of vertices, each with its share of the edges (of the vertices if there are none).

    Examples
    --------
    >>> import numpy as np
    >>> from evener import generate
    >>> from evener.engine.partition.partitioners.by_vertex import contiguous
    >>> contiguous(generate.star(6), np.array([0.5, 0.5])).tolist()
    [0, 1, 1, 1, 1, 1]
    """
    n, m, k = graph.num_vertices, graph.num_edges, len(shares)
    starts = graph._indptr if m else np.arange(n + 1)
    targets = _upper_ends(shares)[:-1] * starts[-1]
    after = np.searchsorted(starts, targets)  # the first that reaches the target, or the one before
    before = np.maximum(after - 1, 0)
    bounds = np.where(targets - starts[before] < starts[after] - targets, before, after)
    if n >= k:  # at least one vertex for each part
        parts = np.arange(1, k)
        bounds = np.maximum.accumulate(np.maximum(bounds, parts) - parts) + parts
        bounds = np.minimum(bounds, n - k + parts)
    sizes = np.diff(bounds, prepend=0, append=n)
    return np.repeat(np.arange(k, dtype=np.int32), sizes)


def by_degree(graph: Graph, shares: np.ndarray, cpu: int, highest: bool, seed: int) -> np.ndarray:
    """The vertices of highest (or lowest) degree to one part, the others at random.

    Part ``cpu`` gets vertices in the order of their degrees until it has its share of the edges.
    Counting finds the degree at which it has, without a sort (TOTEM, section 6.2).

    Examples
    --------
    >>> import numpy as np
    >>> from evener import generate
    >>> from evener.engine.partition.partitioners.by_vertex import by_degree
    >>> by_degree(generate.star(6), np.array([0.3, 0.7]), 0, highest=False, seed=0).tolist()
    [1, 0, 0, 0, 1, 1]
    """
    degrees = graph.degrees
    others = shares.copy()
    others[cpu] = 0
    part_of = random(graph, others / others.sum(), seed)
    chosen = _first_by_degree(degrees, shares[cpu] * graph.num_edges, highest)
    part_of[chosen] = cpu
    return part_of


def _first_by_degree(degrees: np.ndarray, edges: float, highest: bool) -> np.ndarray:
    """Whether each vertex is among the first by degree that have ``edges`` edges."""
    if len(degrees) == 0:
        return np.zeros(0, bool)
    per_degree = np.bincount(degrees)
    values = np.arange(len(per_degree))
    if highest:
        per_degree, values = per_degree[::-1], values[::-1]
    taken = np.cumsum(per_degree * values)
    last = min(int(np.searchsorted(taken, edges)), len(taken) - 1)
    degree = int(values[last])
    chosen = degrees > degree if highest else degrees < degree
    still = edges - (taken[last - 1] if last else 0)
    equal = np.flatnonzero(degrees == degree)
    count = round(still / degree) if degree else 0
    chosen[equal[:count]] = True
    return chosen


def _upper_ends(shares: np.ndarray) -> np.ndarray:
    ends = np.cumsum(shares)
    ends[-1] = 1.0
    return ends


def _chunks(array: np.ndarray) -> int:
    return -(-len(array) // _CHUNK)


@parallel
def _draw(chunk, key, upper_ends, part_of):
    for v in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(part_of))):
        drawn = random_unit(key, np.uint64(v))
        part = 0
        while drawn >= upper_ends[part]:
            part += 1
        part_of[v] = part


@compiled
def _take_turns(weights, turns):
    """Parts gain their weight each turn; the one with most credit takes it and pays for it."""
    total = weights.sum()
    credit = np.zeros_like(weights)
    for turn in range(len(turns)):
        best = 0
        for part in range(len(weights)):
            credit[part] += weights[part]
            if credit[part] > credit[best]:
                best = part
        credit[best] -= total
        turns[turn] = best
