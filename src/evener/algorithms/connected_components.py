"""Connected components, weak ones if the graph is directed.

Method: Afforest (Sutton, Ben-Nun, Barak: Optimizing parallel graph connectivity computation via
subgraph sampling, IPDPS 2018). Every vertex points to a vertex of its component, initially itself.
An edge *hooks* the higher of two roots onto the lower; *compressing* makes every vertex point to
its root. First, two edges of each vertex are hooked, which joins most of the graph into one giant
component. The other edges then matter only if an end is outside it, so most neighbour lists are
never read. The giant is taken to be the component of a sampled vertex of the largest degree; among
several, that with the lowest root, which has won most hooks. One reduction finds it, and any choice
is correct.

A list may be skipped only if its edges are also in another list, so a directed graph needs the
program that reads all lists. The last step repeats until no edge hooks: when several devices merge
their replicas, two hooks of one root may collide; the lower one survives, and the edge of the other
hooks again in the next round.

Encoding: ``component`` is the smallest index in the component.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import int64

from evener.algorithms.arguments import require_options
from evener.algorithms.outcome import keep_only
from evener.device import atomic
from evener.engine.run import run
from evener.graph.csr import Graph, require_graph
from evener.programs import ID, VERTEX, Field, Program, Scalar, functor
from evener.programs.kinds import Loop
from evener.programs.stages import compute, edges, reduce, repeat

if TYPE_CHECKING:
    from evener.engine.results.result import Result

LABEL_BITS = 33  # low bits of the reduced key, for the component; the degree is above them
LABEL = (1 << LABEL_BITS) - 1
SAMPLES = 1024


class DirectedComponents(Program):
    """Components over all arcs."""

    repeatable = True
    component = Field(VERTEX, fill=ID, merge="min", replicated=True)

    @functor
    def hook(src, dst, edge, s):
        a = s.component[s.id[src]]
        b = s.component[s.id[dst]]
        while a != b:
            high = max(a, b)
            low = min(a, b)
            above = s.component[high]
            if above == high:  # look before: the line of a busy root then stays with all readers
                above = atomic.cas(s.component, high, high, low)
                if above == high:
                    return True  # high was a root and now points to low
            if above == low:
                return False  # it points there already
            a = s.component[above]  # high was hooked elsewhere: climb and try again
            b = s.component[low]
        return False

    @functor
    def compress(v, s):
        me = s.id[v]
        root = s.component[me]
        while root != s.component[root]:
            root = s.component[root]
        s.component[me] = root

    @functor
    def unchanged(s):
        return not s.changed

    loop: Loop = repeat(edges(hook), compute(compress, over="all"), until=unchanged)


class Components(DirectedComponents):
    """Components of an undirected graph; most edges within the giant component are skipped."""

    giant = Scalar(int64, "max")

    @functor
    def by_degree(v, s):
        return (int64(s.degree[v]) << LABEL_BITS) | (LABEL - int64(s.component[s.id[v]]))

    @functor
    def outside(src, s):
        return s.component[s.id[src]] != LABEL - (s.giant & LABEL)

    hook, compress = DirectedComponents.hook, DirectedComponents.compress

    def start(self):
        step = max(1, self.num_vertices // SAMPLES)
        return np.arange(0, self.num_vertices, step)  # the sample that finds the giant

    loop = (
        edges(hook, neighbours=(0, 1)),
        compute(compress, over="all"),
        edges(hook, neighbours=(1, 2)),
        compute(compress, over="all"),
        reduce(by_degree, "max", into=giant),
        repeat(
            edges(hook, where=outside),
            compute(compress, over="all"),
            until=DirectedComponents.unchanged,
        ),
    )


def connected_components(graph: Graph, *, device: str = "auto", **options: Any) -> Result:
    """The connected component of every vertex; the weak one in a directed graph.

    Parameters
    ----------
    graph
        The graph; weights and the direction of arcs are ignored.
    device, **options
        Where and how to run, as in `evener.run`.

    Returns
    -------
    Result
        ``component``, the smallest index in the component of each vertex, and ``count``, the
        number of components.

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms import connected_components
    >>> r = connected_components(Graph.from_edges([1, 3], [2, 4]), device="python")
    >>> r.component.tolist(), r.count
    ([0, 1, 1, 3, 3], 3)
    """
    require_options(connected_components, options)
    require_graph(graph)
    program = DirectedComponents if graph.directed else Components
    result = run(program, graph, device=device, **options)

    def count() -> int:
        own = np.arange(graph.num_vertices, dtype=result.component.dtype, like=result.component)
        return int(np.count_nonzero(result.component == own))

    return keep_only(result, "component")._attach(count=count)


def verify(graph: Graph, result: Any) -> None:
    """Assert that a result labels the (weakly) connected components, with any labels.

    1. The ends of every arc have the same label.
    2. There are as many labels as components, by a search over the arcs in both directions; with 1
       this makes the labels distinguish components.
    3. ``count``, if the result has it, is that number.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components as search

    component = np.asarray(result.component)
    src, dst, n = graph._sources(), graph.indices, graph.num_vertices
    assert len(component) == n, "there is not one label per vertex"
    assert (component[src] == component[dst]).all(), "an arc joins two labels"
    ones = np.ones(len(dst), np.int8)
    count = search(csr_array((ones, (src, dst)), shape=(n, n)), directed=False)[0] if n else 0
    assert len(np.unique(component)) == count, "labels and components differ in number"
    assert getattr(result, "count", count) == count, "count is not the number of components"
