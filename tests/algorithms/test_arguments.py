"""What algorithms refuse: arguments, options, devices and graphs that will not do."""

import math

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
from evener.algorithms.bfs import BFS
from graphs import DEGENERATE, weighted
from tables import slow_but

EMPTY = DEGENERATE["empty"]()
PATH = ev.generate.path(4)
ROAD = weighted(PATH)
NEGATIVE = ev.Graph.from_edges([0], [1], [-1])
NOT_A_NUMBER = ev.Graph(np.array([0, 1, 1]), np.array([1], np.int32), np.array([np.nan]))

INFINITE = ev.Graph.from_edges([0, 1], [1, 2], [1.0, math.inf])
BOTH_INFINITIES = ev.Graph.from_edges([0, 1], [1, 2], [-math.inf, math.inf])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: bfs(PATH, 9), "vertex 9 is not in the graph"),
        (lambda: bfs(PATH, [0, "a"]), "not in the graph"),
        (lambda: bfs(EMPTY, 0), "vertex 0 is not in the graph"),
        (lambda: bfs(PATH, 0, target=7), "vertex 7 is not in the graph"),
        (lambda: bfs(PATH, 0, target=[1, 2]), "must be one vertex"),
        (lambda: bfs(PATH, 0, cutoff=-1), "cutoff is -1; it must be at least 0"),
        (lambda: bfs(PATH, 0, cutoff=1.5), "cutoff is 1.5; it must be a whole number"),
        (lambda: sssp(PATH, 0), "sssp needs weights"),
        (lambda: sssp(ROAD, 5), "vertex 5 is not in the graph"),
        (lambda: sssp(ROAD, 0, delta=0), "delta is 0"),
        (lambda: sssp(ROAD, 0, delta="wide"), "delta is 'wide'; it must be a number"),
        (
            lambda: sssp(ROAD, 0, delta=np.ones(50)),
            r"delta is an array of shape \(50,\); it must be a",
        ),
        (lambda: sssp(ROAD, 0, cutoff=math.nan), "cutoff is nan"),
        (
            lambda: bfs(PATH, 0, cutoff=np.ones(50)),
            r"cutoff is an array of shape \(50,\); it must be",
        ),
        (lambda: sssp(NEGATIVE, 0), "no negative weights"),
        (lambda: sssp(NOT_A_NUMBER, 0), "NaN"),
        (lambda: sswp(PATH, 0), "sswp needs weights"),
        (lambda: sswp(NEGATIVE, 0), "no negative weights"),
        (lambda: sswp(NOT_A_NUMBER, 0), "NaN"),
        (lambda: pagerank(PATH, damping=1.5), "damping is 1.5; it must be from 0 to 1"),
        (lambda: pagerank(PATH, damping="high"), "damping is 'high'; it must be a number"),
        (lambda: pagerank(PATH, tol=-1), "tol is -1"),
        (lambda: pagerank(PATH, max_iterations=-1), "max_iterations is -1"),
        (lambda: pagerank(PATH, max_iterations=2.5), "max_iterations is 2.5"),
        (lambda: pagerank(PATH, dtype=int), "takes float32 or float64"),
        (lambda: pagerank(PATH, dtype="x"), "takes float32 or float64"),
        (lambda: pagerank(PATH, weighted=True), "needs weights"),
        (lambda: pagerank(NEGATIVE, weighted=True), "no negative weights"),
        (lambda: pagerank(PATH, personalization={9: 1}), "vertex 9 is not in the graph"),
        (lambda: pagerank(PATH, personalization={0: -1}), "no negative value"),
        (lambda: pagerank(PATH, personalization={}), "one above 0"),
        (lambda: pagerank(PATH, personalization=[1, 2]), "has shape"),
        (lambda: pagerank(PATH, personalization={0: math.inf}), "not finite"),
        (lambda: betweenness(PATH, sources=0), "sources is 0"),
        (lambda: betweenness(PATH, sources=5), "sources is 5"),
        (
            lambda: betweenness(PATH, sources=2, seed=-1),
            "seed is -1; .* whole number of at least 0",
        ),
        (
            lambda: betweenness(PATH, sources=2, seed="x"),
            "seed is 'x'; .* whole number of at least 0",
        ),
        (lambda: betweenness(PATH, sources=2, seed=1.5), "seed is 1.5"),
        (lambda: betweenness(PATH, seed=-1), "seed is -1"),
        (lambda: betweenness(PATH, sources=[]), "at least one"),
        (lambda: betweenness(PATH, sources=[1, 1]), "different labels"),
        (lambda: betweenness(PATH, sources=[9]), "vertex 9 is not in the graph"),
        (lambda: circuit(PATH, {}), "circuit needs weights"),
        (lambda: circuit(ROAD, {9: 1}), "vertex 9 is not in the graph"),
        (lambda: circuit(ROAD, 3), "must be a dict"),
        (lambda: circuit(ROAD, {0: "x"}), "fixed is"),
        (lambda: circuit(NEGATIVE, {}), "no negative weights"),
        (lambda: heat(PATH, 1), "heat needs weights"),
        (lambda: heat(ROAD, 1, step=5), "diverge"),
        (lambda: heat(ROAD, "hot"), "initial is str"),
        (lambda: circuit(INFINITE, {0: 1}), "circuit takes no infinite weights, but one is inf"),
        (lambda: heat(INFINITE, {0: 1}), "heat takes no infinite weights, but one is inf"),
        (lambda: neural(INFINITE), "neural takes no infinite weights, but one is inf"),
        (lambda: neural(BOTH_INFINITIES), "no infinite weights, but one is -inf"),
        (lambda: pagerank(INFINITE, weighted=True), "no infinite weights, but one is inf"),
        (lambda: neural(PATH), "neural needs weights"),
        (lambda: neural(NOT_A_NUMBER), "NaN"),
        (lambda: neural(ROAD, initial=[1, math.nan, 0, 0]), "not finite"),
    ],
)
def test_bad_arguments(call, says):
    with pytest.raises(ev.GraphError, match=says) as caught:
        call()
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize("call", [
    lambda **o: bfs(PATH, 0, **o), lambda **o: sssp(ROAD, 0, **o), lambda **o: sswp(ROAD, 0, **o),
    lambda **o: pagerank(PATH, **o), lambda **o: connected_components(PATH, **o),
    lambda **o: betweenness(PATH, **o), lambda **o: circuit(ROAD, {0: 1}, **o),
    lambda **o: heat(ROAD, 1, **o), lambda **o: neural(ROAD, **o),
])  # fmt: skip
def test_bad_devices_and_options(call):
    with pytest.raises(ev.DeviceError, match="abacus"):
        call(device="abacus")
    with pytest.raises(ev.ProgramError, match="wings"):
        call(wings=2, device="python")


@pytest.mark.parametrize("call", [
    lambda g: bfs(g, 0), lambda g: bfs(g, 0, target=1), lambda g: sssp(g, 0), lambda g: sswp(g, 0),
    pagerank, lambda g: pagerank(g, weighted=True), connected_components, betweenness,
    lambda g: betweenness(g, sources=2), lambda g: circuit(g, {0: 1}), lambda g: heat(g, 1), neural,
    lambda g: ev.run(BFS, g, source=0),
])  # fmt: skip
def test_what_is_no_graph(call):
    with pytest.raises(ev.GraphError, match="is of type str; it must be a Graph, made by .*load"):
        call("roads.gr")


@pytest.mark.parametrize("device", slow_but(["python", "cpu"], "python"))
def test_infinite_weights_without_sums(device):
    assert sswp(INFINITE, 0, device=device).width.tolist() == [math.inf, 1, 1]
    assert pagerank(INFINITE, device=device).stats["converged"]  # it does not read them


def test_graphs_without_vertices():
    no_roads = ev.Graph.from_edges([], [], np.array([], float))
    assert connected_components(EMPTY).count == 0
    assert pagerank(EMPTY).stats["converged"] is True
    assert len(betweenness(EMPTY).score) == 0
    assert len(circuit(no_roads, {}).potential) == 0
    assert len(heat(no_roads, 1.0).temperature) == 0
    assert len(neural(no_roads).activation) == 0
    assert len(pagerank(no_roads, weighted=True).rank) == 0


# ---- parameters that there are not ------------------------------------------------------------


@pytest.mark.parametrize("name", ["scale", "copies", "scale_of_sources"])
def test_parameters_of_the_program_are_not_those_of_the_function(name):
    message = rf"betweenness has no parameter '{name}'.*it takes sources, normalized, seed, and "
    with pytest.raises(ev.ProgramError, match=message) as caught:
        ev.betweenness(ev.generate.path(4), sources=2, device="python", **{name: 2})
    assert str(caught.value).count("scale") == str(caught.value).count(name) * ("scale" in name)


@pytest.mark.parametrize("name", ev.algorithms.__all__)
def test_misspelt_options_are_named_with_those_that_there_are(name):
    graph = ev.generate.path(4, weights=(1, 9))
    needed = {"bfs": [0], "sssp": [0], "sswp": [0], "circuit": [{0: 1.0}], "heat": [{0: 1.0}]}
    message = rf"{name} has no parameter 'devise' \(did you mean 'device'\?\).*memory_limit"
    with pytest.raises(ev.ProgramError, match=message):
        getattr(ev, name)(graph, *needed.get(name, []), devise="cpu")
