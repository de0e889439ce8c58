"""What the compiler has to say about a user's function, in one line, and about what it returns."""

from __future__ import annotations

import dis
import functools
import re
from typing import Any

from evener.device.compile import Compiled
from evener.device.keys import names_read

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r'(?:File "[^"]*", line |at \S+ \()(\d+)')
_NOISE = ("Failed in nopython mode pipeline", "During:", "File ", "There are", "- Of which")


class CompileError(Exception):
    """A function does not compile: `what` is wrong and on which `line` of its file."""

    def __init__(self, what: str, line: int):
        super().__init__(what)
        self.what, self.line = what, line


def compile_alone(function: Compiled, *examples: Any, inner: bool = False) -> Any:
    """Compile a function for arguments of these types; returns the type of its result.

    Arguments that are types of the compiler already, such as an earlier result, stay as they are.
    ``inner``: only as other compiled code calls it.
    """
    import numba

    # Our own types are registered with the first dispatcher.
    dispatcher = function.inner if inner else function.dispatcher
    signature = tuple(
        example if isinstance(example, numba.types.Type) else function.type_of(example)
        for example in examples
    )
    try:
        dispatcher.compile(signature)
    except Exception as error:  # the compiler raises much besides its own errors
        raise CompileError(_first_words(error), _line(error, function.python)) from None
    return dispatcher.overloads[signature].signature.return_type


def is_number(kind: Any) -> bool:
    """Whether a type of the compiler is that of a number or a truth value."""
    from numba import types

    return isinstance(kind, types.Number | types.Boolean | types.Literal) and not isinstance(
        kind, types.StringLiteral
    )


def describe(kind: Any) -> str:
    """A type of the compiler in words."""
    from numba import types

    if isinstance(kind, types.NoneType):
        return "nothing"
    if isinstance(kind, types.Optional):
        return f"sometimes nothing and sometimes {describe(kind.type)}"
    if isinstance(kind, types.UnicodeType | types.StringLiteral):
        return "a string"
    return f"something of type {kind}"


@functools.cache
def raises(function: Any) -> bool:
    """Whether a function, or a compiled one that it calls, holds a ``raise`` or an ``assert``."""
    found, looked_at = [function], 0
    while looked_at < len(found):
        one = found[looked_at]
        looked_at += 1
        if any(step.opname == "RAISE_VARARGS" for step in dis.get_instructions(one)):
            return True
        called = (one.__globals__.get(name) for name in names_read(one.__code__))
        texts = [value.python for value in called if isinstance(value, Compiled)]
        found += [text for text in texts if text not in found]
    return False


def _first_words(error: Exception) -> str:
    """The first line that says something, with the call that it is about."""
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines()]
    told = [line for line in lines if line and not line.startswith(_NOISE)]
    if not told:
        return type(error).__name__
    first = told[0]
    if first.endswith(":") and len(told) > 1:
        first = f"{first[:-1]} {told[1].removeprefix('>>> ')}"
    return first.removesuffix("Raised from None").strip(". ")


def _line(error: Exception, function: Any) -> int:
    """The line of the function that the compiler points at."""
    code = function.__code__
    inside = {line for _, _, line in code.co_lines() if line is not None}
    location = getattr(error, "loc", None)
    named = [int(found) for found in _PLACE.findall(_COLOUR.sub("", str(error)))]
    if location is not None:
        named.append(location.line)
    return next((line for line in named if line in inside), code.co_firstlineno)
