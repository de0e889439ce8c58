"""Whether an advance pushes or pulls, and the arcs that decide.

The rule of ``auto`` is that of Beamer, Asanović, Patterson: Direction-optimizing breadth-first
search, SC 2012. With a ``where``, change to pull when more than 1/15 of the unvisited arcs leave
the frontier, and back to push when the frontier is smaller than 1/18 of the vertices and shrinks. A
frontier of less than 1/256 of the vertices is pushed without counting its arcs.
"""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.operators.shared.frontier import AUTO, BITS, PULL, QUEUE, SIZE
from evener.operators.spmd import add_up, another_one, arcs_word, barrier, first_one, form_of

TO_PULL, TO_PUSH, SMALL = 15, 18, 256

_U1 = np.uint64(1)


@compiled(allocates=False)
def goes_pull(current, mode, left, before, num_vertices):
    """Whether to pull: all threads agree, as they read the same words."""
    arcs = current.info[arcs_word()]
    return goes_pull_parts(current, mode, current.info[SIZE], arcs, left, before, num_vertices)


@compiled(allocates=False)
def goes_pull_parts(current, mode, size, arcs, left, before, num_vertices):
    """The same with the sizes of all parts together."""
    if mode != AUTO:
        return mode == PULL
    if form_of(current) == BITS:
        return size >= before or size > num_vertices // TO_PUSH
    return arcs > left // TO_PULL


@compiled(allocates=False)
def arcs_of(team, out, current, mode):
    """The arcs that leave a frontier, if ``auto`` needs them."""
    if mode == AUTO and form_of(current) == QUEUE:
        _count_arcs(team, out, current, len(out.indptr) - 1)
    return current.info[arcs_word()]


@compiled(allocates=False)
def _count_arcs(team, out, current, num_vertices):
    """Count the arcs that leave a queue, unless it is small."""
    size, arcs = current.info[SIZE], np.int64(0)
    if size < num_vertices // SMALL:
        return
    i, last = first_one(team, size)
    while i < size:
        u = np.uint64(current.queue[np.uint64(i)])
        arcs += np.int64(out.indptr[u + _U1]) - np.int64(out.indptr[u])
        i, last = another_one(team, i, last, size)
    add_up(team, current.info, arcs_word(), arcs)
    barrier(team)
