"""What only goes wrong where several threads or devices are at one vertex is told beforehand."""

import ast
import inspect
import textwrap

import numpy as np
import pytest

import evener as ev
from evener.device import atomic
from evener.errors import ProgramError
from evener.programs import WEIGHT, Field, Program, Vertex, functor
from evener.programs.dependence import Dependence
from evener.programs.stages import advance, compute, edges, gather, repeat
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
    (Reached, "cpu:2"),
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


# ---- plain writes that lose updates -------------------------------------------------------


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
    (_adds_by_way_of_names, "writes s.size[here] by what it held before"),
    (_adds_by_way_of_another_field, "writes s.more[dst] by what it held before"),
    (_adds_to_what_an_atomic_returned, "use atomic.max(s.high, dst, …)."),
    (_claims_another_vertex, "use atomic.add(s.visits, dst, 1), and merge='sum'."),
    (_looks_and_writes_any, "and the merge that goes with it."),
    (_looks_at_the_beginning, "use atomic.max(s.width, dst, offer)."),
    (_adds_to_the_beginning, "writes s.total[dst] by what it held before"),
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

    found = ev.run(Fine, GRAPH, device="cpu:2")
    assert (found.total >= found.graph.in_degrees).all()


# ---- arguments ----------------------------------------------------------------------------


def test_arguments_in_another_order(tmp_path):
    wanted = {
        "edges(f)": "(src, dst, edge, s)", "advance(f)": "(src, dst, edge, s)",
        "compute(f)": "(v, s)", "filter(f)": "(v, s)", "advance(g, where=f)": "(dst, s)",
        "edges(g, where=f)": "(src, s)", 'gather(g, "sum", f)': "(v, total, s)",
        'gather(f, "sum", h, sees_dst=False)': "(src, edge, s)",
        'gather(g, f, h)': "(a, b)",
    }  # fmt: skip
    wrong = {
        "edges(f)": [
            "self, src, dst, edge", "dst, src, edge, s", "s, src, dst, edge", "src, edge, dst, s",
            "src, dst, s, edge", "u, src, edge, s", "src, dst, edge", "self, src, dst, edge, s",
            "edge, v, e, s", "u, w, v, s",
        ],
        "advance(f)": ["self, src, dst, edge"],
        "compute(f)": ["s, v", "self, v", "v, edge", "self, s"],
        "filter(f)": ["s, v", "total, s"],
        "advance(g, where=f)": ["src, s", "s, dst"],
        "edges(g, where=f)": ["dst, s"],
        'gather(g, "sum", f)': ["total, v, s", "v, s, total", "self, v, total"],
        'gather(f, "sum", h, sees_dst=False)': ["dst, edge, s", "edge, src, s"],
        'gather(g, f, h)': ["self, a"],
    }  # fmt: skip
    right = {
        "edges(f)": ["u, v, e, s", "a, b, edge, state", "v, w, e, state", "u, dst, e, s"],
        "compute(f)": ["u, s", "dst, s", "src, state"],
        "advance(g, where=f)": ["v, s", "u, s"],
        "edges(g, where=f)": ["v, s"],
        'gather(g, "sum", f)': ["v, value, s", "dst, total, s"],
        'gather(g, f, h)': ["total, value", "x, y", "b, a"],
    }  # fmt: skip
    for stage, cases in wrong.items():
        for i, arguments in enumerate(cases):
            with pytest.raises(ProgramError) as caught:
                _declare(tmp_path, f"wrong_{list(wrong).index(stage)}_{i}", stage, arguments)
            message = str(caught.value)
            assert message.startswith("Own.f, line 7: takes "), arguments
            assert f" it needs {wanted[stage]}" in message, arguments
    for stage, cases in right.items():
        for i, arguments in enumerate(cases):
            _declare(tmp_path, f"right_{list(right).index(stage)}_{i}", stage, arguments)


def _declare(folder, name, stage, arguments):
    text = f"""
        import evener as ev
        from evener.stages import advance, compute, edges, filter, gather

        class Own(ev.Program):
            found = ev.Field("int64")
            @ev.functor
            def f({arguments}):
                return True
            @ev.functor
            def g(src, dst, edge, s):
                return True
            @ev.functor
            def h(v, total, s):
                return True
            loop = {stage}
        """
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(text))
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": name})


# ---- dependence ---------------------------------------------------------------------------

DEPENDS = [
    ("y = x", "y"), ("y = 1", ""), ("y = z = x + 1", "y z"), ("if x: y = 1", "y"),
    ("y = 1 if x else 2", "y"), ("while x: y = 1", "y"), ("for y in range(x): z = 1", "y z"),
    ("if x: return 1\ny = 1", "y"), ("if a:\n  if x: return 1\ny = 1", "y"),
    ("if x: z = 1\ny = 1", "z"), ("for i in a:\n  y = 1\n  if x: break\nz = 1", "i y"),
    ("for i in a:\n  if x: return 1\nz = 1", "i z"), ("y = (w := x)", "w y"),
    ("y = z\nz = x", "y z"), ("y += x", "y"), ("a and (y := 1)", ""), ("x and (y := 1)", "y"),
    ("with a:\n  if x: y = 1", "y"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "names"), DEPENDS)
def test_what_depends(text, names):
    definition = ast.parse("def f(x, a):\n" + textwrap.indent(text, "    ")).body[0]
    found = Dependence(definition, lambda node: getattr(node, "id", None) == "x")
    assert found.names - {"i"} == set(names.split()) - {"i"}


def _line(program, mark):
    lines, first = inspect.getsourcelines(program)
    return first + next(i for i, text in enumerate(lines) if mark in text)
