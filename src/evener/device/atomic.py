"""Atomic updates of array elements: one name on every device.

Each function returns the value that was there before. Called from plain Python they are ordinary
updates, which is what the interpreted device needs; compiled code gets the processor's
instruction (`evener.device.cpu_atomic`).
"""

from __future__ import annotations

from typing import Any


def add(array: Any, index: Any, value: Any) -> Any:
    """Add ``value`` to ``array[index]``; return what was there."""
    old = array[index]
    array[index] = old + value
    return old
