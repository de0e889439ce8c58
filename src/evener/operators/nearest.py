"""Advance in the order of a field: delta-stepping with buckets of each thread's own.

Method: Meyer and Sanders' delta-stepping as in GAPBS (Beamer, Asanović, Patterson 2015), with
bucket fusion (Zhang et al.: Optimizing ordered graph algorithms with GraphIt, CGO 2020). A thread
keeps what it emits in buckets of its own; the nearest bucket of all threads becomes the shared
frontier. While a thread's part of the current bucket stays small it goes on by itself, which saves
most barriers on graphs of high diameter.

A bucket is a list of chunks from the thread's pool. The pool is sized for the arcs of a vertex
before that vertex is advanced, so that nothing has to grow in between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import barrier, claim
from evener.operators.frontier import FORM, SIZE, grain, member, to_queue

CHUNK = 64  # vertices in one chunk of a bucket
FUSED = 1000  # largest bucket that a thread works off by itself
MAX_BUCKETS = 1 << 22  # further ones share the last; memory that is not touched costs nothing
NONE = np.int64(1) << np.int64(62)

# Words of the shared array of one run: nearest bucket and size of the frontier, of two rounds.
BUCKET, TAIL = 0, 16
SHARED_WORDS = 32

_U1 = np.uint64(1)


class Pool(NamedTuple):
    """The buckets of one thread."""

    vertices: np.ndarray  # CHUNK for each chunk
    before: np.ndarray  # the chunk below it in its bucket, plus one
    filled: np.ndarray
    heads: np.ndarray  # top chunk of each bucket, plus one; 0: empty
    top: np.ndarray  # chunks ever used; head of the free ones, plus one; highest bucket


@compiled(allocates=False)
def _put(pool, bucket, v):
    """Add a vertex to a bucket; there is room."""
    chunk = pool.heads[bucket] - 1
    if chunk < 0 or pool.filled[chunk] == CHUNK:
        below = chunk + 1
        if pool.top[1] > 0:
            chunk = pool.top[1] - 1
            pool.top[1] = pool.before[chunk]
        else:
            chunk = pool.top[0]
            pool.top[0] = chunk + 1
        pool.before[chunk] = below
        pool.filled[chunk] = 0
        pool.heads[bucket] = chunk + 1
        pool.top[2] = max(pool.top[2], bucket)
    pool.vertices[chunk * CHUNK + pool.filled[chunk]] = v
    pool.filled[chunk] += 1


@compiled(allocates=False)
def _release(pool, chunk):
    """Give a chunk back; returns the one below it."""
    below = pool.before[chunk]
    pool.before[chunk] = pool.top[1]
    pool.top[1] = chunk + 1
    return below - 1


@compiled
def _with_room(pool, arcs):
    """The pool, or a larger one, with a free chunk for each of so many arcs."""
    needed = pool.top[0] + arcs
    if needed <= len(pool.filled):
        return pool
    capacity = max(needed, 2 * len(pool.filled))
    vertices = np.empty(capacity * CHUNK, pool.vertices.dtype)
    before, filled = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    used = pool.top[0]
    vertices[: used * CHUNK] = pool.vertices[: used * CHUNK]
    before[:used], filled[:used] = pool.before[:used], pool.filled[:used]
    return Pool(vertices, before, filled, pool.heads, pool.top)


@compiled(allocates=False)
def _bucket(value, inverse):
    # Values beyond the last bucket share it: the order suffers there, not the result.
    scaled = value * inverse
    return np.int64(scaled) if scaled < MAX_BUCKETS else np.int64(MAX_BUCKETS - 1)


@compiled(allocates=False)
def _advance(pool, out, f, where, s, field, inverse, current, u):
    """Advance one vertex into the buckets; returns the calls of the functor."""
    if _bucket(field[u], inverse) < current:
        return np.int64(0)  # settled in an earlier bucket
    e = np.uint64(out.indptr[u])
    stop = np.uint64(out.indptr[np.uint64(u) + _U1])
    calls = np.int64(stop - e)
    while e < stop:
        v = out.indices[e]
        if where(v, s) and f(u, v, e, s):
            _put(pool, max(_bucket(field[v], inverse), current), v)
        e += _U1
    return calls


@compiled(allocates=False)
def _degree(out, u):
    return np.int64(out.indptr[np.uint64(u) + _U1]) - np.int64(out.indptr[u])


@compiled(allocates=False)
def _count(pool, bucket):
    """Vertices in a bucket, counted no further than matters for fusion."""
    total = np.int64(0)
    chunk = pool.heads[bucket] - 1
    while chunk >= 0 and total < FUSED:
        total += pool.filled[chunk]
        chunk = pool.before[chunk] - 1
    return total


@compiled(allocates=False)
def _first_bucket(pool, start):
    """The nearest bucket from ``start`` on that holds something."""
    for bucket in range(start, pool.top[2] + 1):
        if pool.heads[bucket] > 0:
            return np.int64(bucket)
    return NONE


@compiled
def nearest(team, out, f, where, s, field, inverse, current, shared, queue):
    """Run a whole repeat in the order of ``field``; returns rounds and calls of this thread.

    ``queue`` has room for all that one bucket may hold, ``shared`` is `SHARED_WORDS` zeros.
    """
    pool = Pool(
        np.empty(64 * CHUNK, queue.dtype), np.empty(64, np.int64), np.empty(64, np.int64),
        np.zeros(MAX_BUCKETS, np.int64), np.zeros(3, np.int64),
    )  # fmt: skip
    to_queue(team, current)
    size = current.info[SIZE]
    calls, rounds = np.int64(0), np.int64(0)
    # The first frontier may span buckets: everybody puts a share into buckets of its own.
    pool = _with_room(pool, size)
    for i in range(team.thread, size, team.threads):
        v = member(current, i)
        _put(pool, _bucket(field[v], inverse), v)
    if team.thread == 0:
        shared[BUCKET] = shared[BUCKET + 8] = NONE
        shared[TAIL] = shared[TAIL + 8] = 0
    barrier(team.sync, team.threads)
    bucket = np.int64(0)
    while True:
        turn = 8 * (rounds & 1)
        atomic.min(shared, BUCKET + turn, _first_bucket(pool, bucket))
        barrier(team.sync, team.threads)
        bucket = shared[BUCKET + turn]
        if bucket == NONE:
            break
        at = np.int64(0)
        chunk = pool.heads[bucket] - 1
        pool.heads[bucket] = 0
        while chunk >= 0:
            at = atomic.add(shared, TAIL + turn, pool.filled[chunk])
            for i in range(pool.filled[chunk]):
                queue[at + i] = pool.vertices[chunk * CHUNK + i]
            chunk = _release(pool, chunk)
        if team.thread == 0:  # the words of the next round; nobody looks at them now
            shared[BUCKET + 8 - turn] = NONE
            shared[TAIL + 8 - turn] = 0
        if barrier(team.sync, team.threads):
            break
        size = shared[TAIL + turn]
        amount = grain(team, size)
        first = claim(team.sync, amount)
        while first < size:
            for i in range(first, min(first + amount, size)):
                u = queue[np.uint64(i)]
                pool = _with_room(pool, _degree(out, u))
                calls += _advance(pool, out, f, where, s, field, inverse, bucket, u)
            first = claim(team.sync, amount)
        while pool.heads[bucket] > 0 and _count(pool, bucket) < FUSED:
            chunk = pool.heads[bucket] - 1
            pool.heads[bucket] = 0
            while chunk >= 0:
                for i in range(pool.filled[chunk]):
                    u = pool.vertices[chunk * CHUNK + i]
                    pool = _with_room(pool, _degree(out, u))
                    calls += _advance(pool, out, f, where, s, field, inverse, bucket, u)
                chunk = _release(pool, chunk)
        rounds += 1
    barrier(team.sync, team.threads)
    if team.thread == 0:
        current.info[SIZE] = 0
        current.info[FORM] = 0
    barrier(team.sync, team.threads)
    return rounds, calls
