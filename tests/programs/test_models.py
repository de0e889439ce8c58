"""Gather-apply-scatter and vertex-centric programs: the answers of the built-in algorithms."""

import itertools

import numpy as np
import pytest
from numpy import int64

import evener as ev
from evener.engine.run import run
from evener.errors import ProgramError
from evener.programs import Field, Param, functor
from evener.programs.gas import GasProgram
from evener.programs.stages import gather
from evener.programs.vertex import VertexProgram
from graphs import Made, random_graph, weighted
from programs.examples import module
from programs.stages import Around, Neighbours, Outwards
from tables import slow_but

DEVICES = ["python", "python+python", "cpu:1", "cpu:2"]
on_devices = pytest.mark.parametrize("device", DEVICES)
models = pytest.mark.parametrize("model", ["gather_apply_scatter", "vertex_centric"])

GRAPHS = Made(
    {
        "directed": lambda: weighted(random_graph(50, 140, directed=True, seed=6)),
        "undirected": lambda: weighted(random_graph(60, 90, directed=False, seed=7)),
        "one vertex": lambda: weighted(ev.Graph.from_edges([], [], num_vertices=1)),
        "loops": lambda: weighted(ev.Graph.from_edges([0, 0, 1, 1], [0, 1, 1, 0])),
    }
)


@pytest.fixture(params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]


@models
@on_devices
def test_searches(graph, device, model):
    example = module(model)
    argument = "source" if model == "gather_apply_scatter" else "origin"
    depth = run(example.Hops, graph, device=device, **{argument: 0}).depth
    assert depth.tolist() == ev.bfs(graph, 0, device="python").depth.tolist()
    distance = run(example.Distances, graph, source=0, device=device).distance
    expected = ev.sssp(graph, 0, device="python").distance
    np.testing.assert_allclose(distance, expected, rtol=1e-6)


@models
@pytest.mark.parametrize("device", slow_but(DEVICES, "python", "python+python"))
def test_components(graph, device, model):
    graph = graph.symmetrize() if graph.directed else graph
    label = run(module(model).Labels, graph, device=device).label
    expected = ev.connected_components(graph, device="python").component
    assert label.tolist() == expected.tolist()


@models
@pytest.mark.parametrize("device", slow_but(DEVICES, "python", "python+python"))
def test_ranks(device, model):
    graph = ev.generate.rmat(6, 5, seed=4).largest_component()
    rank = run(module(model).Rank, graph, device=device).rank
    expected = ev.pagerank(graph, tol=1e-12, max_iterations=500, device="python").rank
    np.testing.assert_allclose(rank, expected, atol=1e-9)


class AroundByFunctor(Neighbours):
    """The last of them all: the order is the in-edges, then the out-edges."""

    along = "both"

    @functor
    def combine(a, b):
        return b


@on_devices
@pytest.mark.parametrize("program", [Neighbours, Outwards, Around, AroundByFunctor])
def test_gather_along(program, graph, device):
    graph = ev.Graph(
        graph.indptr, graph.indices, (4 * graph.weights).astype(np.int32), directed=graph.directed
    )
    into = [[] for _ in range(graph.num_vertices)]
    out = [[] for _ in range(graph.num_vertices)]
    for u, v, w in zip(
        graph._sources().tolist(), graph.indices.tolist(), graph.weights.tolist(), strict=True
    ):
        into[v].append((u + 1) * w + 1000 * v)
        out[u].append((v + 1) * w + 1000 * u)
    sides = {"in": (into,), "out": (out,), "both": (into, out) if graph.directed else (into,)}
    lists = [list(itertools.chain(*values)) for values in zip(*sides[program.along], strict=True)]
    pick = sum if program.combine == "sum" else lambda values: values[-1] if values else 0
    found = run(program, graph, device=device).total
    assert found.tolist() == [pick(values) for values in lists]


class Bounded(VertexProgram):
    """Counts of walks, for so many supersteps or until a scalar says so."""

    walks = Field(int64, fill=1)
    rounds = Param(int64, 3)
    max_supersteps = rounds

    @functor
    def compute(src, edge, s):
        return 1

    @functor
    def updated(v, value, s):
        s.walks[v] += value
        return True


@on_devices
def test_bounds(device):
    graph = GRAPHS["directed"]
    found = run(Bounded, graph, rounds=5, device=device)
    assert found.walks.tolist() == (1 + 5 * graph.in_degrees).tolist()
    assert found.stats["supersteps"] == 5


def test_mistakes():
    with pytest.raises(ProgramError, match="Empty has no functor apply"):
        type("Empty", (GasProgram,), {})
    with pytest.raises(ProgramError, match="Empty has no functor compute"):
        type("Empty", (VertexProgram,), {})
    with pytest.raises(ProgramError, match=r"Plain\.apply must be marked @functor"):
        type("Plain", (GasProgram,), {"apply": lambda v, s: True})
    with pytest.raises(ProgramError, match="gather goes along 'up'"):
        gather(Neighbours.gather, "sum", Neighbours.apply, along="up")
