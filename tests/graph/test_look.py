"""Looking at a graph in its labels: neighbours, degrees, edges, what is near, simple graphs."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evener as ev
from evener.errors import GraphError
from graphs import DUPLICATES, assert_same, edges, graphs

SOME = settings(max_examples=50)
TOWNS = ev.Graph.from_edges(
    [3, 0, 3, 1, 2],
    [2, 1, 2, 1, 3],
    [5, 28, 7, 1, 9],
    labels=["Bern", "Thun", "Brig", "Visp", "Zug"],
)


def test_neighbours_and_degrees():
    assert TOWNS.neighbors("Visp").tolist() == ["Brig"]  # two arcs, one neighbour
    assert TOWNS.transpose().neighbors("Thun").tolist() == ["Bern", "Thun"]
    assert TOWNS.neighbors("Zug").tolist() == []
    assert TOWNS.degree("Visp") == 2
    assert isinstance(TOWNS.degree("Visp"), int)
    assert TOWNS.degree(["Zug", "Visp"]).tolist() == [0, 2]
    with pytest.raises(GraphError, match="'Ulm' is not in the graph"):
        TOWNS.neighbors("Ulm")
    with pytest.raises(GraphError, match="neighbors takes one vertex"):
        TOWNS.neighbors(["Bern", "Thun"])


@given(graphs())
@SOME
def test_neighbours_are_those_of_networkx(graph):
    theirs = graph.to_networkx()
    for v in range(graph.num_vertices):
        assert graph.neighbors(v).tolist() == sorted(theirs.neighbors(v))
        assert graph.degree(v) == graph.degrees[v]


def test_edges():
    assert TOWNS.edges().columns == ["src", "dst", "weight"]
    assert TOWNS.edges().rows() == [
        ("Bern", "Thun", 28), ("Thun", "Thun", 1), ("Brig", "Visp", 9), ("Visp", "Brig", 5),
        ("Visp", "Brig", 7),
    ]  # fmt: skip
    assert ev.generate.path(3).edges().rows() == [(0, 1), (1, 2)]
    objects = ev.Graph.from_edges([0], [1], labels=[(1, 2), "b"])
    assert objects.edges().rows() == [((1, 2), "b")]
    assert ev.generate.path(0).edges().columns == ["src", "dst"]


@given(graphs())
@SOME
def test_edges_make_the_graph_again(graph):
    frame = graph.edges()
    weight = None if graph.weights is None else "weight"
    found = [*frame["src"], *frame["dst"]]
    if len(set(found)) == graph.num_vertices > 0:
        again = ev.Graph.from_frame(frame, "src", "dst", weight, directed=graph.directed)
        assert_same(again, graph)
    loops = int((frame["src"] == frame["dst"]).sum())
    arcs = len(frame) if graph.directed else 2 * len(frame) - loops
    assert graph.num_edges == arcs


@given(graphs(), st.integers(0, 4), st.randoms())
@SOME
def test_ego_is_that_of_networkx(graph, k, random):
    assume(graph.num_vertices)
    centre = random.randrange(graph.num_vertices)
    found = graph.ego(centre, k)
    theirs = nx.ego_graph(graph.to_networkx(), centre, k)
    assert found.labels.tolist() == sorted(theirs)
    assert_same(found, graph.subgraph(sorted(theirs)))


def test_ego_of_several_and_of_labels():
    assert TOWNS.ego("Visp").labels.tolist() == ["Brig", "Visp"]
    assert TOWNS.ego(["Zug", "Bern"], 1).labels.tolist() == ["Bern", "Thun", "Zug"]
    assert TOWNS.ego("Bern", 0).num_edges == 0
    assert ev.generate.path(50).ego(0, 10**9).num_vertices == 50
    for k in (-1, 1.5, "2"):
        with pytest.raises(GraphError, match="k is"):
            TOWNS.ego("Bern", k)


@given(edges(), st.booleans(), st.sampled_from(DUPLICATES))
@SOME
def test_a_simple_graph_is_built_from_the_same_edges(given, directed, duplicates):
    n = given.num_vertices
    kept = ev.Graph.from_edges(*given[:3], num_vertices=n, directed=directed)
    expected = ev.Graph.from_edges(
        *given[:3], num_vertices=n, directed=directed, self_loops="drop", duplicates=duplicates
    )
    found = kept.simplify(duplicates)
    assert_same(found, expected)
    assert found.simplify(duplicates) is found


def test_simplify_keeps_labels_and_vertices():
    found = TOWNS.simplify()
    assert found.labels.tolist() == TOWNS.labels.tolist()
    assert found.edges().rows() == [("Bern", "Thun", 28), ("Brig", "Visp", 9), ("Visp", "Brig", 5)]
    assert np.array_equal(TOWNS.simplify("max").weights, [28, 9, 7])
    with pytest.raises(GraphError, match="duplicates is 'last'; it must be one of 'keep'"):
        TOWNS.simplify("last")
