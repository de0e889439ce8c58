"""Functors: every way to get one wrong, their arguments, and what in them depends on what."""

import ast
import textwrap

import numpy as np
import pytest

from evener.device import atomic
from evener.errors import ProgramError
from evener.programs import Field, Scalar, functor
from evener.programs.dependence import Dependence
from evener.programs.stages import (
    advance,
    compute,
    edges,
    filter,
    gather,
    reduce,
    repeat,
)
from programs.made import accept, always, keep, make, nothing, with_fields

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

    refused(f, r"since total merges by 'sum', use atomic\.add")


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
    with pytest.raises(
        ProgramError, match=f"writes low, but a functor used as {role} may only read"
    ):
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
    refused(scope["f"], "its source cannot be found", filter)


def test_functor_of_something_else():
    with pytest.raises(ProgramError, match="takes a plain function"):
        functor(3)
    assert functor(staticmethod(lambda v, s: True)).parameters == ("v", "s")


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
