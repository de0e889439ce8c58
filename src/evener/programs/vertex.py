"""Vertex-centric programs: each vertex reduces values over its in-edges (CuSha, warp segmentation).

>>> import numpy as np
>>> import evener as ev
>>> class Hops(ev.vertex.VertexProgram):
...     hops = ev.Field(np.int32, missing=-1, fill=1 << 30)
...     source = ev.Param(np.int64, 0)
...     reduce = "min"
...     @ev.functor
...     def init(v, s):
...         if s.id[v] == s.source:
...             s.hops[v] = 0
...     @ev.functor
...     def compute(src, edge, s):
...         return min(s.hops[src] + 1, 1 << 30)
...     @ev.functor
...     def updated(v, value, s):
...         if value < s.hops[v]:
...             s.hops[v] = value
...             return True
...         return False
>>> ev.run(Hops, ev.Graph.from_edges([0, 1], [1, 2]), device="python").hops.tolist()
[0, 1, 2]
"""

from __future__ import annotations

from typing import Any, ClassVar

from evener.errors import ProgramError
from evener.programs.fields import Param
from evener.programs.functors import Functor
from evener.programs.program import Program
from evener.programs.stages import Stage, compute, gather, repeat

__all__ = ["VertexProgram"]


class VertexProgram(Program, abstract=True):
    """A program whose supersteps visit all vertices, until none of them is updated.

    A body declares fields, parameters and scalars like any program, and

    * ``init(v, s)``: sets up a vertex; optional if ``start`` or the fills of fields do that;
    * ``compute(src, edge, s) -> value``: the value of one in-edge;
    * ``reduce``: ``"sum"``, ``"min"``, ``"max"``, ``"any"`` or a functor ``(a, b) -> value``; with
      a functor, vertices without in-edges are skipped;
    * ``updated(v, value, s) -> bool``: gets the reduced value, returns whether the vertex changed.

    On one device new values are visible at once. ``until`` (a functor) and ``max_supersteps`` end
    the loop early.

    Examples
    --------
    >>> import evener as ev
    >>> class Highest(ev.vertex.VertexProgram):
    ...     highest = ev.Field("int64")
    ...     reduce = "max"
    ...     @ev.functor
    ...     def init(v, s):
    ...         s.highest[v] = s.id[v]
    ...     @ev.functor
    ...     def compute(src, edge, s):
    ...         return s.highest[src]
    ...     @ev.functor
    ...     def updated(v, value, s):
    ...         rises = value > s.highest[v]
    ...         s.highest[v] = max(value, s.highest[v])
    ...         return rises
    >>> ev.run(Highest, ev.generate.path(4), device="python").highest.tolist()
    [3, 3, 3, 3]
    """

    reduce: ClassVar[Any] = "sum"
    until: ClassVar[Functor | None] = None
    max_supersteps: ClassVar[int | Param | None] = None

    def __init_subclass__(cls, abstract: bool = False, **options: Any):
        if not abstract:
            cls.loop = _loop(cls)
        super().__init_subclass__(abstract=abstract, **options)


def _loop(cls: type[VertexProgram]) -> tuple[Stage, ...]:
    names = ("init", "compute", "updated")
    parts: dict[str, Any] = {name: getattr(cls, name, None) for name in names}
    for name, part in parts.items():
        if part is None and name != "init":
            raise ProgramError(f"{cls.__name__} has no functor {name}.")
        if part is not None and not isinstance(part, Functor):
            raise ProgramError(f"{cls.__name__}.{name} must be marked @functor.")
    body = gather(
        parts["compute"], cls.reduce, parts["updated"], asynchronous=True, over="all",
        sees_dst=False,
    )  # fmt: skip
    first = () if parts["init"] is None else (compute(parts["init"], over="all"),)
    return (*first, repeat(body, until=cls.until, max_supersteps=cls.max_supersteps))
