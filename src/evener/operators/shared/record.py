"""Recorded frontiers: one long queue with the bounds of each, for `backwards` to replay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evener.device import compiled
from evener.operators.shared.frontier import SIZE
from evener.operators.spmd import (
    barrier,
    become_queue,
    let_go,
    member,
    share,
    share_of_idle,
    to_queue,
)


class Record(NamedTuple):
    """What a repeat recorded: superstep i is ``queue[bounds[i]:bounds[i + 1]]``.

    On a CPU the last bound is the most that a run held at one time.
    """

    queue: np.ndarray  # vertices, or the sources of edges
    bounds: np.ndarray
    edge: np.ndarray  # of these sources; empty if no frontier holds edges
    on_edges: np.ndarray  # for each superstep


@compiled(allocates=False)
def has_room(record, recorded, size):
    """Whether another frontier of this size fits."""
    return recorded + 3 <= len(record.bounds) and record.bounds[recorded] + size <= len(
        record.queue
    )


@compiled(allocates=False)
def remember(team, current, record, recorded):
    """Record a frontier; returns the number recorded, -1 if there is no room."""
    to_queue(team, current)
    size = current.info[SIZE]
    if not has_room(record, recorded, size):
        return np.int64(-1)
    start = record.bounds[recorded]
    i, last, step = share_of_idle(team, size)
    while i < last:
        record.queue[np.uint64(start + i)] = member(current, i)
        i += step
    return _close(team, record, recorded, start + size, False)


@compiled(allocates=False)
def remember_edges(team, current, record, recorded):
    """As `remember`, for a frontier of edges."""
    size = current.info[SIZE]
    if not has_room(record, recorded, size):
        return np.int64(-1)
    start = record.bounds[recorded]
    i, last, step = share_of_idle(team, size)
    while i < last:
        record.queue[np.uint64(start + i)] = current.src[np.uint64(i)]
        record.edge[np.uint64(start + i)] = current.edge[np.uint64(i)]
        i += step
    return _close(team, record, recorded, start + size, True)


@compiled(allocates=False)
def _close(team, record, recorded, end, on_edges):
    if team.thread == 0:
        record.bounds[recorded + 1] = end
        record.on_edges[recorded] = on_edges
        most = len(record.bounds) - 1
        record.bounds[most] = max(record.bounds[most], end)
    barrier(team)
    return recorded + 1


@_close.on_gpu
def _(team, record, recorded, end, on_edges):
    # No barrier: what is written here is read only after those of later stages.
    if team.thread == 0:
        record.bounds[recorded + 1] = end
        if len(record.on_edges) > 0:
            record.on_edges[recorded] = on_edges
    return recorded + 1


@compiled(allocates=False)
def recall(team, record, superstep, current):
    """Copy a recorded frontier of vertices, for stages that overwrite it."""
    let_go(team)
    start = record.bounds[superstep]
    size = record.bounds[superstep + 1] - start
    first, last, step = share(team, 0, size)
    for i in range(first, last, step):
        current.queue[np.uint64(i)] = record.queue[np.uint64(start + i)]
    become_queue(team, current, size)


@compiled(allocates=False)
def recall_edges(team, record, superstep, current):
    """As `recall`, for a frontier of edges."""
    let_go(team)
    start = record.bounds[superstep]
    size = record.bounds[superstep + 1] - start
    first, last, step = share(team, 0, size)
    for i in range(first, last, step):
        current.src[np.uint64(i)] = record.queue[np.uint64(start + i)]
        current.edge[np.uint64(i)] = record.edge[np.uint64(start + i)]
    become_queue(team, current, size)
