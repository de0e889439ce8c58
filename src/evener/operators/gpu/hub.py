"""What a grid does in its own way of `evener.operators.shared.hub`: bits of the hub, by warps."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.warp import ballot, barrier, count_bits, set_bits, shuffle
from evener.operators.gpu.frontier import below, has_bit
from evener.operators.shared.hub import GROUP, bits_of, first_of, is_far, slots_of
from evener.operators.spmd import add_up

WORDS = GROUP // 32  # of bits, that a warp reads or writes at once

_U1 = np.uint32(1)


@compiled(allocates=False)
def carry_members(team, world, members, pack, arrive, values, boxes, olds, half):
    """As `evener.operators.shared.hub.carry_members`: a warp has a group of ghosts at a time."""
    hub, me, shift = world.hub, world.part, half * world.hub.total
    mine = np.uint64(32 * world.words_from[me] - world.bases[me])
    barrier(team.sync)  # the bits of this part are there
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
    """Whether this lane has one of the words of a group from ``w`` on, and a link has it.

    A link has whole words of 64 bits, as other devices read them.
    """
    first = 32 * (w + team.lane)
    return team.lane < WORDS and first >= low // 64 * 64 and first < (high + 63) // 64 * 64


@compiled(allocates=False)
def join_words(bits, place, word):
    """As `evener.operators.shared.hub.join_words`, of 32 bits."""
    at, rest = place >> 5, np.uint32(place & 31)
    low = np.uint32(word << rest)
    high = np.uint32(np.uint64(word) >> np.uint64(32 - rest))
    if low != 0:
        set_bits(bits, np.uint64(at), low)
    if high != 0:
        set_bits(bits, np.uint64(at + 1), high)
