"""Shortest distances from the nearest of one or more sources, and a tree of shortest paths.

Method: delta-stepping (Meyer, Sanders: Δ-stepping: a parallelizable shortest path algorithm,
J. Algorithms 2003). Vertices are relaxed in buckets of width ``delta``, nearest first.

Parents are computed from the distances on first access (`evener.algorithms.parents`).

Encoding: integer weights are added in 64 bits, or in 32 if they suffice. Distances are exported as
floats, infinite where unreached; ``parent`` is an index, -1 at a source and where unreached.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float64, int64

from evener.algorithms.arguments import (
    Label,
    SomeLabels,
    number,
    one_vertex,
    positive_spread,
    require_options,
)
from evener.algorithms.outcome import keep_only
from evener.algorithms.parents import parents
from evener.device import atomic
from evener.engine.run import run
from evener.errors import GraphError, short_repr
from evener.graph.csr import Graph
from evener.programs import DISTANCE, Field, Param, Program, Vertex, functor
from evener.programs.kinds import Loop
from evener.programs.stages import advance, compute, nearest, repeat

if TYPE_CHECKING:
    from evener.engine.results.result import Result


class SSSP(Program):
    """Shortest distances."""

    repeatable = True
    distance = Field(DISTANCE, merge="min", missing=math.inf)
    delta = Param(float64, 1.0)

    @functor
    def relax(src, dst, edge, s):
        reach = s.distance[src] + s.weight[edge]
        return atomic.min(s.distance, dst, reach) > reach

    def start(self, source: Vertex):
        self.distance[source] = 0
        return [source]

    loop: Loop = repeat(advance(relax), order=nearest(distance, delta))


class CutoffSSSP(SSSP):
    """Shortest distances up to a cutoff."""

    cutoff = Param(float64, math.inf)

    @functor
    def relax(src, dst, edge, s):
        reach = s.distance[src] + s.weight[edge]
        if reach > s.cutoff:
            return False
        return atomic.min(s.distance, dst, reach) > reach


class TargetSSSP(CutoffSSSP):
    """Shortest distances up to that of one vertex, whose best known distance bounds the search."""

    repeatable = False  # values beyond the bound depend on when it was found
    goal = Param(int64, 0)
    bound = Field(DISTANCE, merge="min", replicated=True)  # lowered only at the goal

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
        The bucket width, above 0; ``"auto"`` chooses one for the graph and the device. It affects
        the time, not the answer.
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
        and where unreached; computed on first access).

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms import sssp
    >>> g = Graph.from_edges([0, 0, 1], [1, 2, 2], [3, 9, 4], num_vertices=4)
    >>> sssp(g, 0, device="python").distance.tolist()
    [0.0, 3.0, 7.0, inf]
    """
    require_options(sssp, options)
    positive_spread(graph, "sssp")
    parameters: dict[str, Any] = {"source": source, "delta": delta}
    if not (isinstance(delta, str) and delta == "auto"):
        parameters["delta"] = width = number(delta, "delta", 0)
        if not 0 < width < math.inf:
            raise GraphError(f"delta is {short_repr(delta)}; it must be above 0 and finite.")
    program: type[Program] = SSSP
    if cutoff is not None:
        program, parameters["cutoff"] = CutoffSSSP, number(cutoff, "cutoff", 0)
    if target is not None:
        program, parameters["goal"] = TargetSSSP, one_vertex(graph, target, "target")
        if np.any(np.equal(graph.index_of(source), parameters["goal"])):
            program, parameters["cutoff"] = CutoffSSSP, 0.0
            del parameters["goal"]
    result = keep_only(run(program, graph, device=device, **parameters, **options), "distance")
    distance = result._fields.maker("distance").array

    def parent() -> np.ndarray:
        return parents(graph, source, distance, device=device, **options)

    return result._set_field("parent", parent, holds_vertices=True)


def verify(graph: Graph, result: Any, source: Any, cutoff: float | None = None) -> None:
    """Assert that a result holds shortest distances and any tree of shortest paths.

    1. Sources have distance 0 and no parent; no distance is negative.
    2. No arc offers a shorter path (except beyond the ``cutoff``).
    3. Every other reached vertex has a parent with a tight arc from it.
    4. The parents of every reached vertex lead to a source; with 2 and 3 this makes every distance
       the least possible.
    5. An unreached vertex has no parent.

    Sums of float weights may differ by rounding: distances count as equal within a relative
    difference of 1e-5 in 32 bits and 1e-12 in 64.
    """
    distance = np.asarray(result.distance, dtype=np.float64)
    parent = np.asarray(result.parent)
    assert graph.weights is not None
    src, dst, weight = graph._sources(), graph.indices, graph.weights.astype(np.float64)
    near = 1e-5 if graph.weights.dtype == np.float32 else 1e-12
    sources = np.unique(np.atleast_1d(graph.index_of(source)))
    assert (distance[sources] == 0).all(), "a source has a distance"
    assert (parent[sources] == -1).all(), "a source has a parent"
    assert (distance >= 0).all(), "a distance is negative or NaN"

    offer = distance[src] + weight
    counts = offer < np.inf if cutoff is None else offer <= cutoff
    limit = offer[counts] * (1 + near)
    assert (distance[dst[counts]] <= limit).all(), "an arc offers a shorter path"
    reached = distance < np.inf
    assert cutoff is None or (distance[reached] <= cutoff).all(), "a distance is over the cutoff"

    children = np.setdiff1d(np.flatnonzero(reached), sources)
    assert (parent[children] >= 0).all(), "a reached vertex has no parent"
    by = (parent[dst] == src) & reached[src] & reached[dst]
    tight = np.abs(offer[by] - distance[dst[by]]) <= near * distance[dst[by]]
    assert np.isin(children, dst[by][tight]).all(), "no tight arc leads from a parent"
    ancestor = np.where(parent < 0, np.arange(len(parent)), parent)
    for _ in range(len(parent).bit_length()):  # pointer jumping
        ancestor = ancestor[ancestor]
    assert np.isin(ancestor[reached], sources).all(), "parents form a cycle"
    assert (parent[~reached] == -1).all(), "an unreached vertex has a parent"
