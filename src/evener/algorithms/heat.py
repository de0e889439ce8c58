"""Heat simulation (HS): heat spreads over a graph until it reaches equilibrium.

In each step the temperature of a vertex grows by Σ c·(q_u − q) over its in-arcs, where c is the
coefficient of the arc (HS in Khorasani, Gupta, Bhuyan: Scalable SIMD-efficient graph processing on
GPUs, PACT 2015).

Method: the explicit scheme, all vertices at once, until none changes by ``tol``. Coefficients are
the weights times ``step``, the time step. The scheme is stable if the coefficients of each vertex
sum to at most 1. The default step makes the largest sum one half, so that neighbours cannot swap
their heat forever.

Encoding: the weight of an arc is the rate at which its source warms its target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float64, int64

from evener.algorithms.arguments import (
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


class Heat(Program):
    """Temperatures, one time step per superstep."""

    temperature = Field(float64)
    moved = Field(float64)
    step = Param(float64, 1.0)
    tol = Param(float64, 1e-6)
    max_iterations = Param(int64, 1000)
    largest_move = Scalar(float64, "max")

    @functor
    def flow(src, dst, edge, s):
        return s.weight[edge] * (s.temperature[src] - s.temperature[dst])

    @functor
    def warm(v, total, s):
        s.moved[v] = abs(s.step * total)
        s.temperature[v] += s.step * total
        return True

    @functor
    def movement(v, s):
        return s.moved[v]

    @functor
    def is_steady(s):
        return s.largest_move < s.tol

    def start(self, initial):
        self.temperature[:] = initial

    loop = repeat(
        gather(flow, "sum", warm, over="all"),
        reduce(movement, "max", into=largest_move, over="all"),
        until=is_steady,
        max_supersteps=max_iterations,
    )


def heat(
    graph: Graph,
    initial: VertexValues,
    *,
    step: float | str = "auto",
    tol: float = 1e-6,
    max_iterations: int = 1000,
    device: str = "auto",
    **options: Any,
) -> Result:
    """The temperature of every vertex after heat has spread.

    Parameters
    ----------
    graph
        A graph whose weights are rates of heat flow, none negative or infinite.
    initial
        The initial temperatures: a number, a dict of labels (all others 0) or an array.
    step
        The time step, by which all rates are multiplied; ``"auto"`` makes the largest sum of rates
        into a vertex one half. Steps that make it larger than 1 diverge and are refused.
    tol
        The simulation ends once no temperature changes by this much in a step.
    max_iterations
        Limit for the steps; reaching it while heat still flows gives a warning and sets
        ``stats["converged"]`` to False.
    device, **options
        Where and how to run, as in `evener.run`.

    Returns
    -------
    Result
        ``temperature``.

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms import heat
    >>> g = Graph.from_edges([0, 1], [1, 2], [1.0, 1.0], directed=False)
    >>> heat(g, {0: 9.0}, device="python").temperature.round(3).tolist()
    [3.0, 3.0, 3.0]
    """
    require_options(heat, options)
    positive_spread(graph, "heat", finite=True)
    largest = float(sums_of_in_weights(graph).max(initial=0))
    length = 0.5 / max(largest, 1e-300) if step == "auto" else number(step, "step", 0)
    if length * largest > 1:
        raise GraphError(f"step is {step!r}; steps over {1 / largest:g} diverge on this graph.")
    limit = whole(max_iterations, "max_iterations")
    start = values_of_vertices(graph, initial, "initial", 0.0)
    result = run(
        Heat, graph, initial=start, step=length, tol=number(tol, "tol", 0), max_iterations=limit,
        device=device, **options,
    )  # fmt: skip
    note_convergence(result, "heat", result.largest_move, tol, limit)
    return keep_only(result, "temperature")


def verify(graph: Graph, result: Any, initial: Any, *, tol: float = 1e-6) -> None:
    """Assert that a converged result of ``step="auto"`` is an equilibrium.

    1. Temperatures are within the range of the initial ones.
    2. Another step changes none by more than ``tol``.
    3. In an undirected graph the sum of temperatures is preserved.
    """
    temperature = np.asarray(result.temperature)
    start = values_of_vertices(graph, initial, "initial", 0.0)
    if len(start) == 0:
        return
    assert graph.weights is not None
    slack = 1e-9 * np.abs(start).max()
    assert temperature.min() >= start.min() - slack, "a vertex is colder than the initial minimum"
    assert temperature.max() <= start.max() + slack, "a vertex is hotter than the initial maximum"
    src, dst = graph._sources(), graph.indices
    flow = np.zeros(len(start))
    np.add.at(flow, dst, graph.weights * (temperature[src] - temperature[dst]))
    step = 0.5 / max(sums_of_in_weights(graph).max(initial=0), 1e-300)
    assert (np.abs(step * flow) <= tol + slack).all(), "heat still flows"
    if not graph.directed:
        assert abs(temperature.sum() - start.sum()) <= slack * len(start), "heat was lost"
