"""How the parts of a GPU meet those of other machines; see `evener.operators.shared.hub`."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.sync import ABORT
from evener.device.warp import barrier, fence_host, hear, sync_block, thread_of_block, told
from evener.operators.gpu.frontier import SIZE, TURNS
from evener.operators.gpu.world import BOXED, meet, say
from evener.operators.shared.hub import APART, FLAG_WORDS, publish_words, receive_words

LOOKS = 256  # at the others' flags between two looks whether all must give up
PATIENCE = 4  # looks at the others' flags before running ahead: see docs/notes/parts-gpu.md


@compiled(allocates=False)
def stay_here(team, world, local, remote, turn):
    """Meet, where there are no other machines."""
    meet(world)


@compiled(allocates=False)
def shake_hands(team, world, local, remote, turn):
    """Meet, then one thread meets those of the other machines, then all go on."""
    _meet_having_written(world)
    if world.first + team.thread == 0:
        _raise_flag(world, local, remote, turn)
        _await_flags(world, local, remote, turn)
    meet(world)


@compiled(allocates=False)
def _meet_having_written(world):
    """Meet; what a block wrote to the hub is there before a flag is."""
    sync_block()
    if thread_of_block() == 0:
        fence_host()
    meet(world)


@compiled(allocates=False)
def _raise_flag(world, local, remote, turn):
    """Let the other machines see what this one has put into the hub."""
    hub = world.hub
    publish_words(world, local, remote, turn)
    reached = hub.shaken[0] + 1
    hub.shaken[0] = reached
    told(hub.flags, hub.machine * FLAG_WORDS, reached)


@compiled(allocates=False)
def _await_flags(world, local, remote, turn):
    """Wait until all machines have put theirs there, or all must give up."""
    hub, reached = world.hub, world.hub.shaken[0]
    gave_up = np.int64(0)
    for other in range(hub.machines):
        looks = 0
        while gave_up == 0 and hear(hub.flags, other * FLAG_WORDS) < reached:
            looks += 1
            if looks % LOOKS == 0:
                gave_up = hear(hub.flags, hub.machines * FLAG_WORDS)
    receive_words(world, local, remote, turn)
    if gave_up != 0:
        for p in range(world.parts):
            world.words[(turn * world.parts + p) * APART + 2] = ABORT


@compiled(allocates=False)
def are_late(hub):
    """Whether others have not put theirs there, however patiently one looks."""
    reached, looks, late = hub.shaken[0], 0, False
    for other in range(hub.machines):
        while not late and hear(hub.flags, other * FLAG_WORDS) < reached:
            looks += 1
            late = looks > hub.patience
    return late


@compiled(allocates=False)
def tell(team, world, turn, waiting, boxed):
    """Tell the others that the box is in the hub; returns whether theirs are late.

    A census, of what waits here and in the box, whose sum is known after `listen`.
    """
    say(team, world, turn, waiting + boxed)
    if team.thread == 0:
        world.words[(turn * world.parts + world.part) * APART + 1] = boxed
    _meet_having_written(world)
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
    """Wait for what the others tell; returns whether a thread is gone: not so on a GPU."""
    if world.first + team.thread == 0:
        _await_flags(world, world.words, world.hub.words, turn)
    meet(world)
    return False


@compiled(allocates=False)
def forget(team, marks, frontier):
    """Take the marks off the vertices of a frontier, so that they may be emitted again."""
    for i in range(team.thread, frontier.info[SIZE], team.threads):
        marks[np.uint64(frontier.queue[np.uint64(i)])] = np.uint32(0)
    barrier(team.sync)


@compiled(allocates=False)
def numbers_of(team, first, last):
    """The numbers of a thread between two: first, last, step."""
    return first + team.thread, last, team.threads


@compiled(allocates=False)
def box_size(world, p, stamp):
    """How many emitted ghosts a part has in its box."""
    return world.boxed[p * BOXED + stamp % TURNS]


@compiled(allocates=False)
def set_box_size(world, p, stamp, size):
    """The same of a part on another machine."""
    world.boxed[p * BOXED + stamp % TURNS] = size
