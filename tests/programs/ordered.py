"""Loops in the order of `nearest`."""

import numpy as np
from numpy import float64, int32, int64

import evener as ev
from evener.device import atomic
from evener.programs import WEIGHT, Field, Param, Program, Scalar, Vertex, functor
from evener.programs.stages import (
    advance,
    backwards,
    compute,
    filter,
    nearest,
    reduce,
    repeat,
)


class Bounded(Program):
    """Distances by buckets: bounded, counted, recorded, with several stages in the loop."""

    distance = Field(WEIGHT, merge="min")
    first = Field(int32, fill=-1, merge="max")
    settled = Field(int64, merge="sum")
    replayed = Field(int64, merge="sum")
    farthest = Scalar(float64, "max")
    delta = Param(float64, 7.0)
    limit = Param(int64, 1 << 40)
    horizon = Param(float64, np.inf)

    @functor
    def count(v, s):
        s.settled[v] += 1
        s.first[v] = s.superstep

    @functor
    def relax(src, dst, edge, s):
        new = s.distance[src] + s.weight[edge]
        return atomic.min(s.distance, dst, new) > new

    @functor
    def distance_of(v, s):
        return float64(s.distance[v])

    @functor
    def is_far(s):
        return s.farthest > s.horizon

    @functor
    def replay(v, s):
        s.replayed[v] += s.superstep + 1

    def start(self, source: Vertex):
        self.distance[source] = 0
        return [source]

    loop = (
        repeat(
            compute(count),
            reduce(distance_of, "max", into=farthest),
            advance(relax),
            order=nearest(distance, delta),
            until=is_far,
            max_supersteps=limit,
            record=True,
        ),
        compute(replay),
        backwards(compute(replay)),
    )


class TwiceNearest(Program):
    """Distances from a vertex and then from vertex 4, each in the order of `nearest`."""

    distance = Field(float64, fill=np.inf, merge="min")
    first = Field(float64, fill=np.inf)

    @functor
    def relax(src, dst, edge, s):
        offer = s.distance[src] + s.weight[edge]
        return atomic.min(s.distance, dst, offer) > offer

    @functor
    def restart(v, s):
        s.first[v] = s.distance[v]
        s.distance[v] = 0.0 if s.id[v] == 4 else np.inf

    @functor
    def is_next(v, s):
        return s.id[v] == 4

    def start(self, source: Vertex):
        self.distance[source] = 0
        return [source]

    loop = (
        repeat(advance(relax), order=nearest(distance, 1)),
        compute(restart, over="all"),
        filter(is_next, over="all"),
        repeat(advance(relax), order=nearest(distance, 1)),
    )


# Vertex 2 is emitted far, and then nearer: when the first loop ends it is settled.
SETTLED = ev.Graph.from_edges(
    [0, 0, 1, 2, 4], [1, 2, 2, 3, 2], np.array([1.2, 2.5, 0.3, 0.2, 2.5])
)  # fmt: skip


class NearestFrom(Program):
    """Distances in the order of `nearest` from a source that has some already."""

    distance = Field(float64, fill=np.inf, merge="min")

    @functor
    def relax(src, dst, edge, s):
        offer = s.distance[src] + s.weight[edge]
        return atomic.min(s.distance, dst, offer) > offer

    def start(self, source: Vertex, has: float):
        self.distance[source] = has
        return [source]

    loop = repeat(advance(relax), order=nearest(distance, 2))


# From the last bucket a distance falls back into the first.
FALLING = ev.Graph.from_edges([0, 0, 2, 1], [1, 2, 1, 3], np.array([1, 10, -9.5, 1]))


class BucketsFrom(NearestFrom):
    """The same with a superstep for each bucket."""

    loop = repeat(
        advance(NearestFrom.relax), order=nearest(NearestFrom.distance, 2), max_supersteps=99
    )
