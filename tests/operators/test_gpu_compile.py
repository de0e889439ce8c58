"""Kernels compile for a GPU, on machines without one.

`make test` compiles programs that between them name every operator (`COVERING`), and the operators of
each schedule; `make test-all` every program with every schedule, in both forms of parts.
"""

import importlib
import pkgutil

import numpy as np
import pytest

import evener as ev
import evener.algorithms
from evener.algorithms.bfs import BFS
from evener.algorithms.connected_components import Components
from evener.algorithms.pagerank import (
    PageRank,
)
from evener.algorithms.sssp import SSSP, TargetSSSP
from evener.device import cuda as device
from evener.engine.job import field_dtype, set_up
from evener.engine.partition.partitioners import partition
from evener.engine.targets import gpu
from evener.engine.targets import parts_gpu as gpu_parts
from evener.operators.gpu.schedules import SCHEDULES
from evener.operators.shared.policies import policy_of
from evener.programs import Program
from evener.programs.with_guards import with_guards
from programs.cases import (
    CASES,
    COVERING,
    FEW,
    IN_32_BITS,
    MORE_STAGES,
    QUICK,
    STAGES,
    WHOLE,
    parameters_for,
)
from programs.stages import Functions
from tables import slow_but

pytestmark = [
    pytest.mark.usefixtures("without_nvrtc"),
    pytest.mark.skipif(
        importlib.util.find_spec("numba_cuda") is None,
        reason="numba-cuda is not installed (extras test, cu12, cu13)",
    ),
]

NAMED = [name for name in SCHEDULES if ":" not in name and name != "dynamic"]


def ptx(program, schedule="auto", direction="auto", capability=(9, 0)):
    graph, parameters = CASES.get(program) or (WHOLE, parameters_for(program, WHOLE))
    job = set_up(program, graph, parameters, deferred=True)
    text = gpu.ptx_of(job, direction, schedule, capability)
    assert text.count(".visible .entry") == 1
    assert f".target sm_{capability[0]}{capability[1]}" in text
    return text


def test_no_program_is_forgotten():
    found = set()
    for module in pkgutil.iter_modules(evener.algorithms.__path__):
        of_module = vars(importlib.import_module(f"evener.algorithms.{module.name}")).values()
        found |= {p for p in of_module if isinstance(p, type) and issubclass(p, Program)}
    assert found - {Program} == CASES.keys() - IN_32_BITS.keys()


ALL = list(dict.fromkeys([*CASES, *STAGES, *MORE_STAGES, *COVERING["gpu"]]))


@pytest.mark.parametrize("program", slow_but(ALL, *COVERING["gpu"]), ids=lambda p: p.__name__)
def test_every_program(program):
    text = ptx(program)
    assert "barrier" in text or "bar.sync" in text
    assert "\n\tcall" not in text, "something was not inlined"


@pytest.mark.parametrize("program", slow_but(QUICK, SSSP, PageRank), ids=lambda p: p.__name__)
def test_checked_programs(program):
    graph, parameters = CASES[program]
    derived, places = with_guards(program, lambda field: field_dtype(field.dtype, graph))
    assert places
    gpu.ptx_of(set_up(derived, graph, parameters, deferred=True), "auto", "auto", (9, 0))


def test_functions_of_numpy():
    """They compile in functors; a GPU checks what they do (tests/gpu)."""
    ptx(Functions)

    def kernel(a):
        a[0] = np.gcd(a[1], a[2])

    with pytest.raises(ev.DeviceError, match=r"there is no numpy\.gcd on a GPU"):
        device.compile_ptx(kernel, ("int64[]",), (9, 0), 1)


def test_arrays():
    """What is not written out for arrays of two words is done by those of Numba."""

    def kernel(a, b):
        b[0], b[-1] = a.size, a.shape[0]
        for item in a:
            b[1] += item
        for item in a[1:]:
            b[2] += item
        for item in a[::2]:
            b[3] += item
        b[4] = len(a[2:5][1:]) + a[:4].sum() + a.ndim

    device.compile_ptx(kernel, ("int32[]", "int64[]"), (9, 0), 1)

    def fill(a):
        a[:] = 7
        a[1:9][:] = 8

    def add(a, b):
        for item in a:
            b[0] += item

    assert device.compile_ptx(fill, ("int32[]",), (9, 0), 1).count("st.global") >= 2
    assert "ld.s32" in device.compile_ptx(add, ("int32[]", "int64[]"), (9, 0), 1)


@pytest.mark.parametrize("number", range(len(NAMED)))
def test_every_schedule(number):
    """With its way of adding up, and with one of the operators that call functors in one way."""
    ptx(PageRank, NAMED[number])
    ptx((BFS, SSSP, Components)[number % 3], NAMED[number])


@pytest.mark.parametrize("direction", ["push", "pull"])
def test_directions(direction):
    ptx(BFS, direction=direction)


def test_an_older_gpu():
    ptx(BFS, capability=(8, 0))


WAYS = [(program, hub) for program in ALL for hub in (False, True)]
FEW_WAYS = [(SSSP, False), (TargetSSSP, True)]


@pytest.mark.parametrize(
    "way", slow_but(WAYS, *FEW_WAYS), ids=lambda way: f"{way[0].__name__} {way[1]}"
)
def test_parts(way):
    program, hub = way
    graph, parameters = CASES.get(program) or (WHOLE, parameters_for(program, WHOLE))
    job = set_up(program, graph, parameters, deferred=True)
    part_of = partition(graph, "random", [1, 1])
    text = gpu_parts.ptx_of(job, part_of, 2, "auto", "auto", policy_of("refined"), (9, 0), hub)
    assert ("st.release.sys" in text) == hub


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["dynamic", *NAMED])
@pytest.mark.parametrize("program", ALL, ids=lambda p: p.__name__)
def test_all(program, schedule):
    """For one of two kinds of GPU, which differ in nothing but what the text says that it is for."""
    ptx(program, schedule, capability=(8 + (ALL.index(program) + len(schedule)) % 2, 0))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if ":" in name])
@pytest.mark.parametrize("program", [*FEW, *STAGES], ids=lambda p: p.__name__)
def test_widths_of_virtual_warps(program, schedule):
    """One text with another number in it, so a few programs with all its operators will do."""
    ptx(program, schedule)


def test_a_schedule_that_is_not_there():
    with pytest.raises(ev.DeviceError, match="there is no schedule 'fair'; there are 'auto', 'dy"):
        ptx(BFS, "fair")


def test_atomics_of_every_type_and_name():
    """They compile in functors; a GPU checks what they do (tests/gpu)."""
    from evener.device import atomic, cuda

    def kernel(a, b, c, d, e, f):
        atomic.add(a, 0, 1)
        atomic.min(a, 0, 1)
        atomic.max(b, 0, 1)
        atomic.exchange(b, 0, 1)
        atomic.cas(c, 0, 1, 2)
        atomic.add(c, 0, 1.5)
        atomic.min(d, 0, 1.5)
        atomic.max(d, 0, 1.5)
        atomic.exchange(d, 0, 1.5)
        atomic.cas(d, 0, 1.0, 2.0)
        atomic.add(e, 0, 1)
        atomic.min(e, 0, 1)
        atomic.add(f, 0, 1)
        atomic.max(f, 0, 1)

    kinds = ["int32", "int64", "float32", "float64", "uint32", "uint64"]
    text = cuda.compile_ptx(kernel, tuple(f"{kind}[]" for kind in kinds), (9, 0), 1)
    for instruction in ("add.f32", "min.s32", "max.s64", "cas.b64", "min.u32", "max.u64", "exch"):
        assert instruction in text
