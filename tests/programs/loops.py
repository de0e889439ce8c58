"""Loops in loops, frontiers of edges, and records that are gone back over."""

from numpy import int32, int64

from evener.device import atomic
from evener.programs import Field, Param, Program, Scalar, Vertex, functor
from evener.programs.stages import (
    advance,
    backwards,
    compute,
    edges,
    filter,
    gather,
    nearest,
    reduce,
    repeat,
)


class OverEdges(Program):
    """Edges are emitted, filtered, counted, advanced over and replayed."""

    level = Field(int32, fill=-1, merge="max")
    seen = Field(int64, merge="sum")
    weights = Field(int64, merge="sum")
    backed = Field(int64, merge="sum")
    rounds = Param(int64, 4)

    @functor
    def rises(src, dst, edge, s):
        return s.level[dst] < s.superstep + 1 and s.weight[edge] % 5 != 0

    @functor
    def is_even(src, dst, edge, s):
        return (s.id[src] + s.id[dst]) % 2 == 0 or s.weight[edge] > 3

    @functor
    def weigh(src, dst, edge, s):
        atomic.add(s.weights, dst, s.weight[edge])
        atomic.max(s.level, dst, s.superstep + 1)

    @functor
    def step(src, dst, edge, s):
        atomic.add(s.seen, dst, 1)
        return s.id[dst] % 3 != 0

    @functor
    def back(src, dst, edge, s):
        atomic.add(s.backed, dst, s.superstep + 1)

    @functor
    def is_any(src, dst, edge, s):
        return True

    def start(self, source: Vertex):
        return [source]

    loop = (
        repeat(
            advance(rises, emit="edges"),
            filter(is_even),
            compute(weigh),
            advance(step),
            max_supersteps=rounds,
        ),
        advance(is_any, emit="edges", over="all"),
        repeat(
            filter(is_even),
            compute(back),
            max_supersteps=2,
            record=True,
        ),
        backwards(compute(back), advance(step)),
    )


class EdgesThroughout(Program):
    """The frontier is of vertices in the first superstep and of edges in all others.

    Which edges it has depends on no race, so that parts of a set find the same ones.
    """

    seen = Field(int64, merge="max")
    visits = Field(int64, merge="sum")

    @functor
    def visit(src, dst, edge, s):
        atomic.add(s.visits, dst, 1)
        atomic.max(s.seen, dst, s.superstep + 1)
        return s.superstep < 3

    @functor
    def touch(v, s):
        s.visits[v] += 100

    def start(self, source: Vertex):
        self.seen[source] = 1
        return [source]

    loop = (
        repeat(advance(visit, emit="edges"), compute(touch, over="all"), record=True),
        backwards(advance(visit)),
    )


class Nested(Program):
    """Repeats within backwards, an ordered one among them, and stages around and between loops."""

    hops = Field(int64, fill=1 << 40, merge="min")
    spread = Field(int64, merge="sum")
    around = Field(int64, merge="sum")
    backs = Scalar(int64, "sum")

    @functor
    def reach(src, dst, edge, s):
        new = s.hops[src] + 1
        return atomic.min(s.hops, dst, new) > new

    @functor
    def push(src, dst, edge, s):
        atomic.add(s.spread, dst, 1)
        return s.superstep < 1

    @functor
    def always(src, dst, edge, s):
        return True

    @functor
    def touch(v, s):
        s.around[v] += s.superstep + 1

    @functor
    def around_of(v, s):
        return s.around[v]

    @functor
    def is_source(v, s):
        return s.hops[v] == 0

    def start(self, source: Vertex):
        self.hops[source] = 0
        return [source]

    loop = (
        advance(always, over="all"),
        filter(around_of, over="all"),
        advance(always, over="all"),
        compute(touch),
        filter(is_source, over="all"),
        repeat(advance(reach), record=True, max_supersteps=5),
        backwards(
            compute(touch),
            repeat(advance(push), compute(touch), max_supersteps=2),
            repeat(compute(touch), advance(reach), order=nearest(hops, 1), max_supersteps=3),
            reduce(around_of, "sum", into=backs),
        ),
        compute(touch),
    )


class LoopsInLoops(Program):
    """Trace rows of loops in loops count their own edges, and edges outside loops count too."""

    value = Field(int64, fill=1)
    rounds = Param(int64, 3)

    @functor
    def value_of(src, dst, edge, s):
        return s.value[src]

    @functor
    def keep(v, total, s):
        s.value[v] = total % 1000
        return True

    @functor
    def look(src, dst, edge, s):
        return False

    loop = (
        gather(value_of, "sum", keep),
        edges(look),
        repeat(
            gather(value_of, "any", keep),
            repeat(edges(look), gather(value_of, "sum", keep), max_supersteps=2),
            edges(look, neighbours=(0, 1)),
            max_supersteps=rounds,
        ),
    )


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
