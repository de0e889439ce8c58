"""Shared by the generators: stream numbers, argument checks, memory estimates, row starts."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np

from evener.device.processors import HOST, Gpu, Host
from evener.device.random import stream_key
from evener.errors import GraphError, short_repr
from evener.graph import build, gpu

MAX_SIZE = 1 << 48  # vertices; so that every counter of a random number fits 64 bits


class Stream(enum.IntEnum):
    """The random streams of a seed, one per purpose; generated graphs depend on the numbers."""

    WEIGHTS = 0
    RMAT = 1
    RMAT_IDS = 2
    UNIFORM = 3
    PAIRING = 4
    SWITCHES = 5
    POINTS = 6
    REMOVED = 7


_STREAMS_PER_ATTEMPT = 256


def key_of(seed: int, stream: Stream, attempt: int = 0) -> np.uint64:
    """The key of a stream; each ``attempt`` at the same graph has its own streams."""
    return stream_key(seed, stream + _STREAMS_PER_ATTEMPT * attempt)


def is_whole(value: Any) -> bool:
    """Whether a value is an integer of Python or NumPy, but not a boolean."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Whether a value is an integer or a float of Python or NumPy."""
    return is_whole(value) or isinstance(value, float | np.floating)


def whole(name: str, value: Any, low: int = 0, high: int = MAX_SIZE) -> int:
    """Check that an argument is a whole number in ``low..high``."""
    if is_whole(value) and low <= int(value) <= high:
        return int(value)
    top = "2^48" if high == MAX_SIZE else str(high)
    raise GraphError(
        f"{name} is {short_repr(value)}; it must be a whole number from {low} to {top}."
    )


def real(name: str, value: Any, low: float, high: float) -> float:
    """Check that an argument is a number in ``low..high``."""
    if is_real(value) and low <= value <= high and math.isfinite(value):
        return float(value)
    span = f"from {low:g} to {high:g}" if high < math.inf else f"from {low:g} up"
    raise GraphError(f"{name} is {short_repr(value)}; it must be a number {span}.")


def flag(name: str, value: Any) -> bool:
    """Check that an argument is True or False."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise GraphError(f"{name} is {short_repr(value)}; it must be True or False.")


def seed_of(value: Any, low: int | None = None) -> int:
    """Check a seed: any whole number, or one of at least ``low`` (NumPy refuses negative seeds).

    Examples
    --------
    >>> from evener.graph.generate.common import seed_of
    >>> seed_of(-1)
    -1
    >>> seed_of(-1, low=0)
    Traceback (most recent call last):
    evener.errors.GraphError: seed is -1; it must be a whole number of at least 0.
    """
    if is_whole(value) and (low is None or int(value) >= low):
        return int(value)
    bound = "" if low is None else f" of at least {low}"
    raise GraphError(f"seed is {short_repr(value)}; it must be a whole number{bound}.")


def require_rows(
    what: str,
    num_vertices: int,
    num_arcs: int,
    weight: np.dtype | None,
    work: int = 0,
    at: Host | Gpu = HOST,
) -> None:
    """Refuse a graph whose rows, weights and ``work`` bytes of working memory do not fit."""
    rows = _rows_bytes(num_vertices, num_arcs, weight)
    at.require(rows + work, what)
    if at is not HOST:
        HOST.require(rows, what)  # for the copy on the host


def require_build(
    what: str,
    num_vertices: int,
    num_edges: int,
    weight: np.dtype | None,
    directed: bool,
    at: Host | Gpu = HOST,
) -> None:
    """Refuse a graph that does not fit while it is built from arrays of edge ends.

    On the host `build.build_csr` builds it, on a GPU `gpu.build_simple`, followed by a copy to the
    host.
    """
    arcs = num_edges if directed else 2 * num_edges
    rows = _rows_bytes(num_vertices, arcs, weight)
    if at is not HOST:
        at.require(
            max(gpu.build_bytes(num_edges, num_vertices, symmetric=not directed), rows), what
        )
        HOST.require(rows, what)
        return
    ends = 2 * num_edges * build.index_dtype(num_vertices).itemsize
    building = build.build_bytes(
        num_edges, num_vertices, None, symmetric=not directed, combine=True
    )
    HOST.require(ends + max(building, rows), what)


def _rows_bytes(num_vertices: int, num_arcs: int, weight: np.dtype | None) -> int:
    per_arc = build.index_dtype(num_vertices).itemsize + (weight.itemsize if weight else 0)
    return num_vertices * build.offset_dtype(num_arcs).itemsize + num_arcs * per_arc


def row_starts(counts: Any) -> Any:
    """Row starts from ``counts``, whose entry v + 1 is the degree of v and whose entry 0 is 0."""
    total = int(counts.sum(dtype=np.int64))
    return counts.cumsum(dtype=build.offset_dtype(total))


def chunks_of(length: int, size: int) -> int:
    """The number of chunks of ``size`` that cover ``length``."""
    return -(-length // size)
