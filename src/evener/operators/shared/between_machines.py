"""Exchanges between parts on different machines, through the hub: memory that all can reach.

A *machine* is a memory with the parts that work in it: all CPU parts are on one, a GPU with its
parts is another. Each machine holds the arrays of all parts; those of the others are shadows, in
which only exchanged values are ever updated. An exchange begins with that update: a machine packs
what the others need into the hub, all shake hands, and each unpacks into its shadows. Then the
exchange operators work in one machine's memory as if there were no other. So these functions, which
run on every device, are all that several machines add.

The hub has one element per ghost of each part, for either direction, and two halves used in turn: a
machine that is ahead packs into the half that no machine reads any more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import compiled
from evener.operators.spmd import add_up, box_size, set_box_size, share

PART_WORDS = 8  # words of one part: two numbers, and whether to stop
GROUP = 256  # ghosts whose values are packed together
FLAG_WORDS = 16  # between the flags of two machines, so that each has its own cache line


class Hub(NamedTuple):
    """What a thread knows of the other machines, and the handshake with them."""

    machine: int
    machines: int
    machine_of: np.ndarray  # by part
    ghosts: np.ndarray  # as `evener.engine.partition.divide.Parts.ghosts`, flat
    total: int  # ghosts of all parts
    patience: int  # polls of the others' flags before this one runs ahead; below 0: never
    shaken: np.ndarray  # number of handshakes of this machine; whether others were late
    sizes: np.ndarray  # [half, part, PART_WORDS]: of boxes
    flags: np.ndarray  # in the hub: each machine's handshakes, then whether all must give up
    words: np.ndarray  # in the hub: numbers to agree on
    far_sizes: np.ndarray  # in the hub: sizes of boxes
    box: np.ndarray  # in the hub [half, ghost]: the emitted ones
    marks: np.ndarray  # in the hub [half, ghost]: of emitted ones
    bits: np.ndarray  # in the hub: of members; see `bits_of`
    shake: Any  # (team, world, local, remote, turn): handshake that exchanges words


@compiled(allocates=False)
def is_far(world, p):
    """Whether a part is on another machine."""
    return world.hub.machine_of[p] != world.hub.machine


@compiled(allocates=False)
def first_of(world, p, q):
    """The number of the first ghost of ``p`` that ``q`` owns."""
    return world.hub.ghosts[p * (world.parts + 1) + q]


@compiled(allocates=False)
def slots_of(world, p):
    """The offset from the number of a part's ghost to its slot."""
    return world.bases[p] + world.owned[p] - first_of(world, p, 0)


@compiled(allocates=False)
def bits_of(world, p, q, half):
    """The offset from the number of a ghost of ``p`` that ``q`` owns to the place of its bit.

    Each link has its own words of 64 bits, so no two machines write to the same one.
    """
    links = world.parts * world.parts
    return 64 * (half * (world.hub.total // 64 + links + 1) + p * world.parts + q)


@compiled(allocates=False)
def carry_owned(team, world, pack, arrive, shadow, values, boxes, olds, half):
    """Copy the values of owners to their ghosts on other machines."""
    hub, me, shift = world.hub, world.part, half * world.hub.total
    for p in range(world.parts):
        if is_far(world, p):
            first, last, step = share(team, first_of(world, p, me), first_of(world, p, me + 1))
            for g in range(first, last, step):
                home = np.uint64(world.home[np.uint64(g)])
                pack(values, boxes, home, np.uint64(g + shift))
                shadow(values, olds, home, np.uint64(g))
    hub.shake(team, world, hub.sizes, hub.far_sizes, half)
    slots = slots_of(world, me)
    for q in range(world.parts):
        if is_far(world, q):
            first, last, step = share(team, first_of(world, me, q), first_of(world, me, q + 1))
            changed = np.int64(0)
            for g in range(first, last, step):
                at = np.uint64(g + shift)
                if arrive(values, olds, boxes, np.uint64(slots + g), np.uint64(g), at):
                    changed += 1
            add_up(team, world.counts, me * world.parts + q, changed)


@compiled(allocates=False)
def clear_far(team, world, copy, values, olds):
    """Set ghosts of other machines to 0 before a stage that only adds to them."""
    me, slots = world.part, slots_of(world, world.part)
    for q in range(world.parts):
        if is_far(world, q):
            low, high = first_of(world, me, q), first_of(world, me, q + 1)
            first, last, step = share(team, low, high)
            for g in range(first, last, step):
                slot = np.uint64(slots + g)
                copy(values, olds, slot, np.uint64(g), slot)


@compiled(allocates=False)
def carry_ghosts(team, world, pack, unpack, values, boxes, emits, stamp, half):
    """Copy what a stage has left in ghosts to the machines of their owners."""
    hub, me, shift = world.hub, world.part, half * world.hub.total
    mark = world.marks.dtype.type(stamp)
    slots = slots_of(world, me)
    for q in range(world.parts):
        if is_far(world, q):
            first, last, step = share(team, first_of(world, me, q), first_of(world, me, q + 1))
            for g in range(first, last, step):
                slot = np.uint64(slots + g)
                pack(values, boxes, slot, np.uint64(g + shift))
                if emits:
                    hub.marks[np.uint64(g + shift)] = np.uint8(world.marks[slot] == mark)
    hub.shake(team, world, hub.sizes, hub.far_sizes, half)
    for p in range(world.parts):
        if is_far(world, p):
            slots = slots_of(world, p)
            first, last, step = share(team, first_of(world, p, me), first_of(world, p, me + 1))
            for g in range(first, last, step):
                slot = np.uint64(slots + g)
                unpack(values, boxes, slot, np.uint64(g + shift))
                if emits:
                    was = hub.marks[np.uint64(g + shift)] != 0
                    world.marks[slot] = mark if was else world.marks.dtype.type(0)


@compiled(allocates=False)
def carry_box(team, world, pack, unpack, values, boxes, stamp, half):
    """Copy the boxes of emitted ghosts, with their values, to the other machines."""
    hub, first = world.hub, half * world.parts * PART_WORDS
    pack_box(team, world, pack, values, boxes, stamp, half)
    if team.thread == 0:
        hub.sizes[first + world.part * PART_WORDS] = box_size(world, world.part, stamp)
    hub.shake(team, world, hub.sizes, hub.far_sizes, half)
    unpack_box(team, world, unpack, values, boxes, hub.sizes, first, stamp, half)


@compiled(allocates=False)
def pack_box(team, world, pack, values, boxes, stamp, half):
    """Put the emitted ghosts of this part, with their values, into the hub."""
    hub, me, shift = world.hub, world.part, half * world.hub.total
    begin = first_of(world, me, 0)
    first, last, step = share(team, begin, begin + box_size(world, me, stamp))
    for i in range(first, last, step):
        v = world.box[np.uint64(i)]
        hub.box[np.uint64(i + shift)] = v
        pack(values, boxes, np.uint64(world.bases[me] + np.int64(v)), np.uint64(i + shift))


@compiled(allocates=False)
def unpack_box(team, world, unpack, values, boxes, sizes, first_size, stamp, half):
    """Take the other machines' emitted ghosts out; ``sizes`` has their number, by part."""
    hub, shift = world.hub, half * world.hub.total
    for p in range(world.parts):
        if is_far(world, p):
            begin, size = first_of(world, p, 0), sizes[first_size + p * PART_WORDS]
            if team.thread == 0:
                set_box_size(world, p, stamp, size)
            first, last, step = share(team, begin, begin + size)
            for i in range(first, last, step):
                v = hub.box[np.uint64(i + shift)]
                world.box[np.uint64(i)] = v
                slot = np.uint64(world.bases[p] + np.int64(v))
                unpack(values, boxes, slot, np.uint64(i + shift))


@compiled(allocates=False)
def carry_copies(team, world, pack, unpack, values, boxes, length, half):
    """Copy whole replicated fields to the other machines."""
    hub, me, shift = world.hub, world.part, half * world.parts * length
    first, last, step = share(team, me * length, (me + 1) * length)
    for i in range(first, last, step):
        pack(values, boxes, np.uint64(i), np.uint64(i + shift))
    hub.shake(team, world, hub.sizes, hub.far_sizes, half)
    for p in range(world.parts):
        if is_far(world, p):
            first, last, step = share(team, p * length, (p + 1) * length)
            for i in range(first, last, step):
                unpack(values, boxes, np.uint64(i), np.uint64(i + shift))


@compiled(allocates=False)
def publish_words(world, local, remote, turn):
    """Put the words of this machine's parts into the hub."""
    for p in range(world.parts):
        if not is_far(world, p):
            at = (turn * world.parts + p) * PART_WORDS
            for word in range(3):
                remote[at + word] = local[at + word]


@compiled(allocates=False)
def receive_words(world, local, remote, turn):
    """Take the words of the other machines' parts out of the hub."""
    for p in range(world.parts):
        if is_far(world, p):
            at = (turn * world.parts + p) * PART_WORDS
            for word in range(3):
                local[at + word] = remote[at + word]
