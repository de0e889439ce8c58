"""Map the ids in files and frames to indices ``0..n-1`` and keep the ids as labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from evener.device import parallel
from evener.errors import GraphError
from evener.graph.arguments import as_ids
from evener.graph.labels import Labels, as_label_array, is_hashable, objects_of

_CHUNK = 1 << 19
# A table over the range of the ids (5 bytes each) beats sorting while the range is at most this
# many times the number of ends.
_SPARSE_RANGE = 4


def relabel_any(
    src: Any, dst: Any, names: tuple[str, str] = ("src", "dst")
) -> tuple[np.ndarray, np.ndarray, Labels]:
    """Number the distinct values at the ends of edges; the values become labels.

    Integers (and floats without a fraction), strings and dates are numbered in ascending order,
    other hashable values in the order of first occurrence, edge by edge. ``src`` and ``dst`` are
    arrays or polars series; errors call them ``names``.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.graph.relabel import relabel_any
    >>> src, dst, labels = relabel_any(np.array(["b", "a"]), np.array(["c", "b"]))
    >>> src.tolist(), dst.tolist(), labels.array().tolist()
    ([1, 0], [2, 1], ['a', 'b', 'c'])
    """
    if len(src) == 0:
        return np.empty(0, np.int32), np.empty(0, np.int32), Labels(0)
    src, dst = _plain(src, names[0]), _plain(dst, names[1])
    if all(isinstance(end, np.ndarray) and end.dtype.kind == "i" for end in (src, dst)):
        return relabel(src, dst)
    return _number_sorted(src, dst, names) or _number_by_occurrence(src, dst, names)


def _plain(values: Any, name: str) -> Any:
    """Convert whole numbers to an integer array; leave other values in their array or series."""
    if str(getattr(values, "dtype", None)) == "String":  # of polars: no detour through objects
        return values
    array = np.asarray(values)
    if array.dtype.kind == "O" and isinstance(array[0], int | np.integer):
        array = as_label_array(array.tolist())
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
    """Number strings, bytes and dates in ascending order; None for other values."""
    import polars as pl

    try:
        ends = [pl.Series("label", values) for values in (src, dst)]
    except Exception:  # polars raises different errors for different mixes of objects
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
    labels = Labels(len(found), values=objects_of(found.to_list()))
    return index[: len(src)], index[len(src) :], labels


def _number_by_occurrence(
    src: Any, dst: Any, names: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray, Labels]:
    table: dict[Any, int] = {}
    index = np.empty((len(src), 2), np.int64)
    for row, ends in enumerate(zip(_items(src), _items(dst), strict=True)):
        for side, value in enumerate(ends):
            if not is_hashable(value):
                raise GraphError(f"{names[side]} holds {value!r}, which is not hashable.")
            if value not in table:
                if _is_missing(value):
                    raise GraphError(_no_value(names[side], row))
                table[value] = len(table)
            index[row, side] = table[value]
    return as_ids(index[:, 0], names[0]), as_ids(index[:, 1], names[1]), Labels.of(list(table))


def _items(values: Any) -> list[Any]:
    """Convert values to Python objects, except dates: nanoseconds would become integers."""
    return list(values) if values.dtype.kind in "mM" else values.tolist()


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:  # pandas.NA has no truth value
        return True


def _no_value(name: str, row: int | None) -> str:
    return f"{name} has no value in row {row}; every edge needs both ends."


def relabel(src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray, Labels]:
    """Number the distinct ids in ascending order; the ids become labels.

    Takes int32 or int64 arrays, and returns them unchanged if the ids are exactly ``0..n-1``.
    """
    if len(src) == 0:
        return src, dst, Labels(0)
    room = _SPARSE_RANGE * 2 * len(src) + (1 << 16)
    present, low, high = _marked(src, dst, 0, room)
    if low < 0 or high >= room:  # ids do not start near 0
        if high - low >= room:
            values = np.union1d(src, dst).astype(np.int64)
            return _searched(src, values), _searched(dst, values), Labels.of(values)
        present, _, _ = _marked(src, dst, low, room)
        start = low
    else:
        start = 0
    present = present[low - start : high - start + 1]
    count = int(np.count_nonzero(present))
    if count == len(present) and low == 0:
        return src, dst, Labels(count)
    rank = np.cumsum(present, dtype=np.int32 if count < 1 << 31 else np.int64)
    np.subtract(rank, 1, out=rank)
    labels = Labels.of(np.flatnonzero(present) + low)
    return _ranked(src, low, rank), _ranked(dst, low, rank), labels


def _marked(src: np.ndarray, dst: np.ndarray, start: int, room: int) -> tuple[np.ndarray, int, int]:
    """Mark each id that occurs with a byte, counting from ``start``; also the extremes of all ids.

    One pass does both. Memory that is never written stays virtual, so a large ``room`` is free.
    """
    present = np.zeros(room, np.uint8)
    extents = []
    for ids in (src, dst):
        chunks = _chunks(len(ids))
        out = np.empty((chunks, 2), ids.dtype)
        _mark(chunks, ids, np.int64(start), present, out)
        extents.append((int(out[:, 0].min()), int(out[:, 1].max())))
    return present, min(low for low, _ in extents), max(high for _, high in extents)


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
def _mark(chunk, ids, start, present, out):
    low = high = ids[chunk * _CHUNK]
    room = np.uint64(len(present))
    for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(ids))):
        low, high = min(low, ids[i]), max(high, ids[i])
        at = np.uint64(ids[i] - start)  # a negative difference wraps to a huge number
        if at < room:
            present[at] = 1  # a harmless race: all threads store 1
    out[chunk, 0], out[chunk, 1] = low, high


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
