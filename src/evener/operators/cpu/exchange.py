"""Exchanges between parts that need their own code on a CPU: by boxes and copies.

See `evener.operators.shared.exchange`.
"""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.sync import CANCEL, barrier, prefetch
from evener.operators.cpu.frontier import (
    AHEAD,
    HALF,
    append,
    flush,
    stretch_of,
)
from evener.operators.shared.between_machines import is_far
from evener.operators.shared.frontier import SIZE, is_new
from evener.operators.shared.record import remember, remember_edges
from evener.operators.shared.world import FULL, account, count_message
from evener.operators.spmd import add_up, meet, share

BLOCK = 1024  # elements of replicated fields that are compared at a time
DENSE = 8  # if one of this many ghosts was emitted, all are visited


# ---- from ghosts to owners ------------------------------------------------------------------


@compiled(allocates=False)
def boxed_ghost(world, q, i, last, leader):
    """The number of the i-th ghost in the box of a part, or -1 if another part owns it.

    A box is in no order, so later ghosts are prefetched.
    """
    me = world.part
    begin, numbers = world.ghosts[q, 0], world.ghosts[q, 0] - world.owned[q]
    if i + 2 * AHEAD < last:
        prefetch(world.home, np.int64(world.box[begin + i + 2 * AHEAD]) + numbers)
        soon = np.int64(world.box[begin + i + AHEAD])
        prefetch(leader, world.home[soon + numbers])
        prefetch(leader, soon + world.bases[q])
    g = np.int64(world.box[begin + i]) + numbers
    return g if world.ghosts[q, me] <= g < world.ghosts[q, me + 1] else np.int64(-1)


@compiled(allocates=False)
def deliver(team, world, merge, merge_if, values, width, stamp, following):
    """As `collect` where ghosts change exactly if they are emitted: only those are visited.

    ``merge(values, home, slot)`` says whether the vertex changed; then it joins the frontier.
    ``merge_if(values, told, home, slot)`` does so without a branch: if many ghosts were emitted,
    all are visited in order, which is that of their owners. Which ones were emitted is
    unpredictable, so branches would cost more than visiting the others. Marks of parts elsewhere
    are unknown.
    """
    meet(world)
    me = world.part
    held = np.int64(0)
    for q in range(world.parts):
        if q != me:
            ghosts = world.ghosts[q, world.parts] - world.ghosts[q, 0]
            if world.boxed[q, SIZE] * DENSE > ghosts and not is_far(world, q):
                held, changed = _deliver_all(
                    team, world, merge_if, values, stamp, following, q, held
                )  # fmt: skip
            else:
                held, changed = _deliver_box(team, world, merge, values, stamp, following, q, held)
            add_up(team, world.counts, me * world.parts + q, changed)
            if world.parts > 2:
                barrier(team.sync, team.threads)
    flush(team, held, 0, following)
    meet(world)
    account(team, world, False, width, False)


@compiled(allocates=False)
def _deliver_box(team, world, merge, values, stamp, following, q, held):
    changed = np.int64(0)
    slots = world.bases[q] + world.owned[q] - world.ghosts[q, 0]
    first, last, _ = share(team, 0, world.boxed[q, SIZE])
    for i in range(first, last):
        g = boxed_ghost(world, q, i, last, values[0])
        if g >= 0:
            changed += 1
            home = np.uint64(world.home[g])
            # No other thread has a ghost of this vertex now.
            if merge(values, home, np.uint64(slots + g)) and is_new(
                world.marks, home, stamp, False
            ):
                v = np.int64(home) - world.bases[world.part]
                held = append(team, held, 0, following, True, v)
    return held, changed


@compiled(allocates=False)
def _deliver_all(team, world, merge_if, values, stamp, following, q, held):
    changed = np.int64(0)
    me, mark = world.part, world.marks.dtype.type(stamp)
    slots = world.bases[q] + world.owned[q] - world.ghosts[q, 0]
    first, last, _ = share(team, world.ghosts[q, me], world.ghosts[q, me + 1])
    for g in range(first, last):
        slot, home = np.uint64(slots + g), np.uint64(world.home[np.uint64(g)])
        told = world.marks[slot] == mark
        changed += told
        joins = merge_if(values, told, home, slot)
        before = world.marks[home]
        world.marks[home] = mark if joins else before
        team.buffer[held] = np.int64(home) - world.bases[me]
        held += joins & (before != mark)
        if held == HALF:
            flush(team, held, 0, following)
            held = np.int64(0)
    return held, changed


# ---- replicated fields ----------------------------------------------------------------------


@compiled(allocates=False)
def unite(team, world, differ, merge, values, olds, length, width):
    """Unite all copies of a replicated field; ``olds`` is what they had before.

    ``differ(values, olds, first, last, at)`` counts the elements that changed in the copy at
    ``at``, ``merge(values, olds, first, last, length, parts)`` unites all copies.
    """
    meet(world)
    thread = world.first + team.thread
    tally = world.tally[thread]
    tally[:] = 0
    begin, stop = stretch_of(thread, world.threads, 0, length)
    for first in range(begin, stop, BLOCK):
        last = min(first + BLOCK, stop)
        total = 0
        for p in range(world.parts):
            changed = differ(values, olds, first, last, p * length)
            tally[p] += changed
            total += changed
        if total > 0:
            merge(values, olds, first, last, length, world.parts)
    meet(world)
    if team.thread == 0:
        for q in range(world.parts):
            if q != world.part:
                changed = np.int64(0)
                for t in range(world.threads):
                    changed += world.tally[t, q]
                count_message(world, q, True, changed, length, length, width, False)
    meet(world)


@compiled(allocates=False)
def watch_shared(team, world, differ, keep, values, olds, length, width):
    """Count what a stage changed in a replicated field of which the parts share one copy.

    Each change counts as sent once to every other part; as its author is no longer known, changes
    are divided evenly among the parts.
    """
    meet(world)
    thread = world.first + team.thread
    changed = np.int64(0)
    begin, stop = stretch_of(thread, world.threads, 0, length)
    for first in range(begin, stop, BLOCK):
        last = min(first + BLOCK, stop)
        found = differ(values, olds, first, last, 0)
        if found > 0:
            keep(values, olds, first, last)
            changed += found
    world.tally[thread, 0] = changed
    meet(world)
    if team.thread == 0:
        changed = np.int64(0)
        for t in range(world.threads):
            changed += world.tally[t, 0]
        for q in range(world.parts):
            if q != world.part:
                theirs = (q + 1) * changed // world.parts - q * changed // world.parts
                count_message(world, q, True, theirs, length, length, width, False)


# ---- records --------------------------------------------------------------------------------


@compiled(allocates=False)
def remember_parts(team, world, current, record, recorded):
    """Record a frontier; without room all parts stop at the next superstep."""
    kept = remember(team, current, record, recorded)
    return _keep_in_step(world, kept, recorded)


@compiled(allocates=False)
def remember_edges_parts(team, world, current, record, recorded):
    """As `remember_parts`, for a frontier of edges."""
    kept = remember_edges(team, current, record, recorded)
    return _keep_in_step(world, kept, recorded)


@compiled(allocates=False)
def _keep_in_step(world, kept, recorded):
    if kept < 0:
        world.sync[CANCEL] = FULL
    return recorded + 1
