"""Handshakes between the parts of different machines: flags in the hub, which all can see."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.sync import ABORT
from evener.operators.shared.between_machines import (
    FLAG_WORDS,
    PART_WORDS,
    publish_words,
    receive_words,
)
from evener.operators.shared.frontier import SIZE
from evener.operators.shared.world import say
from evener.operators.spmd import (
    await_flag,
    barrier,
    hear,
    is_gone,
    meet,
    meet_having_written,
    member,
    pause,
    publish,
    share,
)

# Polls of the others' flags before a machine runs ahead: see docs/notes/parts-gpu.md.
CPU_PATIENCE, GPU_PATIENCE = 300, 4


@compiled(allocates=False)
def stay_here(team, world, local, remote, turn):
    """Meet; there are no other machines."""
    meet(world)


@compiled(allocates=False)
def shake_hands(team, world, local, remote, turn):
    """Meet; one thread shakes hands with the other machines; then all continue."""
    meet_having_written(world)
    if world.first + team.thread == 0:
        _raise_flag(world, local, remote, turn)
        _await_flags(world, local, remote, turn)
    meet(world)


@compiled(allocates=False)
def _raise_flag(world, local, remote, turn):
    """Publish what this machine has put into the hub."""
    hub = world.hub
    publish_words(world, local, remote, turn)
    reached = hub.shaken[0] + 1
    hub.shaken[0] = reached
    publish(hub.flags, hub.machine * FLAG_WORDS, reached)


@compiled(allocates=False)
def _await_flags(world, local, remote, turn):
    """Wait until all machines have published, or all must give up."""
    hub, gave_up = world.hub, np.int64(0)
    reached, give_up = hub.shaken[0], hub.machines * FLAG_WORDS
    for other in range(hub.machines):
        gave_up = await_flag(hub.flags, other * FLAG_WORDS, reached, give_up, gave_up)
    receive_words(world, local, remote, turn)
    if gave_up != 0:
        for p in range(world.parts):
            world.words[(turn * world.parts + p) * PART_WORDS + 2] = ABORT


@compiled(allocates=False)
def are_late(hub):
    """Whether another machine has not published after `Hub.patience` polls."""
    reached, looks, late = hub.shaken[0], 0, False
    for other in range(hub.machines):
        while not late and hear(hub.flags, other * FLAG_WORDS) < reached:
            looks += 1
            late = looks > hub.patience
            pause()
    return late


@compiled(allocates=False)
def tell(team, world, turn, waiting, boxed):
    """Announce that the box is in the hub; returns whether the others' boxes are late.

    Begins a census of what waits here and in the box; its sum is known after `listen`.
    """
    say(team, world, turn, waiting + boxed)
    if team.thread == 0:
        world.words[(turn * world.parts + world.part) * PART_WORDS + 1] = boxed
    meet_having_written(world)
    hub = world.hub
    if world.first + team.thread == 0:
        _raise_flag(world, world.words, hub.words, turn)
        if hub.patience >= 0:
            hub.shaken[1] = np.int64(waiting > 0 and are_late(hub))
    late = False
    if hub.patience >= 0:
        meet(world)
        late = hub.shaken[1] != 0
    return late


@compiled(allocates=False)
def listen(team, world, turn):
    """Wait for the others' boxes; returns whether a thread is gone, so that nothing came."""
    if world.first + team.thread == 0:
        _await_flags(world, world.words, world.hub.words, turn)
    meet(world)
    return is_gone(world)


@compiled(allocates=False)
def forget(team, marks, frontier):
    """Clear the marks of a frontier's vertices, so that they can be emitted again."""
    first, last, step = share(team, 0, frontier.info[SIZE])
    for i in range(first, last, step):
        marks[np.uint64(member(frontier, i))] = marks.dtype.type(0)
    barrier(team)
