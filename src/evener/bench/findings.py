"""What can be compared between answers of different libraries: a few numbers of each.

Answers differ in form and in what they leave open (parents, labels of components, how sources
count), so counts, sums and the first of a ranking are compared, not arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Finding = dict[str, Any]  # a number by name; for ``top``, a vertex or the set of those in question

_NEAR = 0.99  # of the highest value: those who tie with it, but for rounding and stopping early


def depths(values: Any) -> Finding:
    """Of a search: how many it reached, and the sum of their distances.

    Unreached are those below 0, or beyond what any library takes for infinite.

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
    """Of a ranking: the first vertex that is no source; libraries count sources differently.

    Examples
    --------
    >>> from evener.bench.findings import top
    >>> top([5.0, 1.0, 4.0], sources=[0])
    {'top': 2}
    """
    return {"top": int(np.nanargmax(_without(values, sources)))}


def near_top(values: Any, sources: Sequence[int] = ()) -> Finding:
    """The same with all vertices that another library may as well find to be the first.

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
    """Of connected components: their number."""
    return {"components": int(count)}


def agree(ours: Finding, theirs: Finding) -> bool | None:
    """Whether two findings are the same as far as both tell; None if they share nothing.

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
