"""Searches: one of each merge, and with a record."""

from __future__ import annotations  # as the algorithms have it, with which they share kernels

import math

import numpy as np

from evener.device import atomic
from evener.programs import VERTEX, WEIGHT, Field, Param, Program, Vertex, functor
from evener.programs.stages import (
    advance,
    backwards,
    compute,
    nearest,
    repeat,
)

FAR = UNREACHED = 2**31 - 1


class Search(Program):
    """Breadth-first: a minimum that leads a parent.

    Its functors are those of `evener.algorithms.bfs`, so that they have one kernel.
    """

    depth = Field(np.int32, fill=UNREACHED, merge="min", missing=-1)
    parent = Field(VERTEX, fill=-1, follows=depth)

    @functor
    def unreached(dst, s):
        return s.depth[dst] == UNREACHED

    @functor
    def reach(src, dst, edge, s):
        hops = s.depth[src] + 1
        if atomic.min(s.depth, dst, hops) > hops:
            s.parent[dst] = s.id[src]
            return True
        return False

    def start(self, source: Vertex):
        self.depth[source] = 0
        return [source]

    loop = repeat(advance(reach, where=unreached))


class Nearest(Program):
    """Shortest distances, in buckets."""

    distance = Field(WEIGHT, merge="min", missing=math.inf)
    delta = Param(np.float64, 3.0)

    @functor
    def relax(src, dst, edge, s):
        reach = s.distance[src] + s.weight[edge]
        return atomic.min(s.distance, dst, reach) > reach

    def start(self, source: Vertex):
        self.distance[source] = 0
        return [source]

    loop = repeat(advance(relax), order=nearest(distance, delta))


class Plain(Nearest):
    """The same without an order."""

    loop = repeat(advance(Nearest.relax))


class Paths(Program):
    """Counts of shortest paths forwards, dependencies backwards: Brandes, one source."""

    depth = Field(np.int32, fill=FAR, merge="min")
    paths = Field(np.float64, merge="sum", follows=depth)
    delta = Field(np.float64, merge="sum")
    replayed = Field(np.int32, fill=-1)

    @functor
    def count(src, dst, edge, s):
        hops = s.superstep + 1
        before = atomic.min(s.depth, dst, hops)
        if before >= hops:
            atomic.add(s.paths, dst, s.paths[src])
        return before > hops

    @functor
    def depend(src, dst, edge, s):
        if s.depth[dst] == s.depth[src] + 1:
            atomic.add(s.delta, src, s.paths[src] / s.paths[dst] * (1 + s.delta[dst]))
        return False

    @functor
    def note(v, s):
        s.replayed[v] = s.superstep

    def start(self, source: Vertex):
        self.depth[source] = 0
        self.paths[source] = 1
        return [source]

    loop = (repeat(advance(count), record=True), backwards(compute(note), advance(depend)))
