"""A tree of shortest paths, computed from the distances by a pass over all arcs.

Writing parents while relaxing would race, and would make every run take half as long again. First,
each vertex gets the smallest source index over *tight* arcs (distance of the source + weight = own
distance) from strictly nearer vertices. Then, level by level, vertices without a parent get one
over tight arcs from vertices of equal distance, which occur with zero weights and with float
weights too small to change a sum. One pass for both could close a cycle. The result is the same
tree in every run.

Encoding: ``parent`` is an index, -1 at a source and where unreached.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import float64, int32

from evener.algorithms.arguments import SomeLabels, positive_spread
from evener.device import atomic
from evener.engine.run import run
from evener.graph.csr import Graph
from evener.programs import DISTANCE, VERTEX, Field, Param, Program, Scalar, Vertex, functor
from evener.programs.kinds import Loop
from evener.programs.stages import advance, filter, reduce, repeat

NOT_ADOPTED = 2**31 - 1


class Parents(Program):
    """Parents for positive integer weights: no tight arc joins vertices of equal distance."""

    repeatable = True
    distance = Field(DISTANCE, merge="min")
    parent = Field(VERTEX, merge="min", missing=-1)

    @functor
    def adopt(src, dst, edge, s):
        if s.distance[src] >= s.distance[dst]:  # or src is not reached
            return False
        # A difference, since an infinite weight must not be tight to an unreached vertex.
        if s.distance[src] + s.weight[edge] - s.distance[dst] == 0:
            atomic.min(s.parent, dst, s.id[src])
        return False

    def start(self, distances, source: Vertex):
        self.distance[:] = distances

    loop: Loop = advance(adopt, over="all")


class LevelParents(Parents):
    """Parents for any weights: tight arcs may join vertices of equal distance."""

    steps = Field(int32, fill=NOT_ADOPTED, merge="min")  # level arcs since the last strict one
    parent = Field(VERTEX, merge="min", follows=steps, missing=-1)
    horizon = Param(float64, 2.0**63)  # unreached vertices have at least this distance
    orphans = Scalar(int32, "max")

    @functor
    def adopt(src, dst, edge, s):
        if s.distance[src] >= s.distance[dst]:
            return False
        if s.distance[src] + s.weight[edge] - s.distance[dst] == 0:
            atomic.min(s.steps, dst, 0)
            atomic.min(s.parent, dst, s.id[src])
        return False

    @functor
    def is_orphan(v, s):
        return 1 if s.steps[v] == NOT_ADOPTED and s.distance[v] < s.horizon else 0

    @functor
    def may_adopt(v, s):
        return s.orphans > 0 and s.steps[v] == 0

    @functor
    def adopt_level(src, dst, edge, s):
        steps = s.steps[src] + 1
        if (
            s.distance[src] != s.distance[dst]
            or s.distance[src] + s.weight[edge] != s.distance[dst]
        ):
            return False
        before = atomic.min(s.steps, dst, steps)
        if before >= steps:  # equal: another vertex of this level came first, the smaller wins
            atomic.min(s.parent, dst, s.id[src])
        return before > steps

    def start(self, distances, source: Vertex):
        self.distance[:] = distances
        self.steps[source] = 0

    loop = (
        advance(adopt, over="all"),
        reduce(is_orphan, "max", into=orphans, over="all"),
        filter(may_adopt, over="all"),
        repeat(advance(adopt_level)),
    )


def parents(
    graph: Graph, source: SomeLabels, distance: np.ndarray, *, device: str = "auto", **options: Any
) -> np.ndarray:
    """The parent of every vertex, from the array of its program's field ``distance``.

    Examples
    --------
    >>> import numpy as np
    >>> from evener import Graph
    >>> from evener.algorithms.parents import parents
    >>> g = Graph.from_edges([0, 0, 1], [1, 2, 2], [3, 9, 4])
    >>> parents(g, 0, np.array([0, 3, 7], np.int32), device="python").tolist()
    [-1, 0, 1]
    """
    parameters: dict[str, Any] = {"source": source, "distances": distance}
    is_whole = distance.dtype.kind == "i"
    program: type[Program] = Parents
    if not is_whole or positive_spread(graph, "sssp").low == 0:
        program = LevelParents
        parameters["horizon"] = float(np.iinfo(distance.dtype).max) if is_whole else math.inf
    return run(program, graph, device=device, **parameters, **options).parent
