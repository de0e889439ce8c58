"""Fresh random graphs in every run, and the same graph many times."""

import os
import time

import numpy as np
import pytest
from cases import ALGORITHMS, LOOPS, assert_same, random_graph, run, weighted

import evener as ev
from comparing import compare
from evener.engine.run import run as run_program
from programs.cases import parameters_of, suits
from programs.examples import programs

MANY = 200


@pytest.mark.parametrize(
    "algorithm", [pytest.param(a, marks=pytest.mark.xdist_group(f"{a} auto")) for a in ALGORITHMS]
)
def test_random_graphs(algorithm):
    """The seed of a graph that fails is in the message; ``EVENER_SEED`` begins with it."""
    first = int(os.environ.get("EVENER_SEED", time.time_ns() % 10**9))
    print(f"seeds from {first} on")
    for seed in range(first, first + MANY):
        graph = random_graph(seed)
        want = run(algorithm, graph, device="cpu")
        assert_same(run(algorithm, graph, device="cuda"), want, f"{algorithm}, EVENER_SEED={seed}")


OTHERS = [program for program in [*LOOPS, *programs()] if LOOPS.get(program, True)]


@pytest.mark.parametrize("program", OTHERS, ids=lambda p: p.__name__)
def test_random_graphs_with_other_programs(program):
    """As above, with programs that between them have every stage, and those of the examples."""
    first = int(os.environ.get("EVENER_SEED", time.time_ns() % 10**9))
    print(f"seeds from {first} on")
    for seed in range(first, first + MANY):
        graph = random_graph(seed)
        given = parameters_of(program, graph)
        if given is None or not suits(program, graph):
            continue
        want, have = (run_program(program, graph, device=d, **given) for d in ("cpu", "cuda"))
        # Sums in another order: what iterates to a tolerance may end elsewhere.
        compare(program, have, want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "algorithm", [pytest.param(a, marks=pytest.mark.xdist_group(f"{a} auto")) for a in ALGORITHMS]
)
def test_repeated_runs_agree(algorithm):
    """A race would show now and then; betweenness adds floats in any order."""
    for graph in (
        weighted(ev.generate.rmat(14, 16, weights=(1, 60), seed=5)),
        weighted(ev.generate.grid(100, 90, weights=(1, 60), seed=5)),
    ):
        runs = [run(algorithm, graph, device="cuda") for _ in range(20)]
        for other in runs[1:]:
            for field, array in runs[0].items():
                if algorithm == "betweenness":
                    np.testing.assert_allclose(other[field], array, rtol=1e-9, atol=1e-15)
                else:
                    np.testing.assert_array_equal(other[field], array)
