"""The order of `nearest` with a superstep for each bucket, on a grid; see `operators.cpu.buckets`.

How near a vertex waits is `NOT_WAITING` less its bucket: the nearest is the largest, and 0, with
which memory begins, is that of vertices that do not wait.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import barrier, shuffle_xor
from evener.operators.gpu.frontier import FLAG, SIZE, append, flush, member, to_queue, work
from evener.operators.shared.buckets import NOT_WAITING, bucket_of

NEAREST = FLAG  # a word of a stage, 0 when it begins


@compiled(allocates=False)
def _nearness(value, delta):
    return NOT_WAITING - bucket_of(value, delta)


@compiled(allocates=False)
def join(team, emitted, waiting, near, field, delta):
    """Let vertices wait in the bucket of their value; those that wait already change theirs."""
    to_queue(team, emitted)
    size = emitted.info[SIZE]
    held = np.int64(0)
    base = team.rank * 32
    while base < size:
        i = base + team.lane
        v = waiting.queue.dtype.type(0)
        joins = False
        if i < size:
            v = member(emitted, i)
            new = _nearness(field[np.uint64(v)], delta)
            joins = atomic.exchange(near, np.uint64(v), new) == 0
        held = append(team, held, 0, waiting.queue, waiting.info, SIZE, joins, v)
        base += team.threads
    flush(team, held, 0, waiting.queue, waiting.info, SIZE)
    barrier(team.sync)


@compiled(allocates=False)
def pick(team, waiting, later, chosen, near, field, delta):
    """Move the nearest bucket from what is waiting to ``chosen``, and the others to ``later``.

    A vertex whose value fell without its being emitted again was settled in an earlier bucket.
    """
    nearest = _nearest_waiting(team, waiting, waiting.info[SIZE], near)
    take(team, waiting, later, chosen, near, field, delta, nearest)


@compiled(allocates=False)
def nearest_waiting(team, waiting, near):
    """The nearest bucket in which something waits, `NOT_WAITING` if nothing does."""
    return NOT_WAITING - _nearest_waiting(team, waiting, waiting.info[SIZE], near)


@compiled(allocates=False)
def take_bucket(team, waiting, later, chosen, near, field, delta, bucket):
    """Move a bucket by its number from what is waiting to ``chosen``, the others to ``later``."""
    take(team, waiting, later, chosen, near, field, delta, NOT_WAITING - bucket)


@compiled(allocates=False)
def take(team, waiting, later, chosen, near, field, delta, nearest):
    """The same by how near those in the bucket wait."""
    size = waiting.info[SIZE]
    some, more = np.int64(0), np.int64(0)
    base = team.rank * 32
    while base < size:
        i = base + team.lane
        v = waiting.queue.dtype.type(0)
        here, stays = False, False
        if i < size:
            v = waiting.queue[np.uint64(i)]
            at = np.uint64(v)
            if near[at] == nearest:
                near[at] = 0
                here = _nearness(field[at], delta) <= nearest
            else:
                stays = True
        some = append(team, some, 0, chosen.queue, chosen.info, SIZE, here, v)
        more = append(team, more, 1, later.queue, later.info, SIZE, stays, v)
        base += team.threads
    flush(team, some, 0, chosen.queue, chosen.info, SIZE)
    flush(team, more, 1, later.queue, later.info, SIZE)
    barrier(team.sync)


@compiled(allocates=False)
def _nearest_waiting(team, waiting, size, near):
    """How near the nearest one waits."""
    high = np.int64(0)
    for i in range(team.thread, size, team.threads):
        high = max(high, near[np.uint64(waiting.queue[np.uint64(i)])])
    for power in range(5):
        high = max(high, shuffle_xor(high, 1 << power))
    if team.lane == 0 and high > 0:
        atomic.max(team.works, work(team, NEAREST), high)
    barrier(team.sync)
    return team.works[work(team, NEAREST)]


@compiled(allocates=False)
def hand_on(team, waiting, near, frontier):
    """Make a frontier of what still waits."""
    size = waiting.info[SIZE]
    for i in range(team.thread, size, team.threads):
        v = waiting.queue[np.uint64(i)]
        near[np.uint64(v)] = 0
        frontier.queue[np.uint64(i)] = v
    if team.thread == 0:
        frontier.info[SIZE] = size
    barrier(team.sync)
