"""Memory for what a kernel may need and cannot know beforehand how much of."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from evener.device import available_memory, format_bytes
from evener.errors import MemoryBudgetError
from evener.operators import nearest
from evener.operators.buckets import NOT_WAITING
from evener.operators.frontier import BUFFER, INFO_WORDS

_NORESERVE = 0x4000  # Linux: pages that are never touched need no memory
_SUPERSTEPS = 1 << 26  # that a record may have
_BUCKET_FACTOR = 4  # buckets may hold so many times the arcs at one time
_WORD = np.dtype(np.int64)

Arrays = tuple[np.ndarray, ...]


def room(length: int, dtype: np.dtype) -> np.ndarray:
    """An array that takes memory only where it is written to."""
    if length == 0:
        return np.empty(0, dtype)
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(length, dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    return np.frombuffer(mmap.mmap(-1, length * dtype.itemsize, flags=flags), dtype)


def record_rooms(
    n: int, ids: np.dtype, replays: bool, has_edges: bool, fixed: int | None = None,
    left: int | None = None,
) -> Arrays:  # fmt: skip
    """A record that may grow until the memory is full; see `evener.operators.record`.

    With a ``fixed`` number of entries it has all its memory from the beginning. A limit of memory
    may have ``left`` so many bytes for it, beside those of each vertex once.
    """
    entry = ids.itemsize + (8 if has_edges else 0)
    if replays and fixed is not None:
        _require_room(fixed * entry)
        return (
            np.ones(fixed, ids), room(_SUPERSTEPS, _WORD),
            np.ones(fixed if has_edges else 0, np.uint64), room(_SUPERSTEPS, np.dtype(np.uint8)),
        )  # fmt: skip
    if not replays:
        return room(0, ids), np.zeros(2, _WORD), np.empty(0, np.uint64), np.empty(0, np.uint8)
    length = max(available_memory() // entry, 64 * n)
    if left is not None:
        length = n + left // entry
    while True:
        try:
            return (
                room(length, ids), room(_SUPERSTEPS, _WORD),
                room(length if has_edges else 0, np.dtype(np.uint64)),
                room(_SUPERSTEPS, np.dtype(np.uint8)),
            )  # fmt: skip
        except OSError:  # the system counts what is reserved: ask for less
            if length <= n:
                raise
            length //= 2


def _require_room(nbytes: int) -> None:
    """Refuse a record that cannot fit: a system that promises more memory would end the process."""
    free = available_memory()
    if nbytes > free:
        raise MemoryBudgetError(
            f"preallocate asks for {format_bytes(nbytes)} for what is recorded, but only "
            f"{format_bytes(free)} of memory are free; give it a smaller number, or leave it out."
        )


def most_recorded(record: Arrays) -> int:
    """How much a run recorded at one time; forgotten then."""
    bounds = record[1]
    found, bounds[-1] = int(bounds[-1]), 0
    return found


def bucket_bytes(ordered: Arrays, n: int) -> int:
    """What a run has written of the rooms for buckets of n vertices.

    That is chunks, with two words each, and the bucket that is visited, with each vertex once.
    """
    used = int(ordered[-1][:, int(nearest.USED)].sum())
    each = ordered[1].itemsize
    return used * (nearest.CHUNK * each + 2 * _WORD.itemsize) + min(n, ordered[1].size) * each


def edge_rooms(m: int, ids: np.dtype, threads: int, has_edges: bool) -> tuple:
    """Three frontiers of edges, and the buffers of the threads."""
    if not has_edges:
        return (np.empty(0),)
    fronts = tuple(
        (room(m, ids), room(m, np.dtype(np.uint64)), np.zeros(INFO_WORDS, np.int64))
        for _ in range(3)
    )
    return (*fronts, np.empty((threads, 2, BUFFER), np.uint64))


def waiting_rooms(n: int, ids: np.dtype, threads: int, orders: int) -> tuple:
    """For each loop in the order of buckets: two queues, the bucket of each vertex, a scratch."""

    def info() -> np.ndarray:
        return np.zeros(INFO_WORDS, np.int64)

    made = tuple(
        (
            room(n, ids), info(), room(n, ids), info(), np.full(n, NOT_WAITING, np.int64),
            np.zeros(8 * threads, np.int64),
        )
        for _ in range(orders)
    )  # fmt: skip
    return made or (np.empty(0),)


def bucket_rooms(n: int, m: int, degrees: np.ndarray, ids: np.dtype, threads: int) -> Arrays:
    """What `nearest` works with: shared words, the shared bucket, a pool for each thread."""
    entries = _BUCKET_FACTOR * (m + n) if threads else 0
    # Each bucket has one chunk that is not full, and a vertex finds one for each of its arcs.
    buckets = min(nearest.MAX_BUCKETS, entries)
    chunks = entries // nearest.CHUNK + buckets + int(degrees.max(initial=0)) + 2
    words = np.dtype(np.uint64)

    def rows(length: int, dtype: np.dtype) -> np.ndarray:
        return room(threads * length, dtype).reshape(threads, length)

    return (
        np.zeros(nearest.SHARED_WORDS, np.int64), room(entries, ids),
        rows(chunks * nearest.CHUNK, ids), rows(chunks, words), rows(chunks, words),
        rows(nearest.MAX_BUCKETS, words), rows(nearest.TOP_WORDS, words),
    )  # fmt: skip


def joined_once(owner: Any, part: int, one: Arrays, other: Arrays) -> Arrays:
    """The lists `joined`, kept with the graph or the parts that they belong to."""
    kept: dict[Any, Arrays] = owner.__dict__.setdefault("_joined", {})
    key = part, len(one[2]) + len(other[2]) > 0
    found = kept.get(key)
    if found is None:
        found = kept[key] = joined(one, other)
    return found


def joined(one: Arrays, other: Arrays) -> Arrays:
    """Neighbour lists with weights: for each vertex those in the one, then those in the other."""
    starts = np.concatenate([np.zeros(1, np.int64), _counts(one) + _counts(other)]).cumsum()
    m = len(one[1]) + len(other[1])
    indices = np.empty(m, one[1].dtype)
    # A part may have edges on one side only; there are weights where one of them has some.
    weights = np.empty(m if len(one[2]) + len(other[2]) else 0, one[2].dtype)
    for side, begins in ((one, starts[:-1]), (other, starts[:-1] + _counts(one))):
        counts = _counts(side)
        places = np.arange(len(side[1])) + np.repeat(begins - side[0][:-1].astype(np.int64), counts)
        indices[places] = side[1]
        if len(weights):
            weights[places] = side[2]
    return starts.view(np.uint64), indices, weights


def _counts(side: Arrays) -> np.ndarray:
    return np.diff(side[0].astype(np.int64))
