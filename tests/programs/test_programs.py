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

NO_GRAPH = Graph.from_edges([], [])


@functor
def always(src, dst, edge, s):
    return True


@functor
def keep(v, s):
    return True


@functor
def nothing(v, s):
    pass


@functor
def stop(s):
    return True


@functor
def one(src, dst, edge, s):
    return 1


@functor
def accept(v, total, s):
    return True


def make(loop, **members):
    """A program with these members, to which the functors above may belong."""
    known = {f.name: f for f in (always, keep, nothing, stop, one, accept)}
    return type(Program)("Made", (Program,), {**known, **members, "loop": loop})


def with_fields(f, stage=advance, **stage_options):
    """A program with fields of many kinds, whose loop is one stage with this functor."""
    low = Field(np.int32, merge="min")
    members = {
        "low": low,
        "high": Field(np.int32, merge="max"),
        "total": Field(np.float64, merge="sum"),
        "mine": Field(np.int64),
        "other": Field(np.int64),
        "follower": Field(VERTEX, fill=-1, follows=low),
        "shared": Field(VERTEX, merge="min", replicated=True),
        "rate": Param(np.float64, 0.5),
        "found": Scalar(np.int64, "max"),
        f.name: f,
    }
    return make((stage(f, **stage_options),), **members)


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


# ---- functors -------------------------------------------------------------------------------


def refused(f, message, stage=advance, **options):
    with pytest.raises(ProgramError, match=message):
        with_fields(f, stage, **options)


def test_unknown_field():
    @functor
    def f(src, dst, edge, s):
        return s.depht[dst] > 0

    refused(f, r"Made\.f, line \d+: s\.depht is not declared; the program declares low, high")


def test_unknown_single():
    @functor
    def f(v, s):
        return s.dampning > 0

    refused(f, r"s\.dampning is not declared", filter)


def test_the_line_is_that_of_the_mistake():
    @functor
    def f(v, s):
        a = 1
        return s.nothing[v] + a

    refused(f, rf"line {f.line + 3}:", filter)


@pytest.mark.parametrize(
    ("stage", "wanted"),
    [(advance, "src, dst, edge, s"), (edges, "src, dst, edge, s"), (filter, "v, s")],
)
def test_wrong_arity(stage, wanted):
    @functor
    def f(a, b, s):
        return True

    refused(f, rf"takes 3 arguments; as f it needs \({wanted}\)", stage)


def test_wrong_arity_of_where_and_until():
    with pytest.raises(ProgramError, match=r"as where it needs \(dst, s\)"):
        make(advance(always, where=always))
    with pytest.raises(ProgramError, match=r"as until it needs \(s\)"):
        make(repeat(advance(always), until=keep))


def test_missing_return():
    @functor
    def f(src, dst, edge, s):
        if s.low[src] > 0:
            return True

    refused(f, "may end without returning a value")


def test_return_without_a_value():
    @functor
    def f(v, s):
        if s.low[v] > 0:
            return True
        return  # noqa: RET502

    refused(f, "may end without returning a value", filter)


def test_a_loop_with_a_break_does_not_always_return():
    @functor
    def f(v, s):
        while True:
            if s.low[v] > 0:
                break
            return True

    refused(f, "may end without returning a value", filter)


def test_every_way_may_return():
    @functor
    def f(v, s):
        while True:
            if s.low[v] > 0:
                return s.high[v] > 0
            else:  # noqa: RET505
                return s.high[v] < 0

    assert with_fields(f, filter)


def test_atomic_against_the_merge():
    @functor
    def f(src, dst, edge, s):
        return atomic.max(s.low, dst, 1) > 0

    refused(f, r"atomic\.max on low, which merges by 'min'")


def test_atomic_of_something_else():
    @functor
    def f(src, dst, edge, s):
        return atomic.min(s, dst, 1) > 0

    refused(f, r"atomic\.min takes a field of s, a vertex and a value")


def test_state_escapes():
    @functor
    def f(v, s):
        t = s
        return t is None

    refused(f, r"s can only be used as s\.name", filter)


def test_state_is_assigned_to():
    @functor
    def f(v, s):
        s.rate = 3.0

    refused(f, r"assigns to s\.rate", compute)


def test_field_without_index():
    @functor
    def f(v, s):
        return len(s.low) > 0

    refused(f, r"s\.low must be indexed", filter)


def test_field_with_a_slice():
    @functor
    def f(v, s):
        return s.low[0:2] is None

    refused(f, r"s\.low takes one vertex at a time", filter)


def test_edge_misused():
    @functor
    def f(src, dst, edge, s):
        return edge > 3

    @functor
    def g(src, dst, edge, s):
        return s.weight[src] > 3

    @functor
    def h(src, dst, edge, s):
        s.weight[edge] = 1
        return True

    refused(f, r"edge can only be used as s\.weight\[edge\]")
    refused(g, r"s\.weight can only be read, at the edge of the call")
    refused(h, r"s\.weight can only be read, at the edge of the call")


def test_vertex_as_a_number():
    @functor
    def f(src, dst, edge, s):
        return atomic.min(s.low, dst, src) > src

    refused(f, r"the index of the vertex is s\.id\[src\]")


def test_vertices_may_be_compared_with_each_other():
    @functor
    def f(src, dst, edge, s):
        return src != dst

    assert with_fields(f)


def test_ghost_written_without_a_merge():
    @functor
    def f(src, dst, edge, s):
        s.mine[dst] = 1
        return True

    refused(f, "writes mine of a vertex that another device may own, but mine has no merge")


def test_follower_may_be_written_without_a_merge():
    @functor
    def f(src, dst, edge, s):
        s.follower[dst] = s.id[src]
        return True

    assert with_fields(f)


def test_sum_is_only_added_to():
    @functor
    def f(src, dst, edge, s):
        s.total[dst] += 1.0
        return True

    refused(f, r"as total merges by 'sum', only atomic\.add can")


def test_index_not_replicated():
    @functor
    def f(v, s):
        s.mine[v] = s.mine[s.shared[v]]

    refused(f, "declare mine with replicated=True", compute)


def test_replicated_fields_take_any_index():
    @functor
    def f(v, s):
        s.shared[v] = s.shared[s.shared[v]]

    assert with_fields(f, compute)


@pytest.mark.parametrize("role", ["where", "gather", "reduce", "until"])
def test_some_functors_only_read(role):
    @functor
    def where(dst, s):
        return atomic.min(s.low, dst, 0) > 0

    @functor
    def total(src, dst, edge, s):
        return atomic.min(s.low, dst, 0)

    @functor
    def value(v, s):
        return atomic.min(s.low, v, 0)

    @functor
    def until(s):
        return atomic.min(s.low, 0, 0) > 0

    low, found = Field(np.int64, merge="min", replicated=True), Scalar(np.int64, "max")
    loop = {
        "where": advance(always, where=where),
        "gather": gather(total, "min", accept),
        "reduce": reduce(value, "max", into=found),
        "until": repeat(compute(nothing), until=until),
    }[role]
    members = {f.name: f for f in (where, total, value, until)}
    with pytest.raises(ProgramError, match=f"writes low, but as {role} it only reads"):
        make(loop, low=low, found=found, **members)


def test_writing_what_is_offered():
    @functor
    def f(v, s):
        s.degree[v] = 1

    refused(f, r"writes to s\.degree", compute)


def test_assigning_to_an_argument():
    @functor
    def f(v, s):
        v = 3  # noqa: F841

    refused(f, "assigns to its argument v", compute)


def test_function_inside():
    @functor
    def f(v, s):
        return (lambda: True)()

    refused(f, "defines a function inside", filter)


def test_text_that_cannot_be_found():
    scope = {"functor": functor}
    exec("@functor\ndef f(v, s):\n    return True\n", scope)
    refused(scope["f"], "its text cannot be found", filter)


def test_functor_of_something_else():
    with pytest.raises(ProgramError, match="takes a plain function"):
        functor(3)
    assert functor(staticmethod(lambda v, s: True)).parameters == ("v", "s")


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
    with pytest.raises(ProgramError, match="no dtype"):
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
        with pytest.raises(ProgramError, match="takes a frontier and makes a new one"):
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
    assert [getattr(stage, "on_edges", None) for stage in loop.declaration.loop] == [
        None, True, False, None,
    ]  # fmt: skip


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
