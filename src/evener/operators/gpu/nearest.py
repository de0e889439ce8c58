"""Advance in the order of a field on a grid: delta-stepping with one near queue and a far pile.

Method: Davidson, Baxter, Garland, Owens: Work-efficient parallel GPU methods for single-source
shortest paths, IPDPS 2014. Vertices in the current bucket go to the *near* queue of the next round,
all others to the *far* pile, which holds a vertex at most once. When no near vertices are left, the
nearest bucket in the pile is found, and the pile split.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import barrier, prefetch, shuffle_xor
from evener.operators.gpu.advance import ALL_NEIGHBOURS, FREE
from evener.operators.gpu.frontier import (
    SIZE,
    append,
    begin,
    flush,
    fresh,
    is_stopped,
    look_ahead,
    to_queue,
)
from evener.operators.shared.frontier import always
from evener.operators.spmd import member

# Words of the shared array of one run: sizes of the two halves of the pile, nearest buckets.
PILE, NEAREST = 0, 32
SHARED_WORDS = 64
TURN_WORDS = 16

NONE = np.int64(1) << np.int64(62)
LAST = np.int64(1) << np.int64(52)  # shared by values beyond; negative ones share the first

SPARSE = 8  # edges per vertex: with k times as many, frontiers count as large k times earlier

_HELD = 255  # of a count that holds two: near below, far above


class Sorted(NamedTuple):
    """Where a round puts the vertices that it emits."""

    near: np.ndarray
    info: np.ndarray
    indptr: np.ndarray
    far: np.ndarray
    shared: np.ndarray
    word: Any  # of shared: the size of the pile
    marks: np.ndarray
    stamp: int
    in_far: np.ndarray
    field: np.ndarray
    inverse: float
    bucket: int
    is_small: bool


@compiled(allocates=False)
def bucket_of(value, inverse):
    """The bucket of a value."""
    scaled = np.float64(value) * inverse
    return np.int64(max(scaled, 0.0)) if scaled < LAST else LAST


@compiled(allocates=False)
def take(team, sink, held, emits, u, v, e):
    """Near or far, each vertex once.

    In a large frontier reading the mark saves most atomics; in a small one it only takes time.
    """
    near, far = False, False
    if emits:
        at = np.uint64(v)
        if bucket_of(sink.field[at], sink.inverse) <= sink.bucket:
            mark = np.uint32(sink.stamp)
            if sink.is_small or sink.marks[at] != mark:
                prefetch(sink.indptr, at)
                near = atomic.exchange(sink.marks, at, mark) != mark
        elif sink.is_small or sink.in_far[at] == 0:
            far = atomic.exchange(sink.in_far, at, np.uint32(1)) == 0
    some = append(team, held & _HELD, 0, sink.near, sink.info, SIZE, near, v)
    more = append(team, held >> 8, 1, sink.far, sink.shared, sink.word, far, v)
    return some | (more << 8)


@compiled(allocates=False)
def done(team, sink, held):
    """Flush the warp's buffers, and meet; see `evener.operators.gpu.schedules.common`."""
    flush(team, held & _HELD, 0, sink.near, sink.info, SIZE)
    flush(team, held >> 8, 1, sink.far, sink.shared, sink.word)
    barrier(team.sync)
    return look_ahead(team, sink.near, sink.info)


@compiled(allocates=False)
def fill_pile(team, current, shared, far, in_far):
    """Begin with the frontier as the far pile; returns the team for the next stage.

    A vertex may be in the frontier twice, and the pile has room for each once.
    """
    to_queue(team, current)
    if team.thread == 0:
        shared[PILE] = 0
        shared[PILE + TURN_WORDS] = 0
        shared[NEAREST] = NONE
        shared[NEAREST + TURN_WORDS] = NONE
    barrier(team.sync)
    size = current.info[SIZE]
    held = np.int64(0)
    base = team.rank * 32
    while base < size:
        i = base + team.lane
        v, joins = far.dtype.type(0), False
        if i < size:
            v = member(current, i)
            joins = atomic.exchange(in_far, np.uint64(v), np.uint32(1)) == 0
        held = append(team, held, 1, far, shared, PILE, joins, v)
        base += team.threads
    flush(team, held, 1, far, shared, PILE)
    team = begin(team)
    barrier(team.sync)
    return team


@compiled(allocates=False)
def leave_pile(team, far, size, in_far):
    """Let vertices left in the pile when a loop ends, all settled, enter the next loop's pile."""
    i = team.thread
    while i < size:
        in_far[np.uint64(far[np.uint64(i)])] = 0
        i += team.threads


@compiled(allocates=False)
def nearest(
    team, visit, out, f, where, s, field, inverse, current, following, infos, made, marks, stamp,
    shared, far, farther, in_far, pieces,
):  # fmt: skip
    """Run a whole repeat in the order of ``field``.

    Returns the team, two frontiers, the first of which is the (empty) current one, the counts of
    frontiers and stamps, rounds, and calls of this thread.
    """
    team = fill_pile(team, current, shared, far, in_far)
    rounds, calls, turn = np.int64(0), np.int64(0), np.int64(0)
    bucket = np.int64(-1)
    stopped, spread = False, spread_of(out)
    while not stopped:
        which = (turn & 1) * TURN_WORDS
        size = shared[PILE + which]
        bucket = nearest_bucket(team, far, size, field, inverse, bucket, shared, which)
        if bucket == NONE:
            leave_pile(team, far, size, in_far)
            break
        made += 1
        following = fresh(team, following, infos, made)
        split(team, far, size, farther, shared, which, following, in_far, field, inverse, bucket)
        current, following = following, current
        far, farther = farther, far
        turn += 1
        while current.info[SIZE] > 0 and not stopped:
            team = begin(team)
            made += 1
            stamp += 1
            following = fresh(team, following, infos, made)
            sink = sorted_into(
                team, out, current, following, far, shared, which, marks, stamp, in_far, field,
                inverse, bucket, spread,
            )  # fmt: skip
            calls += visit(
                team, out, current, always, 0, ALL_NEIGHBOURS, f, where, s, take, done, sink,
                pieces,
            )  # fmt: skip
            current, following = following, current
            rounds += 1
            stopped = is_stopped(team)
    return team, current, following, made, stamp, rounds, calls


@compiled(allocates=False)
def nearest_bucket(team, far, size, field, inverse, bucket, shared, which):
    """The nearest bucket in the pile beyond the last one, for all threads."""
    low = NONE
    i = team.thread
    while i < size:
        found = bucket_of(field[np.uint64(far[np.uint64(i)])], inverse)
        if bucket < found < low:
            low = found
        i += team.threads
    for power in range(5):
        low = min(low, shuffle_xor(low, 1 << power))
    if team.lane == 0 and low < NONE:
        atomic.min(shared, NEAREST + which, low)
    barrier(team.sync)
    return shared[NEAREST + which]


@compiled(allocates=False)
def spread_of(out):
    """How many times earlier than with `SPARSE` edges a frontier counts as large."""
    return len(out.indices) // len(out.indptr) // SPARSE + 1


@compiled(allocates=False)
def sorted_into(
    team, out, current, following, far, shared, which, marks, stamp, in_far, field, inverse, bucket,
    spread,
):  # fmt: skip
    """Where a round from ``current`` puts what it emits; ``spread``: see `spread_of`."""
    is_small = current.info[SIZE] * spread <= FREE * team.warps
    return Sorted(
        following.queue, following.info, out.indptr, far, shared, PILE + TURN_WORDS - which, marks,
        stamp, in_far, field, inverse, bucket, is_small,
    )  # fmt: skip


@compiled(allocates=False)
def split(team, far, size, farther, shared, which, near, in_far, field, inverse, bucket):
    """Divide the pile: this bucket is near, settled vertices leave, the rest stays far."""
    some, more, word = np.int64(0), np.int64(0), PILE + TURN_WORDS - which
    base = team.rank * 32
    while base < size:
        i = base + team.lane
        v = near.queue.dtype.type(0)
        here, stays = False, False
        if i < size:
            v = far[np.uint64(i)]
            found = bucket_of(field[np.uint64(v)], inverse)
            here, stays = found == bucket, found > bucket
            if not stays:
                in_far[np.uint64(v)] = 0
        some = append(team, some, 0, near.queue, near.info, SIZE, here, v)
        more = append(team, more, 1, farther, shared, word, stays, v)
        base += team.threads
    flush(team, some, 0, near.queue, near.info, SIZE)
    flush(team, more, 1, farther, shared, word)
    barrier(team.sync)
    if team.thread == 0:  # for the split after the next; no thread reads them now
        shared[PILE + which] = 0
        shared[NEAREST + which] = NONE
