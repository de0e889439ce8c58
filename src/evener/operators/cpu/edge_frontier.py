"""Frontiers of edges: what an advance with ``emit="edges"`` makes, and the stages over it.

Such a frontier is always a queue: of sources and, beside them, the places of the edges in the
neighbour lists. A vertex is once in the frontier that is advanced, so an edge is once in the queue
and nothing is culled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import barrier, claim
from evener.operators.cpu.advance import is_new
from evener.operators.cpu.frontier import (
    BUFFER,
    SIZE,
    WORDS,
    append,
    empty,
    flush,
    grain,
    member,
    to_queue,
)

_U1 = np.uint64(1)


class EdgeFrontier(NamedTuple):
    """A set of edges; `buffer` is that of this thread, `info` as in a frontier of vertices."""

    src: np.ndarray
    edge: np.ndarray
    info: np.ndarray
    buffer: np.ndarray  # two rows


@compiled(allocates=False)
def _flush(held, frontier):
    if held > 0:
        at = np.uint64(atomic.add(frontier.info, SIZE, held))
        for i in range(held):
            frontier.src[at + np.uint64(i)] = frontier.buffer[0, i]
            frontier.edge[at + np.uint64(i)] = frontier.buffer[1, i]
    return 0


@compiled(allocates=False)
def _append(held, frontier, u, e):
    frontier.buffer[0, held] = u
    frontier.buffer[1, held] = e
    held += 1
    if held == BUFFER:
        held = _flush(held, frontier)
    return held


@compiled(allocates=False)
def advance_edges(team, out, f, where, s, current, following):
    """From vertices to the out-edges for which the functor holds; returns its calls."""
    to_queue(team, current)
    empty(team, following)
    size = current.info[SIZE]
    held = 0
    calls = np.int64(0)
    amount = grain(team, size)
    first = claim(team.sync, amount)
    while first < size:
        for i in range(first, min(first + amount, size)):
            u = member(current, i)
            e = np.uint64(out.indptr[u])
            stop = np.uint64(out.indptr[np.uint64(u) + _U1])
            calls += np.int64(stop - e)
            while e < stop:
                v = out.indices[e]
                if where(v, s) and f(u, v, e, s):
                    held = _append(held, following, u, e)
                e += _U1
        first = claim(team.sync, amount)
    _flush(held, following)
    barrier(team.sync, team.threads)
    return calls


@compiled(allocates=False)
def filter_edges(team, out, f, s, current, following):
    """Keep the edges for which the functor holds; returns its calls."""
    empty(team, following)
    size = current.info[SIZE]
    held = 0
    calls = np.int64(0)
    first = claim(team.sync, WORDS)
    while first < size:
        for i in range(first, min(first + WORDS, size)):
            u, e = current.src[np.uint64(i)], current.edge[np.uint64(i)]
            calls += 1
            if f(u, out.indices[e], e, s):
                held = _append(held, following, u, e)
        first = claim(team.sync, WORDS)
    _flush(held, following)
    barrier(team.sync, team.threads)
    return calls


@compiled(allocates=False)
def compute_edges(team, out, f, s, current):
    """Call the functor for each edge; returns its calls."""
    size = current.info[SIZE]
    calls = np.int64(0)
    first = claim(team.sync, WORDS)
    while first < size:
        for i in range(first, min(first + WORDS, size)):
            u, e = current.src[np.uint64(i)], current.edge[np.uint64(i)]
            calls += 1
            f(u, out.indices[e], e, s)
        first = claim(team.sync, WORDS)
    barrier(team.sync, team.threads)
    return calls


@compiled(allocates=False)
def targets(team, out, current, following, marks, stamp):
    """The set of the edges' ``dst``, as a queue."""
    barrier(team.sync, team.threads)  # nobody looks at the frontier that is emptied here
    empty(team, following)
    size = current.info[SIZE]
    held = 0
    first = claim(team.sync, WORDS)
    while first < size:
        for i in range(first, min(first + WORDS, size)):
            v = out.indices[current.edge[np.uint64(i)]]
            if is_new(marks, v, stamp, True):
                held = append(team, held, following, v)
        first = claim(team.sync, WORDS)
    flush(team, held, following)
    barrier(team.sync, team.threads)
