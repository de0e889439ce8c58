"""Functors that ask others of their program: found by name, written out, told apart by scope."""

import math

import numpy as np
import pytest

import evener as ev
from evener.programs import Field, Param, Program, functor
from evener.programs.stages import compute, gather, repeat
from tables import slow_but

FACTOR = 3
DEVICES = ["python", "cpu:2", "python+python", "cpu:1+cpu:1", "cpu:1+python"]
GRAPH = ev.Graph.from_edges([0, 0, 1, 3], [1, 2, 2, 0])
on_devices = pytest.mark.parametrize("device", DEVICES)


class Scaled(Program):
    value = Field("float64", fill=1.0)
    shift = Param("float64", 0.5)

    @functor
    def scale(v, s):
        return FACTOR * s.degree[v]

    @functor
    def twice(vertex, state):
        return state.scale(vertex) + state.scale(vertex)

    @functor
    def shifted(v, by, s):
        return s.value[v] * s.twice(v) + by * s.shift

    @functor
    def work(v, s):
        other = v
        s.value[v] = s.shifted(other, 2)

    loop = compute(work, over="all")  # fmt: skip


class Flat(Scaled):
    @functor
    def scale(v, s):
        return math.floor(s.shift + 1.5)


@on_devices
@pytest.mark.parametrize(("program", "expected"), [
    (Scaled, [13.0, 7.0, 1.0, 7.0]), (Flat, [5.0, 5.0, 5.0, 5.0]),
])  # fmt: skip
def test_a_subclass_overrides_a_helper(program, expected, device):
    if program is Scaled or "+" not in device:
        assert ev.run(program, GRAPH, device=device).value.tolist() == expected
        for n in (0, 1):
            assert len(ev.run(program, ev.generate.path(n), device=device).value) == n
    if program is Flat:
        assert ev.run(program, GRAPH, device=device, check=True).value.tolist() == expected


def test_helpers_are_written_out():
    d = Flat.declaration
    assert set(d.functors) == {"work"}
    touched = d.accesses["work", "f"]
    assert {(one.field, one.place, one.kind) for one in touched.fields} == {
        ("value", "v", "read"), ("value", "v", "write")
    }  # fmt: skip
    assert touched.singles == {"shift"}
    assert touched.offered == frozenset()
    assert Scaled.declaration.accesses["work", "f"].offered == {"degree"}


@pytest.mark.parametrize("device", slow_but(DEVICES, "python", "cpu:2", "python+python"))
def test_names_mean_what_they_mean_to_the_helper(device):
    bonus = 100

    class Named(Scaled):
        @functor
        def scale(v, s):
            return max(bonus, FACTOR) + len((1, 2))

        @functor
        def work(v, s):
            bonus = FACTOR = 1  # noqa: F841 (the helper's are others)
            s.value[v] = s.scale(v) + bonus

    assert ev.run(Named, GRAPH, device=device).value.tolist() == [103.0] * 4


@pytest.mark.parametrize("device", slow_but(DEVICES, "python", "cpu:2", "cpu:1+python"))
def test_helpers_along_edges(device):
    class Sums(Program):
        total = Field("int64")

        @functor
        def nearer(a, b, s):
            return s.id[a] < s.id[b]

        @functor
        def offer(src, dst, edge, s):
            return s.id[src] if s.nearer(src, dst) else 0

        @functor
        def keep(v, total, s):
            s.total[v] = total
            return s.total[v] < 0

        loop = repeat(gather(offer, "sum", keep), max_supersteps=1)

    assert ev.run(Sums, GRAPH, device=device).total.tolist() == [0, 0, 1, 0]


def test_a_global_that_changes_is_seen(monkeypatch):
    graph = ev.generate.path(2)
    for factor in (3, 4):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert ev.run(Scaled, graph, device="cpu:1").value.tolist() == [1 + 2 * factor] * 2


def recursive():
    class Recursive(Scaled):
        @functor
        def scale(v, s):
            return s.twice(v)


def too_few():
    class TooFew(Scaled):
        @functor
        def work(v, s):
            s.value[v] = s.shifted(v)


def of_a_call():
    class OfACall(Scaled):
        @functor
        def work(v, s):
            s.value[v] = s.shifted(v, abs(s.shift))


def of_statements():
    class OfStatements(Scaled):
        @functor
        def scale(v, s):
            if s.degree[v] > 1:
                return 2
            return 1


def of_an_unknown_field():
    class OfAnUnknownField(Scaled):
        @functor
        def scale(v, s):
            return s.scales[v]


@pytest.mark.parametrize(("make", "says"), [
    (recursive, r"s\.twice calls itself"),
    (too_few, r"s\.shifted is called as s\.shifted\(v\); it is s\.shifted\(v, by\)"),
    (of_a_call, r"s\.shifted is called with the result of a call; assign that to a name first"),
    (of_statements, r"s\.scale is called, so its body must be one return of an expression"),
    (of_an_unknown_field, r"s\.scales is not declared"),
])  # fmt: skip
def test_mistakes(make, says):
    with pytest.raises(ev.ProgramError, match=rf"\w+\.work, line \d+: {says}"):
        make()


def test_bits_of_float32():
    """Writing out leaves the types: a helper of 32 bits stays one."""
    graph = ev.generate.rmat(6, 4, seed=1)
    ranks = [ev.pagerank(graph, dtype="float32", device=d).rank for d in ("cpu:1", "cpu:2")]
    assert ranks[0].dtype == np.float32
    assert ranks[0].tobytes() == ranks[1].tobytes()
