"""Functors: the small functions of a program that run for vertices and edges."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evener.device.compile import Compiled
from evener.programs.mistakes import mistake


class Functor:
    """A static function of a program, known by its name so that a subclass may override it.

    Call it to run its text as plain Python, as the interpreted device does.
    """

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.function = function
        self.name = function.__name__
        self.line = function.__code__.co_firstlineno  # where it begins in its file
        self.file = Path(function.__code__.co_filename).name

    def __call__(self, *args: Any) -> Any:
        """Run the text as plain Python."""
        return self.function(*args)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return tuple(inspect.signature(self.function).parameters)

    def __repr__(self) -> str:
        return f"<functor {self.function.__qualname__}>"


class Routine(Compiled):
    """A function that functors call: compiled with them, but plain Python runs its text."""

    def __call__(self, *args: Any) -> Any:
        """Run the text."""
        return self.python(*args)


def routine(function: Callable[..., Any]) -> Routine:
    """Mark a function outside a program as one that functors call.

    Examples
    --------
    >>> from evener.programs.functors import routine
    >>> @routine
    ... def double(x):
    ...     return 2 * x
    >>> double(21)
    42
    """
    return Routine(function, _nrt=False)


def kept_with_functor(question: Callable[..., Any]) -> Callable[..., Any]:
    """Remember the answers to a question about a functor for as long as the functor lives."""

    def ask(functor: Functor, *more: Any) -> Any:
        known = functor.__dict__.setdefault("_answers", {})
        key = (question.__name__, *more)
        if key not in known:
            known[key] = question(functor, *more)
        return known[key]

    functools.update_wrapper(ask, question)
    return ask


def functor(function: Callable[..., Any]) -> Functor:
    """Mark a function in the body of a program as one that runs on the devices.

    It is a static function: its arguments are those of the stage that uses it, and ``s``, which
    offers fields, parameters and scalars.

    Examples
    --------
    >>> from evener.programs.functors import functor
    >>> @functor
    ... def unreached(dst, s):
    ...     return s.depth[dst] < 0
    >>> unreached.parameters
    ('dst', 's')
    """
    if isinstance(function, staticmethod):
        function = function.__func__
    if not inspect.isfunction(function):
        raise mistake(f"functor was applied to {function!r}; it takes a plain function")
    return Functor(function)
