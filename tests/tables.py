"""Tables of cases: every pair of values instead of a product, and what `make test` leaves out."""

import itertools
import random

import pytest


def pairwise(*factors, suits=lambda *row: True):
    """Rows in which every pair of values of two factors is found: the same in every process.

    Rows that do not suit are not among them, nor pairs that are in no row that does.
    """
    draw = random.Random(7)
    places = list(itertools.combinations(range(len(factors)), 2))
    missing = {
        (i, a, j, b) for i, j in places for a in range(len(factors[i]))
        for b in range(len(factors[j]))
    }  # fmt: skip

    def pairs(row):
        return {(i, row[i], j, row[j]) for i, j in places} & missing

    def values(row):
        return tuple(values[at] for values, at in zip(factors, row, strict=True))

    while missing:
        i, a, j, b = min(missing)
        rows = [[draw.randrange(len(values)) for values in factors] for _ in range(30)]
        for row in rows:
            row[i], row[j] = a, b
        rows = [row for row in rows if suits(*values(row))]
        if not rows:
            missing.remove((i, a, j, b))
            continue
        best = max(rows, key=lambda row: len(pairs(row)))
        missing -= pairs(best)
        yield values(best)


def slow_but(values, *few):
    """Values to parametrize a test with, all but a few of which only `make test-all` takes."""
    values = list(values)
    assert set(few) <= set(values), "one of the few is not among the values"
    return [one if one in few else pytest.param(one, marks=pytest.mark.slow) for one in values]
