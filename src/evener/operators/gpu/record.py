"""What a GPU kernel records: rows of the trace, what it needs to resume, how it ended."""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import (
    BARRIERS,
    BLOCK,
    WARP,
    ballot,
    barrier,
    block,
    count_bits,
    cycles,
    load_now,
    thread_of_block,
)
from evener.operators.gpu.frontier import EDGES, FORM, INFO_WORDS, TURNS, sum_of_warp
from evener.operators.shared.frontier import QUEUE, SIZE
from evener.operators.shared.record import remember as remember_vertices
from evener.operators.shared.record import remember_edges as remember_of_edges
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
def settle(team, home, field, moved):
    """Copy a field back if it is in its second copy when the kernel ends."""
    if moved:
        v = team.thread
        while v < len(home):
            home[np.uint64(v)] = field[np.uint64(v)]
            v += team.threads


@compiled(allocates=False)
def remember(team, current, kept, recorded, trace):
    """As `evener.operators.shared.record.remember`; without room it tells the host."""
    now = remember_vertices(team, current, kept, recorded)
    if now < 0:
        _ask_for_room(team, kept, recorded, current.info[SIZE], trace)
    return now


@compiled(allocates=False)
def remember_edges(team, current, kept, recorded, trace):
    """As `remember`, for a frontier of edges."""
    now = remember_of_edges(team, current, kept, recorded)
    if now < 0:
        _ask_for_room(team, kept, recorded, current.info[SIZE], trace)
    return now


@compiled(allocates=False)
def _ask_for_room(team, kept, recorded, size, trace):
    if team.thread == 0:
        # A record of this size has room for the ends of its supersteps too, however short they are.
        trace[NEEDED] = max(kept.bounds[recorded] + size, recorded + 2)
        trace[RECORDED] = recorded


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


@compiled(allocates=False)
def prepare_replay(team, infos, kept, step):
    """Write the words of a recorded frontier before the superstep that uses it."""
    if team.thread == 0 and step >= 0:
        first = (step % TURNS) * INFO_WORDS
        infos[first + SIZE] = kept.bounds[step + 1] - kept.bounds[step]
        infos[first + FORM] = QUEUE
        infos[first + EDGES] = 0


@compiled(allocates=False)
def end(trace, code):
    """Tell the host how the kernel ended: 0, or why early (`evener.engine.codegen.resume`)."""
    if block() == 0 and thread_of_block() == 0:
        trace[STATUS] = np.int64(code)
