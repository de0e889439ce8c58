"""`gather` for a grid: combine over the in-edges of each vertex of the frontier, then apply.

Schedules differ in how a warp computes the totals of a tile of 32 vertices, one for each lane:
``totals_of(team, into, f, combine, neutral, t, v, start, degree, parts)``. The rest is here: long
lists, which are cut into pieces with their own totals, and applying.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import ballot, barrier, count_bits, lowest_bit
from evener.operators.gpu.frontier import (
    GROUP,
    NARROW,
    SIZE,
    append,
    flush,
    look_ahead,
    to_queue,
)
from evener.operators.gpu.schedules.common import (
    PIECE_WORDS,
    SHORT,
    SMALL_PIECE,
    SMALL_PIECE_POWER,
    along,
    look_up,
    num_pieces,
    put_off,
    together,
    total_of_group,
)
from evener.operators.gpu.schedules.dynamic import NARROW_POWER, next_tiles, tile_power
from evener.operators.shared.frontier import always
from evener.operators.spmd import member

ALL_NEIGHBOURS = np.int64(1) << np.int64(62)
# Edges of a piece, as powers of two. In sorted graphs 32 long lists are side by side, and one warp
# takes them one after the other: it must not take longer than all others together.
GATHER_POWER, LARGE_POWER = 8, 9
GATHER_PIECE = 1 << GATHER_POWER
LARGE = 1 << 15  # edges per warp from which pieces are large; from twice that, fewer are cut

_U1 = np.uint64(1)


@compiled(allocates=False)
def gather(
    team, totals_of, into, f, combine, apply, neutral, skips, t, u, keep, reduce, own, current,
    following, totals, parts, at_once, keeps, more_follows, pieces,
):  # fmt: skip
    """One stage; returns the calls by this thread, and ``own``.

    ``neutral`` has the dtype of totals. ``skips``: a vertex without in-edges is skipped, as the
    combination has no neutral value. ``at_once``: a total is applied when it is made, with the
    state ``u``, in which fields that others still read are second copies; ``keep`` updates a
    vertex in those. ``reduce`` adds the vertex to ``own``. ``more_follows``: the caller has more to
    do before the last barrier, and calls it.
    """
    to_queue(team, current)
    size = current.info[SIZE]
    narrow = size <= NARROW * team.warps  # a group of lanes per vertex, led by the first
    power = NARROW_POWER if narrow else tile_power(team, size)
    width = 1 << power
    seat, mine = (team.lane % GROUP, team.lane // GROUP) if narrow else (0, team.lane)
    tiles = (size + width - 1) >> power
    cut, longest = _pieces_for(team, into, size)
    held, kept, calls = np.int64(0), np.int64(0), np.int64(0)
    tile, end = team.rank, team.rank + 1
    while tile < tiles:
        i = (tile << power) + mine
        if mine >= width:
            i = size
        v, start, degree = look_up(into, current, i, size, always, 0, ALL_NEIGHBOURS, t)
        is_bare = degree == 0
        total, degree, done = _total_of_tile(
            team, totals_of, into, f, combine, neutral, t, v, start, degree, parts, narrow, seat,
            pieces, cut, longest,
        )  # fmt: skip
        calls += done
        if seat > 0:
            i = size
        ready = i < size and (degree > 0 or (is_bare and not skips))
        joins = False
        if ready:
            if at_once:
                keep(v, t, u)
                joins = apply(v, total, u)
            else:
                totals[np.uint64(v)] = total
        if at_once:
            if i < size and (ready or is_bare):
                if not ready:
                    keep(v, t, u)
                own = reduce(v, u, own)
            kept += count_bits(ballot(joins))
            if keeps:
                held = append(team, held, 0, following.queue, following.info, SIZE, joins, v)
        tile, end = next_tiles(team, tile, end, tiles)
    if keeps:
        flush(team, held, 0, following.queue, following.info, SIZE)
    elif team.lane == 0 and kept > 0:
        atomic.add(following.info, SIZE, kept)
    own = _gather_pieces(
        team, into, f, combine, apply, neutral, skips, t, u, keep, reduce, own, current, size,
        following, totals, parts, at_once, keeps, more_follows, pieces,
    )  # fmt: skip
    return calls, own


@compiled(allocates=False)
def _gather_pieces(
    team, into, f, combine, apply, neutral, skips, t, u, keep, reduce, own, current, size,
    following, totals, parts, at_once, keeps, more_follows, pieces,
):  # fmt: skip
    """The rest after all short lists: pieces of long ones, and applying totals."""
    kept = np.int64(0)
    barrier(team.sync)
    ahead = look_ahead(team, following.queue, following.info) if keeps else np.int64(0)
    count = num_pieces(team, pieces)
    if max(count, -ahead) > 0:
        _total_pieces(team, into, f, combine, neutral, t, parts, pieces, count)
        barrier(team.sync)
        more, own = _finish_pieces(
            team, combine, apply, neutral, t, u, keep, reduce, own, following, totals, parts,
            at_once, keeps, pieces, count,
        )  # fmt: skip
        kept += more
        if not at_once:
            barrier(team.sync)
    if not at_once:
        kept += _apply_all(team, into, apply, skips, t, current, size, following, totals, keeps)
    if not keeps and team.lane == 0 and kept > 0:
        atomic.add(following.info, SIZE, kept)
    if not more_follows and (count > 0 or not at_once):
        barrier(team.sync)
    return own


@compiled(allocates=False)
def _pieces_for(team, into, size):
    """The length of pieces, as a power of two, and the longest list that is not cut."""
    cut, longest = SMALL_PIECE_POWER, 2 * SMALL_PIECE
    if size > 16 * team.warps:
        arcs = len(into.indices)
        cut = LARGE_POWER if arcs > LARGE * team.warps else GATHER_POWER
        longest = 2 << cut if arcs > 2 * LARGE * team.warps else 1 << cut
    return cut, longest


@compiled(allocates=False)
def _total_of_tile(
    team, totals_of, into, f, combine, neutral, t, v, start, degree, parts, narrow, seat, pieces,
    cut, longest,
):  # fmt: skip
    """The total of a lane's vertex, the edges in it, and the calls made."""
    if narrow and ballot(degree > SHORT) == 0:
        calls = degree if seat == 0 else np.int64(0)
        total = total_of_group(team, into, f, combine, neutral, t, v, start, degree, parts)
    else:
        if seat > 0:
            degree = np.int64(0)
        calls = degree
        degree = put_off(team, pieces, v, start, degree, cut, longest, 0)
        total = totals_of(team, into, f, combine, neutral, t, v, start, degree, parts)
    return total, degree, calls


@compiled(allocates=False)
def _total_pieces(team, into, f, combine, neutral, t, parts, pieces, count):
    i = team.rank
    while i < count:
        place = np.uint64(i * PIECE_WORDS)
        v = into.indices.dtype.type(pieces[place])
        e, stop = pieces[place + _U1], pieces[place + np.uint64(2)]
        total = along(team, into, f, combine, neutral, t, v, e, stop, parts)
        if team.lane == 0:
            parts[np.uint64(i)] = total
        i += team.warps


@compiled(allocates=False)
def _finish_pieces(
    team, combine, apply, neutral, t, u, keep, reduce, own, following, totals, parts, at_once,
    keeps, pieces, count,
):  # fmt: skip
    """Combine the totals of each list's pieces; returns the vertices kept, and ``own``."""
    kind = parts.dtype.type
    held, kept = np.int64(0), np.int64(0)
    base, mask, first = team.rank * 32, np.uint32(0), np.int64(0)
    while True:
        while mask == 0 and base < count:  # look for the first piece of a list, 32 at a time
            first = base
            at = base + team.lane
            heads = at < count and pieces[np.uint64(at * PIECE_WORDS + 3)] > 0
            mask = ballot(heads)
            base += team.threads
        if mask == 0:
            break
        i = first + lowest_bit(mask)
        mask &= mask - np.uint32(1)
        place = np.uint64(i * PIECE_WORDS)
        many = pieces[place + np.uint64(3)]
        v = following.queue.dtype.type(pieces[place])
        total, has = neutral, False
        k = team.lane
        while k < many:
            one = parts[np.uint64(i + k)]
            total = kind(combine(total, one)) if has else one
            has = True
            k += 32
        total = together(combine, total, has, 16, parts)
        joins = False
        if team.lane == 0:
            if at_once:
                keep(v, t, u)
                joins = apply(v, total, u)
                own = reduce(v, u, own)
            else:
                totals[np.uint64(v)] = total
        if at_once:
            kept += count_bits(ballot(joins))
            if keeps:
                held = append(team, held, 0, following.queue, following.info, SIZE, joins, v)
    if keeps:
        flush(team, held, 0, following.queue, following.info, SIZE)
    return kept, own


@compiled(allocates=False)
def _apply_all(team, into, apply, skips, t, current, size, following, totals, keeps):
    """Apply the totals; returns how many vertices were kept."""
    held, kept = np.int64(0), np.int64(0)
    base = team.rank * 32
    while base < size:
        i = base + team.lane
        v = current.queue.dtype.type(0)
        joins = False
        if i < size:
            v = member(current, i)
            at = np.uint64(v)
            if not (skips and into.indptr[at] == into.indptr[at + _U1]):
                joins = apply(v, totals[at], t)
        kept += count_bits(ballot(joins))
        if keeps:
            held = append(team, held, 0, following.queue, following.info, SIZE, joins, v)
        base += team.threads
    if keeps:
        flush(team, held, 0, following.queue, following.info, SIZE)
    return kept
