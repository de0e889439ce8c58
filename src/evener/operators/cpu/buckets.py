"""The order of `nearest` with a superstep for each bucket, for loops that fusion would change.

What waits is a queue of vertices, each with the bucket in which it was emitted. `pick` takes the
nearest bucket off the queue, the stages of the loop run on it, and `join` adds what they emit.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import barrier, claim
from evener.operators.cpu.frontier import SIZE, WORDS, append, empty, flush, member, to_queue
from evener.operators.shared.buckets import NOT_WAITING, bucket_of


@compiled(allocates=False)
def join(team, emitted, waiting, buckets, field, delta):
    """Let vertices wait in the bucket of their value; those that wait already change theirs."""
    to_queue(team, emitted)
    size = emitted.info[SIZE]
    held = 0
    first = claim(team.sync, WORDS)
    while first < size:
        for i in range(first, min(first + WORDS, size)):
            v = member(emitted, i)
            bucket = bucket_of(field[v], delta)
            if atomic.exchange(buckets, v, bucket) == NOT_WAITING:
                held = append(team, held, waiting, v)
        first = claim(team.sync, WORDS)
    flush(team, held, waiting)
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def pick(team, waiting, later, chosen, buckets, field, delta, partial):
    """Move the nearest bucket from what is waiting to ``chosen``, and the others to ``later``.

    A vertex whose value fell without its being emitted again was settled in an earlier bucket.
    """
    nearest = nearest_waiting(team, waiting, buckets, partial)
    take(team, waiting, later, chosen, buckets, field, delta, nearest)


@compiled(allocates=False)
def nearest_waiting(team, waiting, buckets, partial):
    """The nearest bucket in which something waits."""
    size = waiting.info[SIZE]
    share = (size + team.threads - 1) // team.threads
    nearest = NOT_WAITING
    for i in range(team.thread * share, min((team.thread + 1) * share, size)):
        nearest = min(nearest, buckets[waiting.queue[np.uint64(i)]])
    partial[8 * team.thread] = nearest
    barrier(team.sync, team.threads)
    for thread in range(team.threads):
        nearest = min(nearest, partial[8 * thread])
    return nearest


@compiled(allocates=False)
def take(team, waiting, later, chosen, buckets, field, delta, nearest):
    """Move one bucket to ``chosen``, and the others to ``later``."""
    size = waiting.info[SIZE]
    empty(team, later)
    empty(team, chosen)
    held = 0
    first = claim(team.sync, WORDS)
    while first < size:
        for i in range(first, min(first + WORDS, size)):
            v = waiting.queue[np.uint64(i)]
            if buckets[v] == nearest and bucket_of(field[v], delta) >= nearest:
                held = append(team, held, chosen, v)
        first = claim(team.sync, WORDS)
    held = flush(team, held, chosen)
    barrier(team.sync, team.threads)
    first = claim(team.sync, WORDS)
    while first < size:
        for i in range(first, min(first + WORDS, size)):
            v = waiting.queue[np.uint64(i)]
            if buckets[v] == nearest:
                buckets[v] = NOT_WAITING
            else:
                held = append(team, held, later, v)
        first = claim(team.sync, WORDS)
    flush(team, held, later)
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def hand_on(team, waiting, buckets, frontier):
    """Make a frontier of what still waits."""
    barrier(team.sync, team.threads)
    empty(team, frontier)
    size = waiting.info[SIZE]
    held = 0
    first = claim(team.sync, WORDS)
    while first < size:
        for i in range(first, min(first + WORDS, size)):
            v = waiting.queue[np.uint64(i)]
            buckets[v] = NOT_WAITING
            held = append(team, held, frontier, v)
        first = claim(team.sync, WORDS)
    flush(team, held, frontier)
    barrier(team.sync, team.threads)
