"""Every stage in plain Python, over the part of a graph that one device holds.

This is the reference: other devices must give the same results. A frontier is an ascending list of
vertices, or of edges ``(src, dst, edge)``.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evener.device.once import once
from evener.engine.reference.numbers import widely, widened
from evener.errors import ProgramError
from evener.graph.csr import Graph
from evener.programs.fields import neutral
from evener.programs.functors import Functor
from evener.programs.mistakes import line_of
from evener.programs.program import Declaration
from evener.programs.stages import Advance, Compute, Edges, Filter, Gather, Reduce, Stage

Frontier = list[Any]

COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "min": min,
    "max": max,
    "any": lambda a, b: a or b,
}


class State:
    """The ``s`` of functors: everything they may read or write is an attribute."""

    weight: Any
    changed: bool
    superstep: int

    def __init__(self, **offered: Any):
        self.__dict__.update(offered)

    def __repr__(self) -> str:
        return f"s({', '.join(self.__dict__)})"


class Adjacency:
    """Neighbour lists, with the weights in the same order."""

    def __init__(self, indptr: list[int], neighbours: list[Any], weights: np.ndarray | None):
        self.indptr, self.neighbours, self.weights = indptr, neighbours, weights

    @classmethod
    def of(cls, graph: Graph) -> Adjacency:
        """The lists of a whole graph."""
        return cls(graph.indptr.tolist(), graph.indices.tolist(), graph.weights)

    @classmethod
    def joined(cls, one: Adjacency, other: Adjacency) -> Adjacency:
        """For each vertex the neighbours in ``one``, then those in ``other``."""
        indptr: list[int] = [0]
        places: list[int] = []
        for v in range(len(one.indptr) - 1):
            places += range(one.indptr[v], one.indptr[v + 1])
            behind = len(one.neighbours)
            places += range(behind + other.indptr[v], behind + other.indptr[v + 1])
            indptr.append(len(places))
        neighbours = [*one.neighbours, *other.neighbours]
        weights = None
        if one.weights is not None and other.weights is not None:
            weights = np.concatenate([one.weights, other.weights])[places]
        return cls(indptr, [neighbours[place] for place in places], weights)

    def of_vertex(self, v: int, first: int = 0, last: int | None = None) -> Iterator[Any]:
        """The neighbours of a vertex, or a slice of them, each with its edge."""
        begin, end = self.indptr[v], self.indptr[v + 1]
        stop = end if last is None else min(end, begin + last)
        for edge in range(begin + first, stop):
            yield self.neighbours[edge], edge


@dataclass
class Part:
    """The part of one device: its vertices, the edges out of and into them, and ``s``."""

    declaration: Declaration
    s: State
    vertices: list[Any]
    out: Adjacency
    into: Callable[[], Adjacency]  # called when a stage pulls: the transpose may not exist yet
    directed: bool = True
    calls: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def side(self, along: str) -> Adjacency:
        """The neighbour lists of a gather; an undirected graph has one for all directions."""
        if along == "out":
            return self.out
        return self.into() if along == "in" or not self.directed else self._both

    @once
    def _both(self) -> Adjacency:
        return Adjacency.joined(self.into(), self.out)

    def call(self, name: str, *, returns: bool = True) -> Callable[..., Any]:
        """A functor whose errors name the program, the functor and the line."""
        if name not in self.calls:
            functor = self.declaration.functors[name]
            self.calls[name] = _guard(self.declaration.name, functor, returns)
        return self.calls[name]

    def run(self, stage: Stage, frontier: Frontier, pull: bool = False) -> Outcome:
        """Run any stage but a loop."""
        return run_stage(self, stage, frontier, pull)


@dataclass
class Outcome:
    """The outcome of a stage on one part."""

    frontier: Frontier | None = None  # None: unchanged
    calls: int = 0  # of a functor for an edge
    value: Any = None  # of a reduce
    changed: bool = False  # of edges


def run_stage(part: Part, stage: Stage, frontier: Frontier, pull: bool = False) -> Outcome:
    """Run any stage but a loop."""
    if isinstance(stage, Advance):
        return advance_pull(part, stage, frontier) if pull else advance_push(part, stage, frontier)
    return _RUN[type(stage)](part, stage, frontier)


def advance_push(part: Part, stage: Advance, frontier: Frontier) -> Outcome:
    """Along the out-edges of each vertex of the frontier."""
    s, f = part.s, part.call(stage.functor)
    where = part.call(stage.where) if stage.where else None
    s.weight = widened(part.out.weights)
    emitted: set[Any] = set()
    calls = 0
    for src in frontier:
        for dst, edge in part.out.of_vertex(src):
            if where is None or where(dst, s):
                calls += 1
                if f(src, dst, edge, s):
                    emitted.add(dst if stage.emit == "vertices" else (src, dst, edge))
    return Outcome(sorted(emitted), calls)


def advance_pull(part: Part, stage: Advance, frontier: Frontier) -> Outcome:
    """Along the in-edges of each vertex that ``where`` selects, from the frontier."""
    s, f = part.s, part.call(stage.functor)
    where = part.call(stage.where) if stage.where else None
    into, members = part.into(), set(frontier)
    s.weight = widened(into.weights)
    emitted = []
    calls = 0
    for dst in part.vertices:
        joins = False
        for src, edge in into.of_vertex(dst):
            if where is not None and not where(dst, s):
                break
            if src in members:
                calls += 1
                joins = bool(f(src, dst, edge, s)) or joins
        if joins:
            emitted.append(dst)
    return Outcome(emitted, calls)


def filter_(part: Part, stage: Filter, frontier: Frontier) -> Outcome:
    """Keep the members for which the functor returns True."""
    s, f = part.s, part.call(stage.functor)
    s.weight = widened(part.out.weights)
    if stage.on_edges:
        return Outcome([edge for edge in frontier if f(*edge, s)], len(frontier))
    return Outcome([v for v in frontier if f(v, s)])


def compute(part: Part, stage: Compute, frontier: Frontier) -> Outcome:
    """Call the functor at each vertex, or for each edge."""
    s, f = part.s, part.call(stage.functor, returns=False)
    s.weight = widened(part.out.weights)
    for item in frontier:
        if stage.on_edges:
            f(*item, s)
        else:
            f(item, s)
    return Outcome(calls=len(frontier) if stage.on_edges else 0)


def gather(part: Part, stage: Gather, frontier: Frontier) -> Outcome:
    """Combine the values of the edges of each vertex, then apply the totals."""
    s, apply = part.s, part.call(stage.apply)
    f = part.call(stage.functor) if stage.sees_dst else _without_dst(part.call(stage.functor))
    into = part.side(stage.along)
    s.weight = widened(into.weights)
    combine = _combination(part, stage, lambda v: _without_edges(f, v, s))
    calls = 0
    kept = []
    totals = []
    for dst in frontier:
        values = [f(src, dst, edge, s) for src, edge in into.of_vertex(dst)]
        calls += len(values)
        if not stage.asynchronous:
            totals.append((dst, combine(values, dst)))
        elif (total := combine(values, dst)) is not None and apply(dst, total, s):
            kept.append(dst)
    for dst, total in totals:
        if total is not None and apply(dst, total, s):
            kept.append(dst)
    return Outcome(kept, calls)


def _without_edges(f: Callable[..., Any], v: Any, s: State) -> Any:
    """A value of a gather's functor at a vertex, even if the part has no edges."""
    weights = s.weight
    if weights is not None and not len(weights):
        s.weight = widened(np.ones(1, weights.dtype))
    value = f(v, v, 0, s)
    s.weight = weights
    return value


def _without_dst(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda src, dst, edge, s: f(src, edge, s)


def _combination(
    part: Part, stage: Gather, sample: Callable[[Any], Any]
) -> Callable[[list[Any], Any], Any]:
    """A function of all values of a vertex, and the vertex; None if nothing is applied.

    ``sample`` gives a value at a vertex without edges.
    """
    if stage.combine_is_functor:
        own = part.call(stage.combine[1:])
        return lambda values, v: functools.reduce(own, values) if values else None
    if stage.combine == "sum":
        return lambda values, v: sum(values)  # from 0: True + True is 2, as in compiled code
    pair = COMBINE[stage.combine]
    dtype: np.dtype | None = None

    def combine(values: list[Any], v: Any) -> Any:
        nonlocal dtype
        if dtype is None:
            dtype = _dtype_of_total(values[0] if values else sample(v))
        return functools.reduce(pair, values) if values else neutral(stage.combine, dtype)

    return combine


def _dtype_of_total(value: Any) -> np.dtype:
    """The dtype in which compiled code adds up such values: integers in 64 bits."""
    dtype = np.asarray(value).dtype
    return np.dtype(np.int64) if dtype.kind in "bi" else dtype


def edges(part: Part, stage: Edges, frontier: Frontier) -> Outcome:
    """Visit all edges, or the slice of each neighbour list that the stage selects."""
    s, f = part.s, part.call(stage.functor)
    where = part.call(stage.where) if stage.where else None
    s.weight = widened(part.out.weights)
    first, last = stage.neighbours or (0, None)
    outcome = Outcome()
    for src in part.vertices:
        if where is None or where(src, s):
            for dst, edge in part.out.of_vertex(src, first, last):
                outcome.calls += 1
                outcome.changed = bool(f(src, dst, edge, s)) or outcome.changed
    return outcome


def reduce(part: Part, stage: Reduce, frontier: Frontier) -> Outcome:
    """One value from all vertices of the frontier, None if there are none."""
    s, f = part.s, part.call(stage.functor)
    values = [f(v, s) for v in frontier]
    if stage.op == "sum":  # as in a gather; in floats fsum would round better than any device
        return Outcome(value=sum(values) if values else None)
    return Outcome(value=functools.reduce(COMBINE[stage.op], values) if values else None)


_RUN: dict[type[Stage], Callable[[Part, Any, Frontier], Outcome]] = {
    Filter: filter_, Compute: compute, Gather: gather, Edges: edges, Reduce: reduce,
}  # fmt: skip


def bucket(value: Any, delta: Any) -> float:
    """The number of the bucket of a value; NaN is in the last one."""
    scaled = float(value) / float(delta)
    if math.isfinite(scaled):
        return math.floor(scaled)
    return -math.inf if scaled < 0 else math.inf


def _guard(program: str, functor: Functor, returns: bool) -> Callable[..., Any]:
    """The functor, with its errors as ProgramErrors of one sentence."""
    function = widely(functor.function)

    def call(*arguments: Any) -> Any:
        try:
            value = function(*arguments)
        except Exception as error:
            line = line_of(error, function, functor.line)
            raise ProgramError(
                f"{program}.{functor.name}, line {line}: {type(error).__name__}: {error}."
            ) from error
        if returns and value is None:
            raise ProgramError(
                f"{program}.{functor.name}, line {functor.line}: returned None; it must return "
                "a value."
            )
        return value

    return call
