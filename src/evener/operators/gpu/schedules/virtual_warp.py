"""Schedule ``virtual_warp`` (VWC): a group of 2, 4, 8, 16 or 32 lanes per vertex.

Hong, Kim, Oguntebi, Olukotun: Accelerating CUDA graph algorithms at maximum warp, PPoPP 2011.
``"virtual_warp"`` takes groups of 8, ``"virtual_warp:32"`` whole warps.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from evener.device import compiled
from evener.device.warp import ballot, shuffle
from evener.operators.gpu.schedules.common import (
    look_up,
    size_of,
    step,
    totals_of_groups,
)

WIDTHS = (2, 4, 8, 16, 32)


def of_width(width: int) -> SimpleNamespace:
    """The schedule for groups of ``width`` lanes."""

    @compiled(allocates=False)
    def visit(team, out, current, wanted, first, last, f, where, s, take, done, sink, pieces):
        size = size_of(current)
        seat = team.lane % width
        calls, held = np.int64(0), np.int64(0)
        base = team.rank * (32 // width)
        while base < size:
            i = base + team.lane // width
            u, e, degree = look_up(out, current, i, size, wanted, first, last, s)
            # Calls may change what is wanted: the group follows its first lane.
            e, degree = shuffle(e, team.lane - seat), shuffle(degree, team.lane - seat)
            if seat == 0:
                calls += degree
            stop = e + degree
            e += seat
            while ballot(e < stop) != 0:
                held = step(team, out, f, where, s, take, sink, held, e < stop, u, e)
                e += width
            base += team.warps * (32 // width)
        done(team, sink, held)
        return calls

    @compiled(allocates=False)
    def totals_of(team, into, f, combine, neutral, t, v, start, degree, parts):
        return totals_of_groups(
            team, into, f, combine, neutral, t, v, start, degree, parts, neutral, width
        )

    return SimpleNamespace(visit=visit, totals_of=totals_of)
