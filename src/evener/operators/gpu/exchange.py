"""Exchanges between parts that need their own code on a grid: by boxes and copies.

See `evener.operators.shared.exchange`. Each thread has several loads in flight, since there are few
threads and each load depends on another.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import CANCEL, ballot, barrier, count_bits, shuffle
from evener.operators.gpu.frontier import TURNS, append, below, flush
from evener.operators.gpu.record import remember, remember_edges
from evener.operators.gpu.world import BOXED
from evener.operators.shared.between_machines import first_of
from evener.operators.shared.frontier import SIZE
from evener.operators.shared.world import FULL, account, count_message
from evener.operators.spmd import add_up, meet

_U0, _U2, _U3, _U4 = np.uint64(0), np.uint64(2), np.uint64(3), np.uint64(4)


@compiled(allocates=False)
def four_at(array, size, at, apart):
    """Four elements of an array, ``apart`` from each other; beyond the end its first one."""
    at_b, at_c, at_d = at + apart, at + _U2 * apart, at + _U3 * apart
    a = np.uint64(array[at if at < size else _U0])
    b = np.uint64(array[at_b if at_b < size else _U0])
    c = np.uint64(array[at_c if at_c < size else _U0])
    d = np.uint64(array[at_d if at_d < size else _U0])
    return a, b, c, d


# ---- from ghosts to owners --------------------------------------------------------------------


@compiled(allocates=False)
def next_stamp(team, world, stamp):
    """The mark of the next stage; empties the box of the one after it."""
    stamp += 1
    if team.thread == 0:
        world.boxed[world.part * BOXED + (stamp + 1) % TURNS] = 0
    return stamp


@compiled(allocates=False)
def put_away(team, world, stamp, joins, v):
    """Put emitted ghosts into the box of this part."""
    mask = ballot(joins)
    if mask != 0:
        at = np.int64(0)
        if team.lane == 0:
            word = world.part * BOXED + stamp % TURNS
            at = np.int64(atomic.add(world.boxed, word, count_bits(mask)))
        at = shuffle(at, 0) + first_of(world, world.part, 0)
        if joins:
            world.box[np.uint64(at + below(team, mask))] = v


@compiled(allocates=False)
def deliver(team, world, look, improve, values, width, stamp, following):
    """As `collect` where ghosts change exactly if they are emitted: only those are visited.

    ``look(values, home, slot)`` reads the values of both, ``improve(values, home, found)`` says
    whether they change the vertex; then it joins the frontier. No ghost is in a box twice.
    """
    meet(world)
    me, base = world.part, world.bases[world.part]
    held = np.int64(0)
    first, apart = np.uint64(32 * team.rank + team.lane), np.uint64(team.threads)
    for q in range(world.parts):
        low, high = first_of(world, q, me), first_of(world, q, me + 1)
        begin, many = first_of(world, q, 0), world.boxed[q * BOXED + stamp % TURNS]
        if q == me or low == high or many == 0:
            continue
        box, size = world.box[begin : begin + many], np.uint64(many)
        homes, mine = world.home[low:high], np.uint64(high - low)
        slot = np.uint64(world.bases[q])
        ghost = np.uint64(begin - world.owned[q] - low)  # from a vertex there to its number here
        changed = np.int64(0)
        at = first
        while at - np.uint64(team.lane) < size:
            # Four at a time, so that four loads are in flight.
            v0, v1, v2, v3 = four_at(box, size, at, apart)
            at_a, at_b, at_c, at_d = v0 + ghost, v1 + ghost, v2 + ghost, v3 + ghost
            a = np.uint64(homes[at_a if at_a < mine else _U0])
            b = np.uint64(homes[at_b if at_b < mine else _U0])
            c = np.uint64(homes[at_c if at_c < mine else _U0])
            d = np.uint64(homes[at_d if at_d < mine else _U0])
            has_a, has_b = look(values, a, slot + v0), look(values, b, slot + v1)
            has_c, has_d = look(values, c, slot + v2), look(values, d, slot + v3)
            mark_a, mark_b, mark_c, mark_d = (
                world.marks[a], world.marks[b], world.marks[c], world.marks[d]
            )  # fmt: skip
            for_a = at_a < mine and at < size
            for_b = at_b < mine and at + apart < size
            for_c = at_c < mine and at + _U2 * apart < size
            for_d = at_d < mine and at + _U3 * apart < size
            changed += np.int64(for_a) + np.int64(for_b) + np.int64(for_c) + np.int64(for_d)
            for_a = for_a and improve(values, a, has_a)
            for_b = for_b and improve(values, b, has_b)
            for_c = for_c and improve(values, c, has_c)
            for_d = for_d and improve(values, d, has_d)
            held = joined(team, world, held, following, stamp, for_a, a, mark_a, base)
            held = joined(team, world, held, following, stamp, for_b, b, mark_b, base)
            held = joined(team, world, held, following, stamp, for_c, c, mark_c, base)
            held = joined(team, world, held, following, stamp, for_d, d, mark_d, base)
            at += _U4 * apart
        add_up(team, world.counts, me * world.parts + q, changed)
        if world.parts > 2:
            barrier(team.sync)
    flush(team, held, 0, following.queue, following.info, SIZE)
    meet(world)
    account(team, world, False, width, False)


@compiled(allocates=False)
def joined(team, world, held, following, stamp, changed, home, had, base):
    """Let a changed vertex join the frontier, unless its mark says that it has."""
    mark = np.uint32(stamp)
    joins = changed and had != mark
    if joins:
        world.marks[home] = mark
    v = following.queue.dtype.type(np.int64(home) - base)
    return append(team, held, 0, following.queue, following.info, SIZE, joins, v)


@compiled(allocates=False)
def arrived(world, merge, values, q, i):
    """Merge the i-th ghost in another part's box: 1 if this part owns the vertex, 2 if it changed;
    and its slot."""
    me = world.part
    v = np.int64(world.box[np.uint64(first_of(world, q, 0) + i)])
    g = v + first_of(world, q, 0) - world.owned[q]
    found, home = 0, np.uint64(0)
    if first_of(world, q, me) <= g < first_of(world, q, me + 1):
        home = np.uint64(world.home[np.uint64(g)])
        found = 2 if merge(values, home, np.uint64(world.bases[q] + v)) else 1
    return found, home


# ---- replicated fields ------------------------------------------------------------------------


@compiled(allocates=False)
def unite(team, world, differ, merge, values, olds, length, width):
    """Unite all copies of a replicated field; ``olds`` is what they had before.

    ``differ(values, olds, first, last, at)`` counts the elements that changed in the copy at
    ``at``, ``merge(values, olds, first, last, length, parts)`` unites all copies.
    """
    meet(world)
    mine = np.int64(0)  # what one part has changed, in the lane of its number
    base = world.first + 32 * team.rank
    while base < length:
        i = base + team.lane
        total = np.int64(0)
        for p in range(0, world.parts, 4):  # four at a time, so that four loads are in flight
            a = is_other(world, differ, values, olds, i, p, length)
            b = is_other(world, differ, values, olds, i, p + 1, length)
            c = is_other(world, differ, values, olds, i, p + 2, length)
            d = is_other(world, differ, values, olds, i, p + 3, length)
            total += a + b + c + d
            mine += seen_by(team, a, p) + seen_by(team, b, p + 1)
            mine += seen_by(team, c, p + 2) + seen_by(team, d, p + 3)
        if total > 0:
            merge(values, olds, i, i + 1, length, world.parts)
        base += world.threads
    if mine > 0:
        atomic.add(world.tally, team.lane, mine)
    meet(world)
    if team.rank == 0:
        for q in range(team.lane, world.parts, 32):
            if q != world.part:
                count_message(world, q, True, world.tally[q], length, length, width, False)
    meet(world)
    if team.thread == 0:
        world.tally[world.part] = 0


@compiled(allocates=False)
def is_other(world, differ, values, olds, i, p, length):
    """Whether part ``p`` has changed element ``i``: 1 or 0, 0 if either does not exist."""
    at = min(i, length - 1)
    found = np.int64(differ(values, olds, at, at + 1, min(p, world.parts - 1) * length))
    return found if i < length and p < world.parts else np.int64(0)


@compiled(allocates=False)
def seen_by(team, found, p):
    """How many lanes found a change, for the lane ``p``."""
    many = count_bits(ballot(found > 0))
    return many if team.lane == p else np.int64(0)


# ---- records ----------------------------------------------------------------------------------


@compiled(allocates=False)
def remember_parts(team, world, current, kept, recorded, trace):
    """Record a frontier; without room all parts stop at the next superstep."""
    if remember(team, current, kept, recorded, trace) < 0 and team.thread == 0:
        team.sync[CANCEL] = FULL
    return recorded + 1


@compiled(allocates=False)
def remember_edges_parts(team, world, current, kept, recorded, trace):
    """As `remember_parts`, for a frontier of edges."""
    if remember_edges(team, current, kept, recorded, trace) < 0 and team.thread == 0:
        team.sync[CANCEL] = FULL
    return recorded + 1
