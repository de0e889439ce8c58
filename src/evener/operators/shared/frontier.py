"""Frontiers and directions as all devices have them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evener.device import atomic, compiled

QUEUE, BITS, ALL = 0, 1, 2  # forms of a frontier
PUSH, PULL, AUTO = 0, 1, 2  # directions of an advance
SIZE = 0  # the first word of Frontier.info; where the others are differs between devices


class Adjacency(NamedTuple):
    """Neighbour lists: vertex v has those from ``indptr[v]`` to ``indptr[v + 1]``."""

    indptr: np.ndarray
    indices: np.ndarray


class Frontier(NamedTuple):
    """A set of vertices; `info` says in which form, how many, and how many arcs leave them."""

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

    Inexact culling costs no atomic and lets a vertex in once for each thread at most: where the
    merges of all that follows are idempotent, that changes nothing.
    """
    at, mark = np.uint64(v), marks.dtype.type(stamp)
    if marks[at] == mark:
        return False
    if exact:
        return atomic.exchange(marks, at, mark) != mark
    marks[at] = mark
    return True
