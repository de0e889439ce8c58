"""Circuit simulation (CS): the potential of every vertex of a network of conductors.

By Kirchhoff's law the potential of a vertex is the mean of its neighbours' potentials, weighted by
the conductances between them; some vertices are held at a fixed potential (CS in Khorasani, Gupta,
Bhuyan: Scalable SIMD-efficient graph processing on GPUs, PACT 2015).

Method: Jacobi iteration over in-edges: all vertices at once, from the potentials of the previous
iteration, until none moves by ``tol``.

Encoding: the weight of an arc is the conductance seen by its target. A vertex without an in-arc of
positive conductance keeps its initial potential.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float64, int64

from evener.algorithms.arguments import (
    Label,
    VertexValues,
    number,
    positive_spread,
    require_options,
    sums_of_in_weights,
    values_of_vertices,
    whole,
)
from evener.algorithms.outcome import keep_only, note_convergence
from evener.engine.run import run
from evener.errors import GraphError
from evener.graph.csr import Graph
from evener.programs import Field, Param, Program, Scalar, functor
from evener.programs.stages import gather, reduce, repeat

if TYPE_CHECKING:
    from evener.engine.results.result import Result


class Circuit(Program):
    """Potentials of the vertices that are not fixed."""

    potential = Field(float64)
    conductance = Field(float64)  # of all in-arcs together; 0 for a fixed vertex
    moved = Field(float64)
    tol = Param(float64, 1e-6)
    max_iterations = Param(int64, 1000)
    largest_move = Scalar(float64, "max")

    @functor
    def drive(src, dst, edge, s):
        return s.weight[edge] * s.potential[src]

    @functor
    def balance(v, total, s):
        if s.conductance[v] > 0:
            potential = total / s.conductance[v]
            s.moved[v] = abs(potential - s.potential[v])
            s.potential[v] = potential
        return True

    @functor
    def movement(v, s):
        return s.moved[v]

    @functor
    def is_steady(s):
        return s.largest_move < s.tol

    def start(self, initial, held):
        self.potential[:] = initial
        self.conductance[:] = sums_of_in_weights(self.graph)
        self.conductance[held] = 0

    loop = repeat(
        gather(drive, "sum", balance, over="all"),
        reduce(movement, "max", into=largest_move, over="all"),
        until=is_steady,
        max_supersteps=max_iterations,
    )


def circuit(
    graph: Graph,
    fixed: Mapping[Label, float],
    *,
    initial: VertexValues = None,
    tol: float = 1e-6,
    max_iterations: int = 1000,
    device: str = "auto",
    **options: Any,
) -> Result:
    """The potential of every vertex of a circuit.

    Parameters
    ----------
    graph
        A graph whose weights are conductances, none negative or infinite. An arc's target sees its
        conductance, so an ordinary circuit is an undirected graph.
    fixed
        The vertices with a fixed potential and these potentials, as a dict of labels.
    initial
        The initial potentials: a number, a dict of labels (all others 0) or an array; by default 0.
    tol
        The iteration ends once no potential changes by this much.
    max_iterations
        Limit for the iterations; reaching it without convergence gives a warning and sets
        ``stats["converged"]`` to False.
    device, **options
        Where and how to run, as in `evener.run`.

    Returns
    -------
    Result
        ``potential``.

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms import circuit
    >>> g = Graph.from_edges([0, 1], [1, 2], [1.0, 3.0], directed=False)
    >>> circuit(g, {0: 0.0, 2: 8.0}, device="python").potential.tolist()
    [0.0, 6.0, 8.0]
    """
    require_options(circuit, options)
    positive_spread(graph, "circuit", finite=True)
    if not isinstance(fixed, Mapping):
        raise GraphError(f"fixed is {fixed!r}; it must be a dict of labels and potentials.")
    start = values_of_vertices(graph, initial, "initial", 0.0)
    held = graph.index_of(list(fixed))
    start[held] = values_of_vertices(graph, fixed, "fixed", 0.0)[held]
    limit = whole(max_iterations, "max_iterations")
    result = run(
        Circuit, graph, initial=start, held=held, tol=number(tol, "tol", 0), max_iterations=limit,
        device=device, **options,
    )  # fmt: skip
    note_convergence(result, "circuit", result.largest_move, tol, limit)
    return keep_only(result, "potential")


def verify(
    graph: Graph, result: Any, fixed: Mapping[Any, float], *, initial: Any = None, tol: float = 1e-6
) -> None:
    """Assert that a converged result is balanced.

    1. Fixed vertices have their potential.
    2. Vertices without conductance have their initial potential.
    3. Every other potential is within ``tol`` of the mean that Kirchhoff's law demands.
    """
    potential = np.asarray(result.potential)
    assert graph.weights is not None
    held = graph.index_of(list(fixed))
    assert (potential[held] == np.array(list(fixed.values()))).all(), "a fixed potential moved"
    conductance = sums_of_in_weights(graph)
    start = values_of_vertices(graph, initial, "initial", 0.0)
    free = np.ones(graph.num_vertices, bool)
    free[held] = False
    alone = free & (conductance == 0)
    assert (potential[alone] == start[alone]).all(), "a vertex without conductance moved"
    driven = np.zeros(graph.num_vertices)
    np.add.at(driven, graph.indices, graph.weights * potential[graph._sources()])
    free &= conductance > 0
    off = np.abs(driven[free] / conductance[free] - potential[free])
    assert (off <= tol + 1e-12 * np.abs(potential[free])).all(), "a vertex is not balanced"
