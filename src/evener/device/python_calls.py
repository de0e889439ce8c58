"""What a function names, and whether it would call Python from a compiled thread.

Compiled threads run without Python's lock. A thread that waits for that lock inside a kernel, say
to print, may wait for a thread that waits for the kernel.
"""

from __future__ import annotations

import ctypes
import dis
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from evener.device.compile import Compiled

_TALKS = (print, input, open, breakpoint, exec, eval)
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF")
_POINTER = ctypes.CFUNCTYPE(None).__mro__[1]  # the base of all pointers to functions
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


class Named(NamedTuple):
    """A value that a function reads by a global name, dotted or not."""

    name: str
    value: Any
    line: int


class NeedsPython(NamedTuple):
    """What a function does that only the interpreter can, and the line in its file."""

    what: str
    line: int


def named_in(function: Any) -> Iterator[Named]:
    """All that a function reads by global names and those of enclosing functions.

    Examples
    --------
    >>> import math
    >>> from evener.device.python_calls import named_in
    >>> def rounded(x):
    ...     return math.floor(x)
    >>> [found.name for found in named_in(rounded)]
    ['math', 'math.floor']
    """
    scope = inspect.getclosurevars(function)
    known = {**scope.builtins, **scope.globals, **scope.nonlocals}
    line = function.__code__.co_firstlineno
    current: Named | None = None
    for step in dis.get_instructions(function):
        positions = step.positions
        line = (positions and positions.lineno) or line
        if step.opname in _LOADS and step.argval in known:
            current = Named(step.argval, known[step.argval], line)
        elif step.opname in _ATTRIBUTES and current is not None:
            current = _attribute(current, step.argval, line)
        elif step.opname != "PUSH_NULL":
            current = None
        if current is not None:
            yield current


def _attribute(owner: Named, name: str, line: int) -> Named | None:
    """An attribute of a module or a class; None for those of other values."""
    if not isinstance(owner.value, types.ModuleType | type):
        return None
    try:
        return Named(f"{owner.name}.{name}", getattr(owner.value, name), line)
    except AttributeError:
        return None


def needs_python(function: Any) -> NeedsPython | None:
    """The first thing in a function, or in compiled ones that it calls, that needs Python's lock.

    A ``raise`` or ``assert`` counts where the kernel is ours: if a thread left it, the others would
    wait at a barrier for ever.

    Examples
    --------
    >>> from evener.device.python_calls import needs_python
    >>> def shown(x):
    ...     print(x)
    >>> needs_python(shown).what
    'calls print'
    """
    return _needs_python(function, raising=True, seen=set())


def _needs_python(function: Any, raising: bool, seen: set[int]) -> NeedsPython | None:
    if id(function) in seen:
        return None
    seen.add(id(function))
    if raising:
        line = _raises(function)
        if line is not None:
            return NeedsPython("raises or asserts", line)
    for name, value, line in named_in(function):
        if any(value is talker for talker in _TALKS):
            return NeedsPython(f"calls {name}", line)
        if _is_objmode(value):
            return NeedsPython(f"has a block of {name}", line)
        if _is_callback(value):
            return NeedsPython(f"calls {name}, a Python function", line)
        text, ours = _text_of(value)
        within = None if text is None else _needs_python(text, raising and ours, seen)
        if within is not None:
            return NeedsPython(f"calls {name}, which {within.what}", line)
    return None


def _raises(function: Any) -> int | None:
    """The line of a ``raise`` or an ``assert``."""
    for step in dis.get_instructions(function):
        if step.opname == "RAISE_VARARGS":
            positions = step.positions
            return (positions and positions.lineno) or function.__code__.co_firstlineno
    return None


def _text_of(value: Any) -> tuple[Any, bool]:
    """The Python function behind a compiled one, and whether Evener compiled it."""
    if isinstance(value, Compiled):
        return value.python, True
    text = getattr(value, "py_func", None)  # of Numba's dispatchers
    return (text, False) if isinstance(text, types.FunctionType) else (None, False)


def _is_objmode(value: Any) -> bool:
    numba = sys.modules.get("numba")
    return numba is not None and value is getattr(numba, "objmode", value)


def _is_callback(value: Any) -> bool:
    """Whether a value is a ctypes pointer to a Python function, not to a library's."""
    objects = getattr(value, "_objects", None) if isinstance(value, _POINTER) else None
    return any(type(one).__name__ == "CThunkObject" for one in (objects or {}).values())


def plain_function(function: Any, name: str) -> str | None:
    """The message for a name in a function that the compiler cannot use; None for plain values.

    Examples
    --------
    >>> from evener.device.python_calls import plain_function
    >>> def larger(x):
    ...     return x + 1
    >>> def functor(x):
    ...     return larger(x)
    >>> plain_function(functor, "larger")
    'calls larger, a plain Python function; mark it with @numba.njit'
    """
    for found in named_in(function):
        if found.name.rpartition(".")[2] != name:
            continue
        if found.name == name and not callable(found.value):
            return None  # say a table: the compiler reports its type
        home = str(getattr(found.value, "__module__", "")).partition(".")[0]
        if isinstance(found.value, types.FunctionType) and home not in sys.stdlib_module_names - {
            "__main__"
        }:
            return f"calls {found.name}, a plain Python function; mark it with @numba.njit"
        return f"uses {found.name}, which cannot be compiled; use device='python'"
    return None
