"""What in a functor needs Python is refused by compiled devices, and done by the interpreter."""

import ctypes
import random
import sys
import time
import warnings

import numba
import numpy as np
import polars
import pytest

import evener as ev
from evener.errors import DeviceError, EvenerError, ProgramError
from evener.programs import Field, Param, Program, Scalar, functor
from evener.programs.stages import compute, reduce

GRAPH = ev.generate.path(4)
DEVICES = ["cpu:1", "cpu:2", "cpu:1+cpu:1", "cpu:1+python"]


def plain(x):
    return x + 1


@numba.njit
def telling(x):
    print(x)
    return x


@numba.njit
def in_python(x):
    with numba.objmode(y="int64"):
        y = x + 1
    return y  # noqa: RET504


@numba.njit
def compiled_helper(x):
    return x + 1


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(plain)


class Prints(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        s.found[v] = s.id[v]
        print("at", s.id[v])  # HERE

    loop = compute(touch)


class CallsOneThatPrints(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        s.found[v] = telling(s.id[v])  # HERE

    loop = compute(touch)


class GoesBack(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        with numba.objmode(y="int64"):  # HERE
            y = s.id[v] + 1
        s.found[v] = y

    loop = compute(touch)


class CallsOneThatGoesBack(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        s.found[v] = in_python(s.id[v])  # HERE

    loop = compute(touch)


class CallsBack(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        s.found[v] = CALLBACK(s.id[v])  # HERE

    loop = compute(touch)


class Asks(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        s.found[v] = int(input("? "))  # HERE

    loop = compute(touch)


class Opens(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        s.found[v] = len(open("numbers").read())  # HERE # noqa: SIM115

    loop = compute(touch)


class Asserts(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        assert s.id[v] >= 0, f"vertex {s.id[v]}"  # HERE

    loop = compute(touch)


class Warns(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        warnings.warn("look out")  # HERE # noqa: B028

    loop = compute(touch)


class Times(Program):
    found = Field(np.float64)

    @functor
    def touch(v, s):
        s.found[v] = time.perf_counter()  # HERE

    loop = compute(touch)


class Writes(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        sys.stdout.write("at")  # HERE

    loop = compute(touch)


class CallsAPlainHelper(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        s.found[v] = plain(s.id[v])  # HERE

    loop = compute(touch)


class CallsACompiledHelper(Program):
    found = Field(np.int64)

    @functor
    def touch(v, s):
        s.found[v] = compiled_helper(s.id[v])

    loop = compute(touch)


REFUSED = [
    (Prints, "calls print, which only device='python' does."),
    (CallsOneThatPrints, "calls telling, which calls print, which only"),
    (GoesBack, "has a block of numba.objmode, which only"),
    (CallsOneThatGoesBack, "calls in_python, which has a block of numba.objmode, which only"),
    (CallsBack, "calls CALLBACK, a Python function, which only"),
    (Asks, "calls input, which only"),
    (Opens, "calls open, which only"),
    (Asserts, "raises or asserts, which only"),
    (Warns, "uses warnings.warn, which cannot be compiled; use device='python'."),
    (Times, "uses time.perf_counter, which cannot be compiled; use device='python'."),
    (Writes, "uses sys.stdout, which cannot be compiled; use device='python'."),
    (CallsAPlainHelper, "calls plain, a plain Python function; mark it with @numba.njit."),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("program", "says"), REFUSED, ids=[p.__name__ for p, _ in REFUSED])
def test_compiled_devices_say_what_and_where(program, says, device):
    with pytest.raises(EvenerError) as caught:
        ev.run(program, GRAPH, device=device)
    message = str(caught.value)
    place = f"{program.__name__}.touch, line {_line(program)} of test_python_calls.py: "
    assert message.startswith(place + says)
    assert "\n" not in message


def _line(program):
    with open(__file__, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    begins = lines.index(f"class {program.__name__}(Program):")
    return next(i + 1 for i in range(begins, len(lines)) if "# HERE" in lines[i])


@pytest.mark.parametrize("device", ["python", "python+python", "auto"])
def test_the_interpreter_prints(device, capsys):
    if device == "auto":  # nobody asked for a compiled device
        found = ev.run(Prints, GRAPH)
        assert "calls print" in str(found.explain())
    else:
        found = ev.run(Prints, GRAPH, device=device)
    assert found.found.tolist() == [0, 1, 2, 3]
    assert sorted(capsys.readouterr().out.split()) == sorted(["at"] * 4 + ["0", "1", "2", "3"])


@pytest.mark.parametrize("device", ["python", *DEVICES])
def test_helpers_that_are_compiled(device):
    assert ev.run(CallsACompiledHelper, GRAPH, device=device).found.tolist() == [1, 2, 3, 4]
    if device == "python":
        assert ev.run(CallsAPlainHelper, GRAPH, device=device).found.tolist() == [1, 2, 3, 4]


def test_the_kernel_of_a_gpu_is_not_written_either():
    from evener.engine.codegen.print_gpu import lower_gpu
    from evener.engine.job import set_up

    with pytest.raises(DeviceError, match=r"Prints.touch, line \d+ of .*: calls print, which only"):
        lower_gpu(set_up(Prints, GRAPH, {}), "auto", tuple)


def _indexed_param():
    class Damped(Program):
        found = Field(np.int64)
        damping = Param(np.float64, 0.5)

        @functor
        def touch(v, s):
            s.found[v] = s.damping[v]

        loop = compute(touch)


def _indexed_scalar():
    class Damped(Program):
        most = Scalar(np.int64, "max")

        @functor
        def touch(v, s):
            return s.most[v]

        loop = reduce(touch, "max", into=most)


def _indexed_number():
    class Damped(Program):
        found = Field(np.int64)

        @functor
        def touch(v, s):
            s.found[v] = s.superstep[v]

        loop = compute(touch)


@pytest.mark.parametrize(
    ("declare", "name"),
    [(_indexed_param, "damping"), (_indexed_scalar, "most"), (_indexed_number, "superstep")],
)
def test_what_is_one_value_is_not_indexed(declare, name):
    line = declare.__code__.co_firstlineno + (7 if name == "damping" else 6)
    with pytest.raises(ProgramError) as caught:
        declare()
    assert str(caught.value) == (
        f"Damped.touch, line {line}: s.{name} is one value for all vertices; write s.{name} "
        "without [ ]."
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (np.ones(3), "an array of shape (3,)"), ([1, 2], "a list"), (np.ones((1, 1)), "shape (1, 1)"),
        (range(3), "a range"), (polars.Series([1.0, 2.0]), "an array of shape (2,)"),
    ],
)  # fmt: skip
def test_a_param_is_given_one_value(value, told):
    class Scaled(Program):
        found = Field(np.float64)
        factor = Param(np.float64, 1.0)

        @functor
        def touch(v, s):
            s.found[v] = s.factor

        loop = compute(touch)

    with pytest.raises(ProgramError) as caught:
        ev.run(Scaled, GRAPH, factor=value, device="python")
    assert str(caught.value).startswith("Scaled: factor is given ")
    assert f"{told}, but a Param holds one value; what differs" in str(caught.value)
    assert ev.run(Scaled, GRAPH, factor=np.array(2.0), device="python").found.tolist() == [2.0] * 4


GENERATOR = np.random.default_rng(1)
OLD_GENERATOR = np.random.RandomState(1)
draw = random.random


def _draws_from_numpy():
    class Draws(Program):
        found = Field(np.float64)

        @functor
        def touch(v, s):
            s.found[v] = np.random.random()  # noqa: NPY002

        loop = compute(touch)


def _draws_from_a_module():
    class Draws(Program):
        found = Field(np.float64)

        @functor
        def touch(v, s):
            s.found[v] = random.randint(0, 3)

        loop = compute(touch)


def _draws_by_a_function():
    class Draws(Program):
        found = Field(np.float64)

        @functor
        def touch(v, s):
            s.found[v] = draw()

        loop = compute(touch)


def _draws_from_a_generator():
    class Draws(Program):
        found = Field(np.float64)

        @functor
        def touch(v, s):
            s.found[v] = GENERATOR.random()

        loop = compute(touch)


def _draws_from_an_old_generator():
    class Draws(Program):
        found = Field(np.float64)

        @functor
        def touch(v, s):
            s.found[v] = OLD_GENERATOR.rand()

        loop = compute(touch)


@pytest.mark.parametrize(
    ("declare", "called"),
    [
        (_draws_from_numpy, "np.random.random"), (_draws_from_a_module, "random.randint"),
        (_draws_by_a_function, "draw"), (_draws_from_a_generator, "GENERATOR.random"),
        (_draws_from_an_old_generator, "OLD_GENERATOR.rand"),
    ],
)  # fmt: skip
def test_random_numbers_are_drawn_elsewhere(declare, called):
    with pytest.raises(ProgramError) as caught:
        declare()
    line = declare.__code__.co_firstlineno + 6
    assert str(caught.value).startswith(f"Draws.touch, line {line}: draws from {called}, whose ")
    assert "draw them in start into a Field" in str(caught.value)
