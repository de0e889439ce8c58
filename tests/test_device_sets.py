"""Every program on every kind of device set: what one device finds.

Programs, partitioners, sets, policies and graphs are combined so that each pair of them occurs; the
long matrix has the whole product of programs, partitioners, sets and policies, each on one graph.
"""

import importlib.util
import itertools
import random

import numpy as np
import pytest

import evener as ev
from evener.algorithms.pagerank import DanglingPageRank
from evener.engine.partitioners import PARTITIONERS
from evener.operators.policies import EVERY, NAMES
from graphs import DEGENERATE
from shared_programs import Around, Neighbours, Outwards, Spread, parameters_for, programs
from test_cuda_compile import CASES
from test_grid_simulated import suits
from test_interpret import (
    Gathered,
    Labels,
    Nearest,
    OnEdges,
    Paths,
    Plain,
    Scattered,
    Search,
    Slices,
)
from test_native import Everything
from test_native_loops import Bounded, EdgesThroughout, Nested, OverEdges
from test_partitioned import ANY_VALUE, Reset, Totals, weighted

OWN = [
    Search, Nearest, Plain, Paths, Labels, Gathered, Scattered, OnEdges, Slices, Reset, Totals,
    DanglingPageRank,
]  # fmt: skip
EXAMPLES = list(programs())
# All stages, each in few programs: a set with `python` compiles stages one by one.
STAGES = [Search, Nearest, Paths, Gathered, OnEdges, Slices, Reset]
EVERY_PROGRAM = [
    *OWN, *EXAMPLES, *(p for p in CASES if not p.__name__.endswith("32")), Neighbours, Outwards,
    Around, Spread, Everything, Bounded, EdgesThroughout, Nested, OverEdges,
]  # fmt: skip
SETS = ["cpu:1+cpu:1", "cpu:1+cpu:1+cpu:1", "python+python"]
MIXED = ["cpu:2+python", "python+cpu:1+cpu:1"]


def crossing(graph, shares):
    """Neighbours are in different parts where the graph is a path or a cycle."""
    return np.arange(graph.num_vertices) % len(shares)


class Half:
    """A policy of one's own: every value where half of them changed."""

    def reduce(self, changed, ghosts, owned, width):
        return EVERY if 2 * changed > ghosts else 0

    def broadcast(self, changed, ghosts, owned, width):
        return EVERY


SPLIT = [p for p in PARTITIONERS if p != "metis" or importlib.util.find_spec("pymetis")]
SPLIT.append(crossing)
RANDOM = {
    "rmat": lambda: ev.generate.rmat(5, 4, seed=1),
    "directed": lambda: ev.generate.rmat(5, 3, seed=2, directed=True),
    "grid": lambda: ev.generate.grid(5, 7),
}
GRAPHS = {**DEGENERATE, **RANDOM}


def pairwise(*factors):
    """Rows in which every pair of values of two factors is found: the same in every process."""
    draw = random.Random(7)
    places = list(itertools.combinations(range(len(factors)), 2))
    missing = {
        (i, a, j, b) for i, j in places for a in range(len(factors[i]))
        for b in range(len(factors[j]))
    }  # fmt: skip

    def pairs(row):
        return {(i, row[i], j, row[j]) for i, j in places} & missing

    while missing:
        i, a, j, b = min(missing)
        rows = [[draw.randrange(len(values)) for values in factors] for _ in range(30)]
        for row in rows:
            row[i], row[j] = a, b
        best = max(rows, key=lambda row: len(pairs(row)))
        missing -= pairs(best)
        yield tuple(values[at] for values, at in zip(factors, best, strict=True))


def given(program, graph):
    """Parameters for a program, or None where the graph has too few vertices for them."""
    found = parameters_for(program, graph)
    if program is Bounded:
        found["delta"] = 1.0
    needs_vertices = found.keys() & {"source", "sources", "held", "seeds"}
    if (graph.num_vertices == 0 and needs_vertices) or (
        graph.num_vertices < 6 and "target" in found
    ):
        return None
    if "source" in found:
        found["source"] = graph.labels[0]
    return found


def check(program, name, devices, partition, policy, direction="auto"):
    graph = weighted(GRAPHS[name]())
    if program.__name__ in ("Betweenness", "Components"):
        graph = graph.symmetrize()
    parameters = given(program, graph)
    if parameters is None or not suits(program, graph):
        return
    want = ev.run(program, graph, device="python", direction=direction, **parameters)
    have = ev.run(
        program, graph, device=devices, partition=partition, exchange=policy, direction=direction,
        **parameters,
    )  # fmt: skip
    for field, declared in program.declaration.fields.items():
        several = declared.dtype is ev.VERTEX and declared.merge in (None, "any")
        if field in ANY_VALUE or several or declared.merge == "any":
            continue
        np.testing.assert_allclose(
            getattr(have, field), getattr(want, field), rtol=1e-9, atol=1e-12, err_msg=field
        )
    assert sum(have.stats.get("owned", [])) == graph.num_vertices


def named(cases):
    return [
        pytest.param(*case, id="-".join(getattr(v, "__name__", str(v)) for v in case))
        for case in cases
    ]


@pytest.mark.parametrize(
    ("program", "name", "devices", "partition", "policy", "direction"),
    named(pairwise(OWN, list(GRAPHS), SETS, SPLIT, list(NAMES), ["auto", "push", "pull"])),
)
def test_sets(program, name, devices, partition, policy, direction):
    check(program, name, devices, partition, policy, direction)


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("program", EXAMPLES)
def test_programs_of_the_examples(program, name):
    at = EXAMPLES.index(program) + list(RANDOM).index(name)
    check(program, name, SETS[at % 3], SPLIT[at % len(SPLIT)], list(NAMES)[at // 3 % 3])


@pytest.mark.parametrize(
    ("program", "name", "devices", "partition", "policy"),
    named(pairwise(STAGES, list(GRAPHS), MIXED, SPLIT, list(NAMES))),
)
def test_compiled_beside_interpreted(program, name, devices, partition, policy):
    check(program, name, devices, partition, policy)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [*SETS, *MIXED])
@pytest.mark.parametrize("program", EVERY_PROGRAM, ids=lambda p: p.__name__)
def test_in_full(program, devices):
    graphs, at = list(GRAPHS), EVERY_PROGRAM.index(program)
    for i, (partition, policy) in enumerate(itertools.product(SPLIT, [*NAMES, Half()])):
        directions = ("auto", "push", "pull") if program in OWN else ("auto",)
        check(
            program, graphs[(at + i) % len(graphs)], devices, partition, policy,
            directions[i % len(directions)],
        )  # fmt: skip
