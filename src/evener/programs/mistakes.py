"""Errors for mistakes in programs: their place in the source, and unknown parameters."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from evener.errors import ProgramError

_HERE = str(Path(__file__).parent)


def mistake(what: str) -> ProgramError:
    """The error for a wrong declaration, with the program and the line.

    The class does not exist yet, so both are taken from the call stack. `ProgramError` shows an
    example.
    """
    frame: FrameType | None = sys._getframe(1)
    program = None
    while frame is not None and str(Path(frame.f_code.co_filename).parent) == _HERE:
        cls = frame.f_locals.get("cls")  # a GasProgram or VertexProgram makes its loop later
        program = cls.__name__ if isinstance(cls, type) else program
        frame = frame.f_back
    if frame is None:
        return ProgramError(f"{what}.")
    if program is None and "__qualname__" in frame.f_locals:  # so this is the body of a class
        program = frame.f_code.co_name
    place = f"line {frame.f_lineno} of {Path(frame.f_code.co_filename).name}"
    return ProgramError(f"{program}, {place}: {what}." if program else f"{place}: {what}.")


def line_of(error: BaseException, function: Any, line: int) -> int:
    """The line of a user's function at which an error was raised, there or in a callee."""
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code is getattr(function, "__code__", None):
            line = number
    return line


def no_parameter(owner: str, name: str, own: Sequence[str], of_run: Sequence[str]) -> ProgramError:
    """The error for an unknown parameter, with the known ones.

    Examples
    --------
    >>> from evener.programs.mistakes import no_parameter
    >>> raise no_parameter("bfs", "devise", ["source"], ["device"])
    Traceback (most recent call last):
    evener.errors.ProgramError: bfs has no parameter 'devise' (did you mean 'device'?); it takes ...
    """
    import difflib  # here, so that it slows down no import

    near = difflib.get_close_matches(name, [*own, *of_run], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return ProgramError(
        f"{owner} has no parameter {name!r}{hint}; it takes {', '.join(own) or 'no parameters'}, "
        f"and the options of evener.run: {', '.join(of_run)}."
    )
