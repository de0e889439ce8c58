"""Stages over the vertices of a frontier: filter and compute; combinations of values."""

from __future__ import annotations

import numpy as np

from evener.device import compiled
from evener.operators.shared.frontier import SIZE
from evener.operators.spmd import (
    another_one,
    another_round,
    append,
    barrier,
    empty,
    first_one,
    first_round,
    flush,
    lane,
    member,
    to_queue,
)


@compiled(allocates=False)
def filter(team, f, s, current, following):
    """Keep the vertices where the functor is True."""
    to_queue(team, current)
    empty(team, following)
    size, held = current.info[SIZE], np.int64(0)
    base, last = first_round(team, size)
    while base < size:
        i = base + lane(team)
        v, stays = current.queue.dtype.type(0), False
        if i < size:
            v = member(current, i)
            stays = f(v, s)
        held = append(team, held, 0, following, stays, v)
        base, last = another_round(team, base, last, size)
    flush(team, held, 0, following)
    barrier(team)


@compiled(allocates=False)
def compute(team, f, s, current):
    """Call the functor at each vertex."""
    to_queue(team, current)
    size = current.info[SIZE]
    i, last = first_one(team, size)
    while i < size:
        f(member(current, i), s)
        i, last = another_one(team, i, last, size)
    barrier(team)


@compiled(allocates=False, fastmath={"reassoc", "nsz"})
def combine_sum(a, b):
    """The combination "sum"."""
    return a + b


@compiled(allocates=False)
def combine_min(a, b):
    """The combination "min"."""
    return min(a, b)


@compiled(allocates=False)
def combine_max(a, b):
    """The combination "max"."""
    return max(a, b)


@compiled(allocates=False)
def combine_any(a, b):
    """The combination "any"."""
    return a or b


COMBINATIONS = {
    "sum": combine_sum, "min": combine_min, "max": combine_max, "any": combine_any,
}  # fmt: skip
