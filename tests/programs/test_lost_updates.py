"""Plain writes that lose updates where several calls write to one place are refused."""

import inspect

import numpy as np
import pytest

import evener as ev
from evener.device import atomic
from evener.errors import ProgramError
from evener.programs import WEIGHT, Field, Program, functor
from evener.programs.stages import advance, compute, edges, gather, repeat


def _looks_and_writes():
    class Widest(Program):
        width = Field(WEIGHT, fill=0, merge="max")

        @functor
        def widen(src, dst, edge, s):
            offer = min(s.width[src], s.weight[edge])
            if offer > s.width[dst]:
                s.width[dst] = offer  # LOST
                return True
            return False

        loop = repeat(advance(widen))


def _takes_the_larger():
    class Highest(Program):
        high = Field(np.int64, merge="max")

        @functor
        def raise_(src, dst, edge, s):
            s.high[dst] = max(s.high[dst], s.id[src])  # LOST
            return True

        loop = edges(raise_)


def _adds():
    class Visits(Program):
        visits = Field(np.int64, merge="any")

        @functor
        def visit(src, dst, edge, s):
            s.visits[dst] += 1  # LOST
            return True

        loop = edges(visit)


def _adds_in_two_steps():
    class Visits(Program):
        visits = Field(np.int64, merge="max")

        @functor
        def visit(src, dst, edge, s):
            more = s.visits[src] + 1
            s.visits[src] = more  # LOST
            return True

        loop = edges(visit)


def _adds_in_a_table():
    class Sizes(Program):
        label = Field(np.int64, fill=0)
        size = Field(np.int64, merge="any", replicated=True)

        @functor
        def count(v, s):
            s.size[s.label[v]] = s.size[s.label[v]] + 1  # LOST

        loop = compute(count)


def _adds_to_a_follower():
    class Paths(Program):
        depth = Field(np.int64, merge="min")
        paths = Field(np.int64, merge="any", follows=depth)

        @functor
        def visit(src, dst, edge, s):
            if atomic.min(s.depth, dst, s.superstep) >= s.superstep:
                s.paths[dst] += 1  # LOST
                return True
            return False

        loop = repeat(advance(visit))


def _adds_by_way_of_names():
    class Sizes(Program):
        label = Field(np.int64, fill=0)
        size = Field(np.int64, merge="any", replicated=True)

        @functor
        def count(v, s):
            label = s.label[v]
            here = label
            s.size[here] = s.size[s.label[v]] + 1  # LOST

        loop = compute(count)


def _adds_by_way_of_another_field():
    class Visits(Program):
        visits = Field(np.int64, merge="any")
        more = Field(np.int64, merge="any")

        @functor
        def visit(src, dst, edge, s):
            s.more[dst] = s.visits[dst] + 1  # LOST
            s.visits[dst] = s.more[dst]
            return True

        loop = edges(visit)


def _adds_to_what_an_atomic_returned():
    class Highest(Program):
        high = Field(np.int64, merge="max")

        @functor
        def raise_(src, dst, edge, s):
            old = atomic.max(s.high, dst, 0)
            s.high[dst] = old + 1  # LOST
            return True

        loop = edges(raise_)


def _claims_another_vertex():
    class Visits(Program):
        seen = Field(np.int64, fill=0, merge="any")
        visits = Field(np.int64, merge="any")

        @functor
        def visit(src, dst, edge, s):
            if atomic.exchange(s.seen, src, 1) == 0:
                s.visits[dst] += 1  # LOST
            return True

        loop = edges(visit)


def _looks_and_writes_any():
    class Widest(Program):
        width = Field(WEIGHT, fill=0, merge="any")

        @functor
        def widen(src, dst, edge, s):
            offer, old = min(s.width[src], s.weight[edge]), s.width[dst]
            if old >= offer:
                return False
            s.width[dst] = offer  # LOST
            return True

        loop = repeat(advance(widen))


def _looks_at_the_beginning():
    class Widest(Program):
        width = Field(WEIGHT, fill=0, merge="max")

        @functor
        def widen(src, dst, edge, s):
            offer = min(s.before.width[src], s.weight[edge])
            if offer > s.before.width[dst]:
                s.width[dst] = offer  # LOST
            return False

        loop = repeat(advance(widen), max_supersteps=2)


def _adds_to_the_beginning():
    class Sums(Program):
        total = Field(np.int64, merge="any")

        @functor
        def add(src, dst, edge, s):
            s.total[dst] = s.before.total[dst] + s.id[src]  # LOST
            return False

        loop = edges(add)


def _several_vertices_at_one_entry():
    class Highest(Program):
        label = Field(np.int64, fill=0)
        high = Field(np.int64, fill=0, merge="max", replicated=True)

        @functor
        def raise_(v, s):
            if s.high[s.label[v]] < s.id[v]:
                s.high[s.label[v]] = s.id[v]  # LOST

        loop = compute(raise_)


def _writes_two_at_once():
    class Widest(Program):
        width = Field(WEIGHT, fill=0, merge="max")
        seen = Field(np.bool_, merge="any")

        @functor
        def widen(src, dst, edge, s):
            if s.width[dst] < s.weight[edge]:
                s.width[dst], s.seen[dst] = s.weight[edge], True  # LOST
            return False

        loop = edges(widen)


LOST = [
    (_looks_and_writes, "use atomic.max(s.width, dst, offer)."),
    (_takes_the_larger, "use atomic.max(s.high, dst, …)."),
    (_adds, "use atomic.add(s.visits, dst, 1), and merge='sum'."),
    (_adds_in_two_steps, "use atomic.max(s.visits, src, …)."),
    (_adds_in_a_table, "use atomic.add, atomic.min or atomic.max, and the merge that goes with"),
    (_adds_to_a_follower, "use atomic.add(s.paths, dst, 1), and merge='sum'."),
    (_adds_by_way_of_names, "writes s.size[here] depending on its old value"),
    (_adds_by_way_of_another_field, "writes s.more[dst] depending on its old value"),
    (_adds_to_what_an_atomic_returned, "use atomic.max(s.high, dst, …)."),
    (_claims_another_vertex, "use atomic.add(s.visits, dst, 1), and merge='sum'."),
    (_looks_and_writes_any, "and the merge that goes with it."),
    (_looks_at_the_beginning, "use atomic.max(s.width, dst, offer)."),
    (_adds_to_the_beginning, "writes s.total[dst] depending on its old value"),
    (_several_vertices_at_one_entry, "use atomic.max(s.high, s.label[v], s.id[v])."),
    (_writes_two_at_once, "use atomic.max(s.width, dst, s.weight[edge])."),
]


@pytest.mark.parametrize(("declare", "says"), LOST, ids=lambda case: getattr(case, "__name__", ""))
def test_writes_that_lose_updates_are_refused(declare, says):
    with pytest.raises(ProgramError) as caught:
        declare()
    lines, first = inspect.getsourcelines(declare)
    line = first + next(i for i, text in enumerate(lines) if "# LOST" in text)
    assert f", line {line}: writes s." in str(caught.value)
    assert says in str(caught.value)


def test_writes_that_lose_nothing_are_fine():
    class Fine(Program):
        seen = Field(np.bool_, merge="any")
        depth = Field(np.int64, merge="min")
        label = Field(np.int64, fill=-1, merge="any")
        level = Field(np.int64, merge="any")
        locked = Field(np.int64, merge="any")
        total = Field(np.int64, merge="any")
        table = Field(np.int64, merge="min", replicated=True)

        @functor
        def mark(src, dst, edge, s):
            s.seen[dst] = True
            if s.depth[dst] > s.superstep:  # all calls write the same
                s.depth[dst] = s.superstep
            if s.label[dst] < 0:  # one of the labels that were offered
                s.label[dst] = s.id[src]
            s.level[dst] = s.before.level[dst] + 1  # all calls write the same
            if atomic.cas(s.locked, dst, 0, 1) == 0:  # nobody else is here
                s.total[dst] += s.id[src]
            return True

        @functor
        def shorten(v, s):
            me = s.id[v]
            s.table[me] = s.table[s.table[me]]
            s.depth[v] += 1
            s.total[v] = s.total[v] + 1

        @functor
        def add(v, total, s):
            s.total[v] += total
            return True

        @functor
        def one(src, dst, edge, s):
            return 1

        def start(self):
            self.table[:] = np.arange(self.num_vertices)

        loop = (edges(mark), compute(shorten), gather(one, "sum", add))

    found = ev.run(Fine, ev.generate.rmat(6, seed=1), device="cpu:2")
    assert (found.total >= found.graph.in_degrees).all()
