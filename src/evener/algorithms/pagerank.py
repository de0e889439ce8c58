"""PageRank: the share of time that a random surfer spends at each vertex.

Method: power iteration over in-edges (Page, Brin, Motwani, Winograd: The PageRank citation
ranking, 1999). The iteration stores the *share* carried by each out-arc of a vertex (rank ÷
out-degree, or ÷ the sum of its weights), so that a gather reads one number per arc, and the rank of
the previous iteration; the final rank, share × out-degree, is computed at the end. Touching fewer
arrays leaves more of the cache for the shares, which are read at random. The rank of dangling
vertices, which have no out-arc, is distributed like the jumps; a graph without such vertices uses
the program without that reduction.

Encoding: ranks sum to 1. The iteration ends once the ranks change by less than ``tol`` in total
(Σ|Δ|), or after ``max_iterations``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float32, float64, int64

from evener.algorithms.arguments import (
    VertexValues,
    jump_chances,
    number,
    positive_spread,
    require_options,
    sums_of_out_weights,
    whole,
)
from evener.algorithms.outcome import keep_only, note_convergence
from evener.algorithms.verify_pagerank import verify as verify
from evener.engine.run import run
from evener.errors import GraphError
from evener.graph.csr import Graph, require_graph
from evener.programs import REAL, Field, Param, Program, Scalar, functor
from evener.programs.kinds import Loop
from evener.programs.stages import compute, gather, reduce, repeat

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from evener.engine.results.result import Result


class PageRank(Program):
    """Ranks of a graph in which every vertex has an out-arc."""

    rank = Field(REAL)  # of the previous iteration, until the loop ends
    share = Field(REAL)  # the rank carried by each out-arc
    damping = Param(REAL, 0.85)
    tol = Param(float64, 1e-6)
    max_iterations = Param(int64, 100)
    change = Scalar(float64, "sum")

    @functor
    def divisor(v, s):  # by which the rank of a vertex becomes its share
        return s.degree[v]

    @functor
    def jump(v, s):  # what jumps bring to a vertex
        return (1 - s.damping) / s.num_vertices

    @functor
    def begin(v, s):
        s.share[v] = s.rank[v] / s.divisor(v)

    @functor
    def carried(src, dst, edge, s):
        return s.share[src]

    @functor
    def renew(v, total, s):
        rank = s.jump(v) + s.damping * total
        s.rank[v] = s.share[v] * s.divisor(v)
        s.share[v] = rank / s.divisor(v)
        return True

    @functor
    def movement(v, s):
        return abs(s.share[v] * s.divisor(v) - s.rank[v])

    @functor
    def settle(v, s):
        s.rank[v] = s.share[v] * s.divisor(v)

    @functor
    def is_steady(s):
        return s.change < s.tol

    def start(self):
        self.rank[:] = 1 / max(1, self.num_vertices)

    iteration = (
        gather(carried, "sum", renew, over="all"),
        reduce(movement, "sum", into=change, over="all"),
    )
    loop: Loop = (
        compute(begin, over="all"),
        repeat(*iteration, until=is_steady, max_supersteps=max_iterations),
        compute(settle, over="all"),
    )


class DanglingPageRank(PageRank):
    """Ranks of a graph in which some vertices have no out-arc."""

    dangling = Scalar(float64, "sum")

    @functor
    def divisor(v, s):
        return max(s.degree[v], 1)

    @functor
    def jump(v, s):
        return ((1 - s.damping) + s.damping * s.dangling) / s.num_vertices

    @functor
    def stranded(v, s):
        return s.share[v] * (s.degree[v] == 0)  # a branch here costs more than the rest

    stranding = reduce(stranded, "sum", into=dangling, over="all")
    loop = (
        compute(PageRank.begin, over="all"),
        stranding,
        repeat(
            *PageRank.iteration, stranding,
            until=PageRank.is_steady, max_supersteps=PageRank.max_iterations,
        ),
        compute(PageRank.settle, over="all"),
    )  # fmt: skip


class PersonalPageRank(DanglingPageRank):
    """Ranks with jumps whose probabilities differ between vertices."""

    jumps = Field(REAL)  # the probability that a jump goes to the vertex

    @functor
    def jump(v, s):
        return ((1 - s.damping) + s.damping * s.dangling) * s.jumps[v]

    def start(self, personalization=None):
        PageRank.start(self)
        self.jumps[:] = self.rank if personalization is None else personalization


class WeightedPageRank(PersonalPageRank):
    """Ranks of a surfer who follows arcs in proportion to their weights."""

    strength = Field(float64)  # the sum of the weights of a vertex's out-arcs, or 1
    dangles = Field(bool)

    @functor
    def divisor(v, s):
        return s.strength[v]

    @functor
    def carried(src, dst, edge, s):
        return s.share[src] * s.weight[edge]

    @functor
    def stranded(v, s):
        return s.share[v] * s.dangles[v]

    def start(self, personalization=None):
        PersonalPageRank.start(self, personalization)
        sums = sums_of_out_weights(self.graph)
        self.dangles[:] = sums == 0
        self.strength[:] = np.where(sums == 0, 1, sums)


def pagerank(
    graph: Graph,
    *,
    damping: float = 0.85,
    tol: float = 1e-6,
    max_iterations: int = 100,
    personalization: VertexValues = None,
    weighted: bool = False,
    dtype: DTypeLike = float64,
    device: str = "auto",
    **options: Any,
) -> Result:
    """The PageRank of every vertex; the ranks sum to 1.

    Parameters
    ----------
    graph
        The graph; ranks flow along its arcs.
    damping
        The probability of following an arc instead of jumping, from 0 to 1.
    tol
        The iteration ends once the ranks change by less than this in total.
    max_iterations
        Limit for the iterations; reaching it without convergence gives a warning and sets
        ``stats["converged"]`` to False.
    personalization
        The relative probability of a jump to each vertex: a dict of labels (all others 0) or an
        array; by default all are equal. The rank of vertices without out-arcs is distributed
        likewise.
    weighted
        Follow arcs in proportion to their weights, none of which may be negative or infinite.
    dtype
        float64 or float32.
    device, **options
        Where and how to run, as in `evener.run`.

    Returns
    -------
    Result
        ``rank``.

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms import pagerank
    >>> g = Graph.from_edges([0, 1, 2], [2, 2, 0])
    >>> pagerank(g, device="python").rank.round(3).tolist()
    [0.464, 0.05, 0.486]
    """
    require_options(pagerank, options)
    require_graph(graph)
    parameters: dict[str, Any] = {
        "damping": number(damping, "damping", 0, 1),
        "tol": number(tol, "tol", 0),
        "max_iterations": whole(max_iterations, "max_iterations"),
    }
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (float32, float64):
        raise GraphError(f"dtype is {dtype!r}; pagerank takes float32 or float64.")
    program: type[Program] = PageRank
    if weighted:
        positive_spread(graph, "pagerank with weighted=True", finite=True)
        program = WeightedPageRank
    elif personalization is not None:
        program = PersonalPageRank
    elif graph.num_vertices and graph._least_degree == 0:
        program = DanglingPageRank
    if personalization is not None:
        parameters["personalization"] = jump_chances(graph, personalization)
    result = run(program, graph, device=device, dtype=kind, **parameters, **options)
    limit = parameters["max_iterations"]
    note_convergence(result, "pagerank", result.change, parameters["tol"], limit)
    return keep_only(result, "rank")
