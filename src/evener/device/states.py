"""Types of the state ``s``: named tuples, one for each list of names, found again by their name.

A compiled function refers to the type of its arguments; code from the cache can only be used by a
process that finds that type under the same name. So the name spells out the fields, and this
module makes the type when it is asked for.
"""

from __future__ import annotations

import collections
import functools
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
def state_type(names: tuple[str, ...]) -> Any:
    """The named tuple with these fields.

    Examples
    --------
    >>> from evener.device.states import state_type
    >>> state_type(("depth", "superstep"))(7, 0).depth
    7
    """
    made = collections.namedtuple("State", names)  # type: ignore[misc]
    made.__name__ = made.__qualname__ = f"State({','.join(names)})"
    made.__module__ = __name__
    return made


def __getattr__(name: str) -> Any:
    if name.startswith("State(") and name.endswith(")"):
        return state_type(tuple(name[len("State(") : -1].split(",")))
    raise AttributeError(name)
