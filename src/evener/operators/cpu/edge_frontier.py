"""Frontiers of edges on a CPU: making one from vertices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evener.device import compiled
from evener.device.sync import claim
from evener.operators.cpu.frontier import empty, grain, to_queue
from evener.operators.shared.frontier import SIZE
from evener.operators.spmd import append_edge, barrier, flush_edges, member

_U1 = np.uint64(1)


class BufferedEdges(NamedTuple):
    """A frontier of edges as one thread sees it, with its own `buffer` for appending."""

    src: np.ndarray
    edge: np.ndarray
    info: np.ndarray
    buffer: np.ndarray  # two rows


@compiled(allocates=False)
def advance_edges(team, out, f, where, s, current, following):
    """From vertices to the out-edges where the functor is True; returns its calls."""
    to_queue(team, current)
    empty(team, following)
    size = current.info[SIZE]
    held, calls = np.int64(0), np.int64(0)
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
                joins = where(v, s) and f(u, v, e, s)
                held = append_edge(team, held, following, joins, u, e)
                e += _U1
        first = claim(team.sync, amount)
    flush_edges(team, held, following)
    barrier(team)
    return calls
