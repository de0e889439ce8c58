"""The verifier of `evener.algorithms.pagerank`."""

from __future__ import annotations

from typing import Any

import numpy as np

from evener.algorithms.arguments import jump_chances
from evener.graph.csr import Graph


def verify(
    graph: Graph,
    result: Any,
    *,
    damping: float = 0.85,
    tol: float = 1e-6,
    personalization: Any = None,
    weighted: bool = False,
) -> None:
    """Assert that a converged result is a PageRank.

    1. No rank is negative, and the ranks sum to 1.
    2. Another iteration, in plain NumPy, moves less rank than ``tol`` (and rounding) allows. An
       iteration contracts by ``damping``, so the ranks are correct within tol ÷ (1 - damping).
    """
    rank = np.asarray(result.rank, dtype=np.float64)
    if len(rank) == 0:
        return
    slack = tol + (1e-5 if np.asarray(result.rank).dtype == np.float32 else 1e-12)
    assert (rank >= 0).all(), "a rank is negative or NaN"
    assert abs(rank.sum() - 1) <= slack, "the ranks do not sum to 1"
    n = graph.num_vertices
    uniform = np.full(n, 1 / n)
    jumps = uniform if personalization is None else jump_chances(graph, personalization)
    carried = graph.weights if weighted else np.ones(graph.num_edges)
    src, dst = graph._sources(), graph.indices
    out = np.bincount(src, weights=carried, minlength=n)
    share = np.divide(rank, out, out=np.zeros(n), where=out > 0)
    total = np.bincount(dst, weights=share[src] * carried, minlength=n)
    after = ((1 - damping) + damping * rank[out == 0].sum()) * jumps + damping * total
    assert np.abs(after - rank).sum() <= slack, "another iteration moves more than tol"
