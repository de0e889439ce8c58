"""Breadth-first search: hops from the nearest of one or more sources, and a tree of parents.

Method: one level per superstep. The operator chooses between pushing from the frontier and pulling
to the unreached vertices (Beamer, Asanović, Patterson: Direction-optimizing breadth-first search,
SC 2012); the program is independent of the choice.

Encoding: ``depth`` is -1 if a vertex is unreached; ``parent`` is the index of a neighbour one level
nearer, -1 at a source and where unreached. If there are several such neighbours, the choice may
differ between runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import int32, int64

from evener.algorithms.arguments import Label, SomeLabels, one_vertex, require_options, whole
from evener.algorithms.outcome import keep_only
from evener.device import atomic
from evener.engine.run import run
from evener.graph.csr import Graph, require_graph
from evener.programs import VERTEX, Field, Param, Program, Scalar, Vertex, functor
from evener.programs.stages import advance, reduce, repeat

if TYPE_CHECKING:
    from evener.engine.results.result import Result

UNREACHED = 2**31 - 1


class BFS(Program):
    """Hops from the sources, one level per superstep."""

    depth = Field(int32, fill=UNREACHED, merge="min", missing=-1)
    parent = Field(VERTEX, fill=-1, follows=depth)

    @functor
    def unreached(dst, s):
        return s.depth[dst] == UNREACHED

    @functor
    def reach(src, dst, edge, s):
        hops = s.depth[src] + 1
        if atomic.min(s.depth, dst, hops) > hops:
            s.parent[dst] = s.id[src]  # only the thread that lowered it writes
            return True  # dst joins the next frontier
        return False

    def start(self, source: Vertex):
        self.depth[source] = 0
        return [source]  # the first frontier

    loop = repeat(advance(reach, where=unreached))  # until the frontier is empty


class BoundedBFS(BFS):
    """A BFS that stops at a depth or at the level of one vertex."""

    goal = Param(int64, -1)
    limit = Param(int64, UNREACHED)
    arrived = Scalar(int32, "max")

    @functor
    def is_goal(v, s):
        return 1 if s.id[v] == s.goal else 0

    @functor
    def has_arrived(s):
        return s.arrived > 0

    loop = repeat(
        advance(BFS.reach, where=BFS.unreached),
        reduce(is_goal, "max", into=arrived),
        until=has_arrived,
        max_supersteps=limit,
    )


def bfs(
    graph: Graph,
    source: SomeLabels,
    *,
    target: Label = None,
    cutoff: int | None = None,
    device: str = "auto",
    **options: Any,
) -> Result:
    """Hops from the nearest source to every vertex, along the arcs.

    Parameters
    ----------
    graph
        The graph; weights are ignored.
    source
        A label, or several.
    target
        A label at whose level the search stops: vertices farther away are left unreached.
    cutoff
        The largest depth; vertices farther away are left unreached.
    device, **options
        Where and how to run, as in `evener.run`.

    Returns
    -------
    Result
        ``depth`` (-1 where unreached) and ``parent`` (an index, -1 at a source and where
        unreached).

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms import bfs
    >>> g = Graph.from_edges([0, 1, 1], [1, 2, 3], num_vertices=5)
    >>> bfs(g, 0, device="python").depth.tolist()
    [0, 1, 2, 2, -1]
    """
    require_options(bfs, options)
    require_graph(graph)
    if target is None and cutoff is None:
        return run(BFS, graph, source=source, device=device, **options)
    limit = UNREACHED if cutoff is None else min(whole(cutoff, "cutoff"), UNREACHED)
    goal = -1 if target is None else one_vertex(graph, target, "target")
    if goal >= 0 and np.any(np.equal(graph.index_of(source), goal)):
        limit = 0
    found = run(BoundedBFS, graph, source=source, goal=goal, limit=limit, device=device, **options)
    return keep_only(found, "depth", "parent")


def verify(graph: Graph, result: Any, source: Any, cutoff: int | None = None) -> None:
    """Assert that a result is a breadth-first search, with any choice of parents.

    1. Exactly the sources have depth 0, and they have no parent.
    2. No arc skips a level; with 3 this makes every depth the least possible.
    3. Every other reached vertex has a parent one level nearer, with an arc from it.
    4. An unreached vertex has no parent, and no arc leads to it from a reached vertex (except from
       one at the ``cutoff``).
    """
    depth, parent = np.asarray(result.depth), np.asarray(result.parent)
    src, dst = graph._sources(), graph.indices
    sources = np.unique(np.atleast_1d(graph.index_of(source)))
    assert np.array_equal(np.flatnonzero(depth == 0), sources), "a depth of 0 is not at a source"
    assert (parent[sources] == -1).all(), "a source has a parent"

    reached = depth >= 0
    assert (depth[~reached] == -1).all(), "an unreached vertex has another depth than -1"
    inner = reached[src] if cutoff is None else reached[src] & (depth[src] < cutoff)
    assert reached[dst[inner]].all(), "an arc leads from a reached vertex to an unreached one"
    assert (depth[dst[inner]] <= depth[src[inner]] + 1).all(), "an arc skips a level"
    assert cutoff is None or (depth <= cutoff).all(), "a depth is beyond the cutoff"

    children = np.flatnonzero(depth > 0)
    assert (parent[children] >= 0).all(), "a reached vertex has no parent"
    assert (depth[parent[children]] + 1 == depth[children]).all(), "a parent is on another level"
    assert np.isin(children, dst[parent[dst] == src]).all(), "no arc leads from a parent"
    assert (parent[~reached] == -1).all(), "an unreached vertex has a parent"
