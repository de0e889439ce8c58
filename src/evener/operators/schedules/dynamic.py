"""Schedule ``dynamic`` (DWM): lanes, a warp or the grid for a vertex, by its degree.

Merrill, Garland, Grimshaw: Scalable GPU graph traversal, PPoPP 2012; the "TWC" of Gunrock (Wang
and others, PPoPP 2016). A warp takes a tile of up to 32 vertices. Lists of at least `WIDE` edges
are visited by the whole warp, one after the other. The shorter ones are laid end to end by a sum
over the lanes, and each lane finds the owner of its edge by a binary search.
"""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.device.warp import ballot, lowest_bit, shuffle
from evener.operators.grid.frontier import claim
from evener.operators.schedules.common import (
    along,
    finish,
    look_up,
    piece_of,
    put_off,
    run_along,
    size_of,
    total_of_few,
    totals_of_groups,
    visit_short,
)

WIDE = 64
GROUP = 8  # lanes for one short list of a gather
SINGLE, ROW = 3, 8  # see `next_tiles`
FEW = 8  # where no list of a tile is longer, each lane has its own


@compiled(allocates=False)
def tile_size(team, size):
    """Vertices of a tile: few of a small frontier, so that all multiprocessors have some."""
    if size > 16 * team.warps:
        return 32
    if size > 8 * team.warps:
        return 16
    return 8


@compiled(allocates=False)
def next_tile(team, tile, tiles):
    """The tile after this one: the first is a warp's own, further ones are claimed."""
    if tiles > team.warps:
        return team.warps + claim(team)
    return tiles


@compiled(allocates=False)
def next_tiles(team, tile, end, tiles):
    """The tile after this one and the end of the row that it is in, for work over all vertices.

    After its own a warp claims one tile at a time, then rows of `ROW`: the longest lists may come
    first, and claiming each of many short tiles would cost more than they do.
    """
    if tile + 1 < end:
        return tile + 1, end
    if tiles <= team.warps:
        return tiles, tiles
    claimed = claim(team)
    single = SINGLE * team.warps
    if claimed < single:
        return team.warps + claimed, team.warps + claimed + 1
    first = team.warps + single + (claimed - single) * ROW
    return first, min(first + ROW, tiles)


@compiled(allocates=False)
def visit(team, out, current, wanted, first, last, f, where, s, take, done, sink, pieces):
    """Visit the edges of a frontier; see `evener.operators.schedules.common`."""
    size = size_of(current)
    width = tile_size(team, size)
    tiles = (size + width - 1) // width
    piece = piece_of(team, size)
    calls, held = np.int64(0), np.int64(0)
    tile = team.rank
    while tile < tiles:
        i = tile * width + team.lane
        if team.lane >= width:
            i = size
        u, start, degree = look_up(out, current, i, size, wanted, first, last, s)
        calls += degree
        degree = put_off(team, pieces, u, start, degree, piece)
        held = visit_wide(team, out, f, where, s, take, sink, held, u, start, degree)
        if degree >= WIDE:
            degree = np.int64(0)
        held = visit_short(team, out, f, where, s, take, sink, held, u, start, degree)
        tile = next_tile(team, tile, tiles)
    finish(team, out, f, where, s, take, done, sink, held, pieces)
    return calls


@compiled(allocates=False)
def visit_wide(team, out, f, where, s, take, sink, held, u, start, degree):
    """The lists that are worth a warp each."""
    mask = ballot(degree >= WIDE)
    while mask != 0:
        lane = lowest_bit(mask)
        mask &= mask - np.uint32(1)
        e = shuffle(start, lane)
        stop = e + shuffle(degree, lane)
        held = run_along(team, out, f, where, s, take, sink, held, shuffle(u, lane), e, stop)
    return held


@compiled(allocates=False)
def totals_of(team, into, f, combine, neutral, t, v, start, degree, parts):
    """The total of the list of each lane's vertex; see `evener.operators.grid.gather`."""
    total = neutral
    if ballot(degree > FEW) == 0:
        return total_of_few(into, f, combine, neutral, t, v, start, degree, parts)
    mask = ballot(degree >= WIDE)
    while mask != 0:
        lane = lowest_bit(mask)
        mask &= mask - np.uint32(1)
        e = shuffle(start, lane)
        stop = e + shuffle(degree, lane)
        found = along(team, into, f, combine, neutral, t, shuffle(v, lane), e, stop, parts)
        if team.lane == lane:
            total = found
    if degree >= WIDE:
        degree = np.int64(0)
    return totals_of_groups(
        team, into, f, combine, neutral, t, v, start, degree, parts, total, GROUP
    )
