"""Programs that several tests run: those of the examples, and some that gather every way."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy import float32, float64, int32, int64

import evener as ev
from evener.device import atomic
from evener.programs import WEIGHT, Field, Param, Program, Scalar, Vertex, functor
from evener.programs.gas import GasProgram
from evener.programs.stages import (
    advance,
    backwards,
    compute,
    edges,
    filter,
    nearest,
    reduce,
    repeat,
)

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = [
    "widest_path", "k_core", "k_hop", "few_stops", "personalised_heat", "path_counting",
    "gather_apply_scatter", "vertex_centric",
]  # fmt: skip


def module(name):
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


def programs():
    for name in NAMES:
        for found in vars(module(name)).values():
            if isinstance(found, type) and issubclass(found, Program) and found is not Program:
                yield found


def programs_to_simulate():
    """Those of the examples; the ones with many iterations only in the long matrix."""
    return [
        pytest.param(p, marks=pytest.mark.slow) if p.__name__ == "Rank" else p for p in programs()
    ]


def parameters_for(program, graph):
    n = graph.num_vertices
    ones = np.ones(n)
    known = {
        "source": 0, "distances": np.zeros(n), "initial": ones * np.arange(n), "held": np.array([0]),
        "sources": np.arange(min(2, n)), "seeds": np.array([0]), "target": 5, "max_iterations": 3,
    }  # fmt: skip
    d = program.declaration
    asked = {*d.start_parameters, *d.params}
    return {name: value for name, value in known.items() if name in asked}


class Neighbours(GasProgram):
    """What comes in, goes out, or both, with weights."""

    total = Field(int64)
    max_supersteps = 1

    @functor
    def gather(src, dst, edge, s):
        return (s.id[src] + 1) * s.weight[edge] + 1000 * s.id[dst]

    @functor
    def apply(v, total, s):
        s.total[v] = total
        return True


class Outwards(Neighbours):
    along = "out"


class Around(Neighbours):
    along = "both"


class Spread(Program):
    """Every call emits its target, so that vertices are in a frontier as often as they may be."""

    level = Field(int64, fill=-1, merge="max")

    @functor
    def spread(src, dst, edge, s):
        atomic.max(s.level, dst, s.superstep)
        return s.superstep < 4

    def start(self, source: Vertex):
        return [source]

    loop = repeat(advance(spread))


class Closing(Program):
    """Calls close other lists, so that fewer are wanted while they are visited."""

    closed = Field(int64, fill=0, merge="max")
    visits = Field(int64, fill=0, merge="sum")

    @functor
    def is_open(src, s):
        return s.closed[src] == 0

    @functor
    def close(src, dst, edge, s):
        atomic.add(s.visits, src, 1)
        atomic.max(s.closed, dst, 1)
        return False

    loop = edges(close, where=is_open)


def assert_visited_whole(found, graph):
    """A list that was wanted when it was looked at is visited whole, any other one not at all."""
    visits = found["visits"]
    assert ((visits == 0) | (visits == graph.degrees)).all()
    assert visits.any()


class Echoes(Program):
    """A loop within `backwards`: each recorded frontier is heard two steps away."""

    level = Field(int64, fill=-1, merge="max")
    heard = Field(int64, fill=-1, merge="max")

    @functor
    def reach(src, dst, edge, s):
        return atomic.max(s.level, dst, 0) < 0

    @functor
    def call(src, dst, edge, s):
        atomic.max(s.heard, dst, 2 * s.id[src] + s.superstep)
        return True

    def start(self, source: Vertex):
        self.level[source] = 0
        return [source]

    loop = (repeat(advance(reach), record=True), backwards(repeat(advance(call), max_supersteps=2)))


class Repeats(Program):
    """Records all vertices, several times."""

    times = Param(int64, 1)
    visits = Field(int64)

    @functor
    def stay(v, s):
        return s.superstep + 1 < s.times

    @functor
    def touch(v, s):
        s.visits[v] += 1

    loop = (repeat(filter(stay), record=True), backwards(compute(touch)))


def between_layers(width, layers=3):
    """Layers of vertices, each with an arc to all of the next one, and the last to the first."""
    first = 1 + width * np.arange(layers)
    src, dst = [np.zeros(width, int)], [np.arange(1, 1 + width)]
    for here, there in zip(first, np.roll(first, -1), strict=True):
        src.append(np.repeat(here + np.arange(width), width))
        dst.append(np.tile(there + np.arange(width), width))
    return ev.Graph.from_edges(np.concatenate(src), np.concatenate(dst))


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


class Functions(Program):
    """NumPy's functions of numbers, of every dtype."""

    whole = Field(int64)
    short = Field(int32)
    real = Field(float64)
    single = Field(float32)
    odd = Field(float64)

    @functor
    def calculate(v, s):
        x = float64(s.id[v]) / 7 - 3
        s.real[v] = np.sqrt(np.abs(x)) + np.exp(-x) * np.floor(x) + np.ceil(x) - np.cbrt(x)
        s.real[v] += np.power(np.fabs(x), 1.5) + np.log1p(np.square(x)) + np.sign(x)
        s.odd[v] = np.trunc(x) + 10 * np.rint(x) + np.copysign(2.5, x) + np.mod(x, 2.0)
        s.odd[v] += np.floor_divide(x, 0.7) + np.negative(x) + np.expm1(x) + np.exp2(x)
        if np.isinf(x / 0.0) and np.isfinite(x) and not np.isnan(x) and x != 0:
            s.odd[v] += np.reciprocal(x)
        y = float32(x)
        s.single[v] = np.sqrt(np.abs(y)) + np.floor(y) * np.sign(y) + np.maximum(y, np.rint(y))
        s.whole[v] = np.abs(s.id[v] - 9) + np.square(s.id[v]) + np.sign(s.id[v] - 5)
        s.whole[v] += np.power(int64(3), 4) + np.mod(-s.id[v], 7) + np.floor_divide(-s.id[v], 4)
        s.short[v] = np.abs(int32(-3)) + np.negative(int32(s.id[v]))

    loop = compute(calculate, over="all")


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
