"""Checks of the algorithms' arguments: weights, values of vertices, numbers."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evener.errors import GraphError, short_repr
from evener.graph.csr import Graph, require_graph
from evener.graph.generate.common import seed_of
from evener.graph.spread import Spread, spread_of
from evener.programs.mistakes import no_parameter
from evener.programs.program import RUN_OPTIONS

# Annotations of arguments. They mean nothing to Python; the command line derives its options from
# them (`evener.cli.options`).
Label = Any  # one vertex
SomeLabels = Any  # a vertex, or several
VertexValues = Any  # a number for all vertices, a mapping of labels to numbers, or an array


def require_options(algorithm: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that `evener.run` lacks; program parameters are set by the algorithm only."""
    for name in options:
        if name not in RUN_OPTIONS:
            parameters = inspect.signature(algorithm).parameters
            own = [one for one in parameters if one not in ("graph", "device", "options")]
            raise no_parameter(algorithm.__name__, name, own, RUN_OPTIONS)


def spread_of_weights(graph: Graph, algorithm: str, *, finite: bool = False) -> Spread:
    """The spread of a graph's weights; GraphError if it has none.

    ``finite`` refuses infinite weights, which make no sense in sums.
    """
    require_graph(graph)
    if graph.weights is None:
        raise GraphError(
            f"{algorithm} needs weights, but the graph has none; name the column of weights by "
            "weight= (--weight), or make the graph with a weight for each edge."
        )
    found = spread_of(graph)
    if math.isnan(found.low):
        raise GraphError(f"{algorithm} needs weights that are numbers, but one is NaN.")
    for one in (found.low, found.high):
        if finite and math.isinf(one):
            raise GraphError(f"{algorithm} takes no infinite weights, but one is {one}.")
    return found


def positive_spread(graph: Graph, algorithm: str, *, finite: bool = False) -> Spread:
    """Like `spread_of_weights`, but refuse negative weights."""
    found = spread_of_weights(graph, algorithm, finite=finite)
    if found.low < 0:
        raise GraphError(f"{algorithm} takes no negative weights, but one is {found.low}.")
    return found


def values_of_vertices(graph: Graph, argument: Any, name: str, default: float) -> np.ndarray:
    """Convert None, a number, a mapping of labels or an array to one float per vertex."""
    n = graph.num_vertices
    if argument is None:
        return np.full(n, default)
    if isinstance(argument, Mapping):
        values = np.full(n, default)
        if argument:
            values[graph.index_of(list(argument))] = _floats(list(argument.values()), name)
    else:
        values = np.array(_floats(argument, name))
        if values.ndim == 0:
            values = np.full(n, values)
        elif values.shape != (n,):
            raise GraphError(f"{name} has shape {values.shape}; the graph has {n} vertices.")
    if not np.isfinite(values).all():
        raise GraphError(f"{name} holds a value that is not finite.")
    return values


def jump_chances(graph: Graph, personalization: Any) -> np.ndarray:
    """The probability that a jump goes to each vertex: non-negative floats that sum to 1."""
    values = values_of_vertices(graph, personalization, "personalization", 0.0)
    if len(values) == 0:
        return values
    if values.min() < 0 or values.sum() == 0:
        raise GraphError("personalization must hold no negative value, and one above 0.")
    return values / values.sum()


def _floats(argument: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(argument, dtype=np.float64)
    except (TypeError, ValueError):
        raise GraphError(
            f"{name} is {type(argument).__name__}; give a number, an array or a dict of labels."
        ) from None


def number(value: Any, name: str, low: float, high: float = math.inf) -> float:
    """Check a number from ``low`` to ``high``, both included."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise GraphError(f"{name} is {short_repr(value)}; it must be a number.") from None
    if not low <= found <= high:
        bounds = f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise GraphError(f"{name} is {short_repr(value)}; it must be {bounds}.")
    return found


def whole(value: Any, name: str, low: int = 0) -> int:
    """Check a whole number of at least ``low``."""
    try:
        found = operator.index(value)
    except TypeError:
        raise GraphError(f"{name} is {short_repr(value)}; it must be a whole number.") from None
    if found < low:
        raise GraphError(f"{name} is {short_repr(value)}; it must be at least {low}.")
    return found


def one_vertex(graph: Graph, label: Any, name: str) -> int:
    """The index of one label; GraphError for several."""
    index = graph.index_of(label)
    if not isinstance(index, int):
        raise GraphError(f"{name} is {label!r}; it must be one vertex.")
    return index


def choose_sources(graph: Graph, sources: Any, seed: int) -> np.ndarray:
    """Indices of all vertices, of a number of random ones, or of given labels."""
    n, seed = graph.num_vertices, seed_of(seed, low=0)
    if sources is None:
        return np.arange(n)
    if isinstance(sources, int | np.integer) and not isinstance(sources, bool):
        k = whole(sources, "sources", 1)
        if k > n:
            raise GraphError(f"sources is {k}, but the graph has {n} vertices.")
        return np.random.default_rng(seed).choice(n, k, replace=False)
    chosen = np.atleast_1d(graph.index_of(sources))
    if len(chosen) == 0 or len(np.unique(chosen)) != len(chosen):
        raise GraphError("sources must be a number or a list of different labels, at least one.")
    return chosen


def sums_of_out_weights(graph: Graph) -> np.ndarray:
    """The weight of each vertex's out-arcs, summed."""
    n = graph.num_vertices
    return np.bincount(graph._sources(), weights=graph.weights, minlength=n)[:n]


def sums_of_in_weights(graph: Graph) -> np.ndarray:
    """The weight of each vertex's in-arcs, summed."""
    n = graph.num_vertices
    if n == 0:
        return np.zeros(0)
    return np.bincount(graph.indices, weights=graph.weights, minlength=n)
