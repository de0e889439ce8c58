"""Exchanges between parts that a CPU does in its own way: by bits, boxes and copies.

See `evener.operators.shared.exchange`.
"""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.sync import CANCEL, barrier, prefetch
from evener.operators.cpu.frontier import (
    AHEAD,
    FORM,
    HALF,
    append,
    flush,
    set_bit,
    stretch_of,
)
from evener.operators.shared.frontier import ALL, BITS, SIZE, is_new
from evener.operators.shared.hub import is_far
from evener.operators.shared.record import remember, remember_edges
from evener.operators.shared.world import FULL, account, count_message
from evener.operators.spmd import add_up, meet, member, share

BLOCK = 1024  # elements of replicated fields that are compared at a time
DENSE = 8  # of so many ghosts one is emitted: then all are looked at

_U1, _U6, _U63 = np.uint64(1), np.uint64(6), np.uint64(63)


# ---- from owners to ghosts ------------------------------------------------------------------


@compiled(allocates=False)
def put_bit(team, bits, v):
    """Set a bit of this part, where one thread alone needs no atomic."""
    if team.threads == 1:
        bits[v >> _U6] |= _U1 << (v & _U63)
    else:
        set_bit(bits, v)


@compiled(allocates=False)
def mark_members(team, world, current, members):
    """Make bits of the frontier of this part."""
    me = world.part
    owned, n = world.owned[me], world.owned[me] + world.ghosts[me, -1] - world.ghosts[me, 0]
    form = current.info[FORM]
    first, last, _ = share(team, 0, (n + 63) // 64)
    for w in range(first, last):
        word = np.uint64(0)
        if form == ALL and w < owned // 64:
            word = ~word
        elif form == ALL and w == owned // 64:
            word = (np.uint64(1) << np.uint64(owned % 64)) - np.uint64(1)
        elif form == BITS and w < len(current.bits):
            word = current.bits[w]
        members[w] = word
    barrier(team.sync, team.threads)
    if form != ALL and form != BITS:
        size = current.info[SIZE]
        first, last, _ = share(team, 0, size)
        for i in range(first, last):
            put_bit(team, members, np.uint64(member(current, i)))
        barrier(team.sync, team.threads)


@compiled(allocates=False)
def spread(team, world, members, give, values, width):
    """Let ghosts stand for owners that are members, and give those the values of their owners.

    ``give(values, inside, slot, home)`` may give them to the others too.
    """
    meet(world)
    me = world.part
    slots = world.bases[me] + world.owned[me] - world.ghosts[me, 0]
    places = world.owned[me] - world.ghosts[me, 0]  # of ghosts among the bits of this part
    for q in range(world.parts):
        if is_far(world, q):
            continue
        theirs = np.uint64(64 * world.words_from[q]) - np.uint64(world.bases[q])
        low, high = world.ghosts[me, q] + places, world.ghosts[me, q + 1] + places
        begin, stop, _ = share(team, low >> 6, (high + 63) >> 6)
        changed = np.int64(0)
        for w in range(begin, stop):
            word = np.uint64(0)
            for i in range(max(64 * w, low), min(64 * w + 64, high)):
                g = np.uint64(i - places)
                home = np.uint64(world.home[g])
                at = home + theirs
                inside = (world.bits[at >> _U6] >> (at & _U63)) & _U1
                give(values, inside != 0, np.uint64(slots + i - places), home)
                word |= inside << (np.uint64(i) & _U63)
                changed += np.int64(inside)
            members[w] |= word
        add_up(team, world.counts, me * world.parts + q, changed)
        barrier(team.sync, team.threads)  # the next part may begin within the same word
    meet(world)
    account(team, world, True, width, True)


# ---- from ghosts to owners ------------------------------------------------------------------


@compiled(allocates=False)
def boxed_ghost(world, q, i, last, leader):
    """The number of the i-th ghost in the box of a part, or -1 if another part owns it.

    A box is in no order, so those that come later are asked for already.
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
    """As `collect` where ghosts change exactly if they are emitted: only those are looked at.

    ``merge(values, home, slot)`` says whether the vertex changed; then it joins the frontier.
    ``merge_if(values, told, home, slot)`` does so without a branch: if many ghosts were emitted all
    are gone through, in their order, which is that of their owners. Nobody foresees which are told,
    so branches would cost more than the others do. The marks of parts elsewhere are not known.
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


# ---- fields that every part holds whole -----------------------------------------------------


@compiled(allocates=False)
def unite(team, world, differ, merge, values, olds, length, width):
    """Bring all copies of a replicated field to one value; ``olds`` is what they had before.

    ``differ(values, olds, first, last, at)`` counts the elements that the copy from ``at`` on has
    changed, ``merge(values, olds, first, last, length, parts)`` unites all copies.
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

    Each change is told to all other parts once; as nobody knows any more whose it was, the parts
    count as having made equally many.
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
def remember_apart(team, world, current, record, recorded):
    """Keep a frontier; where there is no room all parts stop at the next superstep."""
    kept = remember(team, current, record, recorded)
    return _keep_in_step(world, kept, recorded)


@compiled(allocates=False)
def remember_edges_apart(team, world, current, record, recorded):
    """As `remember_apart`, for a frontier of edges."""
    kept = remember_edges(team, current, record, recorded)
    return _keep_in_step(world, kept, recorded)


@compiled(allocates=False)
def _keep_in_step(world, kept, recorded):
    if kept < 0:
        world.sync[CANCEL] = FULL
    return recorded + 1
