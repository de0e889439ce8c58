"""Shortest distances from the nearest of one or more sources, and a tree of shortest paths.

Method: delta-stepping (Meyer, Sanders: Δ-stepping: a parallelizable shortest path algorithm,
J. Algorithms 2003). Vertices are relaxed in buckets of width ``delta``, nearest first.

Parents are found from the distances, when they are first asked for: a pass over all arcs, half as
much work again, and writing them while relaxing would race. First the smallest source index over
*tight* arcs (distance + weight = distance) from a strictly nearer vertex, then, level by level,
over tight arcs between vertices of equal distance, which zero weights make, and float weights too
small to change a sum. Taking both at once could close a circle. Every run therefore gives the
same tree.

Encoding: distances add up in the graph's accumulator dtype (64 bits for integer weights) and are
exported as floats, infinite where no path leads; ``parent`` is an index, -1 at a source and where
unreached.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float64, int32, int64

from evener.algorithms.arguments import (
    Label,
    SomeLabels,
    number,
    one_vertex,
    positive_spread,
    require_options,
)
from evener.algorithms.outcome import only
from evener.device import atomic
from evener.engine.devices import choose_devices
from evener.engine.run import run
from evener.errors import GraphError, shown
from evener.graph.csr import Graph
from evener.programs import VERTEX, WEIGHT, Field, Param, Program, Scalar, Vertex, functor
from evener.programs.kinds import Loop
from evener.programs.stages import advance, compute, filter, nearest, reduce, repeat

if TYPE_CHECKING:
    from evener.engine.results.result import Result

NOT_ADOPTED = 2**31 - 1
ARCS_A_BUCKET = {"cuda": 256}  # see `bucket_width`
FEW_ARCS = 12  # on other devices


class SSSP(Program):
    """Shortest distances."""

    repeatable = True
    distance = Field(WEIGHT, merge="min", missing=math.inf)
    delta = Param(float64, 1.0)

    @functor
    def relax(src, dst, edge, s):
        reach = s.distance[src] + s.weight[edge]
        return atomic.min(s.distance, dst, reach) > reach

    def start(self, source: Vertex):
        self.distance[source] = 0
        return [source]

    loop: Loop = repeat(advance(relax), order=nearest(distance, delta))


class NarrowSSSP(SSSP):
    """The same in 32 bits, for integer weights so small that no path can overflow them."""

    distance = Field(int32, merge="min", missing=math.inf)


class CutoffSSSP(SSSP):
    """The same up to a distance."""

    cutoff = Param(float64, math.inf)

    @functor
    def relax(src, dst, edge, s):
        reach = s.distance[src] + s.weight[edge]
        if reach > s.cutoff:
            return False
        return atomic.min(s.distance, dst, reach) > reach


class TargetSSSP(CutoffSSSP):
    """The same up to the distance of one vertex, the best known of which bounds the search."""

    repeatable = False  # what lies beyond the bound depends on when that was found
    goal = Param(int64, 0)
    bound = Field(WEIGHT, merge="min", replicated=True)  # only that of the goal is ever lowered

    @functor
    def relax(src, dst, edge, s):
        reach = s.distance[src] + s.weight[edge]
        if reach > s.cutoff or reach > s.bound[s.goal]:
            return False
        if s.id[dst] == s.goal:
            atomic.min(s.bound, s.goal, reach)
        return atomic.min(s.distance, dst, reach) > reach

    @functor
    def forget(v, s):
        if s.distance[v] > s.bound[s.goal]:  # found before the bound was
            s.distance[v] = s.bound[s.id[v]]  # what an unreached vertex has

    loop = (
        repeat(advance(relax), order=nearest(SSSP.distance, SSSP.delta)),
        compute(forget, over="all"),
    )


class Parents(Program):
    """Parents over positive integer weights: no two ends of a tight arc are level."""

    repeatable = True
    distance = Field(WEIGHT, merge="min")
    parent = Field(VERTEX, merge="min", missing=-1)

    @functor
    def adopt(src, dst, edge, s):
        if s.distance[src] >= s.distance[dst]:  # or src is not reached
            return False
        # A difference, since an infinite weight must not be tight to an unreached vertex.
        if s.distance[src] + s.weight[edge] - s.distance[dst] == 0:
            atomic.min(s.parent, dst, s.id[src])
        return False

    def start(self, found, source: Vertex):
        self.distance[:] = found

    loop: Loop = advance(adopt, over="all")


class LevelParents(Parents):
    """Parents for any weights: tight arcs may join vertices of equal distance."""

    steps = Field(int32, fill=NOT_ADOPTED, merge="min")  # level arcs since the last strict one
    parent = Field(VERTEX, merge="min", follows=steps, missing=-1)
    horizon = Param(float64, 2.0**63)  # less than this is reached; infinity for float weights
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

    def start(self, found, source: Vertex):
        self.distance[:] = found
        self.steps[source] = 0

    loop = (
        advance(adopt, over="all"),
        reduce(is_orphan, "max", into=orphans, over="all"),
        filter(may_adopt, over="all"),
        repeat(advance(adopt_level)),
    )


def sssp(
    graph: Graph,
    source: SomeLabels,
    *,
    delta: float | str = "auto",
    target: Label = None,
    cutoff: float | None = None,
    device: str = "auto",
    **options: Any,
) -> Result:
    """Shortest distances from the nearest source to every vertex, along the arcs.

    Parameters
    ----------
    graph
        A graph with weights, none of them negative.
    source
        A label, or several.
    delta
        The width of a bucket, above 0; ``"auto"`` takes `bucket_width`. It changes the time, not
        the answer.
    target
        A label at whose distance the search stops: vertices farther away are left unreached.
    cutoff
        The largest distance; vertices farther away are left unreached.
    device, **options
        Where and how to run, as in `evener.run`.

    Returns
    -------
    Result
        ``distance`` (float, infinite where unreached) and ``parent`` (an index, -1 at a source
        and where unreached; found when first asked for).

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms import sssp
    >>> g = Graph.from_edges([0, 0, 1], [1, 2, 2], [3, 9, 4], num_vertices=4)
    >>> sssp(g, 0, device="python").distance.tolist()
    [0.0, 3.0, 7.0, inf]
    """
    require_options(sssp, options)
    spread = positive_spread(graph, "sssp")
    assert graph.weights is not None
    auto = isinstance(delta, str) and delta == "auto"
    width = bucket_width(graph, device) if auto else number(delta, "delta", 0)
    if not 0 < width < math.inf:
        raise GraphError(f"delta is {shown(delta)}; it must be above 0 and finite.")
    integers = graph.weights.dtype.kind == "i"
    parameters: dict[str, Any] = {"source": source, "delta": width}
    program: type[Program] = SSSP
    if integers and graph.num_vertices * int(spread.high) < 2**31 - 1:
        program = NarrowSSSP
    if cutoff is not None:
        program, parameters["cutoff"] = CutoffSSSP, number(cutoff, "cutoff", 0)
    if target is not None:
        program, parameters["goal"] = TargetSSSP, one_vertex(graph, target, "target")
        if np.any(np.equal(graph.index_of(source), parameters["goal"])):
            program, parameters["cutoff"] = CutoffSSSP, 0.0
            del parameters["goal"]
    result = only(run(program, graph, device=device, **parameters, **options), "distance")
    distance = result._fields.maker("distance").array

    def parents() -> np.ndarray:
        given: dict[str, Any] = {"source": source, "found": distance}
        if distance.dtype == int32:  # what is unreached must stay so in 64 bits
            given["found"] = distance.astype(int64)
            given["found"][distance == np.iinfo(int32).max] = np.iinfo(int64).max
        finder: type[Program] = Parents
        if not integers or spread.low == 0:
            finder, given["horizon"] = LevelParents, 2.0**63 if integers else math.inf
        return run(finder, graph, device=device, **given, **options).parent

    return result._set_field("parent", parents, holds_vertices=True)


def bucket_width(graph: Graph, device: str = "auto") -> float:
    """The width of a bucket that suits a graph: mean weight × 12 ÷ square of the mean degree.

    A vertex should find about as many arcs within its own bucket as keep the processors busy,
    but on a graph of high degree they are busy anyway, and each vertex relaxed too early is
    relaxed again with its whole list: Meyer and Sanders show mean weight ÷ degree to bound that.
    On lattices and roads the number of buckets, hence of barriers, costs more than relaxing
    twice, so the width grows by another constant ÷ degree. For GPUs the constant is 256, which
    was fastest on R-MAT, uniform graphs and lattices;
    threads, which fuse small buckets, are fastest with 12 on R-MAT, uniform graphs and lattices.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.algorithms.sssp import bucket_width
    >>> 50 < bucket_width(ev.generate.grid(20, 20, weights=(1, 255), seed=1), "cpu") < 200
    True
    """
    kind = choose_devices(device)[0][0].kind
    arcs = ARCS_A_BUCKET.get(kind, FEW_ARCS)
    spread = positive_spread(graph, "sssp")
    degree = max(1.0, graph.num_edges / max(1, graph.num_vertices))
    width = float(spread.mean) * arcs / degree**2
    if not 0 < width < math.inf:  # all weights are 0, or one is infinite
        return 1.0
    assert graph.weights is not None
    return max(1.0, round(width)) if graph.weights.dtype.kind == "i" else width


def verify(graph: Graph, result: Any, source: Any, cutoff: float | None = None) -> None:
    """Assert that a result holds shortest distances and a tree of them, whichever it chose.

    1. Sources have distance 0 and no parent; no distance is negative.
    2. No arc offers a shorter way (other than beyond the ``cutoff``).
    3. Every other reached vertex has a parent with a tight arc from it.
    4. The parents of every reached vertex lead to a source: with 2 and 3 this makes every distance
       the least possible.
    5. An unreached vertex has no parent.

    Sums of float weights may differ by rounding: distances count as equal within 1e-5 of their
    size in 32 bits and 1e-12 in 64.
    """
    distance = np.asarray(result.distance, dtype=np.float64)
    parent = np.asarray(result.parent)
    assert graph.weights is not None
    src, dst, weight = graph._sources(), graph.indices, graph.weights.astype(np.float64)
    near = 1e-5 if graph.weights.dtype == np.float32 else 1e-12
    sources = np.unique(np.atleast_1d(graph.index_of(source)))
    assert (distance[sources] == 0).all(), "a source has a distance"
    assert (parent[sources] == -1).all(), "a source has a parent"
    assert (distance >= 0).all(), "a distance is negative or not-a-number"

    offer = distance[src] + weight
    counts = offer < np.inf if cutoff is None else offer <= cutoff
    limit = offer[counts] * (1 + near)
    assert (distance[dst[counts]] <= limit).all(), "an arc offers a shorter way"
    reached = distance < np.inf
    assert cutoff is None or (distance[reached] <= cutoff).all(), "a distance is over the cutoff"

    children = np.setdiff1d(np.flatnonzero(reached), sources)
    assert (parent[children] >= 0).all(), "a reached vertex has no parent"
    by = (parent[dst] == src) & reached[src] & reached[dst]
    tight = np.abs(offer[by] - distance[dst[by]]) <= near * distance[dst[by]]
    assert np.isin(children, dst[by][tight]).all(), "no tight arc leads from a parent"
    ancestor = np.where(parent < 0, np.arange(len(parent)), parent)
    for _ in range(len(parent).bit_length()):  # jump twice as far each time
        ancestor = ancestor[ancestor]
    assert np.isin(ancestor[reached], sources).all(), "parents lead in a circle"
    assert (parent[~reached] == -1).all(), "an unreached vertex has a parent"
