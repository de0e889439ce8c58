"""Schedule ``dynamic`` (DWM): lanes, a warp or the grid for a vertex, by its degree.

Merrill, Garland, Grimshaw: Scalable GPU graph traversal, PPoPP 2012; the "TWC" of Gunrock (Wang
and others, PPoPP 2016). A warp takes a tile of up to 32 vertices. The whole warp visits lists of at
least `WIDE` edges, one after the other. A scan over the lanes lays shorter ones end to end, and
each lane finds the owner of its edge by a binary search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evener.device import compiled
from evener.device.warp import ballot, count_bits, lowest_bit, shuffle
from evener.operators.gpu.frontier import GROUP, NARROW, claim
from evener.operators.gpu.schedules.common import (
    PIECE_POWER,
    SHORT,
    along,
    finish,
    look_up,
    piece_power,
    put_off,
    run_along,
    scan,
    size_of,
    step,
    total_of_few,
    totals_of_groups,
    visit_short,
)

NARROW_POWER = NARROW.bit_length() - 1
WIDE = 64
SINGLE, ROW = 3, 8  # see `next_tiles`
CLAIMS, LONGEST_ROW = 4, 16  # see `row_of_tiles`
FEW = 8  # if no list of a tile is longer, each lane takes its own


@compiled(allocates=False)
def tile_power(team, size):
    """Vertices of a tile: few of a small frontier, so that all multiprocessors get some.

    As a power of two, since dividing by a number takes as long as loading it from memory.
    """
    if size > 16 * team.warps:
        return 5
    if size > 8 * team.warps:
        return 4
    return 3


@compiled(allocates=False)
def row_of_tiles(team, tiles):
    """How many tiles a warp claims at a time: claims of one word are serialized."""
    if tiles <= CLAIMS * team.warps:
        return np.int64(1)
    return min(tiles // (CLAIMS * team.warps), LONGEST_ROW)


@compiled(allocates=False)
def next_tile(team, tile, end, tiles, row):
    """The next tile and the end of its row; the first tile is the warp's own."""
    if tile + 1 < end:
        return tile + 1, end
    if tiles <= team.warps:
        return tiles, tiles
    first = team.warps + claim(team, row)
    return first, min(first + row, tiles)


@compiled(allocates=False)
def next_tiles(team, tile, end, tiles):
    """The next tile and the end of its row, for work over all vertices.

    After its own a warp claims one tile at a time, then rows of `ROW`: the longest lists may come
    first, and claiming each of many short tiles would cost more than visiting them.
    """
    if tile + 1 < end:
        return tile + 1, end
    if tiles <= team.warps:
        return tiles, tiles
    claimed = claim(team, 1)
    single = SINGLE * team.warps
    if claimed < single:
        return team.warps + claimed, team.warps + claimed + 1
    first = team.warps + single + (claimed - single) * ROW
    return first, min(first + ROW, tiles)


@compiled(allocates=False)
def visit(team, out, current, wanted, first, last, f, where, s, take, done, sink, pieces):
    """Visit the edges of a frontier; see `evener.operators.gpu.schedules.common`.

    In a small one a group of lanes takes a vertex, so that no search is needed: a superstep then
    takes as long as one warp, whatever the others do.
    """
    size = size_of(current)
    narrow = size <= NARROW * team.warps
    power = NARROW_POWER if narrow else tile_power(team, size)
    width = 1 << power
    seat, mine = (team.lane % GROUP, team.lane // GROUP) if narrow else (0, team.lane)
    tiles = (size + width - 1) >> power
    cut = piece_power(team, size)
    few = tiles if cut < PIECE_POWER else np.int64(0)
    calls, held = np.int64(0), np.int64(0)
    row = share = np.int64(1)
    if not narrow:
        row = row_of_tiles(team, tiles)
        # If few vertices are wanted, claiming a tile costs more than seeing that it is empty: after
        # an empty one a warp claims its fair share.
        share = max(row, min(tiles // team.warps, np.int64(LONGEST_ROW)))
    tile, end = team.rank, team.rank + 1
    while tile < tiles:
        i = (tile << power) + mine
        if mine >= width:
            i = size
        u, start, degree = look_up(out, current, i, size, wanted, first, last, s)
        lives = ballot(degree > 0)
        many = row if lives != 0 else share
        if narrow and ballot(degree > SHORT) == 0:
            e, stop = start + seat, start + degree
            lives = ballot(e < stop)
            while lives != 0:
                if team.lane == 0:
                    calls += count_bits(lives)
                held = step(team, out, f, where, s, take, sink, held, e < stop, u, e)
                e += GROUP
                lives = ballot(e < stop)
        elif lives != 0:
            if seat > 0:
                degree = np.int64(0)
            calls += degree
            degree = put_off(team, pieces, u, start, degree, cut, 2 << cut, few)
            held = visit_wide(team, out, f, where, s, take, sink, held, u, start, degree)
            if degree >= WIDE:
                degree = np.int64(0)
            held = visit_short(team, out, f, where, s, take, sink, held, u, start, degree)
        tile, end = next_tile(team, tile, end, tiles, many)
    finish(team, out, f, where, s, take, done, sink, held, pieces)
    return calls


@compiled(allocates=False)
def next_list(mask, start, degree):
    """The lane whose list is next, the lanes after it, and the list's bounds."""
    lane = lowest_bit(mask)
    e = shuffle(start, lane)
    return lane, mask & (mask - np.uint32(1)), e, e + shuffle(degree, lane)


@compiled(allocates=False)
def visit_wide(team, out, f, where, s, take, sink, held, u, start, degree):
    """Visit the lists that are worth a warp each."""
    mask = ballot(degree >= WIDE)
    while mask != 0:
        lane, mask, e, stop = next_list(mask, start, degree)
        held = run_along(team, out, f, where, s, take, sink, held, shuffle(u, lane), e, stop)
    return held


@compiled(allocates=False)
def are_few(team, degree):
    """Whether the lists of a warp are so short that each lane can take its own."""
    return ballot(degree > FEW) == 0


@compiled(allocates=False)
def are_few_or_alike(team, degree):
    """The same, or no list is worth a warp or twice as long as the mean."""
    if ballot(degree > FEW) == 0:
        return True
    total = np.int64(shuffle(scan(team, degree), 31))
    return ballot(degree >= WIDE or degree * 16 >= total) == 0


def _totals_of(suit_lanes: Any) -> Any:
    @compiled(allocates=False)
    def totals_of(team, into, f, combine, neutral, t, v, start, degree, parts):
        """The total of the list of each lane's vertex; see `evener.operators.gpu.gather`."""
        total = neutral
        if suit_lanes(team, degree):
            return total_of_few(into, f, combine, neutral, t, v, start, degree, parts)
        mask = ballot(degree >= WIDE)
        while mask != 0:
            lane, mask, e, stop = next_list(mask, start, degree)
            found = along(team, into, f, combine, neutral, t, shuffle(v, lane), e, stop, parts)
            if team.lane == lane:
                total = found
        if degree >= WIDE:
            degree = np.int64(0)
        return totals_of_groups(
            team, into, f, combine, neutral, t, v, start, degree, parts, total, GROUP
        )

    return totals_of


totals_of = _totals_of(are_few)
# Combining by a functor may take longer than loading a value: lanes that each have a list need not
# combine their totals (docs/notes/cuda.md, on betweenness).
totals_by_functor = _totals_of(are_few_or_alike)
