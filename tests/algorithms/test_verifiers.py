"""The verifiers can fail: each finds what is wrong with a result that was changed."""

from types import SimpleNamespace

import numpy as np
import pytest

import evener as ev
from evener.algorithms import (
    betweenness,
    bfs,
    circuit,
    connected_components,
    heat,
    neural,
    pagerank,
    sssp,
    sswp,
)
from references import verify


def spoilt(result, name, index, value):
    """A result with one value changed."""
    fields = {field: array.copy() for field, array in result.to_numpy().items()}
    fields[name][index] = value
    if hasattr(result, "count"):
        fields["count"] = result.count
    return SimpleNamespace(**fields)


GRID = ev.generate.grid(4, 4, weights=(1, 9), seed=2)
TWO = ev.Graph.from_edges([0, 1, 3], [1, 2, 4], [1.0, 2.0, 3.0], directed=False)


@pytest.mark.parametrize(
    ("algorithm", "graph", "arguments", "changes"),
    [
        (bfs, GRID, [0], [
            ("depth", 5, 1), ("depth", 5, 3), ("depth", 5, -1), ("depth", 0, 1), ("depth", 15, 7),
            ("parent", 0, 1), ("parent", 5, 10), ("parent", 5, -1), ("parent", 15, 0),
        ]),
        (bfs, TWO, [0], [("depth", 3, 1), ("parent", 3, 0), ("depth", 4, 0)]),
        (sssp, GRID, [0], [
            ("distance", 5, 0.5), ("distance", 5, 1e3), ("distance", 5, np.inf), ("distance", 0, 1),
            ("distance", 5, np.nan), ("parent", 0, 1), ("parent", 5, -1), ("parent", 5, 15),
        ]),
        (sssp, TWO, [0], [("distance", 3, 1), ("parent", 3, 4)]),
        (sswp, GRID, [0], [("width", 5, 0), ("width", 5, 1e3), ("width", 0, 5), ("width", 5, np.nan)]),
        (sswp, TWO, [0], [("width", 4, 3.0), ("width", 2, np.inf)]),
        (connected_components, TWO, [], [("component", 1, 1), ("component", 3, 0), ("component", 0, 3)]),
        (pagerank, GRID, [], [("rank", 0, 0.5), ("rank", 0, -0.1), ("rank", 3, 0), ("rank", 3, np.nan)]),
        (betweenness, GRID, [], [("score", 5, 0), ("score", 5, -1), ("score", 0, np.nan)]),
    ],
)  # fmt: skip
def test_verifiers_find_what_is_wrong(algorithm, graph, arguments, changes):
    result = algorithm(graph, *arguments, device="python")
    verify(algorithm, graph, result, *arguments)
    for change in changes:
        with pytest.raises(AssertionError, match="."):
            verify(algorithm, graph, spoilt(result, *change), *arguments)


def test_verifiers_of_simulations_find_what_is_wrong():
    result = circuit(GRID, {0: 1.0, 15: 0.0}, device="python")
    for index, value in ((5, 0.9), (0, 0.5), (5, np.nan)):
        with pytest.raises(AssertionError):
            verify(circuit, GRID, spoilt(result, "potential", index, value), {0: 1.0, 15: 0.0})
    result = heat(GRID, {0: 16.0}, device="python")
    for index, value in ((5, 0.9), (5, -1), (5, 99), (5, np.nan)):
        with pytest.raises(AssertionError):
            verify(heat, GRID, spoilt(result, "temperature", index, value), {0: 16.0})
    chain = ev.Graph.from_edges([0, 1], [1, 2], [0.5, 0.5])
    result = neural(chain, device="python")
    for index, value in ((0, 0.9), (2, 0.9), (1, np.nan)):
        with pytest.raises(AssertionError):
            verify(neural, chain, spoilt(result, "activation", index, value))


def test_a_circle_of_parents_is_found():
    level = ev.Graph.from_edges([0, 1, 1, 2], [1, 0, 2, 1], [4, 4, 0, 0])
    result = sssp(level, 0, device="python")
    verify(sssp, level, result, 0)
    assert result.parent.tolist() == [-1, 0, 1]
    with pytest.raises(AssertionError, match="cycle"):
        verify(sssp, level, spoilt(result, "parent", 1, 2), 0)
