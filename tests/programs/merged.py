"""Values that several parts write: merges, followers, replicated fields and scalars."""

import numpy as np
from numpy import float64, int64

import evener as ev
from evener.device import atomic
from evener.programs import VERTEX, WEIGHT, Field, Program, Scalar, functor
from evener.programs.stages import (
    advance,
    compute,
    edges,
    filter,
    reduce,
    repeat,
)
from programs.searches import FAR


class Counted(Program):
    """The least offer wins; how many made it is counted, and one of them named."""

    offer = Field(np.int64, fill=FAR, merge="min")
    times = Field(np.int64, merge="sum", follows=offer)
    by = Field(VERTEX, merge="min", follows=offer)

    @functor
    def bid(src, dst, edge, s):
        price = s.id[src] // 2
        before = atomic.min(s.offer, dst, price)
        if before >= price:
            atomic.add(s.times, dst, 1)
            atomic.min(s.by, dst, s.id[src])
        return False

    loop = advance(bid)


class Reset(Program):
    """A minimum that owners raise again: ghosts must not remember the old one."""

    low = Field(np.int64, fill=FAR, merge="min")
    sums = Field(np.int64, merge="sum")
    shared = Field(np.int64, fill=FAR, merge="min", replicated=True)
    least = Scalar(np.int64, "min")

    @functor
    def lower(src, dst, edge, s):
        atomic.min(s.shared, s.id[dst], s.id[src] + s.superstep)
        return atomic.min(s.low, dst, s.id[src] + 10 * s.superstep) > 0

    @functor
    def gather_up(v, s):
        s.sums[v] = s.sums[v] * 3 + s.low[v] % 1000 + s.shared[v] % 1000
        s.low[v] = FAR
        s.shared[v] = FAR

    @functor
    def value(v, s):
        return s.sums[v]

    loop = repeat(
        edges(lower), compute(gather_up), reduce(value, "min", into=least), max_supersteps=4
    )


class Totals(Program):
    """Replicated sums."""

    seen = Field(np.float64, merge="sum", replicated=True)

    @functor
    def add(src, dst, edge, s):
        atomic.add(s.seen, s.id[dst] // 2, 0.5)
        return False

    loop = (edges(add), edges(add))


class Extremes(Program):
    """Scalars that only the graph gives a type; the least is one of no vertices."""

    x = Field(int64, fill=2**53 + 1)  # no float64
    most = Scalar(WEIGHT, "max")
    least = Scalar(WEIGHT, "min")

    @functor
    def value(v, s):
        return s.x[v]

    @functor
    def never(v, s):
        return s.x[v] < 0

    loop = (
        reduce(value, "max", into=most, over="all"),
        filter(never, over="all"),
        reduce(value, "min", into=least),
    )


def assert_extremes(run):
    """One kernel does not serve graphs whose weights are of other types."""
    for dtype, most, least in ((float64, 2**53, np.inf), (int64, 2**53 + 1, 2**63 - 1)):
        found = run(ev.Graph.from_edges([0, 1, 2], [1, 2, 0], np.ones(3, dtype)))
        assert (int(found["most"]), found["least"]) == (most, least)


class Offers(Program):
    """The highest weight of those that make the least offer."""

    offer = Field(int64, merge="min")
    price = Field(WEIGHT, merge="max", follows=offer)

    @functor
    def bid(src, dst, edge, s):
        offer = s.id[src] // 2
        if atomic.min(s.offer, dst, offer) >= offer:
            atomic.max(s.price, dst, s.weight[edge])
        return False

    loop = advance(bid)
