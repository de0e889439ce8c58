"""Frontiers: sets of vertices, as a queue while they are small and as bits while they are large.

A frontier has three forms: a *queue* of vertices in no order, *bits* with one for each vertex, or
*all* vertices, which needs neither. Each thread appends to a queue through its own buffer, which
is flushed with one atomic addition: `held` items wait in the buffer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import barrier, claim
from evener.operators.shared.frontier import ALL, BITS, PULL, QUEUE, SIZE

# More words of Frontier.info, a cache line apart. The number of a frontier never changes.
NUMBER, FORM, EDGES = 1, 8, 16
INFO_WORDS = 24


BUFFER = 2048  # vertices a thread collects before it flushes, of two queues at the same time
HALF = BUFFER // 2
VERTICES = 64  # vertices a thread claims at a time, at most, where each has neighbours
SHARES = 16  # claims per thread that a small frontier is cut into
AHEAD = 8  # vertices of a queue between prefetching a neighbour list and reading it
FAR = 8  # arcs per vertex above which the processor does not predict where the next list begins
STRETCH = 4096  # plain items a thread claims at a time, at most
WORDS = 256  # words of bits, or fewest plain items, claimed at a time

_U1, _U6, _U63 = (np.uint64(value) for value in (1, 6, 63))


class Team(NamedTuple):
    """What a thread of a kernel knows of its team."""

    thread: int
    threads: int
    sync: np.ndarray
    buffer: np.ndarray  # of this thread, for appending


@compiled(allocates=False)
def one_of(number, first, second, third):
    """The frontier with this number."""
    if number == 1:
        return first
    return second if number == 2 else third


@compiled(allocates=False)
def arcs_of(lists, frontier, most):
    """The arcs of a frontier's vertices plus the vertices, counted up to ``most``."""
    size = frontier.info[SIZE]
    if frontier.info[FORM] != QUEUE or size >= most:
        return size * (1 + len(lists.indices) // (len(lists.indptr) - 1))
    found = size
    for i in range(size):
        v = frontier.queue[np.uint64(i)]
        found += np.int64(lists.indptr[np.uint64(v) + _U1]) - np.int64(lists.indptr[v])
        if found >= most:
            break
    return found


@compiled(allocates=False)
def arcs_to_advance(out, frontier, mode, most):
    """The work of an advance: a pull visits all vertices, however small the frontier."""
    found = arcs_of(out, frontier, most)
    if mode == PULL or frontier.info[FORM] == BITS:
        return max(found, len(out.indptr) - 1)
    return found


@compiled(allocates=False)
def grain(team, size):
    """How many vertices to claim at a time: few of a small frontier, so that all get some."""
    return max(1, min(VERTICES, size // (SHARES * team.threads)))


@compiled(allocates=False)
def stretch(team, size):
    """How many cheap items to claim at a time: two threads that claim 256 of two million spend a
    tenth of their time on it."""
    return max(WORDS, min(STRETCH, size // (SHARES * team.threads)))


@compiled(allocates=False)
def stretch_of(thread, threads, first, last):
    """A thread's share of a range, divided evenly."""
    share = (last - first + threads - 1) // threads
    begin = min(first + thread * share, last)
    return begin, min(begin + share, last)


@compiled(allocates=False)
def append(team, held, region, frontier, joins, v):
    """Add ``v`` to a queue if it ``joins``, through one half of the buffer, the ``region`` 0 or 1.

    Returns how many wait there.
    """
    if joins:
        team.buffer[region * HALF + held] = v
        held += 1
        if held == HALF:
            flush(team, held, region, frontier)
            held = np.int64(0)
    return held


@compiled(allocates=False)
def flush(team, held, region, frontier):
    """Move that half of the buffer to the queue."""
    if held > 0:
        at = np.uint64(atomic.add(frontier.info, SIZE, held))
        for i in range(held):
            frontier.queue[at + np.uint64(i)] = team.buffer[region * HALF + i]


@compiled(allocates=False)
def empty(team, frontier):
    """Make a frontier an empty queue; all threads leave together."""
    if team.thread == 0:
        frontier.info[SIZE] = 0
        frontier.info[EDGES] = 0
        frontier.info[FORM] = QUEUE
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def to_queue(team, frontier):
    """Turn bits into a queue; other forms stay as they are."""
    if frontier.info[FORM] != BITS:
        return
    barrier(team.sync, team.threads)
    if team.thread == 0:
        frontier.info[SIZE] = 0
        frontier.info[FORM] = QUEUE
    barrier(team.sync, team.threads)
    held = np.int64(0)
    first = claim(team.sync, WORDS)
    while first < len(frontier.bits):
        for w in range(first, min(first + WORDS, len(frontier.bits))):
            word = frontier.bits[w]
            v = np.uint64(w * 64)
            while word != 0:
                if word & _U1:
                    held = append(team, held, 0, frontier, True, v)
                word >>= _U1
                v += _U1
        first = claim(team.sync, WORDS)
    flush(team, held, 0, frontier)
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def to_bits(team, frontier, num_vertices):
    """Turn a queue or all vertices into bits."""
    if frontier.info[FORM] == BITS:
        return
    fill = np.uint64(0)
    if frontier.info[FORM] == ALL:
        fill = ~fill
    first = claim(team.sync, WORDS)
    while first < len(frontier.bits):
        for w in range(first, min(first + WORDS, len(frontier.bits))):
            frontier.bits[w] = fill
        first = claim(team.sync, WORDS)
    barrier(team.sync, team.threads)
    if frontier.info[FORM] == ALL:
        if team.thread == 0 and num_vertices % 64:
            frontier.bits[-1] = (_U1 << np.uint64(num_vertices % 64)) - _U1
    else:
        size = frontier.info[SIZE]
        first = claim(team.sync, 4 * WORDS)
        while first < size:
            for i in range(first, min(first + 4 * WORDS, size)):
                v = np.uint64(frontier.queue[np.uint64(i)])
                set_bit(frontier.bits, v)
            first = claim(team.sync, 4 * WORDS)
    barrier(team.sync, team.threads)
    if team.thread == 0:
        frontier.info[FORM] = BITS
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def set_bit(bits, v):
    """Set a bit while other threads may set its neighbours."""
    at = v >> _U6
    bit = _U1 << (v & _U63)
    old = bits[at]
    while old & bit == 0:
        seen = atomic.cas(bits, at, old, old | bit)
        if seen == old:
            break
        old = seen


@compiled(allocates=False)
def has_bit(bits, v):
    """Whether a vertex is in a set of bits."""
    return (bits[np.uint64(v) >> _U6] >> (np.uint64(v) & _U63)) & _U1 != 0
