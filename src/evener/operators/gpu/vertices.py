"""Stages that need their own code on a grid: reduce over a frontier, and visit all edges."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.warp import (
    BLOCK,
    ballot,
    barrier,
    block,
    num_blocks,
    shared_parts,
    shuffle_xor,
    sync_block,
    thread_of_block,
)
from evener.operators.gpu.frontier import FLAG, to_queue, work
from evener.operators.shared.frontier import SIZE, always
from evener.operators.spmd import member

WARPS_POWER = (BLOCK // 32).bit_length() - 1  # warps of a block, as a power of two


@compiled(allocates=False)
def reduce(team, f, combine, neutral, s, current, partial):
    """Reduce over the frontier; every thread gets the result.

    Which thread takes which vertices depends only on the size of the grid, so a sum of floats is
    the same in every run on one GPU.
    """
    to_queue(team, current)
    kind = partial.dtype.type
    total = neutral
    i, size = team.thread, current.info[SIZE]
    while i < size:
        total = kind(combine(total, kind(f(member(current, i), s))))
        i += team.threads
    reduce_block(team, combine, kind(total), partial)
    barrier(team.sync)
    total = reduce_blocks(team, combine, neutral, partial)
    barrier(team.sync)  # all have read before one writes again
    return total


@compiled(allocates=False)
def reduce_block(team, combine, total, partial):
    """Write the combined value of a block's threads."""
    total = combine_lanes(combine, total, partial)
    parts = shared_parts(partial)
    here = thread_of_block()
    if team.lane == 0:
        parts[np.uint64(here >> 5)] = total
    sync_block()
    if here < 32:
        total = parts[np.uint64(here & (BLOCK // 32 - 1))]
        for power in range(WARPS_POWER):
            other = shuffle_xor(total, 1 << power)
            total = partial.dtype.type(combine(total, other))
        if here == 0:
            partial[np.uint64(block())] = total
    sync_block()  # the parts may be written again


@compiled(allocates=False)
def reduce_blocks(team, combine, neutral, partial):
    """Combine what all blocks wrote, after a barrier, for each thread."""
    kind = partial.dtype.type
    total = neutral
    i, blocks = team.lane, num_blocks()
    while i < blocks:
        total = kind(combine(total, partial[np.uint64(i)]))
        i += 32
    return combine_lanes(combine, kind(total), partial)


@compiled(allocates=False)
def combine_lanes(combine, value, like):
    """Combine the values of all lanes, for each of them."""
    for power in range(5):
        value = like.dtype.type(combine(value, shuffle_xor(value, 1 << power)))
    return value


@compiled(allocates=False)
def take_flag(team, sink, held, emits, u, v, e):
    """Note that a call returned True."""
    return held + 1 if ballot(emits) != 0 else held


@compiled(allocates=False)
def done_flag(team, sink, held):
    """Set the flag for all threads, and meet."""
    if held > 0:
        team.works[work(team, FLAG)] = 1
    barrier(team.sync)
    return np.int64(0)


@compiled(allocates=False)
def edges(team, visit, out, f, where, s, first_neighbour, last_neighbour, everyone, pieces):
    """Visit all edges or a slice of each list; returns whether one call was True, and the calls."""
    calls = visit(
        team, out, everyone, where, first_neighbour, last_neighbour, f, always, s, take_flag,
        done_flag, 0, pieces,
    )  # fmt: skip
    return team.works[work(team, FLAG)] != 0, calls
