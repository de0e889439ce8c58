"""Labels: users' names for vertices, as opposed to the indices ``0..n-1`` of arrays.

A graph's labels are

* a range ``start..start+n-1``, stored as its start (0: no labels; 1: a 1-based file),
* distinct integers in any order, stored as an int64 array, or
* hashable objects, mostly strings, stored as an object array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evener.errors import GraphError, did_you_mean

if TYPE_CHECKING:
    import polars

_MOST_COMPARED = 20_000  # labels searched for the correct spelling of an unknown one: 0.05 s


class Labels:
    """An immutable two-way table between labels and indices.

    Examples
    --------
    >>> from evener.graph.labels import Labels
    >>> Labels.of([10, 20, 30]).index_of([30, 10]).tolist()
    [2, 0]
    """

    def __init__(self, size: int, start: int = 0, values: np.ndarray | None = None):
        self.size = size
        self.start = start
        self.values = values
        self._order: np.ndarray | None = None
        self._table: dict[Any, int] | None = None

    @classmethod
    def of(cls, values: Sequence[Any] | np.ndarray) -> Labels:
        """Make labels from a caller's distinct integers or hashable objects."""
        array = values if isinstance(values, np.ndarray) else as_label_array(values)
        if array.ndim != 1:
            raise GraphError(f"labels must be a flat sequence, not one of shape {array.shape}.")
        if array.dtype.kind in "iu":
            if array.dtype.kind == "u" and len(array) and int(array.max()) >= 1 << 63:
                raise GraphError("a label is 2^63 or more; integer labels are signed 64-bit.")
            return cls._of_integers(array.astype(np.int64))
        labels = cls(len(array), values=objects_of(array.tolist()))
        labels._check_distinct()
        return labels

    @classmethod
    def _of_integers(cls, array: np.ndarray) -> Labels:
        if len(array) == 0:
            return cls(0)
        ascending = bool((array[1:] > array[:-1]).all())
        if ascending and int(array[-1]) - int(array[0]) == len(array) - 1:
            return cls(len(array), start=int(array[0]))
        labels = cls(len(array), values=array)
        if not ascending:
            ordered = array[labels._sorted_order()]
            same = np.flatnonzero(ordered[1:] == ordered[:-1])
            if len(same):
                raise GraphError(f"label {ordered[same[0]]} occurs twice; labels must differ.")
        return labels

    def _check_distinct(self) -> None:
        if len(self._lookup()) != self.size:
            seen: set[Any] = set()
            for label in self.values if self.values is not None else ():
                if label in seen:
                    raise GraphError(f"label {label!r} occurs twice; labels must differ.")
                seen.add(label)

    @property
    def is_range(self) -> bool:
        """Whether the labels are ``start``, ``start + 1``, …, so that no array is stored."""
        return self.values is None

    @property
    def kind(self) -> str:
        """``range``, ``integers`` or ``objects``."""
        if self.values is None:
            return "range"
        return "objects" if self.values.dtype == object else "integers"

    @property
    def nbytes(self) -> int:
        """Bytes of the stored array, without the objects in it."""
        return 0 if self.values is None else self.values.nbytes

    def array(self) -> np.ndarray:
        """All labels in index order."""
        if self.values is None:
            return np.arange(self.start, self.start + self.size, dtype=np.int64)
        return self.values

    def take(self, indices: np.ndarray) -> np.ndarray:
        """The labels at some indices."""
        if self.values is None:
            return np.asarray(indices, dtype=np.int64) + self.start
        return self.values[indices]

    def subset(self, indices: np.ndarray) -> Labels:
        """The labels of a graph with only these vertices, in this order."""
        return Labels.of(self.take(indices))

    def index_of(self, labels: Any) -> Any:
        """The index of a label: an int for one label, an array for a sequence of labels."""
        if self._is_one(labels):
            one = labels.item() if isinstance(labels, np.ndarray) else labels
            return int(self._find(as_label_array([one]))[0])
        if self.kind == "objects":
            return self._find_objects(list(labels))
        array = labels if isinstance(labels, np.ndarray) else as_label_array(list(labels))
        return self._find(array)

    def _is_one(self, labels: Any) -> bool:
        """Whether this is one label; a tuple or a set may be one if labels are objects."""
        if isinstance(labels, str | bytes) or not hasattr(labels, "__len__"):
            return True
        if isinstance(labels, np.ndarray):
            return labels.ndim == 0
        if self.values is None or self.kind != "objects":
            return False
        if is_hashable(labels) and labels in self._lookup():
            return True
        # If labels are tuples, an unknown tuple of non-tuples is one misspelt label.
        among_tuples = self.size > 0 and isinstance(self.values[0], tuple)
        is_list = all(isinstance(label, tuple) for label in labels)
        return isinstance(labels, tuple) and among_tuples and not is_list

    def _find(self, array: np.ndarray) -> np.ndarray:
        if self.kind == "objects":
            return self._find_objects(array.tolist())
        if len(array) == 0:
            return np.empty(0, np.int64)
        if array.dtype.kind not in "iu":
            raise GraphError(
                f"vertex {array.flat[0]!r} is not in the graph, whose labels are integers."
            )
        wanted = array.astype(np.int64)  # NumPy compares uint64 with int64 as floats
        if self.values is None:
            found = wanted - self.start
            missing = (found < 0) | (found >= self.size) | (wanted != array)
        else:
            order = self._sorted_order()
            at = np.searchsorted(self.values, wanted, sorter=order)
            found = order[np.minimum(at, self.size - 1)]
            missing = (self.values[found] != wanted) | (wanted != array)
        if missing.any():
            raise GraphError(self._missing(array.flat[np.argmax(missing)]))
        return found

    def _find_objects(self, labels: list[Any]) -> np.ndarray:
        table = self._lookup()
        try:
            return np.array([table[label] for label in labels], dtype=np.int64)
        except (KeyError, TypeError):
            for label in labels:
                if not is_hashable(label) or label not in table:
                    raise GraphError(self._missing(label)) from None
            raise

    def _missing(self, label: Any) -> str:
        shown = label.item() if isinstance(label, np.generic) else label
        if self.size == 0:
            return f"vertex {shown!r} is not in the graph, which has no vertices."
        if self.values is None:
            last = self.start + self.size - 1
            return f"vertex {shown!r} is not in the graph, whose labels are {self.start}..{last}."
        like = self.values[:1].tolist()[0]
        near = ""
        if isinstance(shown, str) and self.size <= _MOST_COMPARED:
            names = [name for name in self.values if isinstance(name, str)]
            near = did_you_mean(shown, names)
        return f"vertex {shown!r} is not in the graph{near}; its labels look like {like!r}."

    def _sorted_order(self) -> np.ndarray:
        if self._order is None:
            assert self.values is not None
            self._order = np.argsort(self.values, kind="stable")
        return self._order

    def _lookup(self) -> dict[Any, int]:
        if self._table is None:
            assert self.values is not None
            try:
                self._table = {label: i for i, label in enumerate(self.values)}
            except TypeError as error:
                raise GraphError(f"labels must be hashable: {error}.") from None
        return self._table

    def __reduce__(self) -> tuple[Any, ...]:
        return Labels, (self.size, self.start, self.values)


def as_label_array(values: Sequence[Any]) -> np.ndarray:
    """Convert integers to an integer array, anything else to an object array of whole tuples."""
    if all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in values):
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    return objects_of(values)


def objects_of(values: Sequence[Any]) -> np.ndarray:
    """Make an object array; NumPy by itself would take tuples of equal length for a matrix."""
    objects = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        objects[i] = value
    return objects


def label_column(name: str, labels: np.ndarray, absent: np.ndarray | None = None) -> polars.Series:
    """Labels as a column of a frame, of integers, strings or objects; null where ``absent``."""
    import polars

    if labels.dtype != object:
        column = polars.Series(name, labels)
        if absent is not None and absent.any():
            column = column.set(polars.Series(absent), None)
        return column
    present = labels if absent is None else labels[~absent]
    strings = all(isinstance(label, str) for label in present)
    return polars.Series(name, labels.tolist(), dtype=polars.String if strings else polars.Object)


def is_hashable(value: Any) -> bool:
    """Whether a value can be a label."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
