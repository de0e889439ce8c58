"""Schedule ``merge_path`` (PLB): equal numbers of vertices, or of edges in large frontiers.

Davidson, Baxter, Garland, Owens (IPDPS 2014), as in Gunrock (Wang and others, PPoPP 2016). For a
large frontier the degrees are summed over the grid; all warps then take equally many edges and find
their vertices by a binary search in the sums. A small one is not worth the sums.
"""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.warp import barrier, shuffle
from evener.operators.gpu.frontier import sum_of_warp
from evener.operators.gpu.schedules import dynamic, warp_segmentation
from evener.operators.gpu.schedules.common import look_up, owner_of, size_of, step
from evener.operators.spmd import member

SMALL = 16  # vertices for each warp, up to which a frontier is small
NEVER = np.int64(1) << np.int64(62)

small_visit = dynamic.visit
totals_of = warp_segmentation.totals_of


def scratch_words(num_vertices: int, warps: int) -> int:
    """Words of ``pieces`` that the sums need."""
    return num_vertices + warps


@compiled(allocates=False)
def visit(team, out, current, wanted, first, last, f, where, s, take, done, sink, pieces):
    """Visit the edges of a frontier; see `evener.operators.gpu.schedules.common`."""
    size = size_of(current)
    if size <= SMALL * team.warps or len(pieces) < size + team.warps:
        return small_visit(
            team, out, current, wanted, first, last, f, where, s, take, done, sink, pieces
        )
    calls = _sum_degrees(team, out, current, size, wanted, first, last, s, pieces)
    total = pieces[np.uint64(size - 1)]
    share = (total + team.warps - 1) // team.warps
    share = (share + 31) // 32 * 32
    k = team.rank * share
    stop = min(k + share, total)
    held = np.int64(0)
    base = _first_beyond(pieces, size, k)
    while k < stop:
        u, offset, end = _located(out, current, base + team.lane, size, first, pieces)
        upto = min(stop, shuffle(end, 31))
        while k < upto:
            mine = k + team.lane
            lane = owner_of(end, mine)
            e = shuffle(offset, lane) + mine
            held = step(team, out, f, where, s, take, sink, held, mine < upto, shuffle(u, lane), e)
            k = min(k + 32, upto)
        base += 32
    done(team, sink, held)
    return calls


@compiled(allocates=False)
def _located(out, current, i, size, first, ends):
    """The i-th vertex, the place of its first edge minus its number, and where its edges end.

    Whether it is wanted was tested when degrees were summed: functors may have changed that since.
    """
    u = current.queue.dtype.type(0)
    offset, end = np.int64(0), NEVER
    if i < size:
        u = member(current, i)
        offset, end = np.int64(out.indptr[np.uint64(u)]) + first, ends[np.uint64(i)]
        if i > 0:
            offset -= ends[np.uint64(i - 1)]
    return u, offset, end


@compiled(allocates=False)
def _first_beyond(ends, size, k):
    """The first vertex whose edges end beyond number ``k``."""
    low, high = np.int64(0), np.int64(size)
    while low < high:
        middle = (low + high) // 2
        if ends[np.uint64(middle)] <= k:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(allocates=False)
def _sum_degrees(team, out, current, size, wanted, first, last, s, ends):
    """Write, for each vertex of the frontier, the edges up to its last; returns a thread's own.

    A warp sums a run of vertices; after the ends there is a word for the sum of each warp.
    """
    share = ((size + team.warps - 1) // team.warps + 31) // 32 * 32
    begin, stop = team.rank * share, min((team.rank + 1) * share, size)
    own = np.int64(0)
    i = begin + team.lane
    while i < stop:
        _, _, degree = look_up(out, current, i, size, wanted, first, last, s)
        own += degree
        i += 32
    total = sum_of_warp(own)
    if team.lane == 0:
        ends[np.uint64(size + team.rank)] = total
    barrier(team.sync)
    before = np.int64(0)
    rank = team.lane
    while rank < team.rank:
        before += ends[np.uint64(size + rank)]
        rank += 32
    before = sum_of_warp(before)
    base = begin
    while base < stop:
        i = base + team.lane
        _, _, degree = look_up(out, current, i, stop, wanted, first, last, s)
        upto = _scan(team, degree)
        if i < stop:
            ends[np.uint64(i)] = before + upto
        before += shuffle(upto, 31)
        base += 32
    barrier(team.sync)
    return own


@compiled(allocates=False)
def _scan(team, value):
    for power in range(5):
        other = shuffle(value, max(team.lane - (1 << power), 0))
        if team.lane >= 1 << power:
            value += other
    return value
