"""The stages of a program's loop; each takes the frontier of the stage before it.

Stages are data. They store the *names* of functors, which are resolved on the class that runs, so
that a subclass may override a functor.

How frontiers are passed on
---------------------------
* `advance`, `filter` and `gather` make a new frontier; `compute`, `edges`, `reduce` and
  `backwards` keep it. ``over="all"`` only determines what a stage runs over: the frontier after
  ``compute(f, over="all")`` is the same as before.
* A `repeat` passes on the frontier with which it ends. If it ended because the frontier was empty,
  a second repeat that takes a frontier has nothing to do; put a stage with ``over="all"`` before
  it or at its beginning, such as ``filter(f, over="all")``.
* An advance with ``emit="edges"`` makes a frontier of edges. On it, `filter` and `compute` call
  ``f(src, dst, edge, s)``, and an `advance` visits the out-edges of the set of their ``dst``; the
  other stages cannot take it.

When writes are visible
-----------------------
At once, on every device, also to other calls in the same superstep: a value may travel over several
edges in one superstep, and how many depends on the order of the calls. Programs whose values only
improve (shortest, widest, smallest) end with the same answer. If the order matters, for instance
with a limit by ``max_supersteps``, read ``s.before.f[v]``, the value when the superstep began. Its
copy costs a pass over all vertices in each superstep.

``s.superstep`` and ``s.changed`` belong to the innermost repeat; when it ends, those of the
enclosing repeat are restored.
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

    The new frontier is the set of ``dst`` for which some call returned True, or with
    ``emit="edges"`` the set of these edges (which are always pushed). ``where(dst, s)`` only saves
    work: within a superstep it may turn from true to false, but never back.

    Later calls in the same superstep see what a call writes: after k supersteps a value may have
    travelled over more than k edges. ``s.before.f[src]`` is the value when the superstep began.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.stages import advance, repeat
    >>> class Depth(ev.Program):
    ...     depth = ev.Field("int64", merge="min", missing=-1)
    ...     @ev.functor
    ...     def reach(src, dst, edge, s):
    ...         return ev.atomic.min(s.depth, dst, s.superstep + 1) > s.superstep + 1
    ...     @ev.functor
    ...     def unreached(dst, s):
    ...         return s.depth[dst] > s.superstep + 1
    ...     def start(self, source: ev.Vertex):
    ...         self.depth[source] = 0
    ...         return [source]
    ...     loop = repeat(advance(reach, where=unreached))
    >>> ev.run(Depth, ev.generate.path(4), source=1, device="python").depth.tolist()
    [1, 0, 1, 2]
    """
    if emit not in ("vertices", "edges"):
        raise mistake(f"advance emits {emit!r}; it must be 'vertices' or 'edges'")
    if idempotent not in (True, False, "auto"):
        raise mistake(f"idempotent is {idempotent!r}; it must be True, False or 'auto'")
    return Advance(_over_all(over), _name(f), _optional(where), emit, idempotent)


def filter(f: Functor, *, over: str = "frontier") -> Filter:
    """Keep the vertices of the frontier for which ``f(v, s)`` returns True.

    On a frontier of edges the functor is ``f(src, dst, edge, s)``.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.stages import compute, filter
    >>> class Leaves(ev.Program):
    ...     leaf = ev.Field("bool")
    ...     @ev.functor
    ...     def single(v, s):
    ...         return s.degree[v] == 1
    ...     @ev.functor
    ...     def mark(v, s):
    ...         s.leaf[v] = True
    ...     loop = (filter(single), compute(mark))
    >>> ev.run(Leaves, ev.generate.star(4), device="python").leaf.tolist()
    [False, True, True, True]
    """
    return Filter(_over_all(over), _name(f))


def compute(f: Functor, *, over: str = "frontier") -> Compute:
    """Call ``f(v, s)`` for each vertex; keeps the frontier.

    On a frontier of edges the functor is ``f(src, dst, edge, s)``.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.stages import compute
    >>> class Squares(ev.Program):
    ...     square = ev.Field("int64")
    ...     @ev.functor
    ...     def multiply(v, s):
    ...         s.square[v] = s.id[v] * s.id[v]
    ...     loop = compute(multiply)
    >>> ev.run(Squares, ev.generate.path(4), device="python").square.tolist()
    [0, 1, 4, 9]
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

    ``along="out"`` uses its out-edges instead and ``"both"`` the in-edges and then the out-edges
    (in an undirected graph each edge once). In each case ``dst`` is the vertex that gathers and
    ``src`` its neighbour. With ``sees_dst=False`` the functor is ``f(src, edge, s)``.

    ``combine`` is ``"sum"``, ``"min"``, ``"max"`` or ``"any"``, or a functor ``(a, b) -> value``.
    With a functor, vertices without in-edges are skipped; otherwise their total is the neutral
    value (±inf for ``"min"`` and ``"max"`` if no value determines the type). ``"any"`` is any of
    the non-zero values, or 0 if there is none. ``f`` may only read. All totals are complete before
    the first ``apply(v, total, s)``; with ``asynchronous``, values that ``apply`` writes are
    visible at once. The new frontier holds the vertices whose ``apply`` returned True.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.stages import gather
    >>> class Around(ev.Program):
    ...     around = ev.Field("int64")
    ...     @ev.functor
    ...     def index(src, dst, edge, s):
    ...         return s.id[src]
    ...     @ev.functor
    ...     def keep(v, total, s):
    ...         s.around[v] = total
    ...         return False
    ...     loop = gather(index, "sum", keep)
    >>> ev.run(Around, ev.generate.path(4), device="python").around.tolist()
    [1, 2, 4, 2]
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
    """Call ``f(src, dst, edge, s) -> bool`` for all edges; ``s.changed`` is whether any was True.

    ``neighbours=(first, last)`` visits a slice of each neighbour list; lists for which
    ``where(src, s)`` is false are skipped. The frontier is kept.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.stages import compute, edges, repeat
    >>> class Components(ev.Program):
    ...     lowest = ev.Field("int64", merge="min")
    ...     @ev.functor
    ...     def begin(v, s):
    ...         s.lowest[v] = s.id[v]
    ...     @ev.functor
    ...     def lower(src, dst, edge, s):
    ...         offer = s.lowest[src]
    ...         return ev.atomic.min(s.lowest, dst, offer) > offer
    ...     @ev.functor
    ...     def settled(s):
    ...         return not s.changed
    ...     loop = (compute(begin), repeat(edges(lower), until=settled))
    >>> graph = ev.Graph.from_edges([1, 2], [0, 3], directed=False)
    >>> ev.run(Components, graph, device="python").lowest.tolist()
    [0, 0, 2, 2]
    """
    if neighbours is not None:
        first, last = neighbours
        if first < 0 or (last is not None and last < first):
            raise mistake(f"neighbours is {neighbours!r}; it must be a slice (first, last)")
    return Edges(True, _name(f), neighbours, _optional(where))


def reduce(f: Functor, op: str, into: Scalar, *, over: str = "frontier") -> Reduce:
    """Reduce ``f(v, s)`` over the frontier of all devices into a scalar.

    The result replaces the value of the scalar, which is initially the neutral value of its merge,
    and is visible from the next stage on.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.stages import reduce
    >>> class Arcs(ev.Program):
    ...     arcs = ev.Scalar("int64", "sum")
    ...     @ev.functor
    ...     def leaving(v, s):
    ...         return s.degree[v]
    ...     loop = reduce(leaving, "sum", into=arcs)
    >>> ev.run(Arcs, ev.generate.star(4), device="python").arcs
    6
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

    Before each superstep an empty frontier ends the loop, if a stage takes the frontier or has made
    it (a first superstep whose stages run over all vertices needs none). After each superstep
    ``s.superstep`` is incremented, then ``until`` and the limit are checked. ``record=True``
    records the frontier at the start of each superstep for `backwards`. On a graph without vertices
    nothing runs.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.stages import compute, repeat
    >>> class Doubled(ev.Program):
    ...     value = ev.Field("int64", fill=1)
    ...     rounds = ev.Param("int64", 3)
    ...     @ev.functor
    ...     def double(v, s):
    ...         s.value[v] *= 2
    ...     loop = repeat(compute(double), max_supersteps=rounds)
    >>> ev.run(Doubled, ev.generate.path(2), rounds=5, device="python").value.tolist()
    [32, 32]
    """
    if isinstance(max_supersteps, int) and max_supersteps < 0:
        raise mistake(f"max_supersteps is {max_supersteps}; it cannot be negative")
    if order is not None and not isinstance(order, Nearest):
        raise mistake(f"order is {order!r}; it must be nearest(field, delta)")
    body = _stages(stages, "repeat")
    return Repeat(False, body, _optional(until), max_supersteps, order, bool(record))


def backwards(*stages: Stage) -> Backwards:
    """Replay the frontiers of the last repeat with ``record=True``, from last to first.

    Each time, the stages start from the recorded frontier, and ``s.superstep`` is the recorded one;
    afterwards the frontier is the same as before.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.stages import advance, backwards, gather, repeat
    >>> class Beyond(ev.Program):
    ...     depth = ev.Field("int64", merge="min")
    ...     beyond = ev.Field("int64")
    ...     @ev.functor
    ...     def reach(src, dst, edge, s):
    ...         return ev.atomic.min(s.depth, dst, s.superstep + 1) > s.superstep + 1
    ...     @ev.functor
    ...     def deeper(src, dst, edge, s):
    ...         return s.beyond[src] + 1 if s.depth[src] > s.depth[dst] else 0
    ...     @ev.functor
    ...     def keep(v, total, s):
    ...         s.beyond[v] = total
    ...         return False
    ...     def start(self, source: ev.Vertex):
    ...         self.depth[source] = 0
    ...         return [source]
    ...     loop = (repeat(advance(reach), record=True), backwards(gather(deeper, "sum", keep)))
    >>> ev.run(Beyond, ev.generate.path(4), source=0, device="python").beyond.tolist()
    [3, 2, 1, 0]
    """
    return Backwards(False, _stages(stages, "backwards"))


def nearest(field: Field, delta: float | Param) -> Nearest:
    """Order the frontier by a field, in buckets of width ``delta``, nearest first.

    If ``delta`` is a `Param`, its value may be ``"auto"``: a width for the weights and the device.

    Bucket i holds the vertices with ``floor(value / delta) == i``. A superstep advances over the
    content of the smallest bucket at its start; emitted vertices join the bucket of their value,
    which may be the same one. A vertex whose value has decreased was processed in an earlier
    bucket, and is skipped in its old one.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.stages import advance, nearest, repeat
    >>> class Distance(ev.Program):
    ...     distance = ev.Field(ev.WEIGHT, merge="min")
    ...     @ev.functor
    ...     def relax(src, dst, edge, s):
    ...         offer = s.distance[src] + s.weight[edge]
    ...         return ev.atomic.min(s.distance, dst, offer) > offer
    ...     def start(self, source: ev.Vertex):
    ...         self.distance[source] = 0
    ...         return [source]
    ...     loop = repeat(advance(relax), order=nearest(distance, 2))
    >>> graph = ev.Graph.from_edges([0, 0, 1], [1, 2, 2], [1, 5, 1])
    >>> ev.run(Distance, graph, source=0, device="python").distance.tolist()
    [0, 1, 2]
    """
    if not isinstance(field, Field):
        raise mistake(f"nearest orders by {field!r}; it must be a Field of the program")
    return Nearest(field, delta)


def walk(stages: tuple[Stage, ...]) -> Iterator[Stage]:
    """All stages, including those inside loops."""
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
        what = f"the plain function {f.__name__}" if inspect.isfunction(f) else repr(f)
        raise mistake(f"a stage was given {what}; it takes a function marked @functor")
    return f.name


def _optional(f: Any) -> str | None:
    return None if f is None else _name(f)


def _over_all(over: str) -> bool:
    if over not in ("frontier", "all"):
        raise mistake(f"over is {over!r}; it must be 'frontier' or 'all'")
    return over == "all"
