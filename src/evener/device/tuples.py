"""Named tuples as arguments of compiled code, made from field names and found by them.

A compiled function refers to the types of its arguments; cached code works only in a process that
finds those types under the same names. So the name of a type spells out its fields, and this
module makes the type on request.
"""

from __future__ import annotations

import collections
import functools
import re
from typing import Any


class Identity:
    """The table of global indices where they equal the local ones: ``ids[v]`` is v.

    Compiled code gets the index itself (`evener.device.cpu.types`).
    """

    def __getitem__(self, index: int) -> int:
        return int(index)

    def __repr__(self) -> str:
        return "Identity()"  # part of the keys of kernels that use it


@functools.cache
def tuple_type(kind: str, names: tuple[str, ...]) -> Any:
    """The named tuple ``kind`` with these fields.

    Examples
    --------
    >>> from evener.device.tuples import tuple_type
    >>> tuple_type("State", ("depth", "superstep"))(7, 0).depth
    7
    """
    new = collections.namedtuple(kind, names)  # type: ignore[misc]
    new.__name__ = new.__qualname__ = f"{kind}({','.join(names)})"
    new.__module__ = __name__
    return new


def named(kind: str, values: dict[str, Any]) -> Any:
    """A named tuple of values.

    Examples
    --------
    >>> from evener.device.tuples import named
    >>> named("Params", {"damping": 0.85}).damping
    0.85
    """
    return tuple_type(kind, tuple(values))(*values.values())


def __getattr__(name: str) -> Any:
    match = re.fullmatch(r"([A-Z]\w*)\((.*)\)", name)
    if match is None:
        raise AttributeError(name)
    return tuple_type(match[1], tuple(match[2].split(",")) if match[2] else ())
