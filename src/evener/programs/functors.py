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
    """A static function of a program, found by name so that a subclass may override it.

    Calling it runs its source as plain Python, as the interpreted device does.
    """

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.function = function
        self.name = function.__name__
        self.line = function.__code__.co_firstlineno  # its first line in the file
        self.file = Path(function.__code__.co_filename).name

    def __call__(self, *args: Any) -> Any:
        """Run the function as plain Python."""
        return self.function(*args)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return tuple(inspect.signature(self.function).parameters)

    def __repr__(self) -> str:
        return f"<functor {self.function.__qualname__}>"


class Routine(Compiled):
    """A function that functors call: compiled with them, but interpreted in plain Python."""

    def __call__(self, *args: Any) -> Any:
        """Run the function as plain Python."""
        return self.python(*args)


def routine(function: Callable[..., Any]) -> Routine:
    """Mark a function outside a program as callable by functors.

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


def cached_on_functor(function: Callable[..., Any]) -> Callable[..., Any]:
    """Cache the results of a function of a functor on the functor."""

    def cached(functor: Functor, *more: Any) -> Any:
        cache = functor.__dict__.setdefault("_cache", {})
        key = (function.__name__, *more)
        if key not in cache:
            cache[key] = function(functor, *more)
        return cache[key]

    functools.update_wrapper(cached, function)
    return cached


def functor(function: Callable[..., Any]) -> Functor:
    """Mark a function in the body of a program as code for the devices.

    It is a static function: its arguments are those of the stage that uses it, and ``s``, which
    has the fields, parameters and scalars.

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
