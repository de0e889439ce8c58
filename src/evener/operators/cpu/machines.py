"""How the CPU's parts meet those of other machines; see `evener.operators.shared.hub`."""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import (
    ABORT,
    CANCEL,
    SPINS,
    YIELDS,
    barrier,
    doze,
    give_way,
    load,
    pause,
    publish,
)
from evener.operators.cpu.exchange import meet, say, stretch_of
from evener.operators.cpu.frontier import SIZE, member
from evener.operators.shared.hub import APART, FLAG_WORDS, publish_words, receive_words

PATIENCE = 300  # looks at the others' flags before running ahead: see docs/notes/parts-gpu.md


@compiled(allocates=False)
def stay_here(team, world, local, remote, turn):
    """Meet, where there are no other machines."""
    meet(world)


@compiled(allocates=False)
def shake_hands(team, world, local, remote, turn):
    """Meet, then one thread meets those of the other machines, then all go on."""
    meet(world)
    if world.first + team.thread == 0:
        _raise_flag(world, local, remote, turn)
        _await_flags(world, local, remote, turn)
    meet(world)


@compiled(allocates=False)
def _raise_flag(world, local, remote, turn):
    """Let the other machines see what this one has put into the hub."""
    hub = world.hub
    publish_words(world, local, remote, turn)
    hub.shaken[0] += 1
    publish(hub.flags, hub.machine * FLAG_WORDS, hub.shaken[0])


@compiled(allocates=False)
def _await_flags(world, local, remote, turn):
    """Wait until all machines have put theirs there, or all must give up."""
    hub, reached = world.hub, world.hub.shaken[0]
    looks = 0
    for other in range(hub.machines):
        while load(hub.flags, other * FLAG_WORDS) < reached:
            looks += 1
            if looks < SPINS:
                pause()
            elif load(hub.flags, hub.machines * FLAG_WORDS) != 0:
                break
            elif looks < SPINS + YIELDS:
                give_way()
            else:
                doze()
    receive_words(world, local, remote, turn)
    if load(hub.flags, hub.machines * FLAG_WORDS) != 0:
        for p in range(world.parts):
            world.words[(turn * world.parts + p) * APART + 2] = ABORT


@compiled(allocates=False)
def are_late(hub):
    """Whether others have not put theirs there, however patiently one looks."""
    reached, looks = hub.shaken[0], 0
    for other in range(hub.machines):
        while load(hub.flags, other * FLAG_WORDS) < reached:
            looks += 1
            if looks > hub.patience:
                return True
            pause()
    return False


@compiled(allocates=False)
def tell(team, world, turn, waiting, boxed):
    """Tell the others that the box is in the hub; returns whether theirs are late.

    A census, of what waits here and in the box, whose sum is known after `listen`.
    """
    say(team, world, turn, waiting + boxed)
    if team.thread == 0:
        world.words[(turn * world.parts + world.part) * APART + 1] = boxed
    meet(world)
    hub = world.hub
    if world.first + team.thread == 0:
        _raise_flag(world, world.words, hub.words, turn)
        hub.shaken[1] = waiting > 0 and hub.patience >= 0 and are_late(hub)
    if hub.patience < 0:
        return False
    meet(world)
    return hub.shaken[1] != 0


@compiled(allocates=False)
def listen(team, world, turn):
    """Wait for what the others tell; returns whether a thread is gone, so that nothing came."""
    if world.first + team.thread == 0:
        _await_flags(world, world.words, world.hub.words, turn)
    meet(world)
    return load(world.sync, CANCEL) == ABORT


@compiled(allocates=False)
def forget(team, marks, frontier):
    """Take the marks off the vertices of a frontier, so that they may be emitted again."""
    first, last = stretch_of(team.thread, team.threads, 0, frontier.info[SIZE])
    for i in range(first, last):
        marks[member(frontier, i)] = 0
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def numbers_of(team, first, last):
    """The numbers of a thread between two: first, last, step."""
    begin, stop = stretch_of(team.thread, team.threads, first, last)
    return begin, stop, 1


@compiled(allocates=False)
def box_size(world, p, stamp):
    """How many emitted ghosts a part has in its box."""
    return world.boxed[p, SIZE]


@compiled(allocates=False)
def set_box_size(world, p, stamp, size):
    """The same of a part on another machine."""
    world.boxed[p, SIZE] = size


@compiled(allocates=False)
def count(team, counts, at, changed):
    """Add what a thread has counted."""
    if changed > 0:
        atomic.add(counts, at, np.int64(changed))
