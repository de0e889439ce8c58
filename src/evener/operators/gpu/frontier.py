"""Frontiers on a GPU, and the words that a stage of the grid works with.

A stage has one barrier, its last, unless its work needs more. So that emptying needs no barrier,
words that a stage counts in exist three times: the one in use, the one before, which others may
still be reading, and the next, which is emptied meanwhile.

Bits are words of 32: one ballot of a warp. Threads append to a queue through a buffer of their warp
in shared memory, which is flushed with one atomic addition for 32 vertices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import (
    BLOCK,
    BUFFER,
    CANCEL,
    ballot,
    barrier,
    block,
    count_bits,
    num_blocks,
    set_bits,
    shared_buffer,
    shuffle,
    shuffle_xor,
    sync_warp,
    thread_of_block,
)
from evener.operators.shared.frontier import BITS, QUEUE, SIZE, Frontier

# More words of Frontier.info, one sector of memory: CURSOR is where bits become a queue.
FORM, EDGES, CURSOR = 1, 2, 3
INFO_WORDS = 16

# Words of a stage. STOP is not emptied: once it is set the run ends.
CLAIMED, PIECES, FLAG, STOP = 0, 1, 2, 3
USED_WORDS, WORK_WORDS = 3, 16

SYNC_WORDS = 64
TURNS = 3
# Stages between two looks at the host's stop request. A look is taken in as many stages in a row as
# there are sets of words: whichever stage a loop asks after, it then sees the request.
CANCEL_EVERY = 32

NARROW = 4  # vertices per warp of a frontier so small that each has a group of lanes
GROUP = 8  # lanes for one short list

_U1, _U31 = np.uint32(1), np.uint32(31)


class Team(NamedTuple):
    """What a thread of the grid knows of its team."""

    thread: int
    threads: int
    lane: int
    rank: int  # of its warp; neighbours in rank are on different multiprocessors
    warps: int
    sync: np.ndarray
    buffer: np.ndarray  # of the block, in shared memory
    works: np.ndarray
    turn: Any  # number of this stage
    slot: Any  # which of the three sets of words is its own


@compiled(allocates=False)
def new_team(sync, works, like):
    """The team as a thread sees it when the kernel begins."""
    here, blocks = thread_of_block(), num_blocks()
    return Team(
        block() * BLOCK + here, blocks * BLOCK, here & 31, (here >> 5) * blocks + block(),
        blocks * (BLOCK >> 5), sync, shared_buffer(like), works, np.int64(0), np.int64(0),
    )  # fmt: skip


@compiled(allocates=False)
def begin(team):
    """The team for the next stage, whose words are empty; empties those of the stage after."""
    turn = team.turn + 1
    slot = team.slot + 1 if team.slot + 1 < TURNS else np.int64(0)
    if team.thread == team.threads - 1:  # whose warp has the least to do in small frontiers
        after = (slot + 1 if slot + 1 < TURNS else 0) * WORK_WORDS
        for word in range(USED_WORDS):
            team.works[after + word] = 0
        if turn & (CANCEL_EVERY - 1) < TURNS:
            team.works[slot * WORK_WORDS + STOP] = np.int64(team.sync[CANCEL])
    return Team(
        team.thread, team.threads, team.lane, team.rank, team.warps, team.sync, team.buffer,
        team.works, turn, slot,
    )  # fmt: skip


@compiled(allocates=False)
def work(team, word):
    """The place of a word of this stage."""
    return np.uint64(team.slot * WORK_WORDS + word)


@compiled(allocates=False)
def is_stopped(team):
    """Whether the run must stop: the same for all, after the last barrier of a stage."""
    return team.works[work(team, STOP)] != 0


@compiled(allocates=False)
def empty_next(team, infos, which):
    """Empty the words of the frontier after the one in use of a pool, as a queue."""
    if team.thread == team.threads - 1:
        after = (which + 1 if which + 1 < TURNS else 0) * INFO_WORDS
        infos[after + SIZE] = 0
        infos[after + CURSOR] = 0
        infos[after + FORM] = QUEUE
        infos[after + EDGES] = 0


@compiled(allocates=False)
def empty_now(team, frontier):
    """Empty a frontier that no thread reads any more; the next barrier comes before its use."""
    if team.thread == team.threads - 1:
        frontier.info[SIZE] = 0
        frontier.info[CURSOR] = 0
        frontier.info[FORM] = QUEUE
        frontier.info[EDGES] = 0


@compiled(allocates=False)
def fresh(team, frontier, infos, made):
    """A new, empty frontier, the ``made``-th of its pool."""
    which = made % TURNS
    empty_next(team, infos, which)
    first = which * INFO_WORDS
    return Frontier(frontier.queue, frontier.bits, infos[first : first + INFO_WORDS])


@compiled(allocates=False)
def claim(team, many):
    """Claim the next ``many`` numbers of this stage; the first of them, for all lanes."""
    taken = np.int64(0)
    if team.lane == 0:
        taken = atomic.add(team.works, work(team, CLAIMED), many)
    return shuffle(taken, 0)


@compiled(allocates=False)
def below(team, mask):
    """How many lanes below this one have their bit set."""
    return count_bits(mask & np.uint32((1 << team.lane) - 1))


@compiled(allocates=False)
def sum_of_warp(value):
    """The sum over all lanes, for each of them."""
    for power in range(5):
        value += shuffle_xor(value, 1 << power)
    return value


@compiled(allocates=False)
def append(team, held, region, queue, counter, word, joins, v):
    """Add the vertices of the lanes that join to a queue; returns how many wait in the buffer.

    ``counter[word]`` is the length of the queue; ``region``, 0 or 1, distinguishes two queues that
    are appended to at the same time.
    """
    return append_at(team, held, region, queue, counter, word, joins, v)[0]


@compiled(allocates=False)
def append_at(team, held, region, queue, counter, word, joins, v):
    """As `append`; also returns the length of the queue at the last move of the buffer."""
    mask = ballot(joins)
    at = np.int64(0)
    if mask == 0:
        return held, at
    base = (thread_of_block() >> 5) * BUFFER + region * (BUFFER // 2)
    if joins:
        team.buffer[np.uint64(base + held + below(team, mask))] = v
    held += count_bits(mask)
    if held >= 32:
        sync_warp()
        if team.lane == 0:
            at = np.int64(atomic.add(counter, word, 32))
        at = shuffle(at, 0)
        queue[np.uint64(at + team.lane)] = team.buffer[np.uint64(base + team.lane)]
        held -= 32
        rest = team.buffer[np.uint64(base + 32 + team.lane)]
        sync_warp()
        team.buffer[np.uint64(base + team.lane)] = rest
    sync_warp()
    return held, at


@compiled(allocates=False)
def flush(team, held, region, queue, counter, word):
    """Move the buffer's content to the queue."""
    if held > 0:
        base = (thread_of_block() >> 5) * BUFFER + region * (BUFFER // 2)
        at = np.int64(0)
        if team.lane == 0:
            at = np.int64(atomic.add(counter, word, held))
        at = shuffle(at, 0)
        if team.lane < held:
            queue[np.uint64(at + team.lane)] = team.buffer[np.uint64(base + team.lane)]
        sync_warp()


@compiled(allocates=False)
def look_ahead(team, queue, info):
    """Read, after a barrier, what a group of lanes will need of a small frontier just made.

    The result is never negative, which the compiler does not know. A thread that compares it along
    with a word it must read anyway waits for all loads at once, not one after the other.
    """
    i = min(team.rank * NARROW + team.lane // GROUP, len(queue) - 1)
    if i < 0:  # a part without vertices
        return np.int64(0)
    return info[SIZE] + np.int64(np.uint32(queue[np.uint64(i)]))


@compiled(allocates=False)
def has_bit(bits, v):
    """Whether a vertex is in a set of bits."""
    return (bits[np.uint64(v) >> np.uint64(5)] >> (np.uint32(v) & _U31)) & _U1 != 0


@compiled(allocates=False)
def to_queue(team, frontier):
    """Turn bits into a queue; other forms stay as they are."""
    if frontier.info[FORM] != BITS:
        return
    barrier(team.sync)  # all have seen the form
    if team.thread == 0:
        frontier.info[FORM] = QUEUE
    held = np.int64(0)
    w = team.rank
    while w < len(frontier.bits):
        word = frontier.bits[np.uint64(w)]
        joins = (word >> np.uint32(team.lane)) & _U1 != 0
        v = frontier.queue.dtype.type(w * 32 + team.lane)
        held = append(team, held, 0, frontier.queue, frontier.info, CURSOR, joins, v)
        w += team.warps
    flush(team, held, 0, frontier.queue, frontier.info, CURSOR)
    barrier(team.sync)


@compiled(allocates=False)
def to_bits(team, frontier):
    """Write a queue as bits, for the last stage that takes it; its form stays."""
    if frontier.info[FORM] != QUEUE:
        return
    w = team.thread
    while w < len(frontier.bits):
        frontier.bits[np.uint64(w)] = 0
        w += team.threads
    barrier(team.sync)
    i, size = team.thread, frontier.info[SIZE]
    while i < size:
        v = np.uint64(frontier.queue[np.uint64(i)])
        set_bits(frontier.bits, v >> np.uint64(5), np.uint32(_U1 << (np.uint32(v) & _U31)))
        i += team.threads
    barrier(team.sync)
