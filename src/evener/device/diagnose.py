"""The compiler's errors about a user's function in one line, and the type of its result."""

from __future__ import annotations

import re
from typing import Any

from evener.device.compile import Compiled
from evener.device.locks import refuse_while_compiling
from evener.device.python_calls import plain_function

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r'(?:File "[^"]*", line |at \S+ \()(\d+)')
_UNKNOWN = re.compile(r"Untyped global name '(\w+)'|Unknown attribute '(\w+)' of type Module")
_NOISE = ("Failed in nopython mode pipeline", "During:", "File ", "There are", "- Of which")


class CompileError(Exception):
    """A function does not compile: `what` is wrong at which `line` of its file."""

    def __init__(self, what: str, line: int):
        super().__init__(what)
        self.what, self.line = what, line


def compile_alone(function: Compiled, *examples: Any, inner: bool = False) -> Any:
    """Compile a function for arguments of these types; returns the type of its result.

    Arguments may be compiler types already, such as an earlier result. ``inner`` compiles only
    what compiled callers need.
    """
    import numba

    refuse_while_compiling()
    # Making the first dispatcher registers our own types.
    dispatcher = function.inner if inner else function.dispatcher
    signature = tuple(
        example if isinstance(example, numba.types.Type) else function.type_of(example)
        for example in examples
    )
    try:
        dispatcher.compile(signature)
    except Exception as error:  # the compiler raises more than its own errors
        what = _about_a_name(error, function.python) or _first_words(error)
        raise CompileError(what, _line(error, function.python)) from None
    return dispatcher.overloads[signature].signature.return_type


def is_number(kind: Any) -> bool:
    """Whether a compiler type is a number or a truth value."""
    from numba import types

    return isinstance(kind, types.Number | types.Boolean | types.Literal) and not isinstance(
        kind, types.StringLiteral
    )


def describe(kind: Any) -> str:
    """A compiler type in words."""
    from numba import types

    if isinstance(kind, types.NoneType):
        return "nothing"
    if isinstance(kind, types.Optional):
        return f"sometimes nothing and sometimes {describe(kind.type)}"
    if isinstance(kind, types.UnicodeType | types.StringLiteral):
        return "a string"
    return f"a value of type {kind}"


def _about_a_name(error: Exception, function: Any) -> str | None:
    """The message for a global that has no compiler type, such as a plain helper function."""
    match = _UNKNOWN.search(_COLOUR.sub("", str(error)))
    return None if match is None else plain_function(function, match[1] or match[2])


def _first_words(error: Exception) -> str:
    """The first informative line, with the call that it is about."""
    stripped = (line.strip() for line in _COLOUR.sub("", str(error)).splitlines())
    lines = [line for line in stripped if line and not line.startswith(_NOISE)]
    if not lines:
        return type(error).__name__
    first = lines[0]
    if first.endswith(":") and len(lines) > 1:
        first = f"{first[:-1]} {lines[1].removeprefix('>>> ')}"
    return first.removesuffix("Raised from None").strip(". ")


def _line(error: Exception, function: Any) -> int:
    """The line of the function that the compiler points at."""
    code = function.__code__
    inside = {line for _, _, line in code.co_lines() if line is not None}
    location = getattr(error, "loc", None)
    named = [int(number) for number in _PLACE.findall(_COLOUR.sub("", str(error)))]
    if location is not None:
        named.append(location.line)
    return next((line for line in named if line in inside), code.co_firstlineno)
