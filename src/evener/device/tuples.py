"""Named tuples that compiled code is given, made for a list of names and found again by theirs.

A compiled function refers to the types of its arguments; code from the cache can only be used by a
process that finds those types under the same names. So the name of a type spells out its fields,
and this module makes the type when it is asked for.
"""

from __future__ import annotations

import collections
import functools
import re
from typing import Any


class Identity:
    """The table of global indices where local and global are the same: ``ids[v]`` is v.

    Compiled code gets the index itself (`evener.device.cpu.types`).
    """

    def __getitem__(self, index: int) -> int:
        return int(index)

    def __repr__(self) -> str:
        return "Identity()"  # kernels that use it are kept under what it looks like


@functools.cache
def tuple_type(kind: str, names: tuple[str, ...]) -> Any:
    """The type of this kind with these fields.

    Examples
    --------
    >>> from evener.device.tuples import tuple_type
    >>> tuple_type("State", ("depth", "superstep"))(7, 0).depth
    7
    """
    made = collections.namedtuple(kind, names)  # type: ignore[misc]
    made.__name__ = made.__qualname__ = f"{kind}({','.join(names)})"
    made.__module__ = __name__
    return made


def named(kind: str, values: dict[str, Any]) -> Any:
    """Values under their names.

    Examples
    --------
    >>> from evener.device.tuples import named
    >>> named("Params", {"damping": 0.85}).damping
    0.85
    """
    return tuple_type(kind, tuple(values))(*values.values())


def __getattr__(name: str) -> Any:
    found = re.fullmatch(r"([A-Z]\w*)\((.*)\)", name)
    if found is None:
        raise AttributeError(name)
    return tuple_type(found[1], tuple(found[2].split(",")) if found[2] else ())
