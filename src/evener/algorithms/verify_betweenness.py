"""The verifier of `evener.algorithms.betweenness`, and its scaling factors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evener.algorithms.arguments import choose_sources
from evener.graph.csr import Graph


def scales(graph: Graph, k: int | None, normalized: bool) -> tuple[float, float]:
    """Scaling factors for the scores of vertices that were not sources, and of sources."""
    others = graph.num_vertices - 1
    if others < 2:
        return 1.0, 1.0  # all scores are 0
    # Only pairs of other vertices count, so a search from the vertex itself adds nothing.
    whole_score = 1 / (others - 1) if normalized else others / (1 if graph.directed else 2)
    if k is None or k == graph.num_vertices:
        return whole_score / others, whole_score / others
    return whole_score / k, whole_score / (k - 1) if k > 1 else math.nan


def verify(
    graph: Graph, result: Any, *, sources: Any = None, normalized: bool = True, seed: int = 0
) -> None:
    """Assert that a result is the betweenness.

    1. No score is negative.
    2. All scores agree within 1e-7 with Brandes' algorithm, run here one source after another with
       integers of any size and fractions as floats.
    """
    found = np.asarray(result.score)
    chosen = choose_sources(graph, sources, seed)
    general, of_sources = scales(graph, None if sources is None else len(chosen), normalized)
    indptr, indices = graph.indptr.tolist(), graph.indices.tolist()
    score = np.zeros(graph.num_vertices)
    for source in chosen.tolist():
        depth, paths, order = {source: 0}, {source: 1}, [source]
        for v in order:
            for w in indices[indptr[v] : indptr[v + 1]]:
                if w not in depth:
                    depth[w], paths[w] = depth[v] + 1, 0
                    order.append(w)
                if depth[w] == depth[v] + 1:
                    paths[w] += paths[v]
        delta = dict.fromkeys(order, 0.0)
        for v in reversed(order):
            for w in indices[indptr[v] : indptr[v + 1]]:
                if depth[w] == depth[v] + 1:
                    delta[v] += paths[v] / paths[w] * (1 + delta[w])
        for v in order[1:]:
            score[v] += delta[v]
    was_source = np.zeros(graph.num_vertices, bool)
    was_source[chosen] = True
    score *= np.where(was_source, of_sources, general)
    assert not (found < 0).any(), "a score is negative"
    close = np.isclose(found, score, rtol=1e-7, atol=1e-12, equal_nan=True)
    assert close.all(), "a score differs from that of Brandes' algorithm"
