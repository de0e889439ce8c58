"""`nearest` on the parts of a graph, each a grid: all parts work on the nearest bucket of all.

After each round emitted ghosts go to their owners, which put those that changed into their near
queue or far pile. As all parts are in the same bucket, vertices of an earlier one are near too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import compiled
from evener.device.warp import barrier, cycles
from evener.operators.gpu.advance import ALL_NEIGHBOURS
from evener.operators.gpu.exchange import arrived, next_stamp, put_away
from evener.operators.gpu.frontier import SIZE, TURNS, begin, fresh
from evener.operators.gpu.nearest import (
    NONE,
    PILE,
    TURN_WORDS,
    Sorted,
    fill_pile,
    leave_pile,
    nearest_bucket,
    sorted_into,
    split,
    spread_of,
)
from evener.operators.gpu.nearest import done as done_here
from evener.operators.gpu.nearest import take as take_here
from evener.operators.gpu.world import BOXED
from evener.operators.shared.frontier import always, is_new
from evener.operators.shared.world import account, census, least, why_stop
from evener.operators.spmd import add_up, meet


class SortedAway(NamedTuple):
    """Where a round puts the vertices that it emits: as on one device, or into the box."""

    here: Sorted
    owned: int
    world: Any


@compiled(allocates=False)
def take(team, sink, held, emits, u, v, e):
    """Owned vertices go near or far, ghosts into the box, each once."""
    owned = np.int64(v) < sink.owned
    away = emits and not owned and is_new(sink.here.marks, v, sink.here.stamp, True)
    put_away(team, sink.world, sink.here.stamp, away, v)
    return take_here(team, sink.here, held, emits and owned, u, v, e)


@compiled(allocates=False)
def done(team, sink, held):
    """Flush the warp's buffers, and meet; see `evener.operators.gpu.schedules.common`."""
    return done_here(team, sink.here, held)


@compiled(allocates=False)
def receive(team, world, merge, values, width, sink):
    """Put the vertices that other parts' ghosts change near or far."""
    meet(world)
    me = world.part
    held = np.int64(0)
    for q in range(world.parts):
        if q != me:
            size = world.boxed[q * BOXED + sink.stamp % TURNS]
            changed = np.int64(0)
            base = 32 * team.rank
            while base < size:
                i = base + team.lane
                emits, v = False, sink.near.dtype.type(0)
                if i < size:
                    found, home = arrived(world, merge, values, q, i)
                    if found > 0:
                        changed += 1
                    if found > 1:
                        emits = True
                        v = sink.near.dtype.type(np.int64(home) - world.bases[me])
                held = take_here(team, sink, held, emits, v, v, base)
                base += team.threads
            add_up(team, world.counts, me * world.parts + q, changed)
            if world.parts > 2:
                barrier(team.sync)
    done_here(team, sink, held)
    meet(world)
    account(team, world, False, width, False)


@compiled(allocates=False)
def nearest_parts(
    team, world, visit, out, f, where, s, field, inverse, current, following, infos, made, marks,
    stamp, turn, shared, far, farther, in_far, pieces, merge, values, width,
):  # fmt: skip
    """Run a whole repeat in the order of ``field``; see `evener.operators.gpu.nearest`.

    Returns the team, two frontiers, the first of which is the (empty) current one, the counts of
    frontiers and stamps, the last turn, rounds, calls of this thread, and the cycles of
    communication.
    """
    team = fill_pile(team, current, shared, far, in_far)
    rounds, calls, half, talked = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    bucket = np.int64(-1)
    stopped, spread = False, spread_of(out)
    while not stopped:
        which = (half & 1) * TURN_WORDS
        size = shared[PILE + which]
        bucket = nearest_bucket(team, far, size, field, inverse, bucket, shared, which)
        clock = cycles()
        bucket = least(team, world, turn, bucket)
        talked += cycles() - clock
        stopped = why_stop(world, turn) != 0
        turn = 1 - turn
        if bucket == NONE or stopped:
            leave_pile(team, far, size, in_far)
            break
        made += 1
        following = fresh(team, following, infos, made)
        split(team, far, size, farther, shared, which, following, in_far, field, inverse, bucket)
        current, following = following, current
        far, farther = farther, far
        half += 1
        while not stopped:
            clock = cycles()
            total = census(team, world, turn, current.info[SIZE])
            talked += cycles() - clock
            stopped = why_stop(world, turn) != 0
            turn = 1 - turn
            if total == 0:
                break
            team = begin(team)
            made += 1
            stamp = next_stamp(team, world, stamp)
            following = fresh(team, following, infos, made)
            sink = sorted_into(
                team, out, current, following, far, shared, which, marks, stamp, in_far, field,
                inverse, bucket, spread,
            )  # fmt: skip
            away = SortedAway(sink, len(out.indptr) - 1, world)
            calls += visit(
                team, out, current, always, 0, ALL_NEIGHBOURS, f, where, s, take, done, away,
                pieces,
            )  # fmt: skip
            clock = cycles()
            receive(team, world, merge, values, width, sink)
            talked += cycles() - clock
            current, following = following, current
            rounds += 1
    return team, current, following, made, stamp, turn, rounds, calls, talked
