"""Neural network (NN): the state of rest of a recurrent network of neurons.

The activation of a neuron is x = tanh Σ w·x_u over its in-arcs (NN in Khorasani, Gupta, Bhuyan:
Scalable SIMD-efficient graph processing on GPUs, PACT 2015; the networks are Hopfield's: Neurons
with graded response, PNAS 1984).

Method: all neurons at once, from the activations of the previous iteration, until none moves by
``tol``. A network with strong inhibition may oscillate forever; the result then reports that.

Encoding: weights of any sign, activations from -1 to 1. A neuron without in-arcs is an input: it
keeps its initial activation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import bool_, float64, int64

from evener.algorithms.arguments import (
    VertexValues,
    number,
    require_options,
    spread_of_weights,
    values_of_vertices,
    whole,
)
from evener.algorithms.outcome import keep_only, note_convergence
from evener.engine.run import run
from evener.graph.csr import Graph
from evener.programs import Field, Param, Program, Scalar, functor
from evener.programs.stages import gather, reduce, repeat

if TYPE_CHECKING:
    from evener.engine.results.result import Result


class Neural(Program):
    """Activations, updated for all neurons in each superstep."""

    activation = Field(float64)
    moved = Field(float64)
    is_input = Field(bool_)
    tol = Param(float64, 1e-6)
    max_iterations = Param(int64, 1000)
    largest_move = Scalar(float64, "max")

    @functor
    def excite(src, dst, edge, s):
        return s.weight[edge] * s.activation[src]

    @functor
    def fire(v, total, s):
        if not s.is_input[v]:
            activation = math.tanh(total)
            s.moved[v] = abs(activation - s.activation[v])
            s.activation[v] = activation
        return True

    @functor
    def movement(v, s):
        return s.moved[v]

    @functor
    def is_steady(s):
        return s.largest_move < s.tol

    def start(self, initial):
        self.activation[:] = initial
        self.is_input[:] = self.graph.in_degrees == 0

    loop = repeat(
        gather(excite, "sum", fire, over="all"),
        reduce(movement, "max", into=largest_move, over="all"),
        until=is_steady,
        max_supersteps=max_iterations,
    )


def neural(
    graph: Graph,
    *,
    initial: VertexValues = 1.0,
    tol: float = 1e-6,
    max_iterations: int = 1000,
    device: str = "auto",
    **options: Any,
) -> Result:
    """The activation of every neuron when the network is at rest.

    Parameters
    ----------
    graph
        A graph with weights of any sign, none infinite.
    initial
        The initial activations: a number, a dict of labels (all others 0) or an array. If all are
        0 they stay 0.
    tol
        The iteration ends once no activation changes by this much.
    max_iterations
        Limit for the iterations; reaching it without convergence gives a warning and sets
        ``stats["converged"]`` to False.
    device, **options
        Where and how to run, as in `evener.run`.

    Returns
    -------
    Result
        ``activation``.

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms import neural
    >>> g = Graph.from_edges([0, 1], [1, 2], [0.5, -2.0])
    >>> neural(g, device="python").activation.round(3).tolist()
    [1.0, 0.462, -0.728]
    """
    require_options(neural, options)
    spread_of_weights(graph, "neural", finite=True)
    limit = whole(max_iterations, "max_iterations")
    start = values_of_vertices(graph, initial, "initial", 0.0)
    result = run(
        Neural, graph, initial=start, tol=number(tol, "tol", 0), max_iterations=limit,
        device=device, **options,
    )  # fmt: skip
    note_convergence(result, "neural", result.largest_move, tol, limit)
    return keep_only(result, "activation")


def verify(graph: Graph, result: Any, *, initial: Any = 1.0, tol: float = 1e-6) -> None:
    """Assert that a converged result is a state of rest.

    1. Inputs have their initial activation.
    2. Every other activation is within ``tol`` of tanh Σ w·x, with an allowance for weights that
       magnify the remaining movement.
    """
    activation = np.asarray(result.activation)
    assert graph.weights is not None
    inputs = graph.in_degrees == 0
    start = values_of_vertices(graph, initial, "initial", 0.0)
    assert (activation[inputs] == start[inputs]).all(), "an input moved"
    excited = np.zeros(graph.num_vertices)
    gain = np.zeros(graph.num_vertices)
    np.add.at(excited, graph.indices, graph.weights * activation[graph._sources()])
    np.add.at(gain, graph.indices, np.abs(graph.weights))
    off = np.abs(np.tanh(excited) - activation)[~inputs]
    assert (off <= tol * np.maximum(1, gain[~inputs]) + 1e-12).all(), "a neuron is not at rest"
