"""Frontiers of edges on a grid: making one from vertices, by a schedule."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.operators.gpu.advance import ALL_NEIGHBOURS
from evener.operators.gpu.frontier import INFO_WORDS, TURNS, empty_next, to_queue
from evener.operators.shared.frontier import EdgeFrontier, always
from evener.operators.spmd import append_edge, barrier


@compiled(allocates=False)
def fresh_edges(team, frontier, infos, made):
    """A new, empty frontier, the ``made``-th of its pool."""
    which = made % TURNS
    empty_next(team, infos, which)
    first = which * INFO_WORDS
    return EdgeFrontier(frontier.src, frontier.edge, infos[first : first + INFO_WORDS])


@compiled(allocates=False)
def take_edges(team, sink, held, emits, u, v, e):
    """Append the edges that the lanes emit."""
    return append_edge(team, held, sink, emits, u, e)


@compiled(allocates=False)
def _done(team, sink, held):
    barrier(team)
    return np.int64(0)


@compiled(allocates=False)
def advance_edges(team, visit, out, f, where, s, current, following, pieces):
    """From vertices to the out-edges where the functor is True; returns its calls."""
    to_queue(team, current)
    return visit(
        team, out, current, always, 0, ALL_NEIGHBOURS, f, where, s, take_edges, _done, following,
        pieces,
    )  # fmt: skip
