"""Programs on parts that are simulated grids: the fields that the interpreter finds.

What this leaves to a GPU (tests/gpu): parts of several blocks, and kernels that run side by side.
"""

import numpy as np
import pytest

import evener as ev
from evener.engine.job import set_up
from evener.engine.reference.loop import interpret
from evener.errors import DeviceError
from graphs import SIMULATED
from parts_gpu_simulator import simulate_parts
from programs.cases import CASES, parameters_for, suits
from programs.examples import programs_to_simulate
from programs.loops import Echoes, EdgesThroughout, Nested, OverEdges
from programs.merged import Extremes, Reset, Totals, assert_extremes
from programs.ordered import SETTLED, Bounded, NearestFrom, TwiceNearest
from programs.searches import Nearest, Paths, Plain, Search
from programs.stages import (
    Around,
    Everything,
    Gathered,
    Labels,
    OnEdges,
    Outwards,
    Scattered,
    Slices,
)

OWN = [Gathered, Labels, Nearest, Paths, Plain, Scattered, Search, Slices, Reset, Totals]
LOOPS = [
    OnEdges, Everything, OverEdges, EdgesThroughout, Bounded, Nested, Echoes, Around, Outwards,
]  # fmt: skip
LONG = [Everything, OverEdges]
PROGRAMS = [p for p in [*CASES, *OWN] if not p.__name__.endswith("32")]  # the same text
DIRECTIONS = ("auto", "push", "pull")
PARTITIONS = ("random", "static", "random:shares=9/0/1")


def check(program, graph, k, partition="random", direction="auto", more=None, **options):
    parameters = {**parameters_for(program, graph), **(more or {})}
    if program is Bounded:
        parameters["delta"] = 1.0
    want = set_up(program, graph, parameters)
    interpret(want, direction)
    have = simulate_parts(
        program, graph, k, partition, direction=direction, **options, **parameters
    )
    for name, array in want.fields.items():
        declared = program.declaration.fields[name]
        if declared.merge == "any" or (declared.dtype is ev.VERTEX and declared.merge is None):
            continue  # any of several is right
        if name == "rounds":
            continue  # how many it takes depends on who comes first
        np.testing.assert_allclose(
            have.fields[name], array, rtol=1e-5, atol=1e-9, err_msg=f"{name} {k} {direction}"
        )
    return have


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program):
    """Each program on one of all combinations; the long matrix has them all."""
    turn = PROGRAMS.index(program)
    suited = [SIMULATED[name] for name in ("rmat", "directed") if suits(program, SIMULATED[name])]
    k = (2, 3)[turn % 2]
    partition = PARTITIONS[turn % (3 if k == 3 else 2)]
    check(program, suited[turn // 2 % len(suited)], k, partition, DIRECTIONS[turn // 2 % 3])


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("graph", SIMULATED)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_all(program, graph, direction):
    if suits(program, SIMULATED[graph]):
        for k in (1, 2, 3):
            check(program, SIMULATED[graph], k, direction=direction)


@pytest.mark.parametrize("program", programs_to_simulate(), ids=lambda p: p.__name__)
def test_example_programs(program):
    check(program, SIMULATED["rmat"], 2)


@pytest.mark.parametrize(
    "program",
    [pytest.param(p, marks=pytest.mark.slow) if p in LONG else p for p in LOOPS],
    ids=lambda p: p.__name__,
)
def test_loops(program):
    """Orders that tell supersteps apart, loops in replays, edges, both directions."""
    for i, name in enumerate(("rmat", "directed", "one vertex")):
        k = (2, 3)[(LOOPS.index(program) + i) % 2]
        check(program, SIMULATED[name], k, PARTITIONS[0 if k == 2 else 2])


@pytest.mark.parametrize("options", [{"limit": 2}, {"limit": 0}, {"horizon": 9.0}], ids=str)
def test_ordered_loops_with_bounds(options):
    check(Bounded, SIMULATED["rmat"], 2, more=options)


def test_nearest_twice():
    check(TwiceNearest, SETTLED, 2)


def test_nearest_from_a_negative_value():
    check(NearestFrom, SIMULATED["grid"], 2, more={"has": -2.5})


def test_blocks_are_divided():
    from evener.engine.targets.parts_gpu import divide_blocks

    assert sum(divide_blocks(132, [5, 5, 5, 5])) == 132
    with pytest.raises(DeviceError, match="too few for 3 parts"):
        divide_blocks(2, [1, 1, 1])


def test_scalars_of_weights_of_other_types():
    assert_extremes(lambda graph: simulate_parts(Extremes, graph, 2).scalars)
