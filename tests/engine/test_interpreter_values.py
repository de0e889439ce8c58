"""The interpreted device: scalars, the width of numbers, and mistakes in functors."""

import math

import numpy as np
import pytest

import evener as ev
from comparing import interpreted
from evener.errors import ProgramError
from evener.graph.csr import Graph
from evener.programs import Field, Param, Program, Scalar, functor
from evener.programs.stages import (
    advance,
    compute,
    gather,
    reduce,
)

# ---- scalars, values offered ----------------------------------------------------------------


def test_scalars():
    class Scalars(Program):
        low = Scalar(np.int32, "min")
        high = Scalar(np.float64, "max")
        flag = Scalar(np.bool_, "any")
        never = Scalar(np.int64, "sum")
        earlier = Field(np.float64)
        after = Field(np.float64)

        @functor
        def value(v, s):
            return s.id[v] + 3

        @functor
        def is_two(v, s):
            return s.id[v] == 2

        @functor
        def note_earlier(v, s):
            s.earlier[v] = s.low + s.never

        @functor
        def note_after(v, s):
            s.after[v] = s.low + s.high

        loop = (
            compute(note_earlier),
            reduce(value, "min", into=low),
            reduce(value, "max", into=high),
            reduce(is_two, "any", into=flag),
            compute(note_after),
        )

    job = interpreted(Scalars, ev.generate.path(4))
    assert job.fields["earlier"].tolist() == [2**31 - 1] * 4
    assert job.fields["after"].tolist() == [9] * 4
    assert job.scalars == {"low": 3, "high": 6, "flag": True, "never": 0}
    assert job.scalars["low"].dtype == np.int32
    assert interpreted(Scalars, Graph.from_edges([], [])).scalars["high"] == -math.inf


def test_numbers_have_the_width_of_compiled_code():
    class Wide(Program):
        small = Field(np.int32, fill=3)
        table = Field(np.int32, fill=1, merge="max", replicated=True)
        flag = Field(np.bool_, fill=True)
        factor = Param(np.int32, 70_000)
        shifted = Field(np.int64)
        wrapped = Field(np.int64)
        cubed = Field(np.int64)
        counted = Field(np.int64)
        cut = Field(np.int32)

        @functor
        def compute_(v, s):
            s.shifted[v] = (s.small[v] << 32) + (s.table[v] << 33)
            s.wrapped[v] = (s.id[v] + 1) * 9223372036854775807
            s.cubed[v] = s.factor * s.factor * s.factor
            s.counted[v] = s.flag[v] + s.flag[v]
            s.cut[v] = (1 << 32) + s.degree[v]

        loop = compute(compute_)

    graph = ev.generate.path(3)
    wanted = {
        "shifted": [5 << 32] * 3, "wrapped": [2**63 - 1, -2, 2**63 - 3],
        "cubed": [70_000**3] * 3, "counted": [2] * 3, "cut": [1, 2, 1],
    }  # fmt: skip
    for device in ("python", "python+python", "cpu:1"):
        found = ev.run(Wide, graph, device=device)
        for name, values in wanted.items():
            assert getattr(found, name).tolist() == values, (device, name)


NARROW = np.array([1 << 30, -7], np.int32)


def test_tables_around_a_functor_have_the_width_of_compiled_code():
    bytes_ = np.array([200, 100], np.uint8)

    class Tables(Program):
        squared = Field(np.int64)
        negative = Field(np.int64)
        total = Scalar(np.int32, "sum")

        @functor
        def compute_(v, s):
            s.squared[v] = NARROW[0] * NARROW[0]
            s.negative[v] = bytes_[1] - bytes_[0] * 2

        @functor
        def value(v, s):
            return 1 << 30

        loop = (compute(compute_), reduce(value, "sum", into=total))

    for device in ("python", "python+python", "cpu:1"):
        found = ev.run(Tables, ev.generate.path(6), device=device)
        assert found.squared.tolist() == [1 << 60] * 6
        assert found.negative.tolist() == [-300] * 6
        assert found.total == -(1 << 31), device  # six times 2**30 wrap round


@pytest.mark.parametrize("ends", [([1, 3], [2, 1]), ([], [])], ids=["some edges", "no edges"])
def test_a_vertex_without_edges_gathers_what_changes_nothing(ends):
    class Least(Program):
        value = Field(np.int32, fill=5)
        least = Field(np.int64)
        most = Field(np.float64)

        @functor
        def offer(src, dst, edge, s):
            return s.value[src]

        @functor
        def share(src, dst, edge, s):
            return s.value[src] / 2

        @functor
        def take(v, total, s):
            s.least[v] = total
            return True

        @functor
        def take_most(v, total, s):
            s.most[v] = total
            return True

        loop = (gather(offer, "min", take), gather(share, "max", take_most))

    graph = Graph.from_edges(*ends, num_vertices=4)
    has_edge = graph.in_degrees > 0
    for device in ("python", "python+python", "cpu:1"):
        found = ev.run(Least, graph, device=device)
        assert found.least.tolist() == np.where(has_edge, 5, 2**63 - 1).tolist(), device
        assert found.most.tolist() == np.where(has_edge, 2.5, -np.inf).tolist(), device


# ---- errors ---------------------------------------------------------------------------------


def failing(body):
    class Failing(Program):
        value = Field(np.int32)
        visit = functor(body)
        loop = advance(visit)

    return Failing


def test_errors_in_functors_name_the_line():
    def visit(src, dst, edge, s):
        x = s.id[src]
        return math.log(-1 - x) > 0

    with pytest.raises(ProgramError, match=r"Failing\.visit, line (\d+): ValueError") as caught:
        interpreted(failing(visit), ev.generate.path(4))
    assert isinstance(caught.value.__cause__, ValueError)
    assert f"line {visit.__code__.co_firstlineno + 2}:" in str(caught.value)


def test_none_from_a_functor():
    def nothing():
        return None

    def visit(src, dst, edge, s):
        return nothing()

    with pytest.raises(ProgramError, match=r"Failing\.visit, line \d+: returned None"):
        interpreted(failing(visit), ev.generate.path(4))


def test_interrupt_passes():
    def stop():
        raise KeyboardInterrupt

    def visit(src, dst, edge, s):
        return stop()

    with pytest.raises(KeyboardInterrupt):
        interpreted(failing(visit), ev.generate.path(4))
