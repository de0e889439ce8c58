"""What a CPU kernel records of its supersteps."""

from __future__ import annotations

from evener.device import compiled
from evener.device.sync import cycles
from evener.operators.shared.trace import CALLS, CYCLES, FUSED, MEMBERS, PULLED, ROWS, STEP, VISITED


@compiled(allocates=False)
def note(team, trace, row, step, members, calls, pulled, clock):
    """Write a row if there is room."""
    if row + 1 < len(trace):
        trace[row + 1, CALLS + team.thread] = calls
        if team.thread == 0:
            trace[row + 1, STEP] = step
            trace[row + 1, MEMBERS] = members
            trace[row + 1, PULLED] = pulled
            trace[row + 1, CYCLES] = cycles() - clock
    if team.thread == 0:
        trace[0, ROWS] = row + 1


@compiled(allocates=False)
def tell_whole(team, trace, visited, fused):
    """Write the words of the whole run."""
    trace[0, VISITED + team.thread] = visited
    if team.thread == 0:
        trace[0, FUSED] = fused
