"""Members of a frontier as bits, ghosts of members included: words of 32 on a grid, by warps."""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import ballot, barrier, count_bits, set_bits, shuffle
from evener.operators.gpu.exchange import four_at
from evener.operators.gpu.frontier import FORM, below, has_bit
from evener.operators.shared.between_machines import GROUP, bits_of, first_of, is_far, slots_of
from evener.operators.shared.frontier import ALL, BITS, QUEUE, SIZE
from evener.operators.shared.world import account
from evener.operators.spmd import add_up, meet, member

WORDS = GROUP // 32  # of bits that a warp reads or writes at once

_U1, _FULL_WORD = np.uint32(1), np.uint32(0xFFFFFFFF)
_U2, _U3, _U4 = np.uint64(2), np.uint64(3), np.uint64(4)
_U5, _U31 = np.uint64(5), np.uint64(31)


@compiled(allocates=False)
def mark_members(team, world, current, members):
    """Turn the frontier of this part into bits; no part reads them before the next `meet`."""
    owned = world.owned[world.part]
    form = current.info[FORM]
    for w in range(team.thread, len(members), team.threads):
        word = np.uint32(0)
        if form == ALL:
            rest = owned - 32 * np.int64(w)
            if rest >= 32:
                word = _FULL_WORD
            elif rest > 0:
                word = np.uint32((np.int64(1) << rest) - 1)
        elif form == BITS and w < len(current.bits):
            word = current.bits[np.uint64(w)]
        members[np.uint64(w)] = word
    if form == QUEUE:
        barrier(team.sync)
        for i in range(team.thread, current.info[SIZE], team.threads):
            join(members, member(current, i))


@compiled(allocates=False)
def spread(team, world, members, peek, place, values, olds, width):
    """Make ghosts of members members too, and give those the values of their owners.

    ``peek(values, home)`` reads the values of an owner, ``place(values, olds, slot, ghost, found)``
    gives them to a ghost.
    """
    meet(world)
    me = world.part
    before = world.owned[me] - first_of(world, me, 0)  # from the number of a ghost to its bit
    apart = np.uint64(32 * team.warps)
    four = _U4 * apart
    for q in range(world.parts):
        low, high = first_of(world, me, q), first_of(world, me, q + 1)
        if is_far(world, q) or low == high:
            continue
        theirs = np.uint64(32 * world.words_from[q] - world.bases[q])
        homes, size = world.home[low:high], np.uint64(high - low)
        ghost, slot = np.uint64(low), np.uint64(world.bases[me] + before + low)
        told_here = np.int64(0)
        w = (before + low) // 32 + team.rank
        # Unsigned: lanes before the first ghost are far beyond the last one.
        at = np.uint64(32 * w + team.lane - before - low)
        a, b = four_at(homes, size, at, apart), four_at(homes, size, at + four, apart)
        while 32 * w < before + high:
            # Eight words at a time and the homes of the next, so that many loads are in flight:
            # there are few threads, and each load depends on another.
            next_a = four_at(homes, size, at + _U2 * four, apart)
            next_b = four_at(homes, size, at + _U3 * four, apart)
            in_a, has_a = four_members(world.bits, theirs, peek, values, a)
            in_b, has_b = four_members(world.bits, theirs, peek, values, b)
            in_a, in_b = so_many(in_a, size, at, apart), so_many(in_b, size, at + four, apart)
            place_four(place, values, olds, slot + at, ghost + at, apart, in_a, has_a)
            place_four(place, values, olds, slot + at + four, ghost + at + four, apart, in_b, has_b)
            told_here += join_four(team, members, w, in_a)
            told_here += join_four(team, members, w + 4 * team.warps, in_b)
            a, b = next_a, next_b
            at += _U2 * four
            w += 8 * team.warps
        if team.lane == 0 and told_here > 0:
            atomic.add(world.counts, me * world.parts + q, told_here)
    meet(world)
    account(team, world, True, width, True)


@compiled(allocates=False)
def four_members(bits, theirs, peek, values, homes):
    """Which of four owners are members, and their values."""
    a, b, c, d = homes
    has = peek(values, a), peek(values, b), peek(values, c), peek(values, d)
    inside = (
        has_bit(bits, a + theirs), has_bit(bits, b + theirs), has_bit(bits, c + theirs),
        has_bit(bits, d + theirs),
    )  # fmt: skip
    return inside, has


@compiled(allocates=False)
def so_many(inside, size, at, apart):
    """Which of four, ``apart`` from each other, are inside and exist."""
    a, b = inside[0] and at < size, inside[1] and at + apart < size
    c, d = inside[2] and at + _U2 * apart < size, inside[3] and at + _U3 * apart < size
    return a, b, c, d


@compiled(allocates=False)
def place_four(place, values, olds, slot, ghost, apart, inside, has):
    """Give four ghosts, ``apart`` from each other, their owners' values if those are members."""
    if inside[0]:
        place(values, olds, slot, ghost, has[0])
    if inside[1]:
        place(values, olds, slot + apart, ghost + apart, has[1])
    if inside[2]:
        place(values, olds, slot + _U2 * apart, ghost + _U2 * apart, has[2])
    if inside[3]:
        place(values, olds, slot + _U3 * apart, ghost + _U3 * apart, has[3])


@compiled(allocates=False)
def join_four(team, members, w, inside):
    """Set the bits of four words, one per round of the warps; returns how many."""
    return (
        join_word(team, members, w, inside[0])
        + join_word(team, members, w + team.warps, inside[1])
        + join_word(team, members, w + 2 * team.warps, inside[2])
        + join_word(team, members, w + 3 * team.warps, inside[3])
    )


@compiled(allocates=False)
def join_word(team, members, w, inside):
    """Set the bits of a word for the lanes that are inside; returns how many."""
    word = ballot(inside)
    if team.lane == 0 and word != 0:
        set_bits(members, np.uint64(w), word)  # owned vertices or others' ghosts may be there too
    return count_bits(word)


@compiled(allocates=False)
def join(members, v):
    """Set the bit of a vertex."""
    at = np.uint64(v)
    set_bits(members, at >> _U5, np.uint32(np.uint32(1) << np.uint32(at & _U31)))


@compiled(allocates=False)
def carry_members(team, world, members, pack, arrive, values, boxes, olds, half):
    """As `evener.operators.cpu.members.carry_members`; a warp takes a group of ghosts at a time."""
    hub, me, shift = world.hub, world.part, half * world.hub.total
    mine = np.uint64(32 * world.words_from[me] - world.bases[me])
    barrier(team.sync)  # the bits of this part are visible
    for p in range(world.parts):
        if is_far(world, p):
            low, high = first_of(world, p, me), first_of(world, p, me + 1)
            place = bits_of(world, p, me, half) // 32
            w = low // GROUP * WORDS + WORDS * team.rank
            while 32 * w < high and low < high:
                word, at = np.uint32(0), max(low, 32 * w) + shift
                for i in range(WORDS):
                    g = 32 * (w + i) + team.lane
                    home = np.uint64(world.home[np.uint64(min(max(g, low), high - 1))])
                    inside = low <= g < high and has_bit(world.bits, home + mine)
                    voted = ballot(inside)
                    if inside:
                        pack(values, boxes, home, np.uint64(at + below(team, voted)))
                    at += count_bits(voted)
                    if team.lane == i:
                        word = voted
                if is_of_link(team, w, low, high):
                    hub.bits[np.uint64(place + w + team.lane)] = word
                w += WORDS * team.warps
    hub.shake(team, world, hub.sizes, hub.far_sizes, half)
    slots, numbers = slots_of(world, me), world.owned[me] - first_of(world, me, 0)
    for q in range(world.parts):
        if is_far(world, q):
            low, high = first_of(world, me, q), first_of(world, me, q + 1)
            place = bits_of(world, me, q, half) // 32
            told = np.int64(0)
            w = low // GROUP * WORDS + WORDS * team.rank
            while 32 * w < high and low < high:
                word, at = np.uint32(0), max(low, 32 * w) + shift
                if is_of_link(team, w, low, high):
                    word = hub.bits[np.uint64(place + w + team.lane)]
                    join_words(members, 32 * (w + team.lane) + numbers, word)
                told += count_bits(word)
                for i in range(WORDS):
                    voted = shuffle(word, i)
                    if voted >> np.uint32(team.lane) & _U1 != 0:
                        g = 32 * (w + i) + team.lane
                        arrive(
                            values, olds, boxes, np.uint64(slots + g), np.uint64(g),
                            np.uint64(at + below(team, voted)),
                        )  # fmt: skip
                    at += count_bits(voted)
                w += WORDS * team.warps
            add_up(team, world.counts, me * world.parts + q, told)


@compiled(allocates=False)
def is_of_link(team, w, low, high):
    """Whether this lane has one of the words of a group from ``w`` on that belongs to a link.

    A link has whole words of 64 bits, as other devices read them.
    """
    first = 32 * (w + team.lane)
    return team.lane < WORDS and first >= low // 64 * 64 and first < (high + 63) // 64 * 64


@compiled(allocates=False)
def join_words(bits, place, word):
    """As `evener.operators.cpu.members.join_words`, of 32 bits."""
    at, rest = place >> 5, np.uint32(place & 31)
    low = np.uint32(word << rest)
    high = np.uint32(np.uint64(word) >> np.uint64(32 - rest))
    if low != 0:
        set_bits(bits, np.uint64(at), low)
    if high != 0:
        set_bits(bits, np.uint64(at + 1), high)
