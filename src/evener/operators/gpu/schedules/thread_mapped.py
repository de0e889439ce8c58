"""Schedule ``thread_mapped`` (PT): one thread per vertex, however long its list.

The simplest schedule, and the best if all lists are equally short: it needs no search and no
exchange between lanes. A warp takes as long as the longest list of its 32 vertices.
"""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.warp import ballot
from evener.operators.gpu.schedules.common import look_up, size_of, step, total_of_few


@compiled(allocates=False)
def visit(team, out, current, wanted, first, last, f, where, s, take, done, sink, pieces):
    """Visit the edges of a frontier; see `evener.operators.gpu.schedules.common`."""
    size = size_of(current)
    calls, held = np.int64(0), np.int64(0)
    base = team.rank * 32
    while base < size:
        u, e, degree = look_up(out, current, base + team.lane, size, wanted, first, last, s)
        calls += degree
        stop = e + degree
        while ballot(e < stop) != 0:
            held = step(team, out, f, where, s, take, sink, held, e < stop, u, e)
            e += 1
        base += team.threads
    done(team, sink, held)
    return calls


@compiled(allocates=False)
def totals_of(team, into, f, combine, neutral, t, v, start, degree, parts):
    """The total of the list of each lane's vertex; see `evener.operators.gpu.gather`."""
    return total_of_few(into, f, combine, neutral, t, v, start, degree, parts)
