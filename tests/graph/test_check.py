"""The invariants that `evener.graph.check` tests: each broken once, and graphs that hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evener as ev
from evener.graph.check import _ARCS, check, count_self_loops
from graphs import edges


def graph(indptr, indices, weights=None, *, directed=True, labels=None):
    indices = np.array(indices, np.int32)
    weights = None if weights is None else np.array(weights)
    return ev.Graph(np.array(indptr), indices, weights, directed=directed, labels=labels)


@given(edges(), st.booleans())
def test_what_from_edges_builds_holds(drawn, directed):
    g = ev.Graph.from_edges(*drawn[:3], num_vertices=drawn.num_vertices, directed=directed)
    check(g)
    loops = int(np.count_nonzero(drawn.src == drawn.dst))
    assert count_self_loops(g) == loops


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (graph([1, 1], [0]), "run from 1 to 1, not from 0 to 1"),
        (graph([0, 1], [0, 0]), "run from 0 to 1, not from 0 to 2"),
        (graph([0, 2, 1, 3], [0, 1, 2]), "fall after vertex 1"),
        (graph([0, 2], [0, 0], [1]), "1 weights for 2 arcs"),
        (graph([0, 1], [1]), "neighbour number 1, but there are 1 vertices"),
        (graph([0, 1], [-1]), "neighbour number -1"),
        (graph([0, 2, 2], [1, 0], labels=["a", "b"]), "vertex a are not in ascending order"),
        (graph([0, 1, 1], [1], directed=False), "arc 0 -> 1 has no equal arc back"),
        (graph([0, 2, 3], [1, 1, 0], directed=False), "arc 0 -> 1 has no equal arc back"),
        (graph([0, 1, 2], [1, 0], [3, 4], directed=False), "arc 0 -> 1 has no equal arc back"),
        (
            graph([0, 2, 4], [1, 1, 0, 0], [3, 4, 3, 3], directed=False, labels=[7, 9]),
            "arc 7 -> 9 has no equal arc back",
        ),
    ],
)
def test_faults(broken, message):
    with pytest.raises(ev.GraphError, match=message):
        check(broken)


def test_graphs_that_hold():
    check(graph([0], [], directed=False))
    check(graph([0, 2], [0, 0], directed=False))
    check(graph([0, 1, 1], [1]))
    check(graph([0, 2, 4], [1, 1, 0, 0], [3, 4, 4, 3], directed=False))
    check(graph([0, 1, 2], [1, 0], [np.nan, np.nan], directed=False))


def test_the_first_fault_is_named_whatever_thread_finds_one():
    n = 100_000
    indptr = np.arange(n + 1)
    indices = np.zeros(n, np.int32)
    indices[[70_000, 30_000]] = n
    with pytest.raises(ev.GraphError, match="vertex 30000 has"):
        check(graph(indptr, indices))


def test_self_loops_across_blocks():
    n = _ARCS + 10
    indices = np.zeros(2 * n, np.int32)
    indices[1::2] = np.arange(n)
    g = graph(np.arange(n + 1) * 2, indices)
    assert count_self_loops(g) == n + 1
