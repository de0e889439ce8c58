"""Smallest, mean and largest weight of a graph, computed once."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from evener.graph.csr import Graph


class Spread(NamedTuple):
    """Smallest, mean and largest weight; NaN if one weight is NaN."""

    low: float
    mean: float
    high: float


# A pass over all weights costs as much as a tenth of SSSP, and a graph does not change.
_spreads: weakref.WeakKeyDictionary[Graph, Spread] = weakref.WeakKeyDictionary()


def spread_of(graph: Graph) -> Spread:
    """Return the spread of the weights; all zeros for a graph without weights.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.graph.spread import spread_of
    >>> tuple(map(float, spread_of(ev.Graph.from_edges([0, 1], [1, 2], [3, 9]))))
    (3.0, 6.0, 9.0)
    """
    found = _spreads.get(graph)
    if found is None:
        w = graph.weights
        found = Spread(0, 0, 0)
        if w is not None and len(w):
            with np.errstate(invalid="ignore"):  # weights of both infinities have no mean
                found = Spread(w.min(), w.mean(dtype=float), w.max())
        _spreads[graph] = found
    return found


def distance_dtype(graph: Graph) -> np.dtype:
    """The dtype in which path lengths are summed.

    Integers take 32 bits if a path through all vertices, plus one arc, cannot overflow them.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.graph.spread import distance_dtype
    >>> [distance_dtype(ev.Graph.from_edges([0], [1], [w])).name for w in (1 << 29, 1 << 30, 0.5)]
    ['int32', 'int64', 'float64']
    """
    weights = graph._weights
    if weights is not None and weights.dtype.kind == "f":
        return weights.dtype
    low, _, high = spread_of(graph)
    fits = weights is not None and low >= 0 and graph.num_vertices * int(high) < 2**31 - 1
    return np.dtype(np.int32 if fits else np.int64)
