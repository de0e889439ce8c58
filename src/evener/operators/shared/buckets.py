"""The order of `nearest` with a superstep for each bucket, for loops that fusion would change.

A queue holds the waiting vertices. `pick` takes the nearest bucket off it, the stages of the loop
run on that, and `join` adds what they emit. ``near`` is `NOT_WAITING` minus the bucket of a
vertex: the nearest is the largest, and 0, the initial content of memory, means not waiting.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.operators.shared.frontier import SIZE
from evener.operators.spmd import (
    another_one,
    another_round,
    append,
    barrier,
    become_queue,
    empty,
    first_one,
    first_round,
    flush,
    lane,
    largest,
    let_go,
    member,
    share,
    to_queue,
)

NOT_WAITING = np.int64(1) << np.int64(62)
FAR = np.int64(1) << np.int64(61)  # the bucket of infinity and NaN


@compiled(allocates=False)
def bucket_of(value, delta):
    """The number of the bucket that a value falls into."""
    scaled = np.float64(value) / np.float64(delta)
    if not scaled < np.float64(FAR):
        return FAR
    number = np.int64(max(scaled, -np.float64(FAR)))  # rounds towards 0
    return number - 1 if np.float64(number) > scaled else number


@compiled(allocates=False)
def join(team, emitted, waiting, near, field, delta):
    """Let vertices wait in the bucket of their value; waiting ones change theirs."""
    to_queue(team, emitted)
    size, held = emitted.info[SIZE], np.int64(0)
    base, last = first_round(team, size)
    while base < size:
        i = base + lane(team)
        v, joins = waiting.queue.dtype.type(0), False
        if i < size:
            v = member(emitted, i)
            new = NOT_WAITING - bucket_of(field[np.uint64(v)], delta)
            joins = atomic.exchange(near, np.uint64(v), new) == 0
        held = append(team, held, 0, waiting, joins, v)
        base, last = another_round(team, base, last, size)
    flush(team, held, 0, waiting)
    barrier(team)


@compiled(allocates=False)
def pick(team, waiting, later, chosen, near, field, delta, scratch):
    """Move the nearest bucket from ``waiting`` to ``chosen``, and the others to ``later``.

    A vertex whose value fell without being emitted again was settled in an earlier bucket.
    """
    bucket = nearest_waiting(team, waiting, near, scratch)
    take(team, waiting, later, chosen, near, field, delta, bucket)


@compiled(allocates=False)
def nearest_waiting(team, waiting, near, scratch):
    """The nearest bucket with a waiting vertex, `NOT_WAITING` if there is none."""
    high = np.int64(0)
    first, last, step = share(team, 0, waiting.info[SIZE])
    for i in range(first, last, step):
        high = max(high, near[np.uint64(waiting.queue[np.uint64(i)])])
    return NOT_WAITING - largest(team, high, scratch)


@compiled(allocates=False)
def take(team, waiting, later, chosen, near, field, delta, bucket):
    """Move one bucket to ``chosen``, and the others to ``later``."""
    empty(team, later)
    empty(team, chosen)
    size, nearest = waiting.info[SIZE], NOT_WAITING - bucket
    some, more = np.int64(0), np.int64(0)
    base, last = first_round(team, size)
    while base < size:
        i = base + lane(team)
        v, here, stays = waiting.queue.dtype.type(0), False, False
        if i < size:
            v = waiting.queue[np.uint64(i)]
            at = np.uint64(v)
            stays = near[at] != nearest
            if not stays:
                near[at] = 0
                here = bucket_of(field[at], delta) >= bucket
        some = append(team, some, 0, chosen, here, v)
        more = append(team, more, 1, later, stays, v)
        base, last = another_round(team, base, last, size)
    flush(team, some, 0, chosen)
    flush(team, more, 1, later)
    barrier(team)


@compiled(allocates=False)
def hand_on(team, waiting, near, frontier):
    """Make a frontier of the vertices that still wait."""
    let_go(team)
    size = waiting.info[SIZE]
    i, last = first_one(team, size)
    while i < size:
        v = waiting.queue[np.uint64(i)]
        near[np.uint64(v)] = 0
        frontier.queue[np.uint64(i)] = v
        i, last = another_one(team, i, last, size)
    become_queue(team, frontier, size)
