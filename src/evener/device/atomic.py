"""Atomic updates of array elements: one name on every device.

Each function returns the value that was there before. Called from plain Python they are ordinary
updates, which is what the interpreted device needs; compiled code gets the processor's
instruction (`evener.device.cpu_atomic`). Arrays hold integers or floats of 32 or 64 bits.
"""

from __future__ import annotations

from typing import Any

__all__ = ["add", "cas", "exchange", "max", "min"]


def add(array: Any, index: Any, value: Any) -> Any:
    """Add ``value`` to ``array[index]``; return what was there."""
    old = array[index]
    array[index] = old + value
    return old


def min(array: Any, index: Any, value: Any) -> Any:
    """Lower ``array[index]`` to ``value`` if that is less; return what was there."""
    old = array[index]
    if value < old:
        array[index] = value
    return old


def max(array: Any, index: Any, value: Any) -> Any:
    """Raise ``array[index]`` to ``value`` if that is more; return what was there."""
    old = array[index]
    if value > old:
        array[index] = value
    return old


def exchange(array: Any, index: Any, value: Any) -> Any:
    """Set ``array[index]`` to ``value``; return what was there."""
    old = array[index]
    array[index] = value
    return old


def cas(array: Any, index: Any, expected: Any, value: Any) -> Any:
    """Set ``array[index]`` to ``value`` if it holds ``expected``; return what was there."""
    old = array[index]
    if old == expected:
        array[index] = value
    return old
