"""Mistakes of programs are told in one sentence with the program, the functor and the line.

Those that only a compiler finds, and those in the body of a class, which does not exist yet.
"""

import numpy as np
import pytest
from numpy import float64, int32, int64

import evener as ev
from evener import progress
from evener.engine.run import run
from evener.errors import DeviceError, ProgramError
from evener.programs import Field, Program, Scalar, functor
from evener.programs.stages import advance, compute, filter, gather, reduce, repeat

GRAPH = ev.generate.path(5)


class AddsText(Program):
    low = Field(int32, merge="min")

    @functor
    def visit(src, dst, edge, s):
        return s.low[src] + "text"  # MISTAKE

    loop = repeat(advance(visit), max_supersteps=2)


class ReturnsText(Program):
    low = Field(int32, merge="min")

    @functor  # MISTAKE
    def visit(src, dst, edge, s):
        return "yes"

    loop = repeat(advance(visit), max_supersteps=2)


class SometimesNothing(Program):
    low = Field(int32, merge="min")

    @functor  # MISTAKE
    def kept(v, s):
        if s.low[v] > 3:
            return None
        return True

    loop = repeat(filter(kept), max_supersteps=2)


class UnknownName(Program):
    low = Field(int32, merge="min")

    @functor
    def kept(v, s):
        return no_such_function(s.low[v])  # noqa: F821  # MISTAKE

    loop = repeat(filter(kept), max_supersteps=2)


class NoSuchAttribute(Program):
    low = Field(int32, merge="min")

    @functor
    def touch(v, s):
        three = 3
        s.low[v] = three.size  # MISTAKE

    loop = compute(touch)


class GathersPairs(Program):
    low = Field(int32, merge="min")

    @functor  # MISTAKE
    def pair(src, dst, edge, s):
        return s.low[src], 1

    @functor
    def keep(v, total, s):
        return True

    loop = repeat(gather(pair, "sum", keep), max_supersteps=2)


class CombinesBadly(Program):
    low = Field(int32, merge="min")

    @functor
    def value(src, dst, edge, s):
        return s.low[src]

    @functor
    def either(a, b):
        return a if a > b else "b"  # MISTAKE

    @functor
    def keep(v, total, s):
        return True

    loop = repeat(gather(value, either, keep), max_supersteps=2)


class AppliesBadly(Program):
    low = Field(int32, merge="min")

    @functor
    def value(src, dst, edge, s):
        return s.low[src]

    @functor
    def keep(v, total, s):
        return total + "text"  # MISTAKE

    loop = repeat(gather(value, "sum", keep), max_supersteps=2)


class UntilText(Program):
    low = Field(int32, merge="min")

    @functor
    def touch(v, s):
        s.low[v] = 1

    @functor  # MISTAKE
    def done(s):
        return "done"

    loop = repeat(compute(touch), until=done)


MISTAKES = [
    (AddsText, "visit", "add"), (ReturnsText, "visit", "returns a string; as f it must return True"),
    (SometimesNothing, "kept", "sometimes nothing"), (UnknownName, "kept", "no_such_function"),
    (NoSuchAttribute, "touch", "Unknown attribute 'size'"), (GathersPairs, "pair", "a number"),
    (CombinesBadly, "either", "Cannot unify"), (AppliesBadly, "keep", "add"),
    (UntilText, "done", "returns a string; as until"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "name", "says"), MISTAKES, ids=[case[0].__name__ for case in MISTAKES]
)
def test_mistakes(program, name, says):
    with pytest.raises(ProgramError) as caught:
        run(program, GRAPH, device="cpu:2")
    message = str(caught.value)
    assert message.startswith(f"{program.__name__}.{name}, line {_line(program)} of {_FILE}: ")
    assert says in message
    assert "\n" not in message
    assert "Failed in nopython" not in message


_FILE = "test_mistakes.py"


def _line(program):
    """The line of a program that holds its mistake."""
    return _line_after(f"class {program.__name__}(Program):")


def _line_after(beginning):
    with open(__file__, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    begins = next(i for i, line in enumerate(lines) if line.startswith(beginning))
    return next(i + 1 for i in range(begins, len(lines)) if "# MISTAKE" in lines[i])


def _unknown_merge():
    class Merges(Program):
        low = Field(
            int32,
            fill=3,
        )
        high = Field(int32, merge="product")  # MISTAKE


def _unknown_merge_of_a_scalar():
    class Adds(Program):
        total = Scalar(int32, "product")  # MISTAKE


def _plain_function():
    class Unmarked(Program):
        def visit(src, dst, edge, s):
            return True

        loop = repeat(
            advance(visit),  # MISTAKE
        )


def _combined_by_a_model():
    class Sum(ev.gas.GasProgram):  # MISTAKE
        combine = "product"

        @functor
        def gather(src, dst, edge, s):
            return 1

        @functor
        def apply(v, total, s):
            return True


DECLARED = [
    (_unknown_merge, "Merges(Program)", "a field merges by 'product'; it must be one of"),
    (_unknown_merge_of_a_scalar, "Adds(Program)", "a scalar merges by 'product'"),
    (_plain_function, "Unmarked(Program)", "a stage was given the plain function visit; it takes"),
    (_combined_by_a_model, "Sum(ev.gas.GasProgram)", "gather combines by 'product'"),
]


@pytest.mark.parametrize(("declare", "head", "says"), DECLARED)
def test_mistakes_in_a_body_name_the_program_and_the_line(declare, head, says):
    with pytest.raises(ProgramError) as caught:
        declare()
    place = f"{head.partition('(')[0]}, line {_line_after(f'class {head}:')} of {_FILE}: "
    assert str(caught.value).startswith(place + says)


def test_mistakes_outside_a_body_name_the_line():
    with pytest.raises(ProgramError, match=rf"^line \d+ of {_FILE}: a field merges by 'product'"):
        Field(int32, merge="product")


def test_functors_that_raise_run_where_they_can_be_caught():
    class Asserts(Program):
        low = Field(int32, merge="min")

        @functor
        def touch(v, s):
            assert s.low[v] > 0
            s.low[v] = 1

        loop = compute(touch)

    with pytest.raises(
        DeviceError, match=r"Asserts.touch, line \d+ of .*: raises or asserts, which only"
    ):
        run(Asserts, GRAPH, device="cpu")
    assert run(Asserts, GRAPH).low.tolist() == [1] * 5  # auto: the interpreter does it


class Sums(Program):
    value = Field(float64, fill=2.0)
    total = Scalar(float64, "sum")
    most = Scalar(int64, "max")
    never = Scalar(int32, "min")

    @functor
    def value_of(v, s):
        return s.value[v]

    @functor
    def index_of(v, s):
        return s.id[v]

    @functor
    def smaller(v, s):
        return s.degree[v] > 100

    loop = (
        reduce(value_of, "sum", into=total),
        reduce(index_of, "max", into=most),
        filter(smaller),
        repeat(filter(smaller), reduce(index_of, "min", into=never)),
    )


@pytest.mark.parametrize("device", ["python", "python+python", "cpu:1", "cpu:2"])
def test_scalars_are_in_the_result(device):
    found = run(Sums, GRAPH, device=device)
    assert (found.total, found.most, found.never) == (10.0, 4, 2**31 - 1)
    assert type(found.total) is float
    assert "total" in dir(found)
    empty = run(Sums, ev.Graph.from_edges([], []), device=device)
    assert (empty.total, empty.most) == (0.0, np.iinfo(np.int64).min)


def test_compiling_is_said_once(tmp_path, monkeypatch):
    class Once(Program):
        value = Field(int64)

        @functor
        def touch(v, s):
            s.value[v] = s.id[v] + 41

        loop = compute(touch)

    monkeypatch.setenv("EVENER_CACHE", str(tmp_path))
    labels = []
    told = progress.task
    monkeypatch.setattr(progress, "task", lambda label: labels.append(label) or told(label))
    first, second = run(Once, GRAPH, device="cpu:2"), run(Once, GRAPH, device="cpu:2")
    assert labels == ["running Once", "compiling Once for cpu", "running Once"]
    assert (first.stats["from_cache"], second.stats["from_cache"]) == (False, True)
