"""What the parts of a graph tell each other inside one kernel: everybody meets, then reads.

Parts on one machine share its memory, so nothing is packed: an owner reads the ghosts of the
others, and a ghost its owner, between two barriers of all threads. The fields of all parts lie in
one array; a *slot* is a place in it (`evener.engine.partition.divide`). Owners only write owned
slots, and whoever copies only ghosts, so no two threads write the same slot and all order is fixed:
by part, then by vertex.

What would travel between devices that share no memory is counted link by link, in the form that
the exchange policy chooses (`operators.shared.policies`). Parts on other machines have shadows
here, brought up to date before (`evener.operators.shared.hub`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.sync import CANCEL, barrier, load, prefetch
from evener.operators.cpu.advance import is_new
from evener.operators.cpu.frontier import AHEAD, BUFFER, FORM, SIZE, append, flush, member, set_bit
from evener.operators.cpu.record import remember, remember_edges
from evener.operators.shared.frontier import ALL, BITS
from evener.operators.shared.hub import APART, is_far
from evener.operators.shared.world import FULL, SENT, USEFUL, WHOLE, sum_of, why_stop

BLOCK = 1024  # elements of replicated fields that are compared at a time
DENSE = 8  # of so many ghosts one is emitted: then all are looked at

_U1, _U6, _U63 = np.uint64(1), np.uint64(6), np.uint64(63)


class World(NamedTuple):
    """What a thread knows of all parts; `engine.partition.divide` has bases, ghosts and home."""

    part: int
    parts: int
    threads: int  # of all parts together
    first: int  # number among them of the first thread of this part
    sync: np.ndarray
    words: np.ndarray  # [turn, part, APART]: what is being agreed on
    bases: np.ndarray
    owned: np.ndarray
    ghosts: np.ndarray
    home: np.ndarray
    marks: np.ndarray  # of all slots
    box: np.ndarray  # emitted ghosts of all parts, each part from the number of its first ghost on
    boxed: np.ndarray  # [part, words of a frontier]
    bits: np.ndarray  # members of the frontier in all parts, ghosts included, as a pull needs them
    words_from: np.ndarray  # the first word of each part there
    counts: np.ndarray  # [receiver * parts + sender]: values of this exchange that changed
    tally: np.ndarray  # [thread, sender]: the same by thread
    traffic: np.ndarray  # [which, receiver, sender]
    policy: int
    measure: Any  # bytes of a message, a function of `evener.operators.shared.policies`
    hub: Any  # `evener.operators.shared.hub.Hub`


@compiled(allocates=False)
def meet(world):
    """Wait for all threads of all parts; returns whether the run is to stop."""
    return barrier(world.sync, world.threads)


@compiled(allocates=False)
def census(team, world, turn, size):
    """The sum of a number over all parts; a wish to stop goes along.

    Turns alternate between 0 and 1: who is ahead writes where nobody reads any more.
    """
    say(team, world, turn, size)
    world.hub.shake(team, world, world.words, world.hub.words, turn)
    return sum_of(world, turn, 0)


@compiled(allocates=False)
def say(team, world, turn, size):
    """What a part says in a census: a number, and whether it wishes to stop."""
    if team.thread == 0:
        at = (turn * world.parts + world.part) * APART
        world.words[at] = np.int64(size)
        world.words[at + 2] = load(world.sync, CANCEL)


@compiled(allocates=False)
def census_of_arcs(team, world, turn, size, arcs):
    """The sums of two numbers over all parts."""
    if team.thread == 0:
        world.words[(turn * world.parts + world.part) * APART + 1] = arcs
    total = census(team, world, turn, size)
    return total, sum_of(world, turn, 1)


@compiled(allocates=False)
def ask_stop(team, world, turn):
    """A census of nothing but the wish to stop."""
    census(team, world, turn, 0)
    return why_stop(world, turn) != 0


@compiled(allocates=False)
def least(team, world, turn, value):
    """The least of a number over all parts."""
    census(team, world, turn, value)
    for p in range(world.parts):
        value = min(value, world.words[(turn * world.parts + p) * APART])
    return value


@compiled(allocates=False)
def stretch_of(thread, threads, first, last):
    """The share of a thread."""
    share = (last - first + threads - 1) // threads
    begin = min(first + thread * share, last)
    return begin, min(begin + share, last)


@compiled(allocates=False)
def account(team, world, owners_tell, width, flagged):
    """Add what travelled to this part; ``owners_tell`` says in which direction."""
    if team.thread != 0:
        return
    me = world.part
    for q in range(world.parts):
        changed = world.counts[me * world.parts + q]
        world.counts[me * world.parts + q] = 0
        if q == me:
            continue
        ghosts = world.ghosts[me, q + 1] - world.ghosts[me, q]
        owner = q
        if not owners_tell:
            ghosts = world.ghosts[q, me + 1] - world.ghosts[q, me]
            owner = me
        tell(world, me, q, owners_tell, changed, ghosts, world.owned[owner], width, flagged)


@compiled(allocates=False)
def tell(world, me, q, owners_tell, changed, ghosts, owned, width, flagged):
    """Count one message."""
    if ghosts == 0:
        return
    sent = world.measure(world.policy, owners_tell, changed, ghosts, owned, width, flagged)
    world.traffic[SENT, me, q] += sent
    world.traffic[USEFUL, me, q] += changed * width
    world.traffic[WHOLE, me, q] += (owned if owners_tell else ghosts) * width


# ---- from owners to ghosts ------------------------------------------------------------------


@compiled(allocates=False)
def broadcast(team, world, copy, values, olds, width):
    """Give all ghosts of this part the values of their owners.

    ``copy(values, olds, slot, ghost, home)`` says whether one of them is new.
    """
    meet(world)
    me = world.part
    slots = world.bases[me] + world.owned[me] - world.ghosts[me, 0]
    for q in range(world.parts):
        if is_far(world, q):
            continue  # they have arrived
        first, last = stretch_of(
            team.thread, team.threads, world.ghosts[me, q], world.ghosts[me, q + 1]
        )
        changed = np.int64(0)
        for g in range(first, last):
            if copy(values, olds, np.uint64(slots + g), np.uint64(g), np.uint64(world.home[g])):
                changed += 1
        if changed > 0:
            atomic.add(world.counts, me * world.parts + q, changed)
    meet(world)
    account(team, world, True, width, False)


@compiled(allocates=False)
def put_bit(team, bits, v):
    """Set a bit of this part, where one thread alone needs no atomic."""
    if team.threads == 1:
        bits[v >> _U6] |= _U1 << (v & _U63)
    else:
        set_bit(bits, v)


@compiled(allocates=False)
def mark_members(team, world, current, members):
    """Make bits of the frontier of this part."""
    me = world.part
    owned, n = world.owned[me], world.owned[me] + world.ghosts[me, -1] - world.ghosts[me, 0]
    form = current.info[FORM]
    first, last = stretch_of(team.thread, team.threads, 0, (n + 63) // 64)
    for w in range(first, last):
        word = np.uint64(0)
        if form == ALL and w < owned // 64:
            word = ~word
        elif form == ALL and w == owned // 64:
            word = (np.uint64(1) << np.uint64(owned % 64)) - np.uint64(1)
        elif form == BITS and w < len(current.bits):
            word = current.bits[w]
        members[w] = word
    barrier(team.sync, team.threads)
    if form != ALL and form != BITS:
        size = current.info[SIZE]
        first, last = stretch_of(team.thread, team.threads, 0, size)
        for i in range(first, last):
            put_bit(team, members, np.uint64(member(current, i)))
        barrier(team.sync, team.threads)


@compiled(allocates=False)
def spread(team, world, members, give, values, width):
    """Let ghosts stand for owners that are members, and give those the values of their owners.

    ``give(values, inside, slot, home)`` may give them to the others too.
    """
    meet(world)
    me = world.part
    slots = world.bases[me] + world.owned[me] - world.ghosts[me, 0]
    places = world.owned[me] - world.ghosts[me, 0]  # of ghosts among the bits of this part
    for q in range(world.parts):
        if is_far(world, q):
            continue
        theirs = np.uint64(64 * world.words_from[q]) - np.uint64(world.bases[q])
        low, high = world.ghosts[me, q] + places, world.ghosts[me, q + 1] + places
        begin, stop = stretch_of(team.thread, team.threads, low >> 6, (high + 63) >> 6)
        changed = np.int64(0)
        for w in range(begin, stop):
            word = np.uint64(0)
            for i in range(max(64 * w, low), min(64 * w + 64, high)):
                g = np.uint64(i - places)
                home = np.uint64(world.home[g])
                at = home + theirs
                inside = (world.bits[at >> _U6] >> (at & _U63)) & _U1
                give(values, inside != 0, np.uint64(slots + i - places), home)
                word |= inside << (np.uint64(i) & _U63)
                changed += np.int64(inside)
            members[w] |= word
        if changed > 0:
            atomic.add(world.counts, me * world.parts + q, changed)
        barrier(team.sync, team.threads)  # the next part may begin within the same word
    meet(world)
    account(team, world, True, width, True)


# ---- from ghosts to owners ------------------------------------------------------------------


@compiled(allocates=False)
def collect(team, world, is_changed, merge, values, olds, width, emits, stamp, following):
    """Merge what the other parts wrote to their ghosts of this part's vertices.

    ``is_changed(values, olds, slot, ghost)`` finds what a stage wrote, ``merge(values, olds, home,
    slot, ghost)`` brings it home. A ghost that bears the mark of this stage was emitted: with
    ``emits`` its owner joins the frontier.
    """
    meet(world)
    me = world.part
    held = 0
    for q in range(world.parts):
        if q != me:
            slots = world.bases[q] + world.owned[q] - world.ghosts[q, 0]
            first, last = stretch_of(
                team.thread, team.threads, world.ghosts[q, me], world.ghosts[q, me + 1]
            )
            changed = np.int64(0)
            for i in range(first, last):
                slot, g, home = np.uint64(slots + i), np.uint64(i), np.uint64(world.home[i])
                wrote = is_changed(values, olds, slot, g)
                if wrote:
                    merge(values, olds, home, slot, g)
                if emits and world.marks[slot] == stamp:
                    wrote = True
                    if is_new(world.marks, home, stamp, False):  # no other thread has it now
                        held = append(team, held, following, np.int64(home) - world.bases[me])
                if wrote:
                    changed += 1
            if changed > 0:
                atomic.add(world.counts, me * world.parts + q, changed)
            barrier(team.sync, team.threads)  # the next part may write to the same vertex
    flush(team, held, following)
    meet(world)
    account(team, world, False, width, False)


@compiled(allocates=False)
def boxed_ghost(world, q, i, last, leader):
    """The number of the i-th ghost in the box of a part, or -1 if another part owns it.

    A box is in no order, so those that come later are asked for already.
    """
    me = world.part
    begin, numbers = world.ghosts[q, 0], world.ghosts[q, 0] - world.owned[q]
    if i + 2 * AHEAD < last:
        prefetch(world.home, np.int64(world.box[begin + i + 2 * AHEAD]) + numbers)
        soon = np.int64(world.box[begin + i + AHEAD])
        prefetch(leader, world.home[soon + numbers])
        prefetch(leader, soon + world.bases[q])
    g = np.int64(world.box[begin + i]) + numbers
    return g if world.ghosts[q, me] <= g < world.ghosts[q, me + 1] else np.int64(-1)


@compiled(allocates=False)
def deliver(team, world, merge, merge_if, values, width, stamp, following):
    """As `collect` where ghosts change exactly if they are emitted: only those are looked at.

    ``merge(values, home, slot)`` says whether the vertex changed; then it joins the frontier.
    ``merge_if(values, told, home, slot)`` does so without a branch: if many ghosts were emitted all
    are gone through, in their order, which is that of their owners. Nobody foresees which are told,
    so branches would cost more than the others do. The marks of parts elsewhere are not known.
    """
    meet(world)
    me = world.part
    held = 0
    for q in range(world.parts):
        if q != me:
            ghosts = world.ghosts[q, world.parts] - world.ghosts[q, 0]
            if world.boxed[q, SIZE] * DENSE > ghosts and not is_far(world, q):
                held, changed = _deliver_all(
                    team, world, merge_if, values, stamp, following, q, held
                )  # fmt: skip
            else:
                held, changed = _deliver_box(team, world, merge, values, stamp, following, q, held)
            if changed > 0:
                atomic.add(world.counts, me * world.parts + q, changed)
            if world.parts > 2:
                barrier(team.sync, team.threads)
    flush(team, held, following)
    meet(world)
    account(team, world, False, width, False)


@compiled(allocates=False)
def _deliver_box(team, world, merge, values, stamp, following, q, held):
    changed = np.int64(0)
    slots = world.bases[q] + world.owned[q] - world.ghosts[q, 0]
    first, last = stretch_of(team.thread, team.threads, 0, world.boxed[q, SIZE])
    for i in range(first, last):
        g = boxed_ghost(world, q, i, last, values[0])
        if g >= 0:
            changed += 1
            home = np.uint64(world.home[g])
            # No other thread has a ghost of this vertex now.
            if merge(values, home, np.uint64(slots + g)) and is_new(
                world.marks, home, stamp, False
            ):
                held = append(team, held, following, np.int64(home) - world.bases[world.part])
    return held, changed


@compiled(allocates=False)
def _deliver_all(team, world, merge_if, values, stamp, following, q, held):
    changed = np.int64(0)
    me, mark = world.part, world.marks.dtype.type(stamp)
    slots = world.bases[q] + world.owned[q] - world.ghosts[q, 0]
    first, last = stretch_of(
        team.thread, team.threads, world.ghosts[q, me], world.ghosts[q, me + 1]
    )
    for g in range(first, last):
        slot, home = np.uint64(slots + g), np.uint64(world.home[np.uint64(g)])
        told = world.marks[slot] == mark
        changed += told
        joins = merge_if(values, told, home, slot)
        before = world.marks[home]
        world.marks[home] = mark if joins else before
        team.buffer[held] = np.int64(home) - world.bases[me]
        held += joins & (before != mark)
        if held == BUFFER:
            held = flush(team, held, following)
    return held, changed


# ---- fields that every part holds whole -----------------------------------------------------


@compiled(allocates=False)
def unite(team, world, differ, merge, values, olds, length, width):
    """Bring all copies of a replicated field to one value; ``olds`` is what they had before.

    ``differ(values, olds, first, last, at)`` counts the elements that the copy from ``at`` on has
    changed, ``merge(values, olds, first, last, length, parts)`` unites all copies.
    """
    meet(world)
    thread = world.first + team.thread
    tally = world.tally[thread]
    tally[:] = 0
    begin, stop = stretch_of(thread, world.threads, 0, length)
    for first in range(begin, stop, BLOCK):
        last = min(first + BLOCK, stop)
        total = 0
        for p in range(world.parts):
            changed = differ(values, olds, first, last, p * length)
            tally[p] += changed
            total += changed
        if total > 0:
            merge(values, olds, first, last, length, world.parts)
    meet(world)
    if team.thread == 0:
        for q in range(world.parts):
            if q != world.part:
                changed = np.int64(0)
                for t in range(world.threads):
                    changed += world.tally[t, q]
                tell(world, world.part, q, True, changed, length, length, width, False)
    meet(world)


@compiled(allocates=False)
def watch_shared(team, world, differ, keep, values, olds, length, width):
    """Count what a stage changed in a replicated field of which the parts share one copy.

    Each change is told to all other parts once; as nobody knows any more whose it was, the parts
    count as having made equally many.
    """
    meet(world)
    thread = world.first + team.thread
    changed = np.int64(0)
    begin, stop = stretch_of(thread, world.threads, 0, length)
    for first in range(begin, stop, BLOCK):
        last = min(first + BLOCK, stop)
        found = differ(values, olds, first, last, 0)
        if found > 0:
            keep(values, olds, first, last)
            changed += found
    world.tally[thread, 0] = changed
    meet(world)
    if team.thread == 0:
        changed = np.int64(0)
        for t in range(world.threads):
            changed += world.tally[t, 0]
        for q in range(world.parts):
            if q != world.part:
                theirs = (q + 1) * changed // world.parts - q * changed // world.parts
                tell(world, world.part, q, True, theirs, length, length, width, False)


# ---- records --------------------------------------------------------------------------------


@compiled(allocates=False)
def remember_apart(team, world, current, record, recorded):
    """Keep a frontier; where there is no room all parts stop at the next superstep."""
    kept = remember(team, current, record, recorded)
    return _keep_in_step(world, kept, recorded)


@compiled(allocates=False)
def remember_edges_apart(team, world, current, record, recorded):
    """As `remember_apart`, for a frontier of edges."""
    kept = remember_edges(team, current, record, recorded)
    return _keep_in_step(world, kept, recorded)


@compiled(allocates=False)
def _keep_in_step(world, kept, recorded):
    if kept < 0:
        world.sync[CANCEL] = FULL
    return recorded + 1


@compiled(allocates=False)
def note_links(team, world, rows, row, talked):
    """What had been told, and how long that had taken, when a superstep ended."""
    if team.thread == 0 and row + 1 < len(rows):
        sent, useful, whole = np.int64(0), np.int64(0), np.int64(0)
        for q in range(world.parts):
            sent += world.traffic[SENT, world.part, q]
            useful += world.traffic[USEFUL, world.part, q]
            whole += world.traffic[WHOLE, world.part, q]
        rows[row + 1, 0] = talked
        rows[row + 1, 1] = sent
        rows[row + 1, 2] = useful
        rows[row + 1, 3] = whole
