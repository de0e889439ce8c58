"""Betweenness centrality: the share of shortest paths between other vertices through each vertex.

Method: Brandes (A faster algorithm for betweenness centrality, J. Math. Sociology 2001). From each
source a breadth-first search counts the shortest paths σ to every vertex, level by level. Then a
pass back over the levels computes the dependency δ(v) = σ(v) · Σ (1 + δ(w)) / σ(w) over the
neighbours w one level farther. Both sums are gathers, so they need no atomics and only the values
of neighbours. If one source does not occupy the device, several run side by side, each on a copy
of the graph.

Encoding: σ and the coefficient (1 + δ) / σ exceed the range of floats; `packed` encodes them.

Scores are scaled as in NetworkX: divided by the number of pairs if normalized, else halved for
undirected graphs; scores from k of n sources are extrapolated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float64, int32, int64

from evener.algorithms.arguments import SomeLabels, choose_sources, require_options
from evener.algorithms.outcome import keep_only
from evener.algorithms.packed import ONE, exponent_of, fraction_of, pack, plus, product, scaled
from evener.algorithms.verify_betweenness import scales
from evener.algorithms.verify_betweenness import verify as verify
from evener.device import atomic
from evener.engine.run import run
from evener.graph.csr import Graph, require_graph
from evener.programs import Field, Param, Program, functor
from evener.programs.kinds import Loop
from evener.programs.stages import advance, backwards, compute, filter, gather, repeat

if TYPE_CHECKING:
    from evener.engine.results.result import Result

UNREACHED = ELSEWHERE = 2**31 - 1


class Betweenness(Program):
    """Scores of an undirected graph; each round has one source on each copy of the graph."""

    score = Field(float64, merge="sum")
    depth = Field(int32, fill=UNREACHED, merge="min")
    paths = Field(int64)  # σ, encoded
    coefficient = Field(int64)  # (1 + δ) / σ, encoded
    turn = Field(int32, fill=-1)  # the round in which the vertex is the source, here or ELSEWHERE
    scale = Param(float64, 1.0)
    scale_of_sources = Param(float64, 1.0)

    @functor
    def unreached(dst, s):
        return s.depth[dst] == UNREACHED

    @functor
    def reach(src, dst, edge, s):
        hops = s.depth[src] + 1
        return atomic.min(s.depth, dst, hops) > hops

    @functor
    def paths_before(src, dst, edge, s):
        return s.paths[src] if s.depth[src] == s.depth[dst] - 1 else int64(0)

    plus = functor(plus)

    @functor
    def count_paths(v, total, s):
        s.paths[v] = total
        return True

    @functor
    def coefficient_after(src, dst, edge, s):
        return s.coefficient[src] if s.depth[src] - 1 == s.depth[dst] else int64(0)

    @functor
    def depend(v, total, s):
        paths = s.paths[v]
        delta = product(paths, total)
        if s.depth[v] > 0:
            s.score[v] += delta
        s.coefficient[v] = pack((1 + delta) / fraction_of(paths), -exponent_of(paths))
        return True

    @functor
    def reset(v, s):
        source = s.turn[v] == s.superstep + 1
        s.depth[v] = 0 if source else UNREACHED
        s.paths[v] = ONE if source else 0

    @functor
    def is_source(v, s):
        return s.depth[v] == 0

    @functor
    def rescale(v, s):
        s.score[v] *= s.scale if s.turn[v] < 0 else s.scale_of_sources

    def start(self, sources, copies=1):
        n = self.num_vertices // copies
        number = np.arange(len(sources))
        self.turn[(sources + n * np.arange(copies)[:, None]).ravel()] = ELSEWHERE
        at = sources + n * (number % copies)
        self.turn[at] = number // copies
        self.depth[at[:copies]] = 0
        self.paths[at[:copies]] = ONE
        return at[:copies]

    # A level reads only adjacent levels, never itself, so writes may be visible at once.
    counting = repeat(
        advance(reach, where=unreached),
        gather(paths_before, plus, count_paths, asynchronous=True),
        record=True,
    )
    next_source = (compute(reset, over="all"), filter(is_source, over="all"))
    loop: Loop = (
        repeat(
            counting,
            backwards(gather(coefficient_after, plus, depend, asynchronous=True)),
            *next_source,
        ),
        compute(rescale, over="all"),
    )


class DirectedBetweenness(Betweenness):
    """Scores of a directed graph, where neighbours one level farther are found along out-arcs."""

    delta = Field(float64, merge="sum")

    @functor
    def accumulate(src, dst, edge, s):
        if s.depth[dst] - 1 == s.depth[src]:
            atomic.add(s.delta, src, scaled(1 + s.delta[dst], s.paths[src], s.paths[dst]))
        return False

    @functor
    def reset(v, s):
        if s.depth[v] > 0:
            s.score[v] += s.delta[v]
        s.delta[v] = 0.0
        source = s.turn[v] == s.superstep + 1
        s.depth[v] = 0 if source else UNREACHED
        s.paths[v] = ONE if source else 0

    loop = (
        repeat(Betweenness.counting, backwards(advance(accumulate)), *Betweenness.next_source),
        compute(Betweenness.rescale, over="all"),
    )


def betweenness(
    graph: Graph,
    *,
    sources: int | SomeLabels | None = None,
    normalized: bool = True,
    seed: int = 0,
    device: str = "auto",
    **options: Any,
) -> Result:
    """The share of shortest paths between other vertices that pass through each vertex.

    Parameters
    ----------
    graph
        The graph; weights are ignored, and parallel arcs count as different paths.
    sources
        The vertices where paths begin: None for all, a number for that many random ones, or a list
        of labels. With fewer than all, scores are estimates.
    normalized
        Whether to divide by the number of ordered pairs of other vertices, so that scores are from
        0 to 1.
    seed
        Seed for the random choice of sources: a whole number of at least 0.
    device, **options
        Where and how to run, as in `evener.run`.

    Returns
    -------
    Result
        ``score``. A single source has no estimate for itself: its score is NaN.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.algorithms import betweenness
    >>> betweenness(ev.generate.path(4), normalized=False, device="python").score.tolist()
    [0.0, 2.0, 2.0, 0.0]
    """
    require_options(betweenness, options)
    require_graph(graph)
    chosen = choose_sources(graph, sources, seed)
    general, of_sources = scales(graph, None if sources is None else len(chosen), normalized)
    program = DirectedBetweenness if graph.directed else Betweenness
    result = run(
        program, graph, sources=chosen, scale=general, scale_of_sources=of_sources, device=device,
        **{"sources_at_once": max(1, len(chosen)), **options},
    )  # fmt: skip
    return keep_only(result, "score")
