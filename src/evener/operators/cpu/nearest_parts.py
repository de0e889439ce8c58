"""`nearest` on the parts of a graph: all parts work on the nearest bucket of all.

A part fuses what it finds in the bucket alone; then emitted ghosts go to their owners, which put
those that changed into their own buckets.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import CANCEL, STOP, barrier, claim, cycles
from evener.operators.cpu.advance import next_stamp
from evener.operators.cpu.exchange import boxed_ghost
from evener.operators.cpu.frontier import (
    FORM,
    SIZE,
    append,
    empty,
    flush,
    grain,
)
from evener.operators.cpu.nearest import (
    BUCKET,
    CHUNK,
    FUSED,
    NONE,
    TAIL,
    ask_ahead,
    bucket_of,
    count,
    fill,
    first_bucket,
    hand_in,
    has_room,
    put,
    release,
)
from evener.operators.shared.frontier import is_new
from evener.operators.shared.world import FULL, account, least
from evener.operators.spmd import add_up, meet, share

_U0, _U1, _CHUNK = np.uint64(0), np.uint64(1), np.uint64(CHUNK)


@compiled(allocates=False)
def _advance(
    ghost_team, world, pool, out, f, where, s, field, inverse, current, u, box, marks, stamp,
    waiting,
):  # fmt: skip
    """Advance one vertex; returns how many ghosts wait in the buffer and the calls."""
    if bucket_of(field[u], inverse) < current:
        return waiting, _U0  # settled in an earlier bucket
    owned = len(out.indptr) - 1
    e = np.uint64(out.indptr[u])
    stop = np.uint64(out.indptr[np.uint64(u) + _U1])
    calls = stop - e
    if not has_room(pool, calls):
        world.sync[CANCEL] = FULL
        return waiting, _U0
    while e < stop:
        v = out.indices[e]
        if where(v, s) and f(u, v, e, s):
            if v < owned:
                put(pool, bucket_of(field[v], inverse), v)
            elif is_new(marks, v, stamp, ghost_team.threads > 1):
                waiting = append(ghost_team, waiting, 0, box, True, v)
        e += _U1
    return waiting, calls


@compiled(allocates=False)
def _receive(team, world, merge, values, field, inverse, pool):
    """Put the vertices that other parts' ghosts change into buckets."""
    me = world.part
    for q in range(world.parts):
        if q != me:
            slots = world.bases[q] + world.owned[q] - world.ghosts[q, 0]
            first, last, _ = share(team, 0, world.boxed[q, SIZE])
            if not has_room(pool, np.uint64(last - first)):
                world.sync[CANCEL] = FULL
                last = first
            changed = np.int64(0)
            for i in range(first, last):
                g = boxed_ghost(world, q, i, last, values[0])
                if g >= 0:
                    changed += 1
                    home = np.uint64(world.home[g])
                    if merge(values, home, np.uint64(slots + g)):
                        v = home - np.uint64(world.bases[me])
                        put(pool, bucket_of(field[v], inverse), v)
            add_up(team, world.counts, me * world.parts + q, changed)
            if world.parts > 2:
                barrier(team.sync, team.threads)


@compiled(allocates=False)
def _work_off(
    ghost_team, world, pool, out, f, where, s, field, inverse, bucket, box, marks, stamp, waiting
):  # fmt: skip
    """Advance what this thread has in a bucket; returns how many ghosts wait, and the calls."""
    calls = _U0
    chunk = pool.heads[bucket]
    pool.heads[bucket] = _U0
    while chunk != _U0:
        at = chunk * _CHUNK
        stop = at + pool.filled[chunk]
        while at < stop:
            ask_ahead(out, s, pool.vertices, at, stop)
            waiting, made = _advance(
                ghost_team, world, pool, out, f, where, s, field, inverse, bucket,
                pool.vertices[at], box, marks, stamp, waiting,
            )  # fmt: skip
            calls += made
            at += _U1
        chunk = release(pool, chunk)
    return waiting, calls


@compiled(allocates=False)
def _advance_all(
    team, ghost_team, world, pool, out, f, where, s, field, inverse, bucket, queue, size, box,
    marks, stamp,
):  # fmt: skip
    """Advance what all threads handed in; returns how many ghosts wait, and the calls."""
    waiting, calls = np.int64(0), _U0
    amount = grain(team, size)
    first = claim(team.sync, amount)
    while first < size:
        for i in range(first, min(first + amount, size)):
            ask_ahead(out, s, queue, np.uint64(i), np.uint64(size))
            waiting, made = _advance(
                ghost_team, world, pool, out, f, where, s, field, inverse, bucket,
                queue[np.uint64(i)], box, marks, stamp, waiting,
            )  # fmt: skip
            calls += made
        first = claim(team.sync, amount)
    return waiting, calls


@compiled(allocates=False)
def nearest_parts(
    team, ghost_team, world, out, f, where, s, field, inverse, current, shared, queue, pool, box,
    marks, stamp, turn, merge, values, width,
):  # fmt: skip
    """Run a whole repeat in the order of ``field``; see `evener.operators.cpu.nearest`.

    Returns rounds, calls of this thread, the last stamp and turn, and the cycles of communication.
    """
    calls, rounds, talked = _U0, np.int64(0), np.int64(0)
    if not fill(team, current, field, inverse, pool):
        world.sync[CANCEL] = FULL
    if team.thread == 0:
        shared[BUCKET] = shared[BUCKET + 8] = NONE
        shared[TAIL] = shared[TAIL + 8] = 0
    barrier(team.sync, team.threads)
    while True:
        side = 8 * (rounds & 1)
        atomic.min(shared, BUCKET + side, first_bucket(pool))
        barrier(team.sync, team.threads)
        began = cycles()
        near = least(team, world, turn, shared[BUCKET + side])
        turn = 1 - turn
        talked += cycles() - began
        if near == NONE or world.sync[STOP] != 0:
            break
        bucket = np.uint64(near)
        if not hand_in(pool, bucket, shared, TAIL + side, queue):
            world.sync[CANCEL] = FULL
        if team.thread == 0:  # the words of the next round; no thread reads them now
            shared[BUCKET + 8 - side] = NONE
            shared[TAIL + 8 - side] = 0
        stamp = next_stamp(team, marks, stamp)
        empty(team, box)
        size = min(shared[TAIL + side], len(queue))
        waiting, made = _advance_all(
            team, ghost_team, world, pool, out, f, where, s, field, inverse, bucket, queue, size,
            box, marks, stamp,
        )  # fmt: skip
        calls += made
        while pool.heads[bucket] != _U0 and count(pool, bucket) < np.uint64(FUSED):
            waiting, made = _work_off(
                ghost_team, world, pool, out, f, where, s, field, inverse, bucket, box, marks,
                stamp, waiting,
            )  # fmt: skip
            calls += made
        flush(ghost_team, waiting, 0, box)
        began = cycles()
        barrier(team.sync, team.threads)
        meet(world)
        _receive(team, world, merge, values, field, inverse, pool)
        meet(world)
        account(team, world, False, width, False)
        talked += cycles() - began
        rounds += 1
    barrier(team.sync, team.threads)
    if team.thread == 0:
        current.info[SIZE] = 0
        current.info[FORM] = 0
    barrier(team.sync, team.threads)
    return rounds, np.int64(calls), stamp, turn, talked
