"""`gather`: combine a value over the in-edges of each vertex, then apply the total to it.

The compiler may reorder a sum (`vertices.combine_sum` allows it) to add several neighbours with one
instruction; chunks do not depend on the threads. So a sum is the same for any number of threads,
but may differ between kinds of processors.

Totals must not see applied values of other vertices unless the stage allows it. `gather` therefore
stores all totals before it applies the first. `gather_at_once` needs one pass: for stages that may
see new values, and for those whose functor reads nothing that is applied. `gather_all` is for
stages over all vertices whose new values go to a second copy of the fields.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import barrier, claim
from evener.operators.cpu.advance import look_ahead
from evener.operators.cpu.frontier import (
    SIZE,
    WORDS,
    append,
    empty,
    flush,
    grain,
    to_queue,
)
from evener.operators.spmd import member

_U1 = np.uint64(1)


@compiled(allocates=False)
def chunk_of(num_vertices):
    """Vertices of one claim, and of one partial sum, where all vertices gather.

    It depends only on the graph, so that sums do not depend on the threads. Claims of 1024 take a
    tenth less time than those of 128 on a million vertices (neighbouring threads write to lines
    farther apart); a small graph still has enough claims for many threads.
    """
    return max(128, min(1024, num_vertices // 1024))


def num_chunks(num_vertices: int) -> int:
    """Partial sums that a gather over all vertices makes."""
    return -(-num_vertices // chunk_of.python(num_vertices))


@compiled(allocates=False)
def fold(into, f, combine, neutral, t, v):
    """The total of a vertex; without a neutral value it must have an in-edge."""
    e = np.uint64(into.indptr[v])
    stop = np.uint64(into.indptr[np.uint64(v) + _U1])
    if neutral is None:
        total = f(into.indices[e], v, e, t)
        e += _U1
    else:
        total = neutral
    while e < stop:
        total = combine(total, f(into.indices[e], v, e, t))
        e += _U1
    return total


@compiled(allocates=False)
def _arcs(into, v):
    return np.int64(into.indptr[np.uint64(v) + _U1]) - np.int64(into.indptr[v])


@compiled(allocates=False)
def gather(team, into, f, combine, apply, neutral, t, current, following, totals, keeps):
    """Store all totals, then apply them.

    A vertex without in-edges has the neutral total; with the program's own combination
    (``neutral`` is None) it is skipped. ``keeps`` says whether the frontier is needed, or only its
    size. Returns the calls of the functor by this thread.
    """
    to_queue(team, current)
    empty(team, following)
    size = current.info[SIZE]
    held, kept, calls = 0, np.int64(0), np.int64(0)
    amount = grain(team, size)
    first = claim(team.sync, amount)
    while first < size:
        for i in range(first, min(first + amount, size)):
            look_ahead(into, current, i, size)
            v = member(current, i)
            calls += _arcs(into, v)
            if neutral is not None or _arcs(into, v) > 0:
                totals[v] = fold(into, f, combine, neutral, t, v)
        first = claim(team.sync, amount)
    barrier(team.sync, team.threads)
    first = claim(team.sync, WORDS)
    while first < size:
        for i in range(first, min(first + WORDS, size)):
            v = member(current, i)
            if neutral is None and _arcs(into, v) == 0:
                continue
            if apply(v, totals[v], t):
                kept += 1
                if keeps:
                    held = append(team, held, 0, following, True, v)
        first = claim(team.sync, WORDS)
    _finish(team, held, kept, following, keeps)
    return calls


@compiled(allocates=False)
def gather_at_once(team, into, f, combine, apply, neutral, t, current, following, keeps):
    """As `gather`, but apply each total before the next is made."""
    to_queue(team, current)
    empty(team, following)
    size = current.info[SIZE]
    held, kept, calls = 0, np.int64(0), np.int64(0)
    amount = grain(team, size)
    first = claim(team.sync, amount)
    while first < size:
        for i in range(first, min(first + amount, size)):
            look_ahead(into, current, i, size)
            v = member(current, i)
            calls += _arcs(into, v)
            if neutral is None and _arcs(into, v) == 0:
                continue
            if apply(v, fold(into, f, combine, neutral, t, v), t):
                kept += 1
                if keeps:
                    held = append(team, held, 0, following, True, v)
        first = claim(team.sync, amount)
    _finish(team, held, kept, following, keeps)
    return calls


@compiled(allocates=False)
def gather_all(
    team, into, f, combine, apply, neutral, t, u, keep, reduce, store, sums, partials, following,
    keeps,
):  # fmt: skip
    """Over all vertices in one pass: functors read the state ``t``, apply writes the state ``u``.

    ``keep(v, t, u)`` copies what apply may leave unchanged. The reductions that follow are part of
    the pass: ``reduce(v, u, sums)`` adds a vertex to the sums of its chunk, and ``store`` puts them
    into ``partials``, an array for each.
    """
    empty(team, following)
    n = len(into.indptr) - 1
    chunk = chunk_of(n)
    held, kept, calls = 0, np.int64(0), np.int64(0)
    first = claim(team.sync, chunk)
    while first < n:
        own = sums
        for i in range(first, min(first + chunk, n)):
            v = into.indices.dtype.type(i)
            keep(v, t, u)
            calls += _arcs(into, v)
            has_total = neutral is not None or _arcs(into, v) > 0
            if has_total and apply(v, fold(into, f, combine, neutral, t, v), u):
                kept += 1
                if keeps:
                    held = append(team, held, 0, following, True, v)
            own = reduce(v, u, own)
        store(partials, first // chunk, own)
        first = claim(team.sync, chunk)
    _finish(team, held, kept, following, keeps)
    return calls


@compiled(allocates=False)
def _finish(team, held, kept, following, keeps):
    flush(team, held, 0, following)
    if not keeps:
        atomic.add(following.info, SIZE, kept)
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def sum_up(combine, neutral, partials):
    """Combine the sums of all chunks, in their order."""
    total = neutral
    for partial in partials:
        total = combine(total, partial)
    return total


@compiled(allocates=False)
def settle(team, field, values, elsewhere):
    """Copy the values of a field back if they are in its second copy."""
    if elsewhere:
        share = (len(field) + team.threads - 1) // team.threads
        for v in range(team.thread * share, min((team.thread + 1) * share, len(field))):
            field[v] = values[v]
    barrier(team.sync, team.threads)
