"""Leaving a GPU kernel before its run ends, and resuming it."""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import barrier
from evener.operators.gpu.frontier import sum_of_warp


@compiled(allocates=False)
def settle(team, home, field, moved):
    """Copy a field back if it is in its second copy when the kernel ends."""
    if moved:
        v = team.thread
        while v < len(home):
            home[np.uint64(v)] = field[np.uint64(v)]
            v += team.threads


@compiled(allocates=False)
def save_sum(team, saves, word, value):
    """Save the sum of a variable over all threads, before a kernel returns from a loop."""
    total = sum_of_warp(value)
    if team.lane == 0 and total != 0:
        atomic.add(saves, word, total)


@compiled(allocates=False)
def begin_again(team, saves):
    """Clear what was saved, once all have read it, and the words of stages."""
    barrier(team.sync)
    if team.thread == 0:
        for i in range(len(saves)):
            saves[i] = 0
        for i in range(len(team.works)):
            team.works[i] = 0
    barrier(team.sync)
