"""Programs on parts that are simulated grids: the fields that the interpreter finds.

What this leaves to a GPU (tests/gpu): parts of several blocks, and kernels that run side by side.
"""

import pytest

from comparing import assert_job, case
from evener.algorithms.betweenness import Betweenness
from evener.algorithms.bfs import BFS
from evener.algorithms.connected_components import Components
from evener.algorithms.pagerank import PageRank
from evener.engine.job import set_up
from evener.engine.reference.loop import interpret
from evener.engine.request import DIRECTIONS
from evener.errors import DeviceError
from graphs import SIMULATED
from parts_gpu_simulator import simulate_parts
from programs.cases import CASES, COVERING, parameters_for, suits
from programs.examples import programs
from programs.loops import Echoes, EdgesThroughout, LoopsInLoops, Nested, OverEdges
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
from tables import slow_but

OWN = [Gathered, Labels, Nearest, Paths, Plain, Scattered, Search, Slices, Reset, Totals]
LOOPS = [
    OnEdges, Everything, OverEdges, EdgesThroughout, Bounded, Nested, LoopsInLoops, Echoes, Around,
    Outwards,
]  # fmt: skip
PROGRAMS = [p for p in [*CASES, *OWN] if not p.__name__.endswith("32")]  # the same text
EXAMPLES = list(programs())
FEW = [BFS, Components, Betweenness, PageRank, Scattered, Reset, Totals]
FEW = [program for program in PROGRAMS if program in {*FEW, *COVERING["gpu_parts"]}]
FEW_LOOPS = [program for program in LOOPS if program in COVERING["gpu_parts"]] + [Bounded, Around]
FEW_EXAMPLES = [program for program in EXAMPLES if program in COVERING["gpu_parts"]]
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
    assert_job(have, want)
    return have


@pytest.mark.parametrize("program", slow_but(PROGRAMS, *FEW), ids=lambda p: p.__name__)
def test_programs(program):
    """Each program on one of all combinations; the long matrix has them all."""
    turn = PROGRAMS.index(program)
    suited = [SIMULATED[name] for name in ("rmat", "directed") if suits(program, SIMULATED[name])]
    k = (2, 3)[turn % 2]
    partition = PARTITIONS[turn % (3 if k == 3 else 2)]
    check(program, suited[turn // 2 % len(suited)], k, partition, DIRECTIONS[turn // 2 % 3])


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_all(program, direction):
    """The whole product, of which few parts are on many graphs."""
    for name, graph in SIMULATED.items():
        if suits(program, graph):
            for k in (1, 2, 3) if name in ("rmat", "directed", "loop") else (2,):
                with case(name, k):
                    check(program, graph, k, direction=direction)


@pytest.mark.parametrize("program", slow_but(EXAMPLES, *FEW_EXAMPLES), ids=lambda p: p.__name__)
def test_example_programs(program):
    check(program, SIMULATED["rmat"], 2)


@pytest.mark.parametrize("program", slow_but(LOOPS, *FEW_LOOPS), ids=lambda p: p.__name__)
def test_loops(program):
    """Orders that tell supersteps apart, loops in replays, edges, both directions."""
    turn = LOOPS.index(program)
    name = ("rmat", "directed")[turn % 2]
    check(program, SIMULATED[name], 2 + turn // 2 % 2, PARTITIONS[turn // 2 % 2])


@pytest.mark.slow
@pytest.mark.parametrize("program", LOOPS, ids=lambda p: p.__name__)
def test_loops_on_more_graphs(program):
    for i, name in enumerate(("rmat", "directed", "one vertex")):
        k = (2, 3)[(LOOPS.index(program) + i) % 2]
        with case(name, k):
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
