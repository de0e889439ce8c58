"""The arrays of a result, each built when first read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np


class Columns(MutableMapping[str, np.ndarray]):
    """Arrays by name; a function without arguments stands for an array that is not built yet.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.results.arrays import Columns
    >>> columns = Columns({"depth": np.zeros(2), "parent": lambda: np.ones(2)})
    >>> columns.is_made("parent"), columns["parent"].tolist(), columns.is_made("parent")
    (False, [1.0, 1.0], True)
    """

    def __init__(self, values: Mapping[str, Any]):
        self._values: dict[str, np.ndarray | Callable[[], np.ndarray]] = dict(values)
        self._copies: dict[str, np.ndarray] = {}  # on the host, of arrays on a GPU
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> np.ndarray:
        value = self._values[name]
        if callable(value):
            with self._lock:
                value = self._values[name]  # another thread may have built it
                if callable(value):
                    value = self._values[name] = value()
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value
        self._copies.pop(name, None)

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        self._copies.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def on_host(self, name: str) -> np.ndarray:
        """An array in the host's memory; an array on a GPU is copied once."""
        array = self[name]
        if not hasattr(array, "get"):
            return array
        with self._lock:
            if name not in self._copies:
                self._copies[name] = array.get()
            return self._copies[name]

    def maker(self, name: str) -> Any:
        """The function that builds an array, or the array if it is built."""
        return self._values[name]

    def is_made(self, name: str) -> bool:
        """Whether an array is built."""
        return not callable(self._values[name])

    def only(self, *names: str) -> Columns:
        """The arrays of these names."""
        return Columns({name: self._values[name] for name in names})

    def __reduce__(self) -> Any:
        return Columns, (dict(self),)  # functions do not pickle
