"""Schedule ``warp_segmentation`` (WS): 32 vertices per warp, their lists laid end to end.

Khorasani, Gupta, Bhuyan: Scalable SIMD-efficient graph processing on GPUs, PACT 2015. In each round
the lanes take 32 consecutive edges: a lane finds the segment, that is the vertex, of its edge by a
binary search. Shuffles reduce the values of a gather within segments, without atomics.
"""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.warp import shuffle, shuffle_up
from evener.operators.gpu.schedules.common import (
    look_up,
    owner_of,
    scan,
    size_of,
    visit_short,
)


@compiled(allocates=False)
def visit(team, out, current, wanted, first, last, f, where, s, take, done, sink, pieces):
    """Visit the edges of a frontier; see `evener.operators.gpu.schedules.common`."""
    size = size_of(current)
    calls, held = np.int64(0), np.int64(0)
    base = team.rank * 32
    while base < size:
        u, start, degree = look_up(out, current, base + team.lane, size, wanted, first, last, s)
        calls += degree
        held = visit_short(team, out, f, where, s, take, sink, held, u, start, degree)
        base += team.threads
    done(team, sink, held)
    return calls


@compiled(allocates=False)
def totals_of(team, into, f, combine, neutral, t, v, start, degree, parts):
    """The total of the list of each lane's vertex; see `evener.operators.gpu.gather`."""
    kind = parts.dtype.type
    ends = scan(team, degree)
    mine, my_end = np.int64(ends) - degree, np.int64(ends)
    all_edges = np.int64(shuffle(ends, 31))
    offset = start - mine
    total, has = neutral, False
    base = np.int64(0)
    while base < all_edges:
        k = base + team.lane
        owner = np.int32(owner_of(ends, k))
        e = shuffle(offset, owner) + k
        vertex = shuffle(v, owner)
        value = neutral
        if k < all_edges:
            value = kind(f(into.indices[np.uint64(e)], vertex, np.uint64(e), t))
        for power in range(5):  # totals of a segment's lanes up to this one
            before, whose = shuffle_up(value, 1 << power), shuffle_up(owner, 1 << power)
            if team.lane >= 1 << power and whose == owner:
                value = kind(combine(before, value))
        # The last lane of this vertex's segment in this round has the total.
        last = min(my_end, base + 32) - 1
        found = shuffle(value, max(last - base, 0))
        if degree > 0 and last >= mine and last >= base:
            total = kind(combine(total, found)) if has else found
            has = True
        base += 32
    return total
