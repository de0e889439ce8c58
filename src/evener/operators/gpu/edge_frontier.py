"""Frontiers of edges on a grid; see `evener.operators.cpu.edge_frontier`.

Edges are appended by a warp at a time, without a buffer: a source and a place in the neighbour
lists would need two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import ballot, barrier, count_bits, shuffle
from evener.operators.gpu.advance import ALL_NEIGHBOURS, NEVER, Emitted, take
from evener.operators.gpu.frontier import (
    INFO_WORDS,
    SIZE,
    TURNS,
    below,
    empty_next,
    flush,
    to_queue,
)
from evener.operators.shared.frontier import always


class EdgeFrontier(NamedTuple):
    """A set of edges; `info` as in a frontier of vertices."""

    src: np.ndarray
    edge: np.ndarray
    info: np.ndarray


@compiled(allocates=False)
def fresh_edges(team, frontier, infos, made):
    """A frontier to be made, the ``made``-th of its pool: empty."""
    which = made % TURNS
    empty_next(team, infos, which)
    first = which * INFO_WORDS
    return EdgeFrontier(frontier.src, frontier.edge, infos[first : first + INFO_WORDS])


@compiled(allocates=False)
def _append(team, frontier, joins, u, e):
    """Add the edges of the lanes that join."""
    mask = ballot(joins)
    if mask == 0:
        return
    at = np.int64(0)
    if team.lane == 0:
        at = np.int64(atomic.add(frontier.info, SIZE, count_bits(mask)))
    at = shuffle(at, 0) + below(team, mask)
    if joins:
        frontier.src[np.uint64(at)] = u
        frontier.edge[np.uint64(at)] = e


@compiled(allocates=False)
def take_edges(team, sink, held, emits, u, v, e):
    """Let the edges that the lanes emit join."""
    _append(team, sink, emits, u, e)
    return held


@compiled(allocates=False)
def _done(team, sink, held):
    barrier(team.sync)
    return np.int64(0)


@compiled(allocates=False)
def advance_edges(team, visit, out, f, where, s, current, following, pieces):
    """From vertices to the out-edges for which the functor holds; returns its calls."""
    to_queue(team, current)
    return visit(
        team, out, current, always, 0, ALL_NEIGHBOURS, f, where, s, take_edges, _done, following,
        pieces,
    )  # fmt: skip


@compiled(allocates=False)
def filter_edges(team, out, f, s, current, following):
    """Keep the edges for which the functor holds; returns its calls."""
    size = current.info[SIZE]
    calls = np.int64(0)
    base = team.rank * 32
    while base < size:
        i = base + team.lane
        u, e, stays = out.indices.dtype.type(0), np.uint64(0), False
        if i < size:
            u, e = current.src[np.uint64(i)], np.uint64(current.edge[np.uint64(i)])
            calls += 1
            stays = f(u, out.indices[e], e, s)
        _append(team, following, stays, u, e)
        base += team.threads
    barrier(team.sync)
    return calls


@compiled(allocates=False)
def compute_edges(team, out, f, s, current):
    """Call the functor for each edge; returns its calls."""
    calls = np.int64(0)
    for i in range(team.thread, current.info[SIZE], team.threads):
        u, e = current.src[np.uint64(i)], np.uint64(current.edge[np.uint64(i)])
        calls += 1
        f(u, out.indices[e], e, s)
    barrier(team.sync)
    return calls


@compiled(allocates=False)
def targets(team, out, current, following, marks, stamp):
    """The set of the edges' ``dst``, as a queue."""
    sink = Emitted(following.queue, following.info, out.indptr, marks, stamp, False, True, NEVER)
    size = current.info[SIZE]
    held = np.int64(0)
    base = team.rank * 32
    while base < size:
        i = base + team.lane
        u, v, e = out.indices.dtype.type(0), out.indices.dtype.type(0), np.uint64(0)
        if i < size:
            e = np.uint64(current.edge[np.uint64(i)])
            v = out.indices[e]
        held = take(team, sink, held, i < size, u, v, e)
        base += team.threads
    flush(team, held, 0, following.queue, following.info, SIZE)
    barrier(team.sync)
