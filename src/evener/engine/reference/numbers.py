"""The arithmetic of compiled code, for the interpreter.

Compiled code widens integers of 32 bits before it computes with them, and those of 64 bits wrap
around. NumPy computes in 32 bits, and Python without limits.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np


class Widened:
    """An array of 32-bit integers, or of bools, whose elements are read in full width.

    Written values wrap around to the array's width.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.reference.numbers import Widened
    >>> array = Widened(np.array([7], np.int32))
    >>> int(array[0] << 32)
    30064771072
    >>> array[0] = 1 << 32
    >>> int(array[0])
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
        """The dtype in which elements are stored."""
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
    >>> from evener.engine.reference.numbers import widened
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
    """The values of a state, each widened."""
    return {name: widened(value) for name, value in named.items()}


def widely(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that reads its global and closed-over numbers in the width of compiled code.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.reference.numbers import widely
    >>> table = np.array([1 << 30], np.int32)
    >>> def squared():
    ...     return table[0] * table[0]
    >>> int(widely(squared)()) == 1 << 60
    True
    """
    around = inspect.getclosurevars(function)
    wide = {name: _wide(value) for name, value in {**around.globals, **around.nonlocals}.items()}
    wide = {name: value for name, value in wide.items() if value is not None}
    if not wide or not isinstance(function, types.FunctionType):
        return function
    free = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    cells = [types.CellType(wide[name]) if name in wide else cell for name, cell in free]
    known = {
        **function.__globals__,
        **{name: wide[name] for name in around.globals if name in wide},
    }
    copy = types.FunctionType(
        function.__code__, known, function.__name__, function.__defaults__, tuple(cells)
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _wide(value: Any) -> Any:
    """A NumPy table or number of narrow integers in 64 bits; None for anything else."""
    if not isinstance(value, np.ndarray | np.generic):
        return None
    narrow = value.dtype.kind in "iu" and value.dtype.itemsize < 8
    return value.astype(np.int64) if narrow else None


def wrapped(value: Any, dtype: np.dtype) -> Any:
    """A number in the dtype of a scalar; integers wrap around.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.reference.numbers import wrapped
    >>> int(wrapped((1 << 32) + 7, np.dtype(np.int32)))
    7
    """
    if dtype.kind in "iu" and isinstance(value, int | np.integer):
        return np.uint64(int(value) & 0xFFFFFFFFFFFFFFFF).astype(dtype)
    return dtype.type(value)
