"""Frontiers of edges: the stages over what an advance with ``emit="edges"`` makes.

Such a frontier is always a queue: of sources and, beside them, the places of the edges in the
neighbour lists. A vertex is in the advanced frontier once, so an edge is in the queue once and
nothing is culled.
"""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.operators.shared.frontier import SIZE, is_new
from evener.operators.spmd import (
    another_one,
    another_round,
    append,
    append_edge,
    barrier,
    empty,
    first_one,
    first_round,
    flush,
    flush_edges,
    lane,
    let_go,
)


@compiled(allocates=False)
def filter_edges(team, out, f, s, current, following):
    """Keep the edges where the functor is True; returns its calls."""
    empty(team, following)
    size, held, calls = current.info[SIZE], np.int64(0), np.int64(0)
    base, last = first_round(team, size)
    while base < size:
        i = base + lane(team)
        u, e, stays = out.indices.dtype.type(0), np.uint64(0), False
        if i < size:
            u, e = current.src[np.uint64(i)], np.uint64(current.edge[np.uint64(i)])
            calls += 1
            stays = f(u, out.indices[e], e, s)
        held = append_edge(team, held, following, stays, u, e)
        base, last = another_round(team, base, last, size)
    flush_edges(team, held, following)
    barrier(team)
    return calls


@compiled(allocates=False)
def compute_edges(team, out, f, s, current):
    """Call the functor for each edge; returns its calls."""
    size, calls = current.info[SIZE], np.int64(0)
    i, last = first_one(team, size)
    while i < size:
        u, e = current.src[np.uint64(i)], np.uint64(current.edge[np.uint64(i)])
        calls += 1
        f(u, out.indices[e], e, s)
        i, last = another_one(team, i, last, size)
    barrier(team)
    return calls


@compiled(allocates=False)
def targets(team, out, current, following, marks, stamp):
    """The set of the edges' ``dst`` that this part owns, as a queue; ghosts are marked too."""
    let_go(team)
    empty(team, following)
    owned = len(out.indptr) - 1
    size, held = current.info[SIZE], np.int64(0)
    base, last = first_round(team, size)
    while base < size:
        i = base + lane(team)
        v, joins = out.indices.dtype.type(0), False
        if i < size:
            v = out.indices[np.uint64(current.edge[np.uint64(i)])]
            joins = is_new(marks, v, stamp, True)
        held = append(team, held, 0, following, joins and np.int64(v) < owned, v)
        base, last = another_round(team, base, last, size)
    flush(team, held, 0, following)
    barrier(team)
