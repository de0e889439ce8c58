"""Programs that between them have every stage, outside loops or in simple ones."""

import numpy as np
from numpy import float32, float64, int32, int64

from evener.device import atomic
from evener.programs import VERTEX, Field, Param, Program, Scalar, Vertex, functor
from evener.programs.gas import GasProgram
from evener.programs.stages import (
    advance,
    backwards,
    compute,
    edges,
    filter,
    gather,
    reduce,
    repeat,
)


class Labels(Program):
    """Components by hooking and jumping: a replicated minimum, nested repeats, s.changed."""

    label = Field(VERTEX, merge="min", replicated=True)
    moved = Scalar(np.int64, "sum")
    rounds = Field(np.int64)

    @functor
    def hook(src, dst, edge, s):
        a, b = s.label[src], s.label[dst]
        if a == b:
            return False
        return atomic.min(s.label, max(a, b), min(a, b)) > min(a, b)

    @functor
    def jump(v, s):
        s.label[v] = s.label[s.label[v]]

    @functor
    def is_deep(v, s):
        return 1 if s.label[v] != s.label[s.label[v]] else 0

    @functor
    def is_flat(s):
        return s.moved == 0

    @functor
    def note(v, s):
        s.rounds[v] = s.superstep * 2 + s.changed

    @functor
    def unchanged(s):
        return not s.changed

    def start(self):
        self.label[:] = np.arange(self.num_vertices)

    loop = repeat(
        edges(hook),
        repeat(compute(jump), reduce(is_deep, "sum", into=moved), until=is_flat),
        compute(note),
        until=unchanged,
    )


class Gathered(Program):
    """Every named combination, one stage each, and a scalar."""

    sums = Field(np.float64)
    least = Field(np.float64)
    most = Field(np.float64)
    some = Field(np.float64)
    own = Field(np.float64, fill=-7)
    value = Field(np.float64)
    total = Scalar(np.float64, "sum")
    kept = Field(np.bool_)

    @functor
    def sent(src, dst, edge, s):
        return s.value[src] * s.degree[src] + s.id[dst]

    @functor
    def is_one(src, dst, edge, s):
        return 1.0 if s.value[src] == 1 else 0.0

    @functor
    def larger(a, b):
        return a if a > b else b

    @functor
    def put_sum(v, total, s):
        s.sums[v] = total
        return True

    @functor
    def put_least(v, total, s):
        s.least[v] = total
        return True

    @functor
    def put_most(v, total, s):
        s.most[v] = total
        return True

    @functor
    def put_some(v, total, s):
        s.some[v] = total
        return True

    @functor
    def put_own(v, total, s):
        s.own[v] = total
        return total > 2

    @functor
    def mark(v, s):
        s.kept[v] = True

    @functor
    def double(v, s):
        return s.sums[v] * 2

    @functor
    def add(v, s):
        s.sums[v] = s.sums[v] + s.total

    def start(self):
        self.value[:] = np.arange(self.num_vertices)

    loop = (
        gather(sent, "sum", put_sum),
        gather(sent, "min", put_least),
        gather(sent, "max", put_most),
        gather(is_one, "any", put_some),
        reduce(double, "sum", into=total),
        compute(add),
        gather(sent, larger, put_own),
        compute(mark),
    )


class Scattered(Program):
    """Pushes with every merge at once, and reads the far ends of two of them."""

    value = Field(np.int64)
    low = Field(np.int64, merge="min")
    high = Field(np.int64, merge="max")
    total = Field(np.int64, merge="sum")
    seen = Field(np.int64, merge="sum")
    some = Field(np.int64, fill=-1, merge="any")

    @functor
    def scatter(src, dst, edge, s):
        atomic.min(s.low, dst, s.value[src])
        atomic.max(s.high, dst, s.value[src])
        atomic.add(s.total, dst, s.value[src])
        s.some[dst] = s.value[src]
        return s.value[src] % 2 == 0

    @functor
    def carry(src, dst, edge, s):
        if s.total[dst] > 3:  # read and added to in one stage
            atomic.add(s.total, dst, 0)
            atomic.add(s.seen, src, s.total[dst] - s.total[dst] // 2)
        return s.low[dst] < s.high[dst]

    def start(self):
        self.value[:] = (np.arange(self.num_vertices) * 7 + 3) % 11

    loop = (advance(scatter), advance(carry, over="all"), advance(scatter))


class OnEdges(Program):
    """A frontier of edges, filtered, computed on and gone on from."""

    heavy = Field(np.int64, merge="sum")
    after = Field(np.int64, merge="sum")

    @functor
    def every(src, dst, edge, s):
        return True

    @functor
    def is_heavy(src, dst, edge, s):
        return s.weight[edge] > 1

    @functor
    def note(src, dst, edge, s):
        atomic.add(s.heavy, dst, s.degree[src] + 1)

    @functor
    def go_on(src, dst, edge, s):
        atomic.add(s.after, dst, s.id[src] + 1)
        return True

    @functor
    def finish(v, s):
        s.after[v] = s.after[v] * 100

    loop = (advance(every, emit="edges"), filter(is_heavy), compute(note), advance(go_on),
            compute(finish))  # fmt: skip


class Slices(Program):
    visits = Field(np.int64, merge="sum")
    first = Param(np.int64, 0)

    @functor
    def visit(src, dst, edge, s):
        atomic.add(s.visits, dst, 1)
        return False

    @functor
    def is_even(src, s):
        return s.id[src] % 2 == 0

    loop = (edges(visit, neighbours=(1, 3), where=is_even), edges(visit, neighbours=(2, None)))


class Frontiers(Program):
    """What each stage leaves behind, noted by computes."""

    a = Field(np.int64)
    b = Field(np.int64)
    c = Field(np.int64)

    @functor
    def to_neighbours(src, dst, edge, s):
        return s.id[dst] != 2

    @functor
    def note_a(v, s):
        s.a[v] += 1

    @functor
    def note_b(v, s):
        s.b[v] += 1

    @functor
    def note_c(v, s):
        s.c[v] += 1

    @functor
    def is_odd(v, s):
        return s.id[v] % 2 == 1

    def start(self, first):
        return first

    loop = (advance(to_neighbours), compute(note_a, over="all"), compute(note_b),
            filter(is_odd, over="all"), compute(note_c))  # fmt: skip


class Everything(Program):
    """Every stage once, with nested repeats, scalars, parameters and a record to go back over."""

    level = Field(int32, fill=-1, merge="max")
    visits = Field(int64, merge="sum")
    sums = Field(float64)
    backed = Field(int64, merge="sum")
    rounds = Param(int64, 3)
    total = Scalar(int64, "sum")
    widest = Scalar(float64, "max")

    @functor
    def is_low(v, s):
        return s.degree[v] < 6 or s.id[v] == 0

    @functor
    def touch(v, s):
        s.visits[v] += 1

    @functor
    def spread(src, dst, edge, s):
        atomic.add(s.visits, dst, 1)
        return atomic.max(s.level, dst, s.superstep) < s.superstep

    @functor
    def neighbour_value(src, dst, edge, s):
        return float64(s.visits[src]) * s.weight[edge]

    @functor
    def keep(v, total, s):
        s.sums[v] = total
        return total > 1

    @functor
    def lower(src, dst, edge, s):
        if s.level[src] > s.level[dst] + 1:
            return atomic.max(s.level, dst, s.level[src] - 1) < s.level[src] - 1
        return False

    @functor
    def steady(s):
        return not s.changed

    @functor
    def visits_of(v, s):
        return s.visits[v]

    @functor
    def sum_of(v, s):
        return s.sums[v]

    @functor
    def many(s):
        return s.total > 100_000

    @functor
    def back(src, dst, edge, s):
        atomic.add(s.backed, dst, s.superstep + 1)
        return True

    loop = (
        filter(is_low),
        repeat(
            compute(touch),
            advance(spread),
            gather(neighbour_value, "sum", keep),
            repeat(edges(lower), until=steady),
            reduce(visits_of, "sum", into=total, over="all"),
            reduce(sum_of, "max", into=widest),
            until=many,
            max_supersteps=rounds,
            record=True,
        ),
        backwards(advance(back), compute(touch)),
    )


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
