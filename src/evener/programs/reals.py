"""What ``REAL`` stands for in a run: ``dtype=`` chooses between 32 and 64 bits.

>>> import evener as ev
>>> class Halves(ev.Program):
...     half = ev.Field(ev.REAL)
...     @ev.functor
...     def divide(v, s):
...         s.half[v] = s.id[v] / 2
...     loop = ev.stages.compute(divide)
>>> graph = ev.generate.path(3)
>>> ev.run(Halves, graph, device="python").half.dtype.name
'float64'
>>> ev.run(Halves, graph, device="python", dtype="float32").half.dtype.name
'float32'
"""

from __future__ import annotations

import copy
import types
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from evener.errors import EvenerError, ProgramError
from evener.programs.fields import REAL, Field, Param, Scalar
from evener.programs.program import Program, memory_of

_Declared = TypeVar("_Declared", Field, Param, Scalar)


def with_reals(program: type[Program], dtype: Any) -> type[Program]:
    """A program in which ``REAL`` is float32 or float64; in 32 bits its name ends so.

    Examples
    --------
    >>> from evener.algorithms.pagerank import PageRank
    >>> from evener.programs.reals import with_reals
    >>> with_reals(PageRank, "float32").declaration.fields["rank"].dtype, PageRank.rank.dtype
    (dtype('float32'), REAL)
    """
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.float32, np.float64):
        raise EvenerError(f"dtype is {dtype!r}; it must be float32 or float64.")
    d = program.declaration
    if not any(one.dtype is REAL for of in (d.fields, d.params, d.scalars) for one in of.values()):
        raise ProgramError(f"{d.name} has no values of type REAL; leave dtype= out.")
    if kind == np.float64:  # which it is by itself
        return program
    known = memory_of(program, "reals")
    if kind not in known:
        known[kind] = _narrowed(program, kind)
    return known[kind]


def _narrowed(program: type[Program], kind: np.dtype) -> type[Program]:
    def settled(of: dict[str, _Declared]) -> dict[str, _Declared]:
        return {name: _settled(one, kind) for name, one in of.items()}

    d = program.declaration
    name = f"{d.name}{8 * kind.itemsize}"
    derived: Any = types.new_class(name, (program,), {"abstract": True})
    derived.__module__ = program.__module__
    derived.declaration = replace(
        d, name=name, fields=settled(d.fields), params=settled(d.params),
        scalars=settled(d.scalars),
    )  # fmt: skip
    return derived


def _settled(declared: _Declared, kind: np.dtype) -> _Declared:
    if declared.dtype is not REAL:
        return declared
    made = copy.copy(declared)
    made.dtype = kind
    return made
