"""Fields stored as a fill value and a few assignments, for a device to repeat.

A program's ``start`` usually fills a field and sets one element. On a GPU, repeating that is
cheaper than uploading an array. Anything else that ``start`` does with a field turns it into an
ordinary array first.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

FEW = 8  # elements that are written one by one


class DeferredArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A fill value and the assignments made since.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.deferred_arrays import DeferredArray
    >>> depth = DeferredArray(4, np.dtype(np.int32), 9)
    >>> depth[1] = 0
    >>> depth.is_deferred, (depth + 1).tolist(), depth.is_deferred
    (True, [10, 1, 10, 10], False)
    """

    def __init__(self, length: int, dtype: np.dtype, fill: Any):
        self.dtype, self.shape, self.ndim, self.size = dtype, (length,), 1, length
        self.nbytes = length * dtype.itemsize
        self._fill = fill
        self._writes: list[tuple[Any, Any]] = []
        self._array: np.ndarray | None = None

    @property
    def is_deferred(self) -> bool:
        """Whether no array exists yet."""
        return self._array is None

    @property
    def is_uniform(self) -> bool:
        """Whether nothing was assigned, so that all elements are equal."""
        return self._array is None and not self._writes

    def few_writes(self) -> list[tuple[int, Any]] | None:
        """The assigned elements; None if they are many, or an array exists.

        Examples
        --------
        >>> import numpy as np
        >>> from evener.engine.deferred_arrays import DeferredArray
        >>> depth = DeferredArray(4, np.dtype(np.int32), 9)
        >>> depth[-1] = 0
        >>> [(place, int(value)) for place, value in depth.few_writes()]
        [(3, 0)]
        """
        if self._array is not None:
            return None
        writes: list[tuple[int, Any]] = []
        for index, value in self._writes:
            if isinstance(index, slice) or len(writes) + np.size(index) > FEW:
                return None
            places = np.atleast_1d(index)
            values = np.broadcast_to(np.asarray(value).astype(self.dtype), places.shape)
            writes += [
                (int(p) % self.size, v) for p, v in zip(places.flat, values.flat, strict=True)
            ]
        return writes

    def to_array(self, library: Any) -> Any:
        """The array, in memory of a library with NumPy's interface."""
        if self._array is not None:
            return library.array(self._array)
        array = library.empty(self.size, self.dtype)
        if not (self._writes and isinstance(self._writes[0][0], slice)):
            array.fill(self._fill)
        for index, value in self._writes:
            if isinstance(value, Counting):
                array[:] = library.arange(value.count, dtype=self.dtype)
            elif library is np or isinstance(index, slice):
                array[index] = value.get() if library is np and _is_elsewhere(value) else value
            else:
                _write(library, array, index, value)
        return array

    def _real(self) -> np.ndarray:
        if self._array is None:
            self._array = self.to_array(np)
            self._writes.clear()
        return self._array

    def __len__(self) -> int:
        return self.size

    def __setitem__(self, index: Any, value: Any) -> None:
        is_place = (isinstance(index, numbers.Integral) and not isinstance(index, bool)) or (
            isinstance(index, np.ndarray) and index.dtype.kind in "iu"
        )
        everything = isinstance(index, slice) and index == slice(None)
        is_number = isinstance(value, numbers.Number | np.bool_)
        is_column = isinstance(index, np.ndarray) and isinstance(value, np.ndarray)
        if self._array is not None:  # a view of it may exist
            self._array[index] = value.get() if _is_elsewhere(value) else _plain(value)
        elif everything and _is_elsewhere(value) and value.shape == self.shape:
            self._writes = [(index, value.copy())]
        elif everything and isinstance(value, Counting) and value.count == self.size:
            self._writes = [(index, value)]
        elif everything and isinstance(value, DeferredArray) and value.is_uniform:
            self._fill, self._writes = self.dtype.type(value._fill), []
        elif (is_number and (is_place or everything)) or (
            is_place and is_column and index.shape == value.shape
        ):
            self._check(index, value if is_number else value.flat[0] if value.size else 0)
            if everything:
                self._fill, self._writes = self.dtype.type(value), []
            else:
                self._writes.append((_copied(index), _copied(value)))
        else:
            self._real()[index] = _plain(value)

    def _check(self, index: Any, value: Any) -> None:
        """Raise now what NumPy would raise later."""
        np.empty(1, self.dtype)[0] = value
        places: Any = [] if isinstance(index, slice) else np.atleast_1d(index)
        if len(places) and not -self.size <= np.min(places) <= np.max(places) < self.size:
            raise IndexError(f"index {index!r} is out of bounds for an axis of size {self.size}")

    def __getitem__(self, index: Any) -> Any:
        return self._real()[index]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self._real(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [_plain(item) for item in inputs]
        if "out" in options:
            options["out"] = tuple(_plain(item) for item in options["out"])
        result = getattr(ufunc, method)(*plain, **options)
        return self if result is self._array else result

    def __array_function__(
        self, function: Any, types: Any, inputs: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        plain = {name: _plain(item) for name, item in options.items()}
        return function(*map(_plain, inputs), **plain)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._real(), name)


def new_array(field: Any) -> np.ndarray:
    """An array for the final values of a field: the field itself if it is one."""
    return np.empty(field.size, field.dtype) if isinstance(field, DeferredArray) else field


class Counting:
    """The numbers 0, 1, 2, … as the initial values of a field.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.deferred_arrays import Counting
    >>> np.asarray(Counting(3)).tolist()
    [0, 1, 2]
    """

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.arange(self.count, dtype=dtype)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _write(library: Any, array: Any, index: Any, value: Any) -> None:
    """Write some elements of an array on a GPU; a few are copied one by one."""
    places = np.atleast_1d(index)
    values = np.broadcast_to(np.asarray(value).astype(array.dtype), places.shape)
    if len(places) > FEW:
        array[library.asarray(places)] = library.asarray(values)
        return
    for place, one in zip(places.tolist(), values, strict=True):
        array[place : place + 1 or None].set(one.reshape(1))


def _is_elsewhere(value: Any) -> bool:
    """Whether a value is an array in a GPU's memory."""
    return hasattr(value, "__cuda_array_interface__")


def _plain(value: Any) -> Any:
    if type(value) in (list, tuple):  # arrays to be joined
        return type(value)(map(_plain, value))
    return value._real() if isinstance(value, DeferredArray) else value
