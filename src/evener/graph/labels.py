"""Labels: the names by which users know vertices, apart from the indices ``0..n-1`` of arrays.

A graph's labels are one of

* a range ``start..start+n-1``, stored as its start (0: no labels; 1: a 1-based file),
* distinct integers, in any order, as an int64 array,
* any hashable objects, mostly strings, as an object array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evener.device import parallel
from evener.errors import GraphError

_CHUNK = 1 << 19
# A byte for each possible id beats sorting up to about this many times the ids present.
_SPARSE_RANGE = 16


class Labels:
    """A two-way table between labels and indices, immutable.

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
        """Labels from what a caller gave: integers or hashable objects, all different."""
        array = values if isinstance(values, np.ndarray) else _as_array(values)
        if array.ndim != 1:
            raise GraphError(f"labels must be a flat sequence, not of shape {array.shape}.")
        if array.dtype.kind in "iu":
            if array.dtype.kind == "u" and len(array) and int(array.max()) >= 1 << 63:
                raise GraphError("a label is 2^63 or more; integer labels are signed 64-bit.")
            return cls._of_integers(array.astype(np.int64))
        labels = cls(len(array), values=_objects(array.tolist()))
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
        """Whether the labels count up from ``start``, so that no array is stored."""
        return self.values is None

    @property
    def kind(self) -> str:
        """``range``, ``integers`` or ``objects``."""
        if self.values is None:
            return "range"
        return "objects" if self.values.dtype == object else "integers"

    @property
    def nbytes(self) -> int:
        """Bytes of the stored array; what the objects in it take is not counted."""
        return 0 if self.values is None else self.values.nbytes

    def array(self) -> np.ndarray:
        """All labels in index order."""
        if self.values is None:
            return np.arange(self.start, self.start + self.size, dtype=np.int64)
        return self.values

    def take(self, indices: np.ndarray) -> np.ndarray:
        """The labels of some indices."""
        if self.values is None:
            return np.asarray(indices, dtype=np.int64) + self.start
        return self.values[indices]

    def subset(self, indices: np.ndarray) -> Labels:
        """Labels of the graph that keeps only these vertices, in this order."""
        return Labels.of(self.take(indices))

    def index_of(self, labels: Any) -> Any:
        """Indices of labels: an int for one label, an array for a sequence of them."""
        if self._is_one(labels):
            one = labels.item() if isinstance(labels, np.ndarray) else labels
            return int(self._find(_as_array([one]))[0])
        if self.kind == "objects":
            return self._find_objects(list(labels))
        array = labels if isinstance(labels, np.ndarray) else _as_array(list(labels))
        return self._find(array)

    def _is_one(self, labels: Any) -> bool:
        """Whether this is one label; where labels are objects, a tuple or a set may be one."""
        if isinstance(labels, str | bytes) or not hasattr(labels, "__len__"):
            return True
        if isinstance(labels, np.ndarray):
            return labels.ndim == 0
        if self.values is None or self.kind != "objects":
            return False
        if _is_hashable(labels) and labels in self._lookup():
            return True
        # Among tuples, an unknown tuple of anything else was meant as one label.
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
        wanted = array.astype(np.int64)  # with uint64 beside int64, NumPy would compare floats
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
                if not _is_hashable(label) or label not in table:
                    raise GraphError(self._missing(label)) from None
            raise

    def _missing(self, label: Any) -> str:
        shown = label.item() if isinstance(label, np.generic) else label
        if self.size == 0:
            return f"vertex {shown!r} is not in the graph, which has no vertices."
        if self.values is None:
            last = self.start + self.size - 1
            return f"vertex {shown!r} is not in the graph, whose labels are {self.start}..{last}."
        return f"vertex {shown!r} is not in the graph; its labels look like {self.values[0]!r}."

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


def _as_array(values: Sequence[Any]) -> np.ndarray:
    """Integers as an integer array, all else as objects (tuples stay whole)."""
    if all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in values):
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    return _objects(values)


def _objects(values: Sequence[Any]) -> np.ndarray:
    """An object array; assigning all at once would take tuples of one length for a matrix."""
    objects = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        objects[i] = value
    return objects


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def as_ids(array: np.ndarray, name: str) -> np.ndarray:
    """Integers of any kind as an int32 or int64 array that compiled code takes."""
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size:
        high = int(array.max())
        if high >= 1 << 63:
            raise GraphError(f"{name} holds {high}, which is over 63 bits.")
    bits = 8 * array.dtype.itemsize - (array.dtype.kind == "i")
    return np.require(array, np.int32 if bits <= 31 else np.int64, ["C", "ALIGNED"])


def relabel_any(
    src: Any, dst: Any, names: tuple[str, str] = ("src", "dst")
) -> tuple[np.ndarray, np.ndarray, Labels]:
    """Number the values that occur at the ends of edges; the values become labels.

    Integers (floats without a fraction too), strings and dates are numbered in ascending order,
    other hashable values as they first occur, edge by edge. ``src`` and ``dst`` are arrays or
    polars series; ``names`` is what errors call them.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.graph.labels import relabel_any
    >>> src, dst, labels = relabel_any(np.array(["b", "a"]), np.array(["c", "b"]))
    >>> src.tolist(), dst.tolist(), labels.array().tolist()
    ([1, 0], [2, 1], ['a', 'b', 'c'])
    """
    if len(src) == 0:
        return np.empty(0, np.int32), np.empty(0, np.int32), Labels(0)
    src, dst = _plain(src, names[0]), _plain(dst, names[1])
    if all(isinstance(end, np.ndarray) and end.dtype.kind == "i" for end in (src, dst)):
        return relabel(src, dst)
    return _number_sorted(src, dst, names) or _number_as_met(src, dst, names)


def _plain(values: Any, name: str) -> Any:
    """Whole numbers as an integer array; other values as they are, in an array or a series."""
    if str(getattr(values, "dtype", None)) == "String":  # polars: spare it the way through objects
        return values
    array = np.asarray(values)
    if array.dtype.kind == "O" and isinstance(array[0], int | np.integer):
        array = _as_array(array.tolist())
    if array.dtype.kind == "b":
        raise GraphError(f"{name} holds booleans, which cannot name vertices.")
    if array.dtype.kind == "f":
        return _whole_numbers(array, name)
    return as_ids(array, name) if array.dtype.kind in "iu" else array


def _whole_numbers(array: np.ndarray, name: str) -> np.ndarray:
    missing = np.isnan(array)
    if missing.any():
        raise GraphError(_no_value(name, int(np.argmax(missing))))
    fits = (np.abs(array) < 2.0**63) & (np.trunc(array) == array)
    if not fits.all():
        raise GraphError(f"{name} holds {array[np.argmin(fits)]}, which is not a whole number.")
    return array.astype(np.int64)


def _number_sorted(
    src: Any, dst: Any, names: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray, Labels] | None:
    """Number strings, bytes and dates; None where the values are others."""
    import polars as pl

    try:
        ends = [pl.Series("label", values) for values in (src, dst)]
    except Exception:  # each mix of objects fails with an error of its own
        return None
    kind = ends[0].dtype
    sortable = kind in (pl.String, pl.Binary, pl.Date, pl.Datetime("ms"), pl.Datetime("us"))
    if not sortable or ends[1].dtype != kind:
        return None
    for end, name in zip(ends, names, strict=True):
        if end.null_count():
            raise GraphError(_no_value(name, end.is_null().arg_max()))
    both = pl.concat(ends)
    found = both.unique().sort()
    dtype = pl.Int32 if len(found) < 1 << 31 else pl.Int64
    numbered = pl.DataFrame([found, pl.int_range(len(found), dtype=dtype, eager=True)])
    numbered.columns = ["label", "index"]
    joined = both.to_frame().join(numbered, on="label", how="left", maintain_order="left")
    index = joined["index"].to_numpy()
    labels = Labels(len(found), values=_objects(found.to_list()))
    return index[: len(src)], index[len(src) :], labels


def _number_as_met(
    src: Any, dst: Any, names: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray, Labels]:
    table: dict[Any, int] = {}
    index = np.empty((len(src), 2), np.int64)
    for row, ends in enumerate(zip(_items(src), _items(dst), strict=True)):
        for side, value in enumerate(ends):
            if not _is_hashable(value):
                raise GraphError(f"{names[side]} holds {value!r}, which is not hashable.")
            if value not in table:
                if _is_missing(value):
                    raise GraphError(_no_value(names[side], row))
                table[value] = len(table)
            index[row, side] = table[value]
    return as_ids(index[:, 0], names[0]), as_ids(index[:, 1], names[1]), Labels.of(list(table))


def _items(values: Any) -> list[Any]:
    """The values as Python objects; dates stay NumPy's, whose finest would turn into integers."""
    return list(values) if values.dtype.kind in "mM" else values.tolist()


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:  # pandas.NA does not even say
        return True


def _no_value(name: str, row: int | None) -> str:
    return f"{name} has no value in row {row}; every edge needs both ends."


def relabel(src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray, Labels]:
    """Number the ids that occur, in ascending order; the ids become labels.

    Takes int32 or int64 arrays. When the ids are exactly ``0..n-1`` the arrays come back as they
    are.
    """
    if len(src) == 0:
        return src, dst, Labels(0)
    low, high = extent(src, dst)
    span = high - low + 1
    if span > _SPARSE_RANGE * 2 * len(src) + (1 << 16):
        values = np.union1d(src, dst).astype(np.int64)
        return _searched(src, values), _searched(dst, values), Labels.of(values)
    present = np.zeros(span, np.uint8)
    _mark(_chunks(len(src)), src, low, present)
    _mark(_chunks(len(dst)), dst, low, present)
    count = int(np.count_nonzero(present))
    if count == span and low == 0:
        return src, dst, Labels(count)
    rank = np.cumsum(present, dtype=np.int32 if count < 1 << 31 else np.int64)
    np.subtract(rank, 1, out=rank)
    labels = Labels.of(np.flatnonzero(present) + low)
    return _ranked(src, low, rank), _ranked(dst, low, rank), labels


def extent(*arrays: np.ndarray) -> tuple[int, int]:
    """The smallest and largest value over some non-empty arrays."""
    bounds = []
    for array in arrays:
        chunks = _chunks(len(array))
        out = np.empty((chunks, 2), array.dtype)
        _extent(chunks, array, out)
        bounds.append((int(out[:, 0].min()), int(out[:, 1].max())))
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _chunks(length: int) -> int:
    return max(1, -(-length // _CHUNK))


def _ranked(ids: np.ndarray, low: int, rank: np.ndarray) -> np.ndarray:
    out = np.empty(len(ids), rank.dtype)
    _look_up(_chunks(len(ids)), ids, low, rank, out)
    return out


def _searched(ids: np.ndarray, values: np.ndarray) -> np.ndarray:
    out = np.empty(len(ids), np.int32 if len(values) < 1 << 31 else np.int64)
    _search(_chunks(len(ids)), ids, values, out)
    return out


@parallel
def _extent(chunk, array, out):
    low = high = array[chunk * _CHUNK]
    for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(array))):
        low, high = min(low, array[i]), max(high, array[i])
    out[chunk, 0], out[chunk, 1] = low, high


@parallel
def _mark(chunk, ids, low, present):
    for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(ids))):
        present[np.uint64(ids[i] - low)] = 1  # threads may store the same 1 twice: harmless


@parallel
def _look_up(chunk, ids, low, rank, out):
    for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(ids))):
        out[i] = rank[np.uint64(ids[i] - low)]


@parallel
def _search(chunk, ids, values, out):
    for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(ids))):
        first, last = 0, len(values) - 1
        while first < last:
            middle = (first + last) // 2
            if values[middle] < ids[i]:
                first = middle + 1
            else:
                last = middle
        out[i] = first
