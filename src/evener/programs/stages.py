"""The stages of a program's loop; each takes the frontier of the one before it.

Stages are data. They keep the *names* of functors and resolve them on the class that runs, so that
a subclass may override a functor.

How frontiers travel
--------------------
* `advance`, `filter` and `gather` make a new frontier; `compute`, `edges`, `reduce` and
  `backwards` leave it as it was. ``over="all"`` says what a stage runs over, nothing more: after
  ``compute(f, over="all")`` the frontier is what it was before.
* A `repeat` hands on the frontier with which it ended. Run out, that is the empty set, and a
  second repeat that takes a frontier then has nothing to do; begin it, or put before it, a stage
  with ``over="all"``, such as ``filter(f, over="all")``.
* An advance with ``emit="edges"`` makes a frontier of edges. `filter` and `compute` on it call
  ``f(src, dst, edge, s)``, an `advance` goes over the out-edges of the set of their ``dst``, and
  the other stages cannot take it.

``s.superstep`` and ``s.changed`` are those of the innermost repeat; when it ends, those of the
repeat around it are back.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from evener.programs.fields import Field, Param, Scalar
from evener.programs.functors import Functor
from evener.programs.kinds import (
    Advance,
    Backwards,
    Compute,
    Edges,
    Filter,
    Gather,
    Nearest,
    Reduce,
    Repeat,
    Stage,
)
from evener.programs.mistakes import mistake

__all__ = [
    "advance", "backwards", "compute", "edges", "filter", "gather", "nearest", "reduce", "repeat",
]  # fmt: skip


def advance(
    f: Functor,
    where: Functor | None = None,
    emit: str = "vertices",
    idempotent: bool | str = "auto",
    *,
    over: str = "frontier",
) -> Advance:
    """Call ``f(src, dst, edge, s) -> bool`` for the out-edges of the frontier.

    The new frontier is the set of ``dst`` for which some call returned True, or of the edges with
    ``emit="edges"`` (these are always pushed). ``where(dst, s)`` only saves work: it may turn from
    true to false within a superstep and never back.
    """
    if emit not in ("vertices", "edges"):
        raise mistake(f"advance emits {emit!r}; it must be 'vertices' or 'edges'")
    if idempotent not in (True, False, "auto"):
        raise mistake(f"idempotent is {idempotent!r}; it must be True, False or 'auto'")
    return Advance(_over_all(over), _name(f), _optional(where), emit, idempotent)


def filter(f: Functor, *, over: str = "frontier") -> Filter:
    """Keep the vertices of the frontier for which ``f(v, s)`` returns True.

    On a frontier of edges the functor is ``f(src, dst, edge, s)``.
    """
    return Filter(_over_all(over), _name(f))


def compute(f: Functor, *, over: str = "frontier") -> Compute:
    """Call ``f(v, s)`` for each vertex; the frontier stays as it is.

    On a frontier of edges the functor is ``f(src, dst, edge, s)``.
    """
    return Compute(_over_all(over), _name(f))


def gather(
    f: Functor,
    combine: str | Functor,
    apply: Functor,
    asynchronous: bool = False,
    *,
    over: str = "frontier",
    along: str = "in",
    sees_dst: bool = True,
) -> Gather:
    """Combine ``f(src, dst, edge, s)`` over the in-edges of each vertex, then ``apply``.

    ``along="out"`` takes its out-edges instead and ``"both"`` the in-edges and then the out-edges
    (of an undirected graph each edge once). In all of them ``dst`` is the vertex that gathers and
    ``src`` its neighbour. With ``sees_dst=False`` the functor is ``f(src, edge, s)``.

    ``combine`` is ``"sum"``, ``"min"``, ``"max"`` or ``"any"``, or a functor ``(a, b) -> value``;
    with a functor, vertices without in-edges are passed over, otherwise their total is the
    neutral value (±inf for ``"min"`` and ``"max"`` where no value tells the type). ``"any"`` is
    one of the values that are not zero, 0 if there is none. ``f`` only reads. All totals are
    complete before the first ``apply(v, total, s)``; ``asynchronous`` lets values written by it be
    seen at once. The new frontier holds the vertices whose ``apply`` returned True.
    """
    if isinstance(combine, Functor):
        combine = f"@{combine.name}"
    elif combine not in ("sum", "min", "max", "any"):
        raise mistake(
            f"gather combines by {combine!r}; it must be 'sum', 'min', 'max', 'any' or a functor"
        )
    if along not in ("in", "out", "both"):
        raise mistake(f"gather goes along {along!r}; it must be 'in', 'out' or 'both'")
    return Gather(
        _over_all(over), _name(f), combine, _name(apply), bool(asynchronous), along, bool(sees_dst)
    )


def edges(
    f: Functor, neighbours: tuple[int, int | None] | None = None, where: Functor | None = None
) -> Edges:
    """Call ``f(src, dst, edge, s) -> bool`` for all edges; ``s.changed`` tells if one was True.

    ``neighbours=(first, last)`` takes a slice of each neighbour list, ``where(src, s)`` leaves
    whole lists out. The frontier stays as it is.
    """
    if neighbours is not None:
        first, last = neighbours
        if first < 0 or (last is not None and last < first):
            raise mistake(f"neighbours is {neighbours!r}; it must be a slice (first, last)")
    return Edges(True, _name(f), neighbours, _optional(where))


def reduce(f: Functor, op: str, into: Scalar, *, over: str = "frontier") -> Reduce:
    """Reduce ``f(v, s)`` over the frontier of all devices into a scalar.

    The result replaces the value of the scalar, which before its first reduce is the neutral
    value of its merge, and is visible from the next stage.
    """
    if not isinstance(into, Scalar):
        raise mistake(f"reduce goes into {into!r}; it must be a Scalar of the program")
    if op != into.merge:
        raise mistake(f"reduce by {op!r} goes into a scalar that merges by {into.merge!r}")
    return Reduce(_over_all(over), _name(f), op, into)


def repeat(
    *stages: Stage,
    until: Functor | None = None,
    max_supersteps: int | Param | None = None,
    order: Nearest | None = None,
    record: bool = False,
) -> Repeat:
    """Repeat stages until the frontier is empty, ``until(s)`` holds, or the limit is reached.

    Before each superstep an empty frontier ends the loop, if a stage takes it or has made it (a
    first superstep whose stages run over all vertices does not need one). After it the count
    ``s.superstep`` goes up, then ``until`` and the limit are asked. ``record=True`` keeps the
    frontier at the start of each superstep for `backwards`. On a graph without vertices nothing
    runs.
    """
    if isinstance(max_supersteps, int) and max_supersteps < 0:
        raise mistake(f"max_supersteps is {max_supersteps}; it cannot be negative")
    if order is not None and not isinstance(order, Nearest):
        raise mistake(f"order is {order!r}; it must be nearest(field, delta)")
    body = _stages(stages, "repeat")
    return Repeat(False, body, _optional(until), max_supersteps, order, bool(record))


def backwards(*stages: Stage) -> Backwards:
    """Replay the frontiers that the last recording repeat kept, from last to first.

    Each time the stages start from the recorded frontier, and ``s.superstep`` is that of the
    record; afterwards the frontier is what it was before.
    """
    return Backwards(False, _stages(stages, "backwards"))


def nearest(field: Field, delta: float | Param) -> Nearest:
    """Order the frontier by a field, in buckets of width ``delta``, nearest first.

    Bucket i holds the vertices with ``floor(value / delta) == i``. A superstep advances over what
    the smallest bucket holds at its start; vertices emitted join the bucket of their value, which
    may be the same one. One whose value fell meanwhile was dealt with in an earlier bucket.
    """
    if not isinstance(field, Field):
        raise mistake(f"nearest orders by {field!r}; it must be a Field of the program")
    return Nearest(field, delta)


def walk(stages: tuple[Stage, ...]) -> Iterator[Stage]:
    """All stages, those inside loops too."""
    for stage in stages:
        yield stage
        if isinstance(stage, Repeat | Backwards):
            yield from walk(stage.stages)


def _stages(stages: tuple[Any, ...], where: str) -> tuple[Stage, ...]:
    if not stages:
        raise mistake(f"{where} has no stages")
    for stage in stages:
        if not isinstance(stage, Stage):
            raise mistake(f"{where} holds {stage!r}, which is not a stage")
    return stages


def _name(f: Any) -> str:
    if not isinstance(f, Functor):
        given = f"the plain function {f.__name__}" if inspect.isfunction(f) else repr(f)
        raise mistake(f"a stage was given {given}; it takes a function marked @functor")
    return f.name


def _optional(f: Any) -> str | None:
    return None if f is None else _name(f)


def _over_all(over: str) -> bool:
    if over not in ("frontier", "all"):
        raise mistake(f"over is {over!r}; it must be 'frontier' or 'all'")
    return over == "all"
