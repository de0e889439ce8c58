"""`advance` on the parts of a graph, each a grid: emitted ghosts wait for their owners."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import compiled
from evener.device.warp import barrier
from evener.operators.gpu.advance import ALL_NEIGHBOURS, pull
from evener.operators.gpu.exchange import put_away
from evener.operators.gpu.frontier import append, flush, look_ahead, to_queue
from evener.operators.shared.edge_frontier import targets
from evener.operators.shared.frontier import SIZE, Frontier, always, is_new


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
def take(team, sink, held, emits, u, v, e):
    """Owned vertices join the queue, ghosts the box; both get the mark of the stage."""
    new = emits and is_new(sink.marks, v, sink.stamp, True)
    owned = np.int64(v) < sink.owned
    if sink.boxes:
        put_away(team, sink.world, sink.stamp, new and not owned, v)
    return append(team, held, 0, sink.queue, sink.info, SIZE, new and owned, v)


@compiled(allocates=False)
def done(team, sink, held):
    """Flush the warp's buffer, and meet; see `evener.operators.gpu.schedules.common`."""
    flush(team, held, 0, sink.queue, sink.info, SIZE)
    barrier(team.sync)
    return look_ahead(team, sink.queue, sink.info)


@compiled(allocates=False)
def push_parts(
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
def pull_parts(team, into, f, alone, where, stops, t, current, members, following):
    """Pull to the vertices of this part from the ``members`` that `spread` made."""
    seen = Frontier(current.queue, members, current.info)
    calls = pull(team, into, f, alone, where, stops, t, seen, following)
    barrier(team.sync)
    return calls


@compiled(allocates=False)
def targets_parts(team, world, out, current, following, marks, stamp):
    """As `evener.operators.shared.edge_frontier.targets`."""
    targets(team, out, current, following, marks, stamp)
