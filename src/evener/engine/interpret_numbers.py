"""Numbers as compiled code has them, for the interpreter.

A compiler widens whole numbers of 32 bits before it computes with them, and lets those of 64 bits
wrap round. NumPy computes in 32 bits, and Python without limits.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Widened:
    """An array of whole numbers of 32 bits, or of bools, of which each is read in full width.

    What is written wraps round to the array's width.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.interpret_numbers import Widened
    >>> found = Widened(np.array([7], np.int32))
    >>> int(found[0] << 32)
    30064771072
    >>> found[0] = 1 << 32
    >>> int(found[0])
    0
    """

    __slots__ = ("_read", "values")

    def __init__(self, values: np.ndarray):
        self.values = values
        # True + True is 2 in compiled code and in Python, but True in NumPy.
        self._read: Any = bool if values.dtype.kind == "b" else np.int64

    def __len__(self) -> int:
        return len(self.values)

    @property
    def dtype(self) -> np.dtype:
        """The type in which they are kept."""
        return self.values.dtype

    def __getitem__(self, index: Any) -> Any:
        return self._read(self.values[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, int | np.integer):
            value = np.int64(value).astype(self.values.dtype)
        self.values[index] = value


def widened(values: Any) -> Any:
    """An array or a number in the width in which compiled code computes.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.interpret_numbers import widened
    >>> widened(np.int32(1)).dtype, widened(np.float32(1)).dtype
    (dtype('int64'), dtype('float32'))
    """
    dtype = getattr(values, "dtype", None)
    if dtype is None or not (dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize == 4)):
        return values
    if isinstance(values, np.ndarray):
        return Widened(values)
    return bool(values) if dtype.kind == "b" else np.int64(values)


def widened_all(named: dict[str, Any]) -> dict[str, Any]:
    """The same for all of a state."""
    return {name: widened(value) for name, value in named.items()}
