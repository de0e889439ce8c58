"""Frontiers and directions, common to all devices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evener.device import atomic, compiled

QUEUE, BITS, ALL = 0, 1, 2  # forms of a frontier
PUSH, PULL, AUTO = 0, 1, 2  # directions of an advance
SIZE = 0  # the first word of Frontier.info; the places of the others depend on the device


class Adjacency(NamedTuple):
    """Neighbour lists: that of v goes from ``indptr[v]`` to ``indptr[v + 1]``."""

    indptr: np.ndarray
    indices: np.ndarray


class Frontier(NamedTuple):
    """A set of vertices; `info` has its form, its size, and how many arcs leave it."""

    queue: np.ndarray
    bits: np.ndarray
    info: np.ndarray


class EdgeFrontier(NamedTuple):
    """A set of edges; `info` as in a frontier of vertices."""

    src: np.ndarray
    edge: np.ndarray
    info: np.ndarray


@compiled(allocates=False)
def always(v, s):
    """The ``where`` of a stage that has none."""
    return True


@compiled(allocates=False)
def is_new(marks, v, stamp, exact):
    """Whether a vertex joins a queue for the first time in this stage.

    Inexact culling costs no atomic and admits a vertex at most once per thread, which is harmless
    where all merges that follow are idempotent.
    """
    at, mark = np.uint64(v), marks.dtype.type(stamp)
    if marks[at] == mark:
        return False
    if exact:
        return atomic.exchange(marks, at, mark) != mark
    marks[at] = mark
    return True
