"""`advance` for a grid: along the out-edges of a frontier, pushed from it or pulled to the others.

*Push* leaves the division of work to a schedule. *Pull* gives a warp 32 vertices, a word of the
bits that it makes: each lane searches the first few in-edges of its vertex, then the whole warp
visits the lists that are unfinished.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import (
    ballot,
    barrier,
    count_bits,
    lowest_bit,
    prefetch,
    shuffle,
    sync_warp,
)
from evener.operators.gpu.frontier import (
    FORM,
    append,
    append_at,
    flush,
    has_bit,
    look_ahead,
    to_bits,
    to_queue,
)
from evener.operators.shared.direction import arcs_of, goes_pull
from evener.operators.shared.frontier import ALL, BITS, SIZE, always

FREE = 16  # vertices for each warp up to which a frontier is small
HELD = 255  # in ``held``: how many wait in a warp's buffer
CULLS = 256  # the bit for exact culling, since the queue is nearly full
SLACK = 128  # vertices that a warp may append before it knows: two buffers, in each of two rounds
NEVER = np.int64(1) << np.int64(62)
ALONE = 4  # edges that a lane checks alone in a pull
ALL_NEIGHBOURS = np.int64(1) << np.int64(62)

_U1 = np.uint64(1)


class Emitted(NamedTuple):
    """Where a push puts the vertices that it emits."""

    queue: np.ndarray
    info: np.ndarray
    indptr: np.ndarray  # where the lists of the vertices begin
    marks: np.ndarray
    stamp: int
    is_small: bool
    exact: bool
    limit: Any  # a queue that is longer is nearly full


@compiled(allocates=False)
def limit_of(team, queue, num_vertices):
    """How long a queue may be before vertices that are in it twice could fill it up.

    From then on each vertex is admitted at most once: there is room for all of them, and for what
    warps append until they know. Room for each arc would not suffice: if a vertex is twice in the
    frontier, all its arcs emit twice.
    """
    return np.int64(len(queue) - num_vertices - SLACK * team.warps)


@compiled(allocates=False)
def take(team, sink, held, emits, u, v, e):
    """Append the vertices that the lanes emit to the queue, each once in a stage.

    Inexact culling costs no atomic and may admit a vertex twice. In a small frontier, where latency
    costs the most, it uses no marks, exact culling does not read a mark before it exchanges it, and
    the place of the vertex's list is prefetched for the next stage. In a nearly full queue all are
    culled exactly.
    """
    exact = sink.exact or sink.limit <= 0 or held & CULLS != 0
    if emits:
        place, mark = np.uint64(v), np.uint32(sink.stamp)
        if sink.is_small:
            prefetch(sink.indptr, place)
        else:
            emits = sink.marks[place] != mark
        if emits and exact:
            emits = atomic.exchange(sink.marks, place, mark) != mark
        elif emits and not sink.is_small:
            sink.marks[place] = mark
    if sink.exact:
        return append(team, held, 0, sink.queue, sink.info, SIZE, emits, v)
    some, at = append_at(team, held & HELD, 0, sink.queue, sink.info, SIZE, emits, v)
    if exact or at >= sink.limit:
        some |= CULLS
    return some


@compiled(allocates=False)
def done(team, sink, held):
    """Flush the warp's buffer, and meet; see `evener.operators.gpu.schedules.common`."""
    flush(team, held & HELD, 0, sink.queue, sink.info, SIZE)
    barrier(team.sync)
    return look_ahead(team, sink.queue, sink.info)


@compiled(allocates=False)
def advance(
    team, visit, out, into, f, alone, where, stops, s, t, current, following, marks, stamp, exact,
    mode, left, before, pieces,
):  # fmt: skip
    """One stage, as `evener.operators.cpu.advance.advance`; ``stops``: there is a ``where``."""
    num_vertices = len(out.indptr) - 1
    arcs = arcs_of(team, out, current, mode)
    pulls = goes_pull(current, mode, left, before, num_vertices)
    if pulls:
        to_bits(team, current)
        calls = pull(team, into, f, alone, where, stops, t, current, following)
        barrier(team.sync)
    else:
        to_queue(team, current)
        is_small = current.info[SIZE] <= FREE * team.warps
        limit = limit_of(team, following.queue, num_vertices)
        sink = Emitted(
            following.queue, following.info, out.indptr, marks, stamp, is_small, exact, limit
        )  # fmt: skip
        calls = visit(
            team, out, current, always, 0, ALL_NEIGHBOURS, f, where, s, take, done, sink, pieces
        )
    return pulls, calls, arcs


@compiled(allocates=False)
def pull(team, into, f, alone, where, stops, t, current, following):
    """Search the in-edges of wanted vertices for members of the frontier, which is bits or all."""
    n = len(into.indptr) - 1
    everyone = current.info[FORM] == ALL
    calls, found = np.int64(0), np.int64(0)
    w = team.rank
    while w * 32 < n:
        v = into.indices.dtype.type(w * 32 + team.lane)
        e, stop = np.int64(0), np.int64(0)
        if w * 32 + team.lane < n and where(v, t):
            e = np.int64(into.indptr[np.uint64(v)])
            stop = np.int64(into.indptr[np.uint64(v) + _U1])
        joins = False
        tried = 0
        while e < stop and tried < ALONE:
            u = into.indices[np.uint64(e)]
            if everyone or has_bit(current.bits, u):
                calls += 1
                if alone(u, v, np.uint64(e), t):
                    joins = True
                if stops and not where(v, t):
                    stop = e
            e += 1
            tried += 1
        sync_warp()
        mask = ballot(e < stop)
        while mask != 0:
            lane = lowest_bit(mask)
            mask &= mask - np.uint32(1)
            begin, end = shuffle(e, lane), shuffle(stop, lane)
            hit, made = _pull_together(
                team, into, f, alone, where, stops, t, current.bits, everyone,
                shuffle(v, lane), begin, end,
            )  # fmt: skip
            calls += made
            if team.lane == lane and hit:
                joins = True
        word = ballot(joins)
        if team.lane == 0:
            following.bits[np.uint64(w)] = word
        found += count_bits(word)
        w += team.warps
    if team.lane == 0 and found > 0:
        atomic.add(following.info, SIZE, found)
    if team.thread == 0:
        following.info[FORM] = BITS
    return calls


@compiled(allocates=False)
def _pull_together(team, into, f, alone, where, stops, t, bits, everyone, v, e, stop):
    """A warp searches the in-edges of one vertex; returns whether it joins, and the calls.

    If the vertex may stop being wanted, lanes that found a member call one after the other.
    """
    hit, calls = False, np.int64(0)
    while e < stop:
        mine = e + team.lane
        u = v
        inside = False
        if mine < stop:
            u = into.indices[np.uint64(mine)]
            inside = everyone or has_bit(bits, u)
        if stops:
            mask = ballot(inside)
            while mask != 0:
                lane = lowest_bit(mask)
                mask &= mask - np.uint32(1)
                told = np.int64(0)
                if team.lane == lane:
                    calls += 1
                    if alone(u, v, np.uint64(mine), t):
                        told |= 1
                    if not where(v, t):
                        told |= 2
                told = shuffle(told, lane)
                sync_warp()
                hit = hit or told & 1 != 0
                if told & 2 != 0:
                    mask = np.uint32(0)
                    stop = e
        else:
            joins = False
            if inside:
                calls += 1
                joins = f(u, v, np.uint64(mine), t)
            hit = hit or ballot(joins) != 0
        e += 32
    return hit, calls
