"""What the schedules share: looking up neighbour lists, and long lists cut into pieces.

A schedule is a function ``visit(team, out, current, wanted, first, last, f, where, s, take, done,
sink, pieces)``: it calls ``f`` for the neighbours from ``first`` to ``last`` in the list of each
vertex of the frontier ``current`` that is ``wanted``, if ``where`` holds at the neighbour, ends
with a barrier, and returns the calls by this thread. After each round all lanes of a warp pass
what they found to ``take(team, sink, held, emits, u, v, e)``; ``done(team, sink, held)`` is called
last, ends with the barrier and returns what `look_ahead` found.

A list much longer than others would keep one warp busy while all wait. It is cut into pieces that
the whole grid visits after the barrier: a vertex, its first edge and the one after its last.
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import ballot, shuffle, shuffle_up, shuffle_xor, unknown
from evener.operators.gpu.frontier import GROUP, PIECES, SIZE, work
from evener.operators.spmd import member

# Edges of a piece, as powers of two; lists of more than two pieces are cut. Pieces are small while
# the frontier is, so that there is something for every warp.
PIECE_POWER, SMALL_PIECE_POWER, LARGEST_POWER = 9, 7, 11
PIECE, SMALL_PIECE = 1 << PIECE_POWER, 1 << SMALL_PIECE_POWER
PIECE_WORDS = 4
SHORT = 32  # edges up to which a group of lanes visits a list alone
ROOM = 1 << 18  # pieces with room, at least; see `room_for_pieces`


def room_for_pieces(num_arcs: int, piece: int = PIECE) -> int:
    """How many pieces get room: all of this size; further lists are not cut."""
    return min(num_arcs // (SMALL_PIECE // 2), max(num_arcs // (piece // 2), ROOM)) + 1


@compiled(allocates=False)
def piece_power(team, size):
    """How many edges a piece has, as a power of two."""
    return SMALL_PIECE_POWER if size <= 16 * team.warps else PIECE_POWER


@compiled(allocates=False)
def look_up(out, current, i, size, wanted, first, last, s):
    """The i-th vertex, its first edge and its number of edges, 0 beyond the frontier."""
    u = current.queue.dtype.type(0)
    start, degree = np.int64(0), np.int64(0)
    if i < size:
        u = member(current, i)
        if wanted(u, s):
            start = np.int64(out.indptr[np.uint64(u)])
            degree = np.int64(out.indptr[np.uint64(u) + np.uint64(1)]) - start
            degree = min(degree, last) - first
            start += first
    return u, start, max(degree, 0)


@compiled(allocates=False)
def step(team, out, f, where, s, take, sink, held, lives, u, e):
    """One edge for each lane that has one."""
    emits = False
    v = u
    if lives:
        v = out.indices[np.uint64(e)]
        if where(v, s):
            emits = f(u, v, np.uint64(e), s)
    return take(team, sink, held, emits, u, v, e)


@compiled(allocates=False)
def run_along(team, out, f, where, s, take, sink, held, u, e, stop):
    """A whole warp visits one list, four rounds at a time."""
    e += team.lane
    while e + 96 < stop + team.lane:
        a, b = out.indices[np.uint64(e)], out.indices[np.uint64(e + 32)]
        c = out.indices[np.uint64(e + 64)]
        d, last = u, e + 96 < stop
        if last:
            d = out.indices[np.uint64(e + 96)]
        # `where` may be tested early: it only ever turns from true to false.
        at_a, at_b, at_c = where(a, s), where(b, s), where(c, s)
        at_d = last and where(d, s)
        held = take(team, sink, held, at_a and f(u, a, np.uint64(e), s), u, a, e)
        held = take(team, sink, held, at_b and f(u, b, np.uint64(e + 32), s), u, b, e + 32)
        held = take(team, sink, held, at_c and f(u, c, np.uint64(e + 64), s), u, c, e + 64)
        held = take(team, sink, held, at_d and f(u, d, np.uint64(e + 96), s), u, d, e + 96)
        e += 128
    while e < stop + team.lane:
        held = step(team, out, f, where, s, take, sink, held, e < stop, u, e)
        e += 32
    return held


@compiled(allocates=False)
def scan(team, value):
    """The sum of the values, below 2^31, of this lane and those below it."""
    total = np.int32(value)
    for power in range(5):
        other = shuffle_up(total, 1 << power)
        if team.lane >= 1 << power:
            total = np.int32(total + other)
    return total


@compiled(allocates=False)
def owner_of(ends, k):
    """The lane whose edges include number ``k``; ``ends`` are the sums of `scan`."""
    low = np.int64(0)
    for power in range(4, -1, -1):
        if shuffle(ends, low + (1 << power) - 1) <= k:
            low += 1 << power
    return low


@compiled(allocates=False)
def put_off(team, pieces, u, start, degree, power, longest, tiles):
    """Cut the lists that exceed ``longest``; their degree is then 0.

    Pieces are larger if there is no room for ``tiles`` tiles like this one: a list that is not cut
    keeps one warp busy for milliseconds. ``tiles`` is 0 if there is room in any case.
    """
    if ballot(degree > longest) == 0:
        return degree
    cut = degree if degree > longest else np.int64(0)
    room = len(pieces) // PIECE_WORDS
    count = (cut + (1 << power) - 1) >> power
    ends = scan(team, count)
    total = np.int64(shuffle(ends, 31))
    while total * tiles > room and power < LARGEST_POWER:
        power += 1
        count = (cut + (1 << power) - 1) >> power
        ends = scan(team, count)
        total = np.int64(shuffle(ends, 31))
    piece = np.int64(1) << power
    at = np.int64(0)
    if team.lane == 0:
        at = atomic.add(team.works, work(team, PIECES), total)
    at = shuffle(at, 0)
    fits = at + total <= room
    before = np.int64(ends) - count
    base = np.int64(0)
    while base < total:
        k = base + team.lane
        lane = min(owner_of(ends, k), 31)
        vertex, begin, length = shuffle(u, lane), shuffle(start, lane), shuffle(degree, lane)
        many, i = shuffle(count, lane), k - shuffle(before, lane)
        if k < total and at + k < room:  # empty ones if not all fit
            place = (at + k) * PIECE_WORDS
            pieces[np.uint64(place)] = np.int64(vertex)
            pieces[np.uint64(place + 1)] = begin + i * piece
            pieces[np.uint64(place + 2)] = begin + (
                min((i + 1) * piece, length) if fits else i * piece
            )
            pieces[np.uint64(place + 3)] = many if fits and i == 0 else 0
        base += 32
    return np.int64(0) if fits and count > 0 else degree


@compiled(allocates=False)
def num_pieces(team, pieces):
    """How many pieces were put off."""
    return min(team.works[work(team, PIECES)], len(pieces) // PIECE_WORDS)


@compiled(allocates=False)
def finish(team, out, f, where, s, take, done, sink, held, pieces):
    """End a visit with a barrier, then visit the pieces, if any, with another one."""
    ahead = done(team, sink, held)
    count = num_pieces(team, pieces)
    if max(count, -ahead) > 0:
        held = np.int64(0)
        i = team.rank
        while i < count:
            place = np.uint64(i * PIECE_WORDS)
            u = out.indices.dtype.type(pieces[place])
            e, stop = pieces[place + np.uint64(1)], pieces[place + np.uint64(2)]
            held = run_along(team, out, f, where, s, take, sink, held, u, e, stop)
            i += team.warps
        done(team, sink, held)


@compiled(allocates=False)
def size_of(current):
    """How many vertices a frontier has."""
    return current.info[SIZE]


@compiled(allocates=False)
def add_four(into, f, combine, t, v, e, apart, stop, total, has, parts):
    """The total and up to four more edges, ``apart`` from each other, the first of which exists.

    Their values are loaded all at once, with the last edge in place of those beyond it: so four
    loads are in flight at a time.
    """
    kind = parts.dtype.type
    final = stop - 1
    e1, e2, e3 = min(e + apart, final), min(e + 2 * apart, final), min(e + 3 * apart, final)
    u0, u1 = into.indices[np.uint64(e)], into.indices[np.uint64(e1)]
    u2, u3 = into.indices[np.uint64(e2)], into.indices[np.uint64(e3)]
    a = kind(f(u0, v, np.uint64(e), t))
    b = kind(f(u1, v, np.uint64(e1), t))
    c = kind(f(u2, v, np.uint64(e2), t))
    d = kind(f(u3, v, np.uint64(e3), t))
    if e + apart < stop:
        a = kind(combine(a, b))
    if e + 2 * apart < stop:
        a = kind(combine(a, c))
    if e + 3 * apart < stop:
        a = kind(combine(a, d))
    return kind(combine(total, a)) if has else a


@compiled(allocates=False)
def along(team, into, f, combine, neutral, t, v, e, stop, parts):
    """The total of one list, by a whole warp, for each lane."""
    total, has = neutral, False
    e += team.lane
    while e < stop:
        total = add_four(into, f, combine, t, v, e, 32, stop, total, has, parts)
        has = True
        e += 128
    return together(combine, total, has, 16, parts)


@compiled(allocates=False)
def together(combine, total, has, half, parts):
    """Combine the totals, if any, of lanes whose numbers differ below ``2 * half``.

    Combining may be long code, so the loop is not unrolled.
    """
    half = unknown(half)
    while half > 0:
        other, there = shuffle_xor(total, half), shuffle_xor(has, half)
        if there:
            total = parts.dtype.type(combine(total, other)) if has else other
            has = True
        half >>= 1
    return total


@compiled(allocates=False)
def visit_short(team, out, f, where, s, take, sink, held, u, start, degree):
    """All lists of the warp, end to end."""
    ends = scan(team, degree)
    total = np.int64(shuffle(ends, 31))
    offset = start - (np.int64(ends) - degree)  # an edge's place minus its number among all
    base = np.int64(0)
    while base < total:
        k = base + team.lane
        lane = min(owner_of(ends, k), 31)
        e = shuffle(offset, lane) + k
        vertex = shuffle(u, lane)
        held = step(team, out, f, where, s, take, sink, held, k < total, vertex, e)
        base += 32
    return held


@compiled(allocates=False)
def total_of_few(into, f, combine, neutral, t, v, e, degree, parts):
    """The total of a short list by one lane."""
    total, has = neutral, False
    stop = e + degree
    while e < stop:
        total = add_four(into, f, combine, t, v, e, 1, stop, total, has, parts)
        has = True
        e += 4
    return total


@compiled(allocates=False)
def total_of_group(team, into, f, combine, neutral, t, v, start, degree, parts):
    """The total of a list by the lanes of a group, for each of them; one edge at a time."""
    kind = parts.dtype.type
    part, has = neutral, False
    e, stop = start + team.lane % GROUP, start + degree
    while e < stop:
        value = kind(f(into.indices[np.uint64(e)], v, np.uint64(e), t))
        part = kind(combine(part, value)) if has else value
        has = True
        e += GROUP
    return together(combine, part, has, GROUP >> 1, parts)


@compiled(allocates=False)
def totals_of_groups(team, into, f, combine, neutral, t, v, start, degree, parts, total, group):
    """Groups of lanes visit the lists of some vertices at a time; empty ones keep ``total``."""
    many = 32 // group  # vertices at a time
    seat, mine = team.lane % group, team.lane // group
    busy = ballot(degree > 0)
    for first in range(0, 32, many):
        if (busy >> np.uint32(first)) & np.uint32((1 << many) - 1) == 0:
            continue
        lane = first + mine
        vertex, e = shuffle(v, lane), shuffle(start, lane)
        stop = e + np.int64(shuffle(np.int32(degree), lane))
        e += seat
        part, has = neutral, False
        while e < stop:
            part = add_four(into, f, combine, t, vertex, e, group, stop, part, has, parts)
            has = True
            e += 4 * group
        part = together(combine, part, has, group >> 1, parts)
        found = shuffle(part, (team.lane - first) * group)
        if degree > 0 and first <= team.lane < first + many:
            total = found
    return total
