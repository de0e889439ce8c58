"""Summaries of answers by which different libraries can be compared: a few numbers each.

Answers differ in form and in what is arbitrary (parents, labels of components, treatment of
sources). So counts, sums and top vertices are compared instead of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Finding = dict[str, Any]  # numbers by name; for ``top``, a vertex or a set of candidates

_NEAR = 0.99  # share of the highest value that counts as a tie, because of rounding and tolerances


def depths(values: Any) -> Finding:
    """For a search: the number of reached vertices and the sum of their distances.

    A vertex is unreached if its value is negative or as large as a library's infinity.

    Examples
    --------
    >>> from evener.bench.findings import depths
    >>> depths([0, 1, 2, -1])
    {'reached': 3, 'sum': 3.0}
    """
    found = np.asarray(values, dtype=np.float64)
    reached = (found >= 0) & (found < 1e300)
    return {"reached": int(reached.sum()), "sum": float(found[reached].sum())}


def top(values: Any, sources: Sequence[int] = ()) -> Finding:
    """For a ranking: the top vertex that is not a source, since libraries treat those differently.

    Examples
    --------
    >>> from evener.bench.findings import top
    >>> top([5.0, 1.0, 4.0], sources=[0])
    {'top': 2}
    """
    return {"top": int(np.nanargmax(_without(values, sources)))}


def near_top(values: Any, sources: Sequence[int] = ()) -> Finding:
    """Like `top`, with all vertices that another library may rank first.

    Examples
    --------
    >>> from evener.bench.findings import agree, near_top
    >>> agree(near_top([4.0, 1.0, 3.99]), {"top": 2})
    True
    """
    found = _without(values, sources)
    return {"top": set(np.flatnonzero(found >= _NEAR * np.nanmax(found)).tolist())}


def _without(values: Any, sources: Sequence[int]) -> np.ndarray:
    found = np.array(values, dtype=np.float64)
    found[np.asarray(sources, dtype=np.int64)] = -np.inf
    return found


def components(count: Any) -> Finding:
    """For connected components: their number."""
    return {"components": int(count)}


def agree(ours: Finding, theirs: Finding) -> bool | None:
    """Whether two findings agree on all keys that both have; None if they share no key.

    Examples
    --------
    >>> from evener.bench.findings import agree
    >>> agree({"reached": 7, "sum": 21.0}, {"reached": 7}), agree({"reached": 7}, {})
    (True, None)
    """
    shared = ours.keys() & theirs.keys()
    return all(_same(ours[key], theirs[key]) for key in shared) if shared else None


def _same(mine: Any, other: Any) -> bool:
    if isinstance(mine, set):
        return other in mine
    return abs(mine - other) <= 1e-5 * max(1, abs(mine))
