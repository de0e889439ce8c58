"""Memory for records and buckets, whose size a run cannot know beforehand."""

from __future__ import annotations

import math
import mmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evener.device import available_memory, format_bytes
from evener.engine.codegen.arguments import CpuBuckets, CpuEdges, Waiting
from evener.engine.preallocation import out_of_room
from evener.errors import MemoryBudgetError
from evener.operators.cpu import nearest
from evener.operators.cpu.frontier import BUFFER, INFO_WORDS, NUMBER
from evener.operators.shared.frontier import EdgeFrontier, Frontier
from evener.operators.shared.record import Record
from evener.programs.stages import Advance, Repeat, walk

if TYPE_CHECKING:
    from evener.engine.job import Job

_NORESERVE = 0x4000  # Linux: untouched pages take no memory
_SUPERSTEPS = 1 << 26  # of a record at most
_EMPTY_SUPERSTEPS = 1 << 20  # of a record at most, beyond those with an entry
_RECORD_FACTOR = 4  # initial room of records, as a multiple of the vertices
_BUCKET_FACTOR = 4  # initial room of buckets, as a multiple of the arcs
_BUCKETS_IN_USE = 1 << 14  # at one time, for each unit of that factor
_GROWTH = 8
_WORD = np.dtype(np.int64)

Arrays = tuple[np.ndarray, ...]


class Capacity(NamedTuple):
    """The room of a run for records and buckets."""

    recorded: int  # vertices, or edges, of recorded frontiers
    bucketed: int  # in buckets at one time, as a multiple of the arcs


def capacity_of(job: Job, n: int, left: int | None, growth: int = 1) -> Capacity:
    """The room for n vertices; a run that exceeds it begins again with more ``growth``.

    Unused room costs only address space, but that may be limited too. A search records each vertex
    once. ``left`` is what a memory limit leaves for records.
    """
    if not job.declaration.replays:
        return Capacity(0, growth * _BUCKET_FACTOR)
    recorded = job.preallocation.only(job, n)
    if recorded is None:
        wanted = math.ceil(max(_RECORD_FACTOR, job.preallocation.factor_of(job)) * n) + 1
        recorded = min(growth * wanted, _most_recorded(job, n, left))
    return Capacity(recorded, growth * _BUCKET_FACTOR)


def grown(job: Job, n: int, left: int | None, growth: int) -> int:
    """The growth for the next attempt of a run; MemoryBudgetError if no memory is left for it."""
    stages, rooms = list(walk(job.declaration.loop)), capacity_of(job, n, left, growth)
    records = job.declaration.replays
    is_ordered = any(isinstance(stage, Repeat) and stage.order is not None for stage in stages)
    arcs = (job.graph.num_edges + n) * job.graph._indices.itemsize
    if (
        records and not job.preallocation.fixed and rooms.recorded < _most_recorded(job, n, left)
    ) or (is_ordered and rooms.bucketed * arcs < available_memory()):
        return growth * _GROWTH
    raise out_of_room(job)


def _most_recorded(job: Job, n: int, left: int | None) -> int:
    """Entries of a record that fit into memory, or into what a limit leaves."""
    has_edges = any(
        isinstance(stage, Advance) and stage.emit == "edges" for stage in walk(job.declaration.loop)
    )
    entry = job.graph._indices.itemsize + (8 if has_edges else 0)
    return n + (available_memory() if left is None else left) // entry


def room(length: int, dtype: np.dtype) -> np.ndarray:
    """An array that takes memory only where it is written."""
    if length == 0:
        return np.empty(0, dtype)
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(length, dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    nbytes = length * dtype.itemsize
    try:
        return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), dtype)
    except (OSError, MemoryError):
        raise MemoryBudgetError(
            f"the run asks for {format_bytes(nbytes)} of address space, which the system does not "
            "grant; raise its limit (ulimit -v), or use a smaller graph or fewer threads."
        ) from None


def new_record(
    ids: np.dtype, replays: bool, has_edges: bool, length: int, *, fixed: bool = False
) -> Record:
    """A record of up to ``length`` entries; a ``fixed`` one gets all its memory at once."""
    if not replays:
        nothing = np.empty(0, np.uint64), np.empty(0, np.uint8)
        return Record(room(0, ids), np.zeros(2, _WORD), *nothing)
    if fixed:
        _require_room(length * (ids.itemsize + (8 if has_edges else 0)))
    make = np.ones if fixed else room
    bounds = min(_SUPERSTEPS, length + _EMPTY_SUPERSTEPS)
    return Record(
        make(length, ids), room(bounds, _WORD),
        make(length if has_edges else 0, np.dtype(np.uint64)), room(bounds, np.dtype(np.uint8)),
    )  # fmt: skip


def _require_room(nbytes: int) -> None:
    """Refuse a record that cannot fit: a system that overcommits would kill the process."""
    free = available_memory()
    if nbytes > free:
        raise MemoryBudgetError(
            f"preallocate asks for {format_bytes(nbytes)} for recorded frontiers, but only "
            f"{format_bytes(free)} of memory are free; give it a smaller number, or leave it out."
        )


def most_recorded(record: Record) -> int:
    """The largest number of recorded entries of a run; resets the counter."""
    bounds = record.bounds
    entries, bounds[-1] = int(bounds[-1]), 0
    return entries


def bucket_bytes(ordered: CpuBuckets, n: int) -> int:
    """Bytes that a run has written to the buckets of n vertices.

    These are chunks, with two words each, and the visited bucket, with each vertex once.
    """
    used = int(ordered.pools.top[:, int(nearest.USED)].sum())
    each = ordered.bucket.itemsize
    return used * (nearest.CHUNK * each + 2 * _WORD.itemsize) + min(n, ordered.bucket.size) * each


def new_edge_fronts(m: int, ids: np.dtype, threads: int, has_edges: bool) -> Any:
    """Three frontiers of edges and the buffers of the threads, or an empty tuple."""
    if not has_edges:
        return ()
    current, following, spare = (
        EdgeFrontier(room(m, ids), room(m, np.dtype(np.uint64)), new_info(number))
        for number in (1, 2, 3)
    )
    return CpuEdges(current, following, spare, np.empty((threads, 2, BUFFER), np.uint64))


def new_info(number: int) -> np.ndarray:
    """The words of a frontier."""
    info = np.zeros(INFO_WORDS, np.int64)
    info[NUMBER] = number
    return info


def new_waiting(n: int, ids: np.dtype, threads: int, orders: int) -> tuple[Waiting, ...]:
    """The waiting vertices of each loop over buckets."""

    def waiting(number: int) -> Frontier:
        return Frontier(room(n, ids), np.empty(0, np.uint64), new_info(number))

    return tuple(
        Waiting(waiting(1), waiting(2), np.zeros(n, np.int64), np.zeros(8 * threads, np.int64), ())
        for _ in range(orders)
    )


def new_buckets(
    n: int, m: int, degrees: np.ndarray, ids: np.dtype, threads: int, factor: int = _BUCKET_FACTOR
) -> CpuBuckets:
    """The buckets of `nearest`, with a pool for each thread."""
    entries = factor * (m + n) if threads else 0
    # Each bucket in use has one chunk that is not full; a vertex may fill one for each of its arcs.
    buckets = min(nearest.MAX_BUCKETS, entries, factor * _BUCKETS_IN_USE)
    chunks = entries // nearest.CHUNK + buckets + int(degrees.max(initial=0)) + 2
    words = np.dtype(np.uint64)

    def rows(length: int, dtype: np.dtype) -> np.ndarray:
        return room(threads * length, dtype).reshape(threads, length)

    pools = nearest.Pools(
        rows(chunks * nearest.CHUNK, ids), rows(chunks, words), rows(chunks, words),
        rows(nearest.MAX_BUCKETS, words), rows(nearest.TOP_WORDS, words),
    )  # fmt: skip
    return CpuBuckets(np.zeros(nearest.SHARED_WORDS, np.int64), room(entries, ids), pools)


def joined_once(owner: Any, part: int, one: Arrays, other: Arrays) -> Arrays:
    """The `joined` lists, kept with their graph or parts."""
    kept: dict[Any, Arrays] = owner.__dict__.setdefault("_joined", {})
    key = part, len(one[2]) + len(other[2]) > 0
    lists = kept.get(key)
    if lists is None:
        lists = kept[key] = joined(one, other)
    return lists


def joined(one: Arrays, other: Arrays) -> Arrays:
    """Neighbour lists with weights: for each vertex those of ``one``, then those of ``other``."""
    starts = np.concatenate([np.zeros(1, np.int64), _counts(one) + _counts(other)]).cumsum()
    m = len(one[1]) + len(other[1])
    indices = np.empty(m, one[1].dtype)
    # A part may have edges on one side only, and then weights only there.
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
