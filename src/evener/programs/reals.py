"""The dtype of ``REAL`` in a run: ``dtype=`` chooses between 32 and 64 bits.

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
from evener.programs.program import Program, program_cache

_Declared = TypeVar("_Declared", Field, Param, Scalar)


def with_reals(program: type[Program], dtype: Any) -> type[Program]:
    """The program with ``REAL`` as float32 or float64; a 32-bit program has a name ending in 32.

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
        raise ProgramError(f"{d.name} has no values of type REAL; leave out dtype=.")
    if kind == np.float64:  # the default
        return program
    known = program_cache(program, "reals")
    if kind not in known:
        known[kind] = _narrowed(program, kind)
    return known[kind]


def _narrowed(program: type[Program], kind: np.dtype) -> type[Program]:
    def all_with_dtype(of: dict[str, _Declared]) -> dict[str, _Declared]:
        return {name: _with_dtype(one, kind) for name, one in of.items()}

    d = program.declaration
    name = f"{d.name}{8 * kind.itemsize}"
    derived: Any = types.new_class(name, (program,), {"abstract": True})
    derived.__module__ = program.__module__
    derived.declaration = replace(
        d, name=name, fields=all_with_dtype(d.fields), params=all_with_dtype(d.params),
        scalars=all_with_dtype(d.scalars),
    )  # fmt: skip
    return derived


def _with_dtype(declared: _Declared, kind: np.dtype) -> _Declared:
    if declared.dtype is not REAL:
        return declared
    new = copy.copy(declared)
    new.dtype = kind
    return new
