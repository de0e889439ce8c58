"""Exchanges between parts: from owners to their ghosts, and from ghosts to their owners.

Parts on one machine share its memory, so nothing is packed: between two barriers of all threads an
owner reads the ghosts of the others, and a ghost its owner. The fields of all parts lie in one
array; a *slot* is a place in it (`evener.engine.partition.divide`). Merging writes only owned
slots, and copying only ghosts, so no two threads write the same slot and the order is fixed: by
part, then by vertex.

What devices without shared memory would send is counted per link, in the form that the exchange
policy chooses (`operators.shared.policies`). Parts on other machines have shadows here, which are
updated before (`evener.operators.shared.between_machines`).
"""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.operators.shared.between_machines import first_of, is_far, slots_of
from evener.operators.shared.frontier import is_new
from evener.operators.shared.world import account
from evener.operators.spmd import add_up, append, barrier, flush, lane, meet, rounds, share


@compiled(allocates=False)
def broadcast(team, world, copy, values, olds, width):
    """Give all ghosts of this part the values of their owners.

    ``copy(values, olds, slot, ghost, home)`` returns whether a value changed.
    """
    meet(world)
    me = world.part
    slots = slots_of(world, me)
    for q in range(world.parts):
        if is_far(world, q):
            continue  # already received
        first, last, step = share(team, first_of(world, me, q), first_of(world, me, q + 1))
        changed = np.int64(0)
        for g in range(first, last, step):
            at = np.uint64(g)
            if copy(values, olds, np.uint64(slots + g), at, np.uint64(world.home[at])):
                changed += 1
        add_up(team, world.counts, me * world.parts + q, changed)
    meet(world)
    account(team, world, True, width, False)


@compiled(allocates=False)
def collect(team, world, is_changed, merge, values, olds, width, emits, stamp, following):
    """Merge what the other parts wrote to their ghosts of this part's vertices.

    ``is_changed(values, olds, slot, ghost)`` finds what a stage wrote, ``merge(values, olds, home,
    slot, ghost)`` merges it. A ghost with the mark of this stage was emitted: with ``emits`` its
    owner joins the frontier. No vertex has two ghosts in one part, so only one thread handles a
    vertex between two barriers.
    """
    meet(world)
    me, mark = world.part, world.marks.dtype.type(stamp)
    held = np.int64(0)
    for q in range(world.parts):
        if q != me:
            slots = slots_of(world, q)
            base, last, step = rounds(team, first_of(world, q, me), first_of(world, q, me + 1))
            changed = np.int64(0)
            while base < last:
                i = base + lane(team)
                joins, v = False, following.queue.dtype.type(0)
                if i < last:
                    slot, g = np.uint64(slots + i), np.uint64(i)
                    home = np.uint64(world.home[g])
                    wrote = is_changed(values, olds, slot, g)
                    if wrote:
                        merge(values, olds, home, slot, g)
                    if emits and world.marks[slot] == mark:
                        wrote = True
                        joins = is_new(world.marks, home, stamp, False)
                        v = following.queue.dtype.type(np.int64(home) - world.bases[me])
                    if wrote:
                        changed += 1
                if emits:
                    held = append(team, held, 0, following, joins, v)
                base += step
            add_up(team, world.counts, me * world.parts + q, changed)
            if world.parts > 2:
                barrier(team)  # the next part may have a ghost of the same vertex
    if emits:
        flush(team, held, 0, following)
    meet(world)
    account(team, world, False, width, False)
