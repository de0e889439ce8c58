"""The width of the buckets of an order by distance, if the engine chooses it."""

from __future__ import annotations

import math

from evener.graph.csr import Graph
from evener.graph.spread import spread_of


def bucket_width(graph: Graph, arcs: int = 12) -> float:
    """The width for a graph and a kind of device: mean weight × arcs ÷ mean degree².

    A vertex should find about as many arcs within its own bucket as keep the processors busy.
    Graphs of high degree keep them busy anyway, and a vertex relaxed too early is relaxed again
    with its whole list: mean weight ÷ degree bounds that (Meyer and Sanders). On lattices and roads
    the number of buckets, hence of barriers, costs more than relaxing twice, so the width grows by
    another constant ÷ degree: the ``arcs`` of a bucket. On R-MAT, uniform graphs and lattices 256
    was fastest for GPUs, and 12 for threads, which fuse small buckets.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.engine.bucket_width import bucket_width
    >>> 50 < bucket_width(ev.generate.grid(20, 20, weights=(1, 255), seed=1)) < 200
    True
    """
    degree = max(1.0, graph.num_edges / max(1, graph.num_vertices))
    width = float(spread_of(graph).mean) * arcs / degree**2
    if not 0 < width < math.inf:  # all weights are 0, or one is infinite
        return 1.0
    assert graph.weights is not None
    return max(1.0, round(width)) if graph.weights.dtype.kind == "i" else width
