"""Recorded frontiers: one long queue with the bounds of each, for `backwards` to replay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evener.device import compiled
from evener.device.sync import barrier
from evener.operators.cpu.frontier import EDGES, FORM, SIZE, member, to_queue
from evener.operators.shared.frontier import QUEUE
from evener.operators.shared.record import has_room


class Record(NamedTuple):
    """What a repeat kept: superstep i holds ``queue[bounds[i]:bounds[i + 1]]``.

    The last of the bounds is the most that was kept at one time in a run.
    """

    queue: np.ndarray  # vertices, or the sources of edges
    bounds: np.ndarray
    edge: np.ndarray  # beside the sources; empty where no frontier holds edges
    on_edges: np.ndarray  # for each superstep


@compiled(allocates=False)
def remember(team, current, record, recorded):
    """Keep a frontier; returns the number of those kept, -1 if there is no room."""
    to_queue(team, current)
    size = current.info[SIZE]
    if not has_room(record, recorded, size):
        return -1
    start = record.bounds[recorded]
    share = (size + team.threads - 1) // team.threads
    for i in range(team.thread * share, min((team.thread + 1) * share, size)):
        record.queue[np.uint64(start + i)] = member(current, i)
    return _close(team, record, recorded, start + size, False)


@compiled(allocates=False)
def remember_edges(team, current, record, recorded):
    """As `remember`, for a frontier of edges."""
    size = current.info[SIZE]
    if not has_room(record, recorded, size):
        return -1
    start = record.bounds[recorded]
    share = (size + team.threads - 1) // team.threads
    for i in range(team.thread * share, min((team.thread + 1) * share, size)):
        record.queue[np.uint64(start + i)] = current.src[np.uint64(i)]
        record.edge[np.uint64(start + i)] = current.edge[np.uint64(i)]
    return _close(team, record, recorded, start + size, True)


@compiled(allocates=False)
def _close(team, record, recorded, end, on_edges):
    if team.thread == 0:
        record.bounds[recorded + 1] = end
        record.on_edges[recorded] = on_edges
        most = len(record.bounds) - 1
        record.bounds[most] = max(record.bounds[most], end)
    barrier(team.sync, team.threads)
    return recorded + 1


@compiled(allocates=False)
def recall(team, record, superstep, current):
    """Copy a recorded frontier of vertices, for stages that will write over it."""
    barrier(team.sync, team.threads)  # nobody looks at the frontier that is written to here
    start = record.bounds[superstep]
    size = record.bounds[superstep + 1] - start
    share = (size + team.threads - 1) // team.threads
    for i in range(team.thread * share, min((team.thread + 1) * share, size)):
        current.queue[np.uint64(i)] = record.queue[np.uint64(start + i)]
    _open(team, current, size)


@compiled(allocates=False)
def recall_edges(team, record, superstep, current):
    """As `recall`, for a frontier of edges."""
    barrier(team.sync, team.threads)
    start = record.bounds[superstep]
    size = record.bounds[superstep + 1] - start
    share = (size + team.threads - 1) // team.threads
    for i in range(team.thread * share, min((team.thread + 1) * share, size)):
        current.src[np.uint64(i)] = record.queue[np.uint64(start + i)]
        current.edge[np.uint64(i)] = record.edge[np.uint64(start + i)]
    _open(team, current, size)


@compiled(allocates=False)
def _open(team, current, size):
    if team.thread == 0:
        current.info[SIZE] = size
        current.info[FORM] = QUEUE
        current.info[EDGES] = 0
    barrier(team.sync, team.threads)
