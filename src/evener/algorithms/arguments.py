"""What callers of the algorithms hand over, checked: weights, values of vertices, numbers."""

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

# What callers may hand over, in the words of the signatures. To Python they are anything; the
# command line makes its options of them (`evener.cli.options`).
Label = Any  # one vertex
SomeLabels = Any  # a vertex, or several
VertexValues = Any  # a number for all vertices, a mapping of labels to numbers, or an array


def require_options(algorithm: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse what is no option of `evener.run`: parameters of the program are set here alone."""
    for name in options:
        if name not in RUN_OPTIONS:
            taken = inspect.signature(algorithm).parameters
            own = [one for one in taken if one not in ("graph", "device", "options")]
            raise no_parameter(algorithm.__name__, name, own, RUN_OPTIONS)


def spread_of_weights(graph: Graph, algorithm: str, *, finite: bool = False) -> Spread:
    """The spread of a graph's weights, found once a graph; GraphError if it has none.

    ``finite``: for sums of weights, in which infinite ones make no sense.
    """
    require_graph(graph)
    if graph.weights is None:
        raise GraphError(
            f"{algorithm} needs weights, but the graph has none; name the column that has them by "
            "weight= (--weight), or make the graph with one for each edge."
        )
    found = spread_of(graph)
    if math.isnan(found.low):
        raise GraphError(f"{algorithm} needs weights that are numbers, but one is not-a-number.")
    for one in (found.low, found.high):
        if finite and math.isinf(one):
            raise GraphError(f"{algorithm} takes no infinite weights, but one is {one}.")
    return found


def positive_spread(graph: Graph, algorithm: str, *, finite: bool = False) -> Spread:
    """The spread of the weights, none of which may be negative; as `spread_of_weights`."""
    found = spread_of_weights(graph, algorithm, finite=finite)
    if found.low < 0:
        raise GraphError(f"{algorithm} takes no negative weights, but one is {found.low}.")
    return found


def values_of_vertices(graph: Graph, given: Any, name: str, default: float) -> np.ndarray:
    """One float for each vertex, from None, a number, a mapping of labels, or an array."""
    n = graph.num_vertices
    if given is None:
        return np.full(n, default)
    if isinstance(given, Mapping):
        values = np.full(n, default)
        if given:
            values[graph.index_of(list(given))] = _floats(list(given.values()), name)
    else:
        values = np.array(_floats(given, name))
        if values.ndim == 0:
            values = np.full(n, values)
        elif values.shape != (n,):
            raise GraphError(f"{name} has shape {values.shape}; the graph has {n} vertices.")
    if not np.isfinite(values).all():
        raise GraphError(f"{name} holds a value that is not finite.")
    return values


def chances(graph: Graph, personalization: Any) -> np.ndarray:
    """How likely a jump goes to each vertex: floats that add up to 1, none negative."""
    found = values_of_vertices(graph, personalization, "personalization", 0.0)
    if len(found) == 0:
        return found
    if found.min() < 0 or found.sum() == 0:
        raise GraphError("personalization must hold no negative value, and one above 0.")
    return found / found.sum()


def _floats(given: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise GraphError(
            f"{name} is {type(given).__name__}; give a number, an array or a dict of labels."
        ) from None


def number(value: Any, name: str, low: float, high: float = math.inf) -> float:
    """A number within bounds, both included."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise GraphError(f"{name} is {short_repr(value)}; it must be a number.") from None
    if not low <= found <= high:
        bounds = f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise GraphError(f"{name} is {short_repr(value)}; it must be {bounds}.")
    return found


def whole(value: Any, name: str, low: int = 0) -> int:
    """A whole number that is not too small."""
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
    """Indices of all vertices, of so many at random, or of those with some labels."""
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
    """The sum of the weights of each vertex's out-arcs."""
    n = graph.num_vertices
    return np.bincount(graph._sources(), weights=graph.weights, minlength=n)[:n]


def sums_of_in_weights(graph: Graph) -> np.ndarray:
    """The sum of the weights of each vertex's in-arcs."""
    n = graph.num_vertices
    if n == 0:
        return np.zeros(0)
    return np.bincount(graph.indices, weights=graph.weights, minlength=n)
