"""Gather, apply, scatter: a program as three functions (MapGraph, VertexAPI2).

>>> import numpy as np
>>> import evener as ev
>>> class Nearest(ev.gas.GasProgram):
...     distance = ev.Field(ev.WEIGHT, merge="min")
...     combine = "min"
...     @ev.functor
...     def gather(src, dst, edge, s):
...         return s.distance[src] + s.weight[edge] if s.distance[src] < 1 << 60 else 1 << 60
...     @ev.functor
...     def apply(v, total, s):
...         if total < s.distance[v]:
...             s.distance[v] = total
...             return True
...         return s.distance[v] == 0 and s.superstep == 0
...     @ev.functor
...     def scatter(src, dst, edge, s):
...         return s.distance[src] + s.weight[edge] < s.distance[dst]
...     def start(self, source: ev.Vertex):
...         self.distance[source] = 0
...         return [source]
>>> graph = ev.Graph.from_edges([0, 1], [1, 2], [3, 4])
>>> ev.run(Nearest, graph, source=0, device="python").distance.tolist()
[0, 3, 7]
"""

from __future__ import annotations

from typing import Any, ClassVar

from evener.errors import ProgramError
from evener.programs.fields import Param
from evener.programs.functors import Functor
from evener.programs.program import Program
from evener.programs.stages import Stage, advance, filter, gather, repeat

__all__ = ["GasProgram"]


class GasProgram(Program, abstract=True):
    """A program whose supersteps gather at the frontier, apply, and scatter from changed vertices.

    A body declares fields, parameters and scalars like any program, ``start``, and

    * ``gather(src, dst, edge, s) -> value``: the value that ``dst``, a vertex of the frontier, gets
      from its neighbour ``src``; optional;
    * ``combine``: ``"sum"``, ``"min"``, ``"max"``, ``"any"`` or a functor ``(a, b) -> value``;
    * ``along``: the edges to gather over, ``"in"`` (default), ``"out"`` or ``"both"``;
    * ``apply(v, total, s) -> changed``, or ``apply(v, s)`` without ``gather``;
    * ``scatter(src, dst, edge, s) -> activate``: called for the out-edges of changed vertices; the
      next frontier holds each ``dst`` for which a call returned True. Without ``scatter`` it holds
      the changed vertices.

    ``until`` (a functor) and ``max_supersteps`` end the loop early.

    Examples
    --------
    >>> import evener as ev
    >>> class Depth(ev.gas.GasProgram):
    ...     depth = ev.Field("int64", merge="min", missing=-1)
    ...     @ev.functor
    ...     def apply(v, s):
    ...         s.depth[v] = s.superstep
    ...         return True
    ...     @ev.functor
    ...     def scatter(src, dst, edge, s):
    ...         return s.depth[dst] > s.depth[src] + 1
    ...     def start(self, source: ev.Vertex):
    ...         return [source]
    >>> ev.run(Depth, ev.generate.path(4), source=1, device="python").depth.tolist()
    [1, 0, 1, 2]
    """

    combine: ClassVar[Any] = "sum"
    along: ClassVar[str] = "in"
    until: ClassVar[Functor | None] = None
    max_supersteps: ClassVar[int | Param | None] = None

    def __init_subclass__(cls, abstract: bool = False, **options: Any):
        if not abstract:
            cls.loop = repeat(*_superstep(cls), until=cls.until, max_supersteps=cls.max_supersteps)
        super().__init_subclass__(abstract=abstract, **options)


def _superstep(cls: type[GasProgram]) -> list[Stage]:
    names = ("gather", "apply", "scatter")
    parts: dict[str, Any] = {name: getattr(cls, name, None) for name in names}
    for name, part in parts.items():
        if part is not None and not isinstance(part, Functor):
            raise ProgramError(f"{cls.__name__}.{name} must be marked @functor.")
    if parts["apply"] is None:
        raise ProgramError(f"{cls.__name__} has no functor apply.")
    if parts["gather"] is None:
        stages: list[Stage] = [filter(parts["apply"])]
    else:
        stages = [gather(parts["gather"], cls.combine, parts["apply"], along=cls.along)]
    if parts["scatter"] is not None:
        stages.append(advance(parts["scatter"]))
    return stages
