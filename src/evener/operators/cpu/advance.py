"""`advance`: along the out-edges of a frontier, pushed from its vertices or pulled by the others.

*Push* claims vertices of the queue and calls the functor for their out-edges. *Pull* visits every
vertex that is wanted (``where``) and searches its in-edges for members of the frontier, which is
then in the form of bits; it stops once the vertex is no longer wanted.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import barrier, claim, prefetch
from evener.operators.cpu.frontier import (
    AHEAD,
    EDGES,
    FAR,
    FORM,
    append,
    empty,
    flush,
    grain,
    has_bit,
    to_bits,
    to_queue,
)
from evener.operators.shared.direction import arcs_of, goes_pull
from evener.operators.shared.frontier import ALL, BITS, SIZE, is_new
from evener.operators.spmd import member

ARCS = 1024  # that a thread claims at a time of a divided list
PULLED = 1024  # vertices a thread claims at a time in pull: whole words of bits

_U1, _U63 = np.uint64(1), np.uint64(63)


@compiled(allocates=False)
def advance(
    team,
    out,
    into,
    f,
    alone,
    where,
    s,
    t,
    current,
    following,
    marks,
    stamp,
    exact,
    mode,
    left,
    before,
):
    """One stage; ``s`` is the state with the weights of out-edges, ``t`` with those of in-edges.

    ``alone`` is the functor for a pull, where one thread has all edges into a vertex.
    Returns whether it pulled, the calls of the functor by this thread, and the arcs that leave the
    frontier, if they were counted. After the last barrier a thread may no longer read ``current``:
    another may already be emptying it for the next stage.
    """
    num_vertices = len(out.indptr) - 1
    arcs = arcs_of(team, out, current, mode)
    pulls = goes_pull(current, mode, left, before, num_vertices)
    empty(team, following)  # all have decided before anything else changes
    if pulls:
        to_bits(team, current, num_vertices)
        calls = pull(team, into, alone, where, t, current, following)
    else:
        to_queue(team, current)
        calls = _push(team, out, f, where, s, current, following, marks, stamp, exact)
    barrier(team.sync, team.threads)
    return pulls, calls, arcs


@compiled(allocates=False)
def _push(team, out, f, where, s, current, following, marks, stamp, exact):
    size = current.info[SIZE]
    held = np.int64(0)
    calls = np.int64(0)
    amount = grain(team, size)
    first = claim(team.sync, amount)
    if size < team.threads:
        u, e, stop = stretch_of_arcs(out, current, size, first)
        while e < stop:
            calls += np.int64(stop - e)
            held = _push_list(
                team, out, f, where, s, u, e, stop, following, marks, stamp, exact, held
            )
            u, e, stop = stretch_of_arcs(out, current, size, claim(team.sync, amount))
    else:
        while first < size:
            for i in range(first, min(first + amount, size)):
                look_ahead(out, current, i, size)
                u = member(current, i)
                e = np.uint64(out.indptr[u])
                stop = np.uint64(out.indptr[np.uint64(u) + _U1])
                calls += np.int64(stop - e)
                held = _push_list(
                    team, out, f, where, s, u, e, stop, following, marks, stamp, exact, held
                )
            first = claim(team.sync, amount)
    flush(team, held, 0, following)
    return calls


@compiled(allocates=False)
def _push_list(team, out, f, where, s, u, e, stop, following, marks, stamp, exact, held):
    while e < stop:
        v = out.indices[e]
        if where(v, s) and f(u, v, e, s) and is_new(marks, v, stamp, exact):
            held = append(team, held, 0, following, True, v)
        e += _U1
    return held


@compiled(allocates=False)
def stretch_of_arcs(out, current, size, number):
    """A stretch of the arcs that leave a frontier: their vertex, the first, the one after the last.

    With fewer vertices than threads the lists are divided: the thread with a long one would keep
    all others waiting. Stretches after the last one are empty.
    """
    for i in range(size):
        u = member(current, i)
        e = np.int64(out.indptr[u])
        stop = np.int64(out.indptr[np.uint64(u) + _U1])
        stretches = (stop - e + ARCS - 1) // ARCS
        if number < stretches:
            e += number * ARCS
            return u, np.uint64(e), np.uint64(min(e + ARCS, stop))
        number -= stretches
    return current.queue.dtype.type(0), np.uint64(0), np.uint64(0)


@compiled(allocates=False)
def look_ahead(lists, frontier, i, size):
    """Prefetch the neighbour list of a vertex that comes soon, and the place of a later one's.

    The lists of a queue lie anywhere in memory; a lattice of 1500² takes 80 ms instead of 125.
    """
    if i + 2 * AHEAD < size:
        prefetch(lists.indptr, member(frontier, i + 2 * AHEAD))
        prefetch(lists.indices, lists.indptr[member(frontier, i + AHEAD)])


@compiled(allocates=False)
def pull(team, into, f, where, t, current, following):
    """Visit the vertices that are wanted; returns the calls of the functor by this thread."""
    n = len(into.indptr) - 1
    far = len(into.indices) > FAR * n
    found = np.int64(0)
    calls = np.int64(0)
    first = claim(team.sync, PULLED)
    while first < n:
        last = min(first + PULLED, n)
        for w in range(first // 64, (last + 63) // 64):
            word = np.uint64(0)
            for i in range(w * 64, min(w * 64 + 64, last)):
                soon = into.indices.dtype.type(min(i + AHEAD, n - 1))
                if far and where(soon, t):
                    prefetch(into.indices, into.indptr[soon])
                v = into.indices.dtype.type(i)
                joins = False
                if where(v, t):
                    e = np.uint64(into.indptr[v])
                    stop = np.uint64(into.indptr[np.uint64(v) + _U1])
                    while e < stop:
                        u = into.indices[e]
                        if has_bit(current.bits, u):
                            calls += 1
                            if f(u, v, e, t):
                                joins = True
                            if not where(v, t):
                                break
                        e += _U1
                if joins:
                    word |= _U1 << (np.uint64(i) & _U63)
                    found += 1
            following.bits[w] = word
        first = claim(team.sync, PULLED)
    atomic.add(following.info, SIZE, found)
    barrier(team.sync, team.threads)
    if team.thread == 0:
        following.info[FORM] = BITS
    return calls


@compiled(allocates=False)
def fill_all(team, frontier, num_vertices, num_arcs):
    """Make a frontier hold all vertices."""
    barrier(team.sync, team.threads)
    if team.thread == 0:
        frontier.info[FORM] = ALL
        frontier.info[SIZE] = num_vertices
        frontier.info[EDGES] = num_arcs
    barrier(team.sync, team.threads)


@compiled(allocates=False)
def next_stamp(team, marks, stamp):
    """The mark of the next stage; after 255 stages the marks are cleared."""
    if stamp < 255:
        return stamp + 1
    barrier(team.sync, team.threads)
    share = (len(marks) + team.threads - 1) // team.threads
    for v in range(team.thread * share, min((team.thread + 1) * share, len(marks))):
        marks[v] = 0
    barrier(team.sync, team.threads)
    return 1
