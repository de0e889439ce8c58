"""What parts agree on, in the words that all of them see: one text for threads and for grids."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.operators.shared.hub import APART

SENT, USEFUL, WHOLE = 0, 1, 2  # of World.traffic: bytes sent, of those that changed, of policy all
FULL = 3  # as CANCEL: a record has no room left


@compiled(allocates=False)
def sum_of(world, turn, word):
    """The sum of a word over all parts, after a census."""
    total = np.int64(0)
    for p in range(world.parts):
        total += world.words[(turn * world.parts + p) * APART + word]
    return total


@compiled(allocates=False)
def why_stop(world, turn):
    """Why the last census said that the run is to stop: 0 if it did not."""
    why = np.int64(0)
    for p in range(world.parts):
        why = max(why, world.words[(turn * world.parts + p) * APART + 2])
    return why


@compiled(allocates=False)
def agree(team, world, turn, combine, neutral, own, words, far):
    """Combine the values of all parts, in their order."""
    if team.thread == 0:
        words[(turn * world.parts + world.part) * APART] = own
    world.hub.shake(team, world, words, far, turn)
    total = neutral
    for p in range(world.parts):
        total = words.dtype.type(combine(total, words[(turn * world.parts + p) * APART]))
    return total
