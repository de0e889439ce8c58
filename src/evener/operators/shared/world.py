"""What parts agree on, in words that all of them see, and the bytes that they exchange."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import compiled
from evener.operators.shared.between_machines import PART_WORDS, first_of
from evener.operators.spmd import (
    add_alone,
    has_row,
    lane,
    lanes,
    leads,
    put_in_row,
    sum_of_lanes,
    wish_to_stop,
)

SENT, USEFUL, WHOLE = 0, 1, 2  # of World.traffic: bytes sent, that changed, of policy all
FULL = 3  # as CANCEL: a record is full


class World(NamedTuple):
    """What a thread knows of all parts; `engine.partition.divide` has bases, ghosts and home.

    Two-dimensional tables are flat, except `ghosts` and `boxed` of a CPU.
    """

    part: int
    parts: int
    threads: int  # of all parts on this CPU or card
    first: int  # number among them of this part's first thread
    sync: np.ndarray
    words: np.ndarray  # [turn, part, PART_WORDS]: numbers to agree on
    bases: np.ndarray
    owned: np.ndarray
    ghosts: np.ndarray
    home: np.ndarray
    marks: np.ndarray  # of all slots
    box: np.ndarray  # emitted ghosts of all parts, each part from the number of its first ghost on
    boxed: np.ndarray  # [part, words]: sizes of boxes, on a GPU three, used by stages in turn
    bits: np.ndarray  # members of the frontier in all parts, with ghosts, as a pull needs them
    words_from: np.ndarray  # the first word of each part there
    counts: np.ndarray  # [receiver, sender]: values of this exchange that changed
    tally: np.ndarray  # elements of replicated fields that changed: [thread, sender], or [sender]
    traffic: np.ndarray  # [which, receiver, sender]
    policy: int
    measure: Any  # bytes of a message, a function of `evener.operators.shared.policies`
    hub: Any  # `evener.operators.shared.between_machines.Hub`


# ---- numbers ------------------------------------------------------------------------------------


@compiled(allocates=False)
def sum_of(world, turn, word):
    """Sum a word over all parts, after a census."""
    total = np.int64(0)
    for p in range(world.parts):
        total += world.words[(turn * world.parts + p) * PART_WORDS + word]
    return total


@compiled(allocates=False)
def why_stop(world, turn):
    """Why the run must stop by the last census: 0 if it need not."""
    why = np.int64(0)
    for p in range(world.parts):
        why = max(why, world.words[(turn * world.parts + p) * PART_WORDS + 2])
    return why


@compiled(allocates=False)
def census(team, world, turn, size):
    """Sum a number over all parts; a stop request travels along.

    Turns alternate between 0 and 1: a part that is ahead writes where no other reads any more.
    """
    say(team, world, turn, size)
    world.hub.shake(team, world, world.words, world.hub.words, turn)
    return sum_of(world, turn, 0)


@compiled(allocates=False)
def say(team, world, turn, size):
    """Write a part's words of a census: a number, and whether to stop."""
    if team.thread == 0:
        at = (turn * world.parts + world.part) * PART_WORDS
        world.words[at] = np.int64(size)
        world.words[at + 2] = wish_to_stop(team, world)


@compiled(allocates=False)
def census_of_arcs(team, world, turn, size, arcs):
    """Sum two numbers over all parts."""
    if team.thread == 0:
        world.words[(turn * world.parts + world.part) * PART_WORDS + 1] = arcs
    total = census(team, world, turn, size)
    return total, sum_of(world, turn, 1)


@compiled(allocates=False)
def ask_stop(team, world, turn):
    """A census of the stop request alone."""
    census(team, world, turn, 0)
    return why_stop(world, turn) != 0


@compiled(allocates=False)
def least(team, world, turn, value):
    """The least of a number over all parts."""
    census(team, world, turn, value)
    for p in range(world.parts):
        value = min(value, world.words[(turn * world.parts + p) * PART_WORDS])
    return value


@compiled(allocates=False)
def agree(team, world, turn, combine, neutral, own, words, far):
    """Combine the values of all parts, in their order."""
    if team.thread == 0:
        words[(turn * world.parts + world.part) * PART_WORDS] = own
    world.hub.shake(team, world, words, far, turn)
    total = neutral
    for p in range(world.parts):
        total = words.dtype.type(combine(total, words[(turn * world.parts + p) * PART_WORDS]))
    return total


# ---- bytes --------------------------------------------------------------------------------------


@compiled(allocates=False)
def account(team, world, owners_tell, width, flagged):
    """Add the bytes sent to this part; ``owners_tell`` gives the direction."""
    if leads(team):
        me = world.part
        for q in range(lane(team), world.parts, lanes(team)):
            changed = world.counts[me * world.parts + q]
            world.counts[me * world.parts + q] = 0
            if q != me:
                ghosts = first_of(world, me, q + 1) - first_of(world, me, q)
                owner = q
                if not owners_tell:
                    ghosts = first_of(world, q, me + 1) - first_of(world, q, me)
                    owner = me
                owned = world.owned[owner]
                count_message(world, q, owners_tell, changed, ghosts, owned, width, flagged)


@compiled(allocates=False)
def count_message(world, q, owners_tell, changed, ghosts, owned, width, flagged):
    """Add one message from part ``q`` to the traffic."""
    if ghosts > 0:
        sent = world.measure(world.policy, owners_tell, changed, ghosts, owned, width, flagged)
        links = world.parts * world.parts
        at = world.part * world.parts + q
        whole = owned if owners_tell else ghosts
        add_alone(world.traffic, SENT * links + at, sent)
        add_alone(world.traffic, USEFUL * links + at, changed * width)
        add_alone(world.traffic, WHOLE * links + at, whole * width)


@compiled(allocates=False)
def note_links(team, world, rows, row, talked):
    """Write the traffic, and the time it took, up to the end of a superstep."""
    if leads(team) and has_row(rows, row + 1):
        links = world.parts * world.parts
        sent, useful, whole = np.int64(0), np.int64(0), np.int64(0)
        for q in range(lane(team), world.parts, lanes(team)):
            at = world.part * world.parts + q
            sent += world.traffic[SENT * links + at]
            useful += world.traffic[USEFUL * links + at]
            whole += world.traffic[WHOLE * links + at]
        sent, useful, whole = sum_of_lanes(sent), sum_of_lanes(useful), sum_of_lanes(whole)
        if lane(team) == 0:
            put_in_row(rows, row + 1, 0, talked)
            put_in_row(rows, row + 1, 1, sent)
            put_in_row(rows, row + 1, 2, useful)
            put_in_row(rows, row + 1, 3, whole)
