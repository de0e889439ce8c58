"""The verifier of `evener.algorithms.betweenness`, and the factors of its scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evener.algorithms.arguments import choose_sources
from evener.graph.csr import Graph


def scales(graph: Graph, k: int | None, normalized: bool) -> tuple[float, float]:
    """Factors of the scores of vertices that were no source, and of those that were."""
    others = graph.num_vertices - 1
    if others < 2:
        return 1.0, 1.0  # all scores are 0
    # A vertex is between the pairs that it is no end of: a source saw one search less.
    whole_score = 1 / (others - 1) if normalized else others / (1 if graph.directed else 2)
    if k is None or k == graph.num_vertices:
        return whole_score / others, whole_score / others
    return whole_score / k, whole_score / (k - 1) if k > 1 else math.nan


def verify(
    graph: Graph, result: Any, *, sources: Any = None, normalized: bool = True, seed: int = 0
) -> None:
    """Assert that a result is the betweenness.

    1. No score is negative.
    2. All scores are those of Brandes' algorithm, run here with whole numbers of any size and
       fractions in floats, one source after the other, within 1e-7.
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
    assert close.all(), "a score is not the one that Brandes' algorithm gives"
