"""Stages that need their own code on a CPU: reduce over a frontier, and visit all edges."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.sync import barrier, claim, prefetch
from evener.operators.cpu.frontier import AHEAD, FAR, STRETCH, stretch, to_queue
from evener.operators.shared.frontier import SIZE
from evener.operators.spmd import member

RUNS = 256  # of vertices, reduced one by one

_U1 = np.uint64(1)


@compiled(allocates=False)
def reduce(team, f, combine, neutral, s, current, partial):
    """Reduce over the frontier; every thread gets the result.

    Runs of vertices are reduced one by one and their totals combined in order, so a sum of floats
    does not depend on the number of threads.
    """
    to_queue(team, current)
    size = current.info[SIZE]
    share = max(STRETCH, (size + RUNS - 1) // RUNS)
    runs = (size + share - 1) // share
    run = claim(team.sync, 1)
    while run < runs:
        total = neutral
        for i in range(run * share, min((run + 1) * share, size)):
            total = combine(total, f(member(current, i), s))
        partial[run] = total
        run = claim(team.sync, 1)
    barrier(team.sync, team.threads)
    total = neutral
    for run in range(runs):
        total = combine(total, partial[run])
    barrier(team.sync, team.threads)  # all have read before one writes again
    return total


def partial_words(threads: int) -> int:
    """Elements of the array that `reduce` and `edges` use, and one to pass a scalar in."""
    return max(8 * threads, RUNS) + 1


@compiled(allocates=False)
def edges(team, out, f, where, s, first_neighbour, last_neighbour, partial):
    """Visit all edges or a slice of each list; returns whether one call was True, and the calls."""
    n = len(out.indptr) - 1
    changed = False
    calls = np.int64(0)
    far = len(out.indices) > FAR * n
    amount = stretch(team, n)
    first = claim(team.sync, amount)
    while first < n:
        for i in range(first, min(first + amount, n)):
            soon = out.indices.dtype.type(min(i + AHEAD, n - 1))
            if far and where(soon, s):
                prefetch(out.indices, np.uint64(out.indptr[soon]) + np.uint64(first_neighbour))
            u = out.indices.dtype.type(i)
            if where(u, s):
                begin = np.int64(out.indptr[u])
                stop = np.int64(out.indptr[np.uint64(u) + _U1])
                e = np.uint64(begin + first_neighbour)
                stop = min(stop, begin + last_neighbour)
                while e < np.uint64(stop):
                    calls += 1
                    if f(u, out.indices[e], e, s):
                        changed = True
                    e += _U1
        first = claim(team.sync, amount)
    partial[8 * team.thread] = changed
    barrier(team.sync, team.threads)
    changed = False
    for thread in range(team.threads):
        changed = changed or partial[8 * thread] != 0
    barrier(team.sync, team.threads)
    return changed, calls
