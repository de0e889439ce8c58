"""The trace of a GPU kernel: a row for each superstep, and how the run ended."""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import (
    BARRIERS,
    BLOCK,
    WARP,
    ballot,
    block,
    count_bits,
    cycles,
    load_now,
    thread_of_block,
)
from evener.operators.gpu.frontier import sum_of_warp
from evener.operators.shared.trace import CALLS, CYCLES, FUSED, MEMBERS, PULLED, ROWS, STEP, VISITED

# Words of a row of the trace; the last of a superstep's row counts the barriers so far.
TRACE_WORDS, PASSED = 6, 5
# Of the first row: the room that a full record needs, and the supersteps in it; how the run ended.
NEEDED, RECORDED, STATUS = 2, 3, 5
FEW_LANES = 4  # that do not justify a sum over the warp, which takes as long as a barrier


@compiled(allocates=False)
def note(team, trace, row, step, members, calls, pulled, clock):
    """Write a row of the trace if there is room."""
    at = (row + 1) * TRACE_WORDS
    if at + TRACE_WORDS <= len(trace):
        some = ballot(calls > 0)
        if count_bits(some) > FEW_LANES:
            calls = sum_of_warp(calls)
            some = np.uint32(1)
        if (some >> np.uint32(team.lane)) & np.uint32(1) != 0:
            atomic.add(trace, at + CALLS, calls)
        if team.thread == 0:
            trace[at + STEP] = step
            trace[at + MEMBERS] = members
            trace[at + PULLED] = np.int64(pulled)
            trace[at + CYCLES] = cycles() - clock
        if team.thread == BLOCK - WARP:  # which counts them
            trace[at + PASSED] = np.int64(load_now(team.sync, BARRIERS))
    if team.thread == 0:
        trace[ROWS] = row + 1


@compiled(allocates=False)
def tell_whole(team, trace, visited, fused):
    """Write the run's words: all calls, as some stages are in no loop, and fused supersteps."""
    if team.thread == 0:
        trace[FUSED] = fused
    visited = sum_of_warp(visited)
    if team.lane == 0 and visited > 0:
        atomic.add(trace, VISITED, visited)


@compiled(allocates=False)
def end(trace, code):
    """Report how the kernel ended: 0, or why early (see `evener.engine.codegen.print_resume`)."""
    if block() == 0 and thread_of_block() == 0:
        trace[STATUS] = np.int64(code)
