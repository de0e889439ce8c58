"""The updates of `evener.device.atomic` for an element that only one thread touches.

They are compiled as the ordinary Python that they are.
"""

from __future__ import annotations

from evener.device.compile import compiled


@compiled(allocates=False)
def add(array, index, value):
    """Add ``value`` to ``array[index]``; return what was there."""
    old = array[index]
    array[index] = old + value
    return old


@compiled(allocates=False)
def min(array, index, value):
    """Lower ``array[index]`` to ``value`` if that is less; return what was there."""
    old = array[index]
    if value < old:
        array[index] = value
    return old


@compiled(allocates=False)
def max(array, index, value):
    """Raise ``array[index]`` to ``value`` if that is more; return what was there."""
    old = array[index]
    if value > old:
        array[index] = value
    return old


@compiled(allocates=False)
def exchange(array, index, value):
    """Set ``array[index]`` to ``value``; return what was there."""
    old = array[index]
    array[index] = value
    return old


@compiled(allocates=False)
def cas(array, index, expected, value):
    """Set ``array[index]`` to ``value`` if it holds ``expected``; return what was there."""
    old = array[index]
    if old == expected:
        array[index] = value
    return old
