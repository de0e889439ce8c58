"""Widest paths: the greatest bandwidth at which each vertex can be reached from a source.

The width of a path is its smallest weight (SSWP in Khorasani, Gupta, Bhuyan: Scalable
SIMD-efficient graph processing on GPUs, PACT 2015).

Method: relax the out-arcs of vertices whose width grew, until none grows.

Encoding: widths are floats, infinite at a source and 0 where unreached. They are weights of the
graph, not sums, so 64-bit floats represent them exactly (integers up to 2^53).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float64

from evener.algorithms.arguments import SomeLabels, positive_spread, require_options
from evener.device import atomic
from evener.engine.run import run
from evener.graph.csr import Graph
from evener.programs import Field, Program, Vertex, functor
from evener.programs.stages import advance, repeat

if TYPE_CHECKING:
    from evener.engine.results.result import Result


class SSWP(Program):
    """Widths from the sources."""

    repeatable = True
    width = Field(float64, fill=0.0, merge="max")

    @functor
    def widen(src, dst, edge, s):
        offer = min(s.width[src], float64(s.weight[edge]))
        return atomic.max(s.width, dst, offer) < offer

    def start(self, source: Vertex):
        self.width[source] = math.inf
        return [source]

    loop = repeat(advance(widen))


def sswp(graph: Graph, source: SomeLabels, *, device: str = "auto", **options: Any) -> Result:
    """The width of the widest path from any of the sources to every vertex.

    Parameters
    ----------
    graph
        A graph with weights, none of them negative.
    source
        A label, or several.
    device, **options
        Where and how to run, as in `evener.run`.

    Returns
    -------
    Result
        ``width``, infinite at a source and 0 where unreached.

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms import sswp
    >>> g = Graph.from_edges([0, 0, 1], [1, 2, 2], [9, 3, 4], num_vertices=4)
    >>> sswp(g, 0, device="python").width.tolist()
    [inf, 9.0, 4.0, 0.0]
    """
    require_options(sswp, options)
    positive_spread(graph, "sswp")
    return run(SSWP, graph, source=source, device=device, **options)


def verify(graph: Graph, result: Any, source: Any) -> None:
    """Assert that a result holds the widest paths.

    1. Sources have infinite width, and no width is negative.
    2. No arc offers a greater width.
    3. Every other vertex of positive width is reachable from a source over arcs that offer at least
       its width; with 2 this makes every width the greatest possible.
    """
    width = np.asarray(result.width, dtype=np.float64)
    assert graph.weights is not None
    src, dst = graph._sources(), graph.indices
    sources = np.unique(np.atleast_1d(graph.index_of(source)))
    assert (width[sources] == np.inf).all(), "a source is not infinitely wide"
    assert (width >= 0).all(), "a width is negative or NaN"
    offer = np.minimum(width[src], graph.weights)
    assert (offer <= width[dst]).all(), "an arc offers a greater width"

    grounded = np.zeros(len(width), bool)
    grounded[sources] = True
    by = (offer == width[dst]) & (offer > 0)
    src, dst = src[by], dst[by]
    while True:
        new = dst[grounded[src] & ~grounded[dst]]
        if len(new) == 0:
            break
        grounded[new] = True
    assert grounded[width > 0].all(), "a width does not come from a source"
