"""What only goes wrong where several threads or devices are at one vertex is told beforehand."""

import inspect

import numpy as np
import pytest

import evener as ev
from evener.device import atomic
from evener.errors import ProgramError
from evener.programs import Field, Program, Vertex, functor
from evener.programs.stages import advance, compute, edges, repeat
from tables import slow_but

GRAPH = ev.generate.rmat(6, seed=1)
SETS = ["python+python", "cpu:1+cpu:1", "cpu:1+python"]


class Wins(Program):
    """Each vertex is owned by one of its neighbours, which counts what it won."""

    owner = Field(np.int64, fill=-1, merge="any")
    wins = Field(np.int64, merge="sum")

    @functor
    def claim(src, dst, edge, s):
        if atomic.cas(s.owner, dst, -1, s.id[src]) == -1:  # OLD
            atomic.add(s.wins, src, 1)
        return False

    loop = edges(claim)


class WinsEarly(Wins):
    @functor
    def claim(src, dst, edge, s):
        held = atomic.cas(s.owner, dst, -1, s.id[src])  # OLD
        if held != -1:
            return False
        atomic.add(s.wins, src, 1)
        return True


class Exchanges(Wins):
    @functor
    def claim(src, dst, edge, s):
        return atomic.exchange(s.owner, dst, s.id[src]) == -1  # OLD


class SaysWhoLost(Wins):
    """Some call fails on one device, but perhaps on none of the parts."""

    @functor
    def claim(src, dst, edge, s):
        return atomic.cas(s.owner, dst, -1, s.id[src]) != -1  # OLD


class Counts(Program):
    """How often a value fell."""

    low = Field(np.int64, merge="min")
    times = Field(np.int64, merge="sum")

    @functor
    def offer(src, dst, edge, s):
        if atomic.min(s.low, dst, s.id[src]) > s.id[src]:  # OLD
            atomic.add(s.times, dst, 1)
        return True

    loop = edges(offer)


class CountsInOneLine(Counts):
    @functor
    def offer(src, dst, edge, s):
        me = s.id[src]
        return atomic.min(s.low, dst, me) > me and atomic.add(s.times, src, 1) < 3  # OLD


class CountsByValue(Counts):
    @functor
    def offer(src, dst, edge, s):
        fell = 1 if atomic.min(s.low, dst, s.id[src]) > s.id[src] else 0  # OLD
        atomic.add(s.times, src, fell)
        return True


class Keeps(Program):
    high = Field(np.int64, merge="max")
    earlier = Field(np.int64, follows=high)

    @functor
    def offer(src, dst, edge, s):
        old = atomic.max(s.high, dst, s.id[src])  # OLD
        if old < s.id[src]:
            s.earlier[dst] = old
            return True
        return False

    loop = edges(offer)


class Passes(Counts):
    """True once another call, perhaps of another part, has offered less."""

    @functor
    def offer(src, dst, edge, s):
        return atomic.min(s.low, dst, s.id[src]) < 30  # OLD

    loop = advance(offer)


class PassesByBranch(Passes):
    @functor
    def offer(src, dst, edge, s):
        old = atomic.min(s.low, dst, s.id[src])  # OLD
        if old <= 30:  # noqa: SIM103
            return True
        return False


class EdgesThatWon(Program):
    low = Field(np.int64, merge="min")
    times = Field(np.int64, merge="sum")

    @functor
    def offer(src, dst, edge, s):
        return atomic.min(s.low, dst, 3) > 3  # OLD

    @functor
    def count(src, dst, edge, s):
        atomic.add(s.times, src, 1)

    loop = (advance(offer, emit="edges"), compute(count))


REFUSED = [
    Wins, WinsEarly, Exchanges, SaysWhoLost, Counts, CountsInOneLine, CountsByValue, Keeps,
    EdgesThatWon, Passes, PassesByBranch,
]  # fmt: skip


@pytest.mark.parametrize("device", SETS)
@pytest.mark.parametrize("program", REFUSED, ids=lambda p: p.__name__)
def test_old_values_of_vertices_that_others_own_are_refused(program, device):
    with pytest.raises(ProgramError) as caught:
        ev.run(program, GRAPH, device=device)
    name = "claim" if issubclass(program, Wins) else "offer"
    message, line = str(caught.value), _line(program, "# OLD")
    assert message.startswith(f"{program.__name__}.{name}, line {line}: uses what atomic.")
    assert message.endswith(("or use one device.", "with fields that follow."))


def test_one_device_knows_old_values():
    for device in ("python", "cpu:1", "cpu:2"):
        found = ev.run(Wins, GRAPH, device=device)
        reached = (found.owner >= 0).sum()
        assert found.wins.sum() == reached == (GRAPH.in_degrees > 0).sum()
    for program in REFUSED:
        ev.run(program, GRAPH, device="python")
        assert ev.lower(program, GRAPH, device="cpu:2").text


class Parents(Program):
    parent = Field(np.int64, fill=-1, merge="any")

    @functor
    def claim(src, dst, edge, s):
        return atomic.cas(s.parent, dst, -1, s.id[src]) == -1

    def start(self, root: Vertex):
        self.parent[root] = root
        return [root]

    loop = repeat(advance(claim))


class ParentsByBranch(Parents):
    @functor
    def claim(src, dst, edge, s):
        held = atomic.cas(s.parent, dst, -1, s.id[src])
        if held == -1:  # noqa: SIM103
            return True
        return False


class Reached(Program):
    depth = Field(np.int64, merge="min")
    parent = Field(np.int64, fill=-1, follows=depth)

    @functor
    def reach(src, dst, edge, s):
        hops = s.superstep + 1
        if atomic.min(s.depth, dst, hops) > hops:
            s.parent[dst] = s.id[src]
            return True
        return False

    def start(self, root: Vertex):
        self.depth[root] = 0
        self.parent[root] = root
        return [root]

    loop = repeat(advance(reach))


CASES = [(p, d) for p in (Parents, ParentsByBranch, Reached) for d in ("python", "cpu:2", *SETS)]
FEW = [
    *((program, device) for program, device in CASES if device in ("python", "python+python")),
    (Parents, "cpu:2"), (Parents, "cpu:1+python"), (ParentsByBranch, "cpu:1+cpu:1"),
]  # fmt: skip


@pytest.mark.parametrize("case", slow_but(CASES, *FEW), ids=lambda c: f"{c[0].__name__} {c[1]}")
def test_old_values_may_decide_the_frontier(case):
    program, device = case
    found = ev.run(program, GRAPH, root=0, device=device).parent
    depth = ev.bfs(GRAPH, 0, device="python").depth
    for v in np.flatnonzero(depth > 0):
        assert depth[found[v]] == depth[v] - 1
        assert v in GRAPH.indices[GRAPH.indptr[found[v]] : GRAPH.indptr[found[v] + 1]]
    assert (found[depth < 0] == -1).all()


def test_a_pull_has_all_edges_of_its_vertices():
    class WinsByPull(Wins):
        loop = advance(Wins.claim)

    one = ev.run(WinsByPull, GRAPH, device="python", direction="pull")
    both = ev.run(WinsByPull, GRAPH, device="python+python", direction="pull")
    assert one.wins.tolist() == both.wins.tolist()


def _line(program, mark):
    lines, first = inspect.getsourcelines(program)
    return first + next(i for i, text in enumerate(lines) if mark in text)
