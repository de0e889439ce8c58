"""The parts of a graph on one GPU, each a grid of its own: how they meet, count and agree.

As in `evener.operators.cpu.exchange`; tables of two dimensions are flat here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import atomic, compiled
from evener.device.warp import CANCEL, meet_at
from evener.operators.gpu.advance import sum_of_warp
from evener.operators.shared.hub import APART
from evener.operators.shared.world import SENT, USEFUL, WHOLE, sum_of, why_stop

BOXED = 16  # words of one part for its box: the sizes of three, one for each stage in turn
MOST_PARTS = 32  # on one card: lanes of a warp
ROW = 4  # words of a row: cycles of communication, bytes, useful bytes, bytes of `all`


class World(NamedTuple):
    """What a thread knows of all parts; `engine.partition.divide` has bases, ghosts and home."""

    part: int
    parts: int
    threads: int  # of all parts on this card together
    first: int  # number among them of the first thread of this part
    share: Any  # of this block in a meeting of all
    sync: np.ndarray
    words: np.ndarray  # [turn, part, APART]: what is being agreed on
    bases: np.ndarray
    owned: np.ndarray
    ghosts: np.ndarray
    home: np.ndarray
    marks: np.ndarray  # of all slots
    box: np.ndarray  # emitted ghosts of all parts, each part from the number of its first ghost on
    boxed: np.ndarray  # [part, BOXED]
    bits: np.ndarray  # members of the frontier in all parts, ghosts included, as a pull needs them
    words_from: np.ndarray  # the first word of each part there
    counts: np.ndarray  # [receiver, sender]: values of this exchange that changed
    tally: np.ndarray  # [sender]: elements of replicated fields that changed
    traffic: np.ndarray  # [which, receiver, sender]
    policy: int
    measure: Any  # bytes of a message, a function of `evener.operators.shared.policies`
    hub: Any  # `evener.operators.shared.hub.Hub`


@compiled(allocates=False)
def share_of(first, block, blocks):
    """What a block adds at a meeting: all shares together turn the top bit."""
    share = np.int64(1)
    if first == 0 and block == 0:
        share = (np.int64(1) << np.int64(31)) - (blocks - 1)
    return np.uint32(share)


@compiled(allocates=False)
def meet(world):
    """Wait for all threads of all parts on this card."""
    meet_at(world.sync, world.share)


@compiled(allocates=False)
def first_ghost(world, p, q):
    """The number of the first ghost of ``p`` that ``q`` owns."""
    return world.ghosts[p * (world.parts + 1) + q]


# ---- numbers ----------------------------------------------------------------------------------


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
        world.words[at + 2] = np.int64(team.sync[CANCEL])


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


# ---- bytes ------------------------------------------------------------------------------------


@compiled(allocates=False)
def count(team, counts, at, changed):
    """Add what the threads of a warp have counted."""
    changed = sum_of_warp(changed)
    if team.lane == 0 and changed > 0:
        atomic.add(counts, at, changed)


@compiled(allocates=False)
def account(team, world, owners_tell, width, flagged):
    """Add what travelled to this part, a lane for each link; ``owners_tell``: the direction."""
    if team.rank == 0:
        me = world.part
        for q in range(team.lane, world.parts, 32):
            changed = world.counts[me * world.parts + q]
            world.counts[me * world.parts + q] = 0
            if q != me:
                ghosts = first_ghost(world, me, q + 1) - first_ghost(world, me, q)
                owner = q
                if not owners_tell:
                    ghosts = first_ghost(world, q, me + 1) - first_ghost(world, q, me)
                    owner = me
                owned = world.owned[owner]
                tell(world, q, owners_tell, changed, ghosts, owned, width, flagged)


@compiled(allocates=False)
def tell(world, q, owners_tell, changed, ghosts, owned, width, flagged):
    """Count one message."""
    if ghosts > 0:
        sent = world.measure(world.policy, owners_tell, changed, ghosts, owned, width, flagged)
        links = world.parts * world.parts
        at = world.part * world.parts + q
        whole = owned if owners_tell else ghosts
        # Nobody else adds to these, but what is added by an atomic need not be read first.
        atomic.add(world.traffic, SENT * links + at, np.int64(sent))
        atomic.add(world.traffic, USEFUL * links + at, np.int64(changed * width))
        atomic.add(world.traffic, WHOLE * links + at, np.int64(whole * width))


@compiled(allocates=False)
def note_links(team, world, rows, row, talked):
    """What had been told, and how long that had taken, when a superstep ended."""
    if team.rank == 0 and (row + 2) * ROW <= len(rows):
        links = world.parts * world.parts
        sent, useful, whole = np.int64(0), np.int64(0), np.int64(0)
        for q in range(team.lane, world.parts, 32):
            at = world.part * world.parts + q
            sent += world.traffic[SENT * links + at]
            useful += world.traffic[USEFUL * links + at]
            whole += world.traffic[WHOLE * links + at]
        sent, useful, whole = sum_of_warp(sent), sum_of_warp(useful), sum_of_warp(whole)
        if team.lane == 0:
            rows[(row + 1) * ROW] = talked
            rows[(row + 1) * ROW + 1] = sent
            rows[(row + 1) * ROW + 2] = useful
            rows[(row + 1) * ROW + 3] = whole
