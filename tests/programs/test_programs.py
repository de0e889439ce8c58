"""Declarations of programs: what is collected and inferred, and every way to get one wrong."""

import numpy as np
import pytest

from evener.device import atomic
from evener.engine.job import set_up
from evener.engine.run import run
from evener.errors import GraphError, ProgramError
from evener.graph.csr import Graph
from evener.programs import VERTEX, Field, Param, Program, Scalar, Vertex, functor
from evener.programs.gas import GasProgram
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
from programs.made import accept, always, keep, make, nothing, one, with_fields

NO_GRAPH = Graph.from_edges([], [])


# ---- what is collected ----------------------------------------------------------------------


def test_declaration_collects_what_the_body_declares():
    @functor
    def lower(src, dst, edge, s):
        return atomic.min(s.low, dst, s.low[src] + 1) > s.low[src] + 1

    d = with_fields(lower).declaration
    assert list(d.fields)[:2] == ["low", "high"]
    assert (list(d.params), list(d.scalars)) == (["rate"], ["found"])
    found = {(a.field, a.place, a.kind) for a in d.accesses["lower", "f"].fields}
    assert found == {("low", "dst", "min"), ("low", "src", "read")}
    assert not d.uses_weights


def test_accesses_see_through_aliases_and_augmented_assignment():
    @functor
    def work(v, s):
        u = v
        s.mine[u] += s.other[u]

    found = with_fields(work, compute).declaration.accesses["work", "f"].fields
    assert {(a.field, a.place, a.kind) for a in found} == {
        ("mine", "v", "read"), ("mine", "v", "write"), ("other", "v", "read"),
    }  # fmt: skip


def test_offered_values_are_noted():
    @functor
    def weigh(src, dst, edge, s):
        return s.weight[edge] * s.rate > s.degree[src] + s.id[dst] + s.superstep + s.num_vertices

    d = with_fields(weigh).declaration
    found = d.accesses["weigh", "f"]
    assert found.offered == {"weight", "degree", "id", "superstep", "num_vertices"}
    assert found.singles == {"rate"}
    assert d.uses_weights
    with pytest.raises(GraphError, match="Made needs weights"):
        set_up(with_fields(weigh), NO_GRAPH, {})


def test_functors_may_be_closures():
    def program(step):
        class Stepped(Program):
            depth = Field(np.int64, merge="min")

            @functor
            def reach(src, dst, edge, s):
                return atomic.min(s.depth, dst, s.depth[src] + step) > s.depth[src] + step

            loop = repeat(advance(reach))

        return Stepped

    assert program(2).declaration.functors["reach"].function.__closure__ is not None
    assert ("reach", "f") in program(3).declaration.accesses


def test_subclass_overrides_a_functor_and_a_field():
    class Base(Program):
        value = Field(np.int64, merge="min")
        twin = Field(np.int64, merge="sum", follows=value)
        width = Param(np.float64, 1.0)

        @functor
        def visit(src, dst, edge, s):
            return s.value[src] > 0

        loop = repeat(advance(visit), order=nearest(value, width))

    class Derived(Base):
        value = Field(np.float64, merge="min")

        @functor
        def visit(src, dst, edge, s):
            return s.value[src] > s.weight[edge]

    assert Derived.declaration.loop == Base.declaration.loop
    assert Derived.declaration.fields["value"].dtype == np.float64
    assert Derived.declaration.uses_weights
    assert not Base.declaration.uses_weights


def test_an_abstract_base_is_not_checked():
    class Base(Program, abstract=True):
        pass

    with pytest.raises(ProgramError, match="Child has no loop"):
        type("Child", (Base,), {})


# ---- names, fields, parameters --------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["count", "graph", "weight", "superstep", "changed", "device", "direction", "to_x", "_x"],
)
def test_reserved_names(name):
    with pytest.raises(ProgramError, match=rf"Made\.{name}: that name is reserved"):
        make(advance(always), **{name: Field(np.int32)})
    with pytest.raises(ProgramError, match=rf"Made\.{name}: that name is reserved"):
        make(advance(always), **{name: Param(np.int32, 0)})


def test_name_that_is_declared_and_an_argument():
    def start(self, depth):
        return None

    with pytest.raises(ProgramError, match="both declared and an argument of start"):
        make(advance(always), depth=Field(np.int32), start=start)


def test_bad_fields():
    with pytest.raises(ProgramError, match="merges by 'product'"):
        Field(np.int32, merge="product")
    with pytest.raises(ProgramError, match="must be a field declared above it"):
        Field(np.int32, follows="depth")
    with pytest.raises(ProgramError, match="not a dtype"):
        Field("speed")
    with pytest.raises(ProgramError, match="32 or 64 bits"):
        Field(np.int8)
    with pytest.raises(ProgramError, match="a scalar merges by None"):
        Scalar(np.int32, None)
    with pytest.raises(ProgramError, match="they cannot be summed"):
        make(advance(always), f=Field(VERTEX, merge="sum"))


def test_rules_of_followers():
    low, total = Field(np.int32, merge="min"), Field(np.int32, merge="sum")
    with pytest.raises(ProgramError, match="follows a field that the program does not have"):
        make(advance(always), f=Field(np.int32, follows=low))
    with pytest.raises(ProgramError, match="must merge by 'min' or 'max'"):
        make(advance(always), total=total, f=Field(np.int32, follows=total))
    middle = Field(np.int32, merge="min", follows=low)
    with pytest.raises(ProgramError, match="which itself follows"):
        make(advance(always), low=low, middle=middle, f=Field(np.int32, follows=middle))
    with pytest.raises(ProgramError, match="both or neither must be replicated"):
        make(advance(always), low=low, f=Field(np.int32, follows=low, replicated=True))


# ---- stages and loops -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: advance(always, emit="paths"), "advance emits 'paths'"),
        (lambda: advance(always, idempotent=3), "idempotent is 3"),
        (lambda: advance(always, over="some"), "over is 'some'"),
        (lambda: advance(always.function), "takes a function marked @functor"),
        (lambda: gather(one, "product", accept), "gather combines by 'product'"),
        (lambda: edges(always, neighbours=(2, 1)), "it must be a slice"),
        (lambda: edges(always, neighbours=(-1, None)), "it must be a slice"),
        (lambda: reduce(keep, "sum", into="x"), "it must be a Scalar"),
        (lambda: reduce(keep, "sum", into=Scalar(np.int32, "max")), "merges by 'max'"),
        (lambda: repeat(), "repeat has no stages"),
        (lambda: repeat(always), "which is not a stage"),
        (lambda: repeat(advance(always), max_supersteps=-1), "cannot be negative"),
        (lambda: repeat(advance(always), order="nearest"), "must be nearest"),
        (lambda: backwards(), "backwards has no stages"),
        (lambda: nearest("depth", 1), "must be a Field"),
    ],
)
def test_bad_stages(build, message):
    with pytest.raises(ProgramError, match=message):
        build()


def test_bad_loops():
    value, width, found = Field(np.int32), Param(np.int32, 1), Scalar(np.int32, "max")
    with pytest.raises(ProgramError, match="has no loop"):
        make(())
    with pytest.raises(ProgramError, match="which is not a stage"):
        make((advance(always), 3))
    with pytest.raises(ProgramError, match="backwards needs a repeat with record=True"):
        make((repeat(advance(always)), backwards(compute(nothing))))
    with pytest.raises(ProgramError, match="nearest orders by something"):
        make(repeat(advance(always), order=nearest(value, 1)))
    with pytest.raises(ProgramError, match="nearest has as delta something"):
        make(repeat(advance(always), order=nearest(value, width)), value=value)
    for stage in (compute(nothing), advance(always, over="all")):
        with pytest.raises(ProgramError, match="take a frontier and make a new one"):
            make(repeat(stage, order=nearest(value, 1), max_supersteps=1), value=value)
    with pytest.raises(ProgramError, match="order= cannot take a frontier of edges"):
        make(repeat(advance(always, emit="edges"), order=nearest(value, 1)), value=value)
    with pytest.raises(ProgramError, match="max_supersteps is something"):
        make(repeat(advance(always), max_supersteps=width))
    with pytest.raises(ProgramError, match="reduce goes into something"):
        make(reduce(keep, "max", into=found))
    with pytest.raises(ProgramError, match="a repeat would never end"):
        make(repeat(compute(nothing), edges(always)))


def test_functor_that_the_program_does_not_have():
    class Other(Program):
        @functor
        def visit(src, dst, edge, s):
            return True

        loop = advance(visit)

    with pytest.raises(ProgramError, match="has no functor visit"):
        make(advance(Other.visit))


def test_what_can_take_a_frontier_of_edges():
    out = advance(always, emit="edges")
    found = Scalar(np.int32, "max")
    for stage in (gather(one, "sum", accept), reduce(keep, "max", into=found)):
        with pytest.raises(ProgramError, match="cannot take a frontier of edges"):
            make((out, stage), found=found)
    with pytest.raises(ProgramError, match="takes 2 arguments; as f it needs"):
        make((out, filter(keep)))
    with pytest.raises(ProgramError, match="takes vertices in the first superstep"):
        make(repeat(filter(keep), out))
    value = Field(np.int32)
    with pytest.raises(ProgramError, match="repeat with order= cannot take"):
        make((out, repeat(advance(always), order=nearest(value, 1))), value=value)
    loop = make((out, filter(always), compute(nothing, over="all"), advance(always)))
    assert [stage.on_edges for stage in loop.declaration.loop] == [False, True, False, False]


# ---- jobs -----------------------------------------------------------------------------------


class Sourced(Program):
    depth = Field(np.int32, merge="min")
    limit = Param(np.int32, 3)

    @functor
    def visit(src, dst, edge, s):
        return False

    def start(self, source: Vertex, more=None):
        self.depth[source] = 0
        return [source] if more is None else more

    loop = repeat(advance(visit), max_supersteps=limit)


LABELLED = Graph.from_edges([0, 1], [1, 2], labels=["a", "b", "c"])


def test_vertices_are_given_as_labels():
    assert set_up(Sourced, LABELLED, {"source": "b"}).frontier.tolist() == [1]
    job = set_up(Sourced, LABELLED, {"source": ["c", "a"], "limit": 7})
    assert job.frontier.tolist() == [0, 2]
    assert job.params == {"limit": 7}
    assert job.fields["depth"].tolist() == [0, 2**31 - 1, 0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Sourced needs source="),
        ({"source": "a", "depth": 3}, "has no parameter 'depth'; it takes source, more, limit"),
        ({"source": "a", "limit": "x"}, "limit is 'x'; expected int32"),
        ({"source": "a", "limit": 1.5}, "limit is 1.5; expected int32"),
        ({"source": "a", "more": [5]}, "a frontier with a vertex out of range"),
        ({"source": "a", "more": "abc"}, "Sourced.start returns 'abc'; it must return the indices"),
        ({"source": "a", "more": ["abc"]}, "start returns .'abc'.; it must return"),
        ({"source": "a", "more": [None]}, "start returns .None.; it must return"),
        ({"source": "a", "more": Sourced}, "start returns .*; it must return"),
        ({"source": "a", "more": 2**70}, "start returns 1180591620717411303424; it must return"),
        ({"source": "a", "more": ["a" * 90]}, "start returns a list; it must return"),
    ],
)
def test_wrong_parameters(given, message):
    with pytest.raises(ProgramError, match=message):
        set_up(Sourced, LABELLED, given)


@pytest.mark.parametrize("device", ["python", "cpu:1", "cpu:1+cpu:1"])
def test_errors_in_start_are_the_users_own(device):
    def start(self):
        self.depth[10**9] = 3

    made = make(advance(always), depth=Field(np.int32), start=start)
    with pytest.raises(ProgramError, match=r"\.start, line \d+: IndexError: index 1000000000 is"):
        run(made, LABELLED, device=device)


def test_start_must_not_replace_a_field():
    def start(self):
        self.depth = np.zeros(3)

    with pytest.raises(ProgramError, match=r"start replaces self\.depth"):
        set_up(make(advance(always), depth=Field(np.int32), start=start), LABELLED, {})


def test_only_programs_run():
    with pytest.raises(ProgramError, match="takes a subclass of Program"):
        set_up(Sourced(), LABELLED, {})
    for base in (Program, GasProgram):
        with pytest.raises(ProgramError, match=f"{base.__name__} is only a base of programs"):
            run(base, LABELLED, device="python")
