"""Programs of users' own: the examples, and those that test every stage and loop."""

import importlib

import numpy as np
import pytest
from cases import random_graph

import evener as ev
from evener.engine.run import run
from shared_programs import NAMES, Around, Neighbours, Outwards, parameters_for
from test_native import Everything
from test_native_loops import Bounded, EdgesThroughout, Gathered, Nested, OverEdges

LOOPS = {
    Everything: ["level", "visits", "sums", "backed"],
    OverEdges: ["level", "seen", "weights", "backed"],
    EdgesThroughout: ["seen", "visits"],
    Bounded: ["distance", "first", "settled", "replayed"],
    Nested: ["hops", "spread", "around"],
    Gathered: ["value"],
    Neighbours: ["total"],
    Outwards: ["total"],
    Around: ["total"],
}


@pytest.mark.parametrize("name", NAMES)
def test_examples(name, capsys):
    example = importlib.import_module(name)
    example.main("cpu")
    want = capsys.readouterr().out.replace("cpu", "")
    example.main("cuda")
    assert capsys.readouterr().out.replace("cuda", "") == want


def of_users(seed):
    graph = random_graph(seed)
    if seed % 4 == 0:
        graph = ev.generate.rmat(9, 8, weights=(1, 9), seed=seed)
    return ev.Graph(
        graph.indptr, graph.indices, graph.weights.astype(np.int64), directed=graph.directed
    )


@pytest.mark.parametrize("program", LOOPS, ids=lambda p: p.__name__)
def test_stages_and_loops(program):
    """The CPU is compared with the interpreter elsewhere, in detail."""
    for seed in range(24):
        graph = of_users(seed)
        given = parameters_for(program, graph)
        if program is Bounded:
            given |= [{}, {"limit": 2}, {"limit": 0}, {"horizon": 9.0}][seed % 4] | {"delta": 1.0}
        want = run(program, graph, device="cpu", **given)
        have = run(program, graph, device="cuda", **given)
        for name in LOOPS[program]:
            np.testing.assert_allclose(
                getattr(have, name), getattr(want, name), rtol=1e-9, err_msg=f"{name} {seed}"
            )
        for name in program.declaration.scalars:
            assert getattr(have, name) == pytest.approx(getattr(want, name))
        assert have.stats["supersteps"] == want.stats["supersteps"]
        if program is not Everything:  # where the order of calls decides how often it is looked
            assert have.stats["edges"] == want.stats["edges"]


@pytest.mark.parametrize("program", [OverEdges, Bounded, Nested], ids=lambda p: p.__name__)
def test_loops_repeated(program):
    graph = of_users(4)
    given = parameters_for(program, graph) | ({"delta": 1.0} if program is Bounded else {})
    want = run(program, graph, device="cpu", **given)
    for _ in range(50):
        have = run(program, graph, device="cuda", **given)
        for name in LOOPS[program]:
            np.testing.assert_array_equal(getattr(have, name), getattr(want, name))
