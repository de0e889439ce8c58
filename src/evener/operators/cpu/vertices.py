"""Stages over the vertices of a frontier: filter, compute, reduce; and over all edges."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.sync import barrier, claim, prefetch
from evener.operators.cpu.frontier import (
    AHEAD,
    FAR,
    SIZE,
    STRETCH,
    append,
    empty,
    flush,
    member,
    stretch,
    to_queue,
)

RUNS = 256  # of vertices, that are reduced one by one

_U1 = np.uint64(1)


@compiled(allocates=False)
def filter(team, f, s, current, following):
    """Keep the vertices for which the functor holds."""
    to_queue(team, current)
    empty(team, following)
    size = current.info[SIZE]
    held = 0
    amount = stretch(team, size)
    first = claim(team.sync, amount)
    while first < size:
        for i in range(first, min(first + amount, size)):
            v = member(current, i)
            if f(v, s):
                held = append(team, held, following, v)
        first = claim(team.sync, amount)
    flush(team, held, following)
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def compute(team, f, s, current):
    """Call the functor at each vertex."""
    to_queue(team, current)
    size = current.info[SIZE]
    amount = stretch(team, size)
    first = claim(team.sync, amount)
    while first < size:
        for i in range(first, min(first + amount, size)):
            f(member(current, i), s)
        first = claim(team.sync, amount)
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def reduce(team, f, combine, neutral, s, current, partial):
    """Reduce over the frontier; every thread gets the result.

    Runs of vertices are reduced one by one and their totals combined in order, so that a sum of
    floats does not depend on the number of threads.
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
    barrier(team.sync, team.threads)  # all have read before anyone writes again
    return total


def partial_words(threads: int) -> int:
    """Elements of the array that `reduce` and `edges` work with, and one to pass a scalar on in."""
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


@compiled(allocates=False, fastmath={"reassoc", "nsz"})
def combine_sum(a, b):
    """The combination "sum"."""
    return a + b


@compiled(allocates=False)
def combine_min(a, b):
    """The combination "min"."""
    return min(a, b)


@compiled(allocates=False)
def combine_max(a, b):
    """The combination "max"."""
    return max(a, b)


@compiled(allocates=False)
def combine_any(a, b):
    """The combination "any"."""
    return a or b


COMBINATIONS = {
    "sum": combine_sum, "min": combine_min, "max": combine_max, "any": combine_any,
}  # fmt: skip
