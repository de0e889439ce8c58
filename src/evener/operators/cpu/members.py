"""Members of a frontier as bits, ghosts of members included: words of 64 on a CPU."""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import barrier
from evener.operators.cpu.frontier import FORM, has_bit, set_bit
from evener.operators.shared.between_machines import GROUP, bits_of, first_of, is_far, slots_of
from evener.operators.shared.frontier import ALL, BITS, SIZE
from evener.operators.shared.world import account
from evener.operators.spmd import add_up, meet, member, share

_U1, _U6, _U63 = np.uint64(1), np.uint64(6), np.uint64(63)


@compiled(allocates=False)
def put_bit(team, bits, v):
    """Set a bit of this part; a single thread needs no atomic."""
    if team.threads == 1:
        bits[v >> _U6] |= _U1 << (v & _U63)
    else:
        set_bit(bits, v)


@compiled(allocates=False)
def mark_members(team, world, current, members):
    """Turn the frontier of this part into bits."""
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
    """Make ghosts of members members too, and give those the values of their owners.

    ``give(values, inside, slot, home)`` may give values to other ghosts too.
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


@compiled(allocates=False)
def carry_members(team, world, members, pack, arrive, values, boxes, olds, half):
    """Copy a bit for each ghost whose owner is in the frontier, and the values of those.

    The values of each `GROUP` of ghosts are packed together from the place of its first: scattered
    accesses over a link between devices are slow. Ghosts that arrive join the ``members`` of this
    part.
    """
    hub, me, shift = world.hub, world.part, half * world.hub.total
    mine = np.uint64(64 * world.words_from[me] - world.bases[me])
    for p in range(world.parts):
        if is_far(world, p):
            low, high = first_of(world, p, me), first_of(world, p, me + 1)
            place = bits_of(world, p, me, half) // 64
            first, last, step = share(team, low // GROUP, (high + GROUP - 1) // GROUP)
            for group in range(first, last, step):
                at = max(low, GROUP * group) + shift
                for w in words_of(group, low, high):
                    word = np.uint64(0)
                    for g in range(max(low, 64 * w), min(high, 64 * w + 64)):
                        home = np.uint64(world.home[np.uint64(g)])
                        if has_bit(world.bits, home + mine):
                            word |= _U1 << (np.uint64(g) & _U63)
                            pack(values, boxes, home, np.uint64(at))
                            at += 1
                    hub.bits[np.uint64(place + w)] = word
    hub.shake(team, world, hub.sizes, hub.far_sizes, half)
    slots, numbers = slots_of(world, me), world.owned[me] - first_of(world, me, 0)
    for q in range(world.parts):
        if is_far(world, q):
            low, high = first_of(world, me, q), first_of(world, me, q + 1)
            place = bits_of(world, me, q, half) // 64
            first, last, step = share(team, low // GROUP, (high + GROUP - 1) // GROUP)
            told = np.int64(0)
            for group in range(first, last, step):
                begin = at = max(low, GROUP * group) + shift
                for w in words_of(group, low, high):
                    word = hub.bits[np.uint64(place + w)]
                    join_words(members, 64 * w + numbers, word)
                    g = 64 * w
                    while word != 0:
                        if word & _U1:
                            slot = np.uint64(slots + g)
                            arrive(values, olds, boxes, slot, np.uint64(g), np.uint64(at))
                            at += 1
                        word >>= _U1
                        g += 1
                told += at - begin
            add_up(team, world.counts, me * world.parts + q, told)


@compiled(allocates=False)
def words_of(group, low, high):
    """The words of 64 bits of a group that a link has: none if the link has no ghosts.

    The other machine writes only these; other words of the hub are left from earlier runs.
    """
    each = GROUP // 64
    first, last = max(each * group, low // 64), min(each * group + each, (high + 63) // 64)
    return range(first, last if low < high else first)


@compiled(allocates=False)
def join_words(bits, place, word):
    """Set the bits of a word at any place; bits before the first place must be 0."""
    at, rest = place >> 6, np.uint64(place & 63)
    low = word << rest
    high = word >> (_U63 - rest) >> _U1
    if low != 0:
        set_bits(bits, np.uint64(at), low)
    if high != 0:
        set_bits(bits, np.uint64(at + 1), high)


@compiled(allocates=False)
def set_bits(bits, at, word):
    """Set bits of a word while other threads may set others."""
    old = bits[at]
    while old & word != word:
        seen = atomic.cas(bits, at, old, old | word)
        if seen == old:
            break
        old = seen
