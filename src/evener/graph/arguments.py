"""Checks of callers' arrays and their conversion to the dtypes of compiled code."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from evener.device import parallel
from evener.errors import GraphError
from evener.graph.build import COMBINE
from evener.graph.labels import Labels

WEIGHT_DTYPES = (np.int32, np.int64, np.float32, np.float64)
_CHUNK = 1 << 19
_EXACT = 2.0**53  # every smaller whole number is exact as a float


def as_weights(weight: Any) -> np.ndarray:
    """Convert weights to a flat array of one of the four dtypes that a graph stores."""
    array = np.asarray(weight)
    if array.ndim != 1:
        raise GraphError(f"weights must be a flat array, not one of shape {array.shape}.")
    found = np.require(array, _nearest_dtype(array), ["C", "ALIGNED"])
    if array.dtype.kind == "u" and found.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            differs = found.astype(array.dtype) != array
        if differs.any():
            raise GraphError(
                f"weight {array[np.argmax(differs)]} fits neither a 64-bit integer nor, with all "
                "its digits, a float; convert the weights to float yourself if rounding is fine."
            )
    if found.dtype.kind == "f" and isinstance(weight, Sequence):
        require_digits(weight, found, "the list of weights")
    if found.dtype.kind == "f" and len(found) and np.isnan(found.min()):  # min propagates NaN
        raise GraphError(f"weight {int(np.argmax(np.isnan(found)))} is not a number (NaN).")
    return found


def require_digits(values: Any, floats: np.ndarray, name: str) -> None:
    """Refuse whole numbers that lost digits when they were converted to floats.

    Examples
    --------
    >>> from evener.graph.arguments import require_digits
    >>> require_digits([2**53 + 1, 0.5], np.array([2.0**53, 0.5]), "it")
    Traceback (most recent call last):
    evener.errors.GraphError: it holds 9007199254740993, which loses digits as a float.
    """
    for i in np.flatnonzero(np.abs(floats) >= _EXACT).tolist():
        if isinstance(values[i], numbers.Integral) and int(values[i]) != int(floats[i]):
            raise GraphError(f"{name} holds {values[i]}, which loses digits as a float.")


def _nearest_dtype(array: np.ndarray) -> type:
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "u" and size == 8:
        return np.float64 if array.size and int(array.max()) >= 1 << 63 else np.int64
    if kind in "iub":
        return np.int32 if size < 4 or (size == 4 and kind == "i") else np.int64
    if kind == "f":
        return np.float32 if size <= 4 else np.float64
    raise GraphError(f"weights of type {array.dtype} cannot be used; give integers or floats.")


def as_indices(values: Any, name: str) -> np.ndarray:
    """Convert vertex indices to a flat array of int32 or int64; GraphError for other types."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise GraphError(f"{name} must be a flat array, not one of shape {array.shape}.")
    if array.size == 0:
        return np.empty(0, np.int32)
    if array.dtype.kind not in "iu":
        raise GraphError(
            f"{name} holds {array.dtype} values; indices must be whole numbers "
            "(for names use Graph.from_frame)."
        )
    return as_ids(array, name)


def require_combination(duplicates: Any) -> None:
    """Check the option ``duplicates``."""
    if duplicates not in COMBINE:
        allowed = ", ".join(map(repr, COMBINE))
        raise GraphError(f"duplicates is {duplicates!r}; it must be one of {allowed}.")


def same_dtype(src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bring both ends to one dtype, so that kernels need no variant for a mix."""
    dtype = np.promote_types(src.dtype, dst.dtype)
    return src.astype(dtype, copy=False), dst.astype(dtype, copy=False)


def count_vertices(
    src: np.ndarray, dst: np.ndarray, num_vertices: int | None, labels: Labels | None
) -> int:
    """Return the number of vertices, after checking that every index is below it."""
    low, high = extent(src, dst) if len(src) else (0, -1)
    if low < 0:
        raise GraphError(f"an edge names vertex {low}; indices start at 0.")
    if num_vertices is None:
        num_vertices = high + 1 if labels is None else labels.size
    try:
        num_vertices = operator.index(num_vertices)
    except TypeError:
        raise GraphError(f"num_vertices is {num_vertices!r}; it must be a whole number.") from None
    if num_vertices < 0:
        raise GraphError(f"num_vertices is {num_vertices}; it cannot be negative.")
    if labels is not None and labels.size != num_vertices:
        raise GraphError(f"{labels.size} labels were given for {num_vertices} vertices.")
    if high >= num_vertices:
        raise GraphError(f"an edge names vertex {high}, but there are {num_vertices} vertices.")
    return num_vertices


def as_ids(array: np.ndarray, name: str) -> np.ndarray:
    """Convert integers of any dtype to the int32 or int64 that compiled code takes."""
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size:
        high = int(array.max())
        if high >= 1 << 63:
            raise GraphError(f"{name} holds {high}, which does not fit 63 bits.")
    bits = 8 * array.dtype.itemsize - (array.dtype.kind == "i")
    return np.require(array, np.int32 if bits <= 31 else np.int64, ["C", "ALIGNED"])


def extent(*arrays: np.ndarray) -> tuple[int, int]:
    """Return the smallest and largest value of some non-empty arrays."""
    bounds = []
    for array in arrays:
        chunks = max(1, -(-len(array) // _CHUNK))
        out = np.empty((chunks, 2), array.dtype)
        _extent(chunks, array, out)
        bounds.append((int(out[:, 0].min()), int(out[:, 1].max())))
    return min(low for low, _ in bounds), max(high for _, high in bounds)


@parallel
def _extent(chunk, array, out):
    low = high = array[chunk * _CHUNK]
    for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(array))):
        low, high = min(low, array[i]), max(high, array[i])
    out[chunk, 0], out[chunk, 1] = low, high
