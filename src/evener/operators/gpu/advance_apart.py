"""`advance` on the parts of a graph, each a grid: ghosts that are emitted wait for their owners."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import barrier
from evener.operators.gpu.advance import ALL_NEIGHBOURS, count_arcs, pull
from evener.operators.gpu.exchange import put_away
from evener.operators.gpu.frontier import EDGES, FORM, SIZE, append, flush, look_ahead, to_queue
from evener.operators.shared.frontier import (
    AUTO,
    BITS,
    PULL,
    QUEUE,
    TO_PULL,
    TO_PUSH,
    Frontier,
    always,
)


class Sent(NamedTuple):
    """Where a push puts the vertices that it emits."""

    queue: np.ndarray
    info: np.ndarray
    marks: np.ndarray
    stamp: int
    owned: int
    world: Any
    boxes: bool


@compiled(allocates=False)
def arcs_of(team, out, current, mode):
    """The arcs that leave this part's frontier, if it matters."""
    if mode == AUTO and current.info[FORM] == QUEUE:
        count_arcs(team, out, current, len(out.indptr) - 1)
    return current.info[EDGES]


@compiled(allocates=False)
def goes_pull_apart(current, mode, size, arcs, left, before, num_vertices):
    """As `evener.operators.gpu.advance.goes_pull` with the sizes of all parts together."""
    if mode != AUTO:
        return mode == PULL
    if current.info[FORM] == BITS:
        return size >= before or size > num_vertices // TO_PUSH
    return arcs > left // TO_PULL


@compiled(allocates=False)
def is_new(marks, v, stamp):
    """Whether a vertex is emitted for the first time in a stage."""
    mark = np.uint32(stamp)
    at = np.uint64(v)
    return marks[at] != mark and atomic.exchange(marks, at, mark) != mark


@compiled(allocates=False)
def take(team, sink, held, emits, u, v, e):
    """Owned vertices join the queue, ghosts the box; both get the mark of the stage."""
    new = emits and is_new(sink.marks, v, sink.stamp)
    owned = np.int64(v) < sink.owned
    if sink.boxes:
        put_away(team, sink.world, sink.stamp, new and not owned, v)
    return append(team, held, 0, sink.queue, sink.info, SIZE, new and owned, v)


@compiled(allocates=False)
def done(team, sink, held):
    """Flush what the warp holds, and meet; see `evener.operators.gpu.schedules.common`."""
    flush(team, held, 0, sink.queue, sink.info, SIZE)
    barrier(team.sync)
    return look_ahead(team, sink.queue, sink.info)


@compiled(allocates=False)
def push_apart(
    team, world, visit, out, f, where, s, current, following, marks, stamp, boxes, pieces
):  # fmt: skip
    """Push from the vertices of this part; returns the calls of the functor by this thread."""
    to_queue(team, current)
    sink = Sent(
        following.queue, following.info, marks, stamp, len(out.indptr) - 1, world, boxes
    )  # fmt: skip
    return visit(
        team, out, current, always, 0, ALL_NEIGHBOURS, f, where, s, take, done, sink, pieces
    )


@compiled(allocates=False)
def pull_apart(team, into, f, alone, where, stops, t, current, members, following):
    """Pull to the vertices of this part from the ``members`` that `spread` made."""
    seen = Frontier(current.queue, members, current.info)
    calls = pull(team, into, f, alone, where, stops, t, seen, following)
    barrier(team.sync)
    return calls


@compiled(allocates=False)
def targets_apart(team, world, out, current, following, marks, stamp):
    """The set of the edges' ``dst`` that this part owns; ghosts among them get the mark."""
    sink = Sent(following.queue, following.info, marks, stamp, len(out.indptr) - 1, world, False)
    size = current.info[SIZE]
    held = np.int64(0)
    base = team.rank * 32
    while base < size:
        i = base + team.lane
        u, v, e = out.indices.dtype.type(0), out.indices.dtype.type(0), np.uint64(0)
        if i < size:
            e = np.uint64(current.edge[np.uint64(i)])
            v = out.indices[e]
        held = take(team, sink, held, i < size, u, v, e)
        base += team.threads
    flush(team, held, 0, following.queue, following.info, SIZE)
    barrier(team.sync)
