"""`advance` on the parts of a graph: emitted ghosts wait in a box for their owners."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.sync import barrier, claim
from evener.operators.cpu.advance import look_ahead, pull, stretch_of_arcs
from evener.operators.cpu.frontier import append, empty, flush, grain, to_queue
from evener.operators.shared.frontier import SIZE, Frontier, is_new
from evener.operators.spmd import member

_U1 = np.uint64(1)


@compiled(allocates=False)
def push_parts(
    team, ghost_team, out, f, where, s, current, following, box, marks, stamp, boxes
):  # fmt: skip
    """Push from the vertices of this part; returns the calls of the functor by this thread.

    All emitted vertices get the mark of the stage; with ``boxes`` ghosts also go into the box.
    ``ghost_team`` differs from ``team`` by the buffer.
    """
    empty(team, following)
    empty(team, box)
    return push_more(
        team, ghost_team, out, f, where, s, current, following, box, marks, stamp, boxes
    )  # fmt: skip


@compiled(allocates=False)
def push_more(
    team, ghost_team, out, f, where, s, current, following, box, marks, stamp, boxes
):  # fmt: skip
    """As `push_parts`, to a frontier and a box that may hold vertices of this stage."""
    to_queue(team, current)
    owned = len(out.indptr) - 1
    size = current.info[SIZE]
    held, waiting = np.int64(0), np.int64(0)
    calls = np.int64(0)
    teams = (team, ghost_team)
    exact = team.threads > 1  # a single thread has no races
    amount = grain(team, size)
    first = claim(team.sync, amount)
    if size < team.threads:
        u, e, stop = stretch_of_arcs(out, current, size, first)
        while e < stop:
            calls += np.int64(stop - e)
            held, waiting = _push_list(
                teams, out, f, where, s, u, e, stop, following, box, marks, stamp, exact, boxes,
                owned, held, waiting,
            )  # fmt: skip
            u, e, stop = stretch_of_arcs(out, current, size, claim(team.sync, amount))
    else:
        while first < size:
            for i in range(first, min(first + amount, size)):
                look_ahead(out, current, i, size)
                u = member(current, i)
                e = np.uint64(out.indptr[u])
                stop = np.uint64(out.indptr[np.uint64(u) + _U1])
                calls += np.int64(stop - e)
                held, waiting = _push_list(
                    teams, out, f, where, s, u, e, stop, following, box, marks, stamp, exact, boxes,
                    owned, held, waiting,
                )  # fmt: skip
            first = claim(team.sync, amount)
    flush(team, held, 0, following)
    flush(ghost_team, waiting, 0, box)
    barrier(team.sync, team.threads)
    return calls


@compiled(allocates=False)
def _push_list(
    teams, out, f, where, s, u, e, stop, following, box, marks, stamp, exact, boxes, owned, held,
    waiting,
):  # fmt: skip
    """Push along some arcs of one vertex; returns how many wait in each buffer."""
    while e < stop:
        v = out.indices[e]
        if where(v, s) and f(u, v, e, s) and is_new(marks, v, stamp, exact):
            if v < owned:
                held = append(teams[0], held, 0, following, True, v)
            elif boxes:
                waiting = append(teams[1], waiting, 0, box, True, v)
        e += _U1
    return held, waiting


@compiled(allocates=False)
def pull_parts(team, into, f, where, t, current, members, following):
    """Pull to the vertices of this part from the ``members`` that `spread` made."""
    empty(team, following)
    seen = Frontier(current.queue, members, current.info)
    calls = pull(team, into, f, where, t, seen, following)
    barrier(team.sync, team.threads)
    return calls
