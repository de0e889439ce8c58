"""The example programs: right answers on every device, and between them every stage and merge."""

import math

import networkx as nx
import numpy as np
import pytest

import evener as ev
import references
from device_sets import DEVICES, on_devices
from evener.engine.run import run
from evener.programs import stages
from evener.programs.fields import MERGES
from graphs import random_graph, weighted
from programs.examples import NAMES, module, programs
from tables import slow_but

# For programs whose stages others have that are compiled.
INTERPRETED = [name for name in DEVICES if set(name.split("+")) == {"python"}]


@pytest.mark.parametrize("name", NAMES)
def test_main(name, capsys):
    module(name).main("python")
    assert len(capsys.readouterr().out) > 50


def test_together_they_use_every_stage_and_every_merge():
    used = {type(stage) for p in programs() for stage in stages.walk(p.declaration.loop)}
    kinds = {
        kind for kind in vars(stages).values()
        if isinstance(kind, type) and issubclass(kind, stages.Stage) and kind is not stages.Stage
    }  # fmt: skip
    assert used == kinds
    repeats = [
        stage for p in programs() for stage in stages.walk(p.declaration.loop)
        if isinstance(stage, stages.Repeat)
    ]  # fmt: skip
    assert any(stage.order for stage in repeats)
    assert any(stage.until for stage in repeats)
    assert any(stage.max_supersteps for stage in repeats)
    merges = {field.merge for p in programs() for field in p.declaration.fields.values()}
    assert merges >= set(MERGES)


@on_devices
@pytest.mark.parametrize("directed", [True, False])
def test_widest_and_gentlest_path(directed, device):
    graph = weighted(random_graph(50, 120, directed=directed, seed=4))
    example = module("widest_path")
    found = run(example.Widest, graph, source=0, device=device)
    assert found.width.tolist() == references.widths(graph, [0]).tolist()
    src, dst = graph._sources(), graph.indices
    offers = np.minimum(found.width[src], graph.weights) == found.width[dst]
    for v in np.flatnonzero((found.width > 0) & (found.width < np.inf)):
        assert found.offered_by[v] in src[offers & (dst == v)]
    gentlest = run(example.Gentlest, graph, source=0, device=device).steepest
    opposite = ev.Graph(graph.indptr, graph.indices, 100 - graph.weights, directed=directed)
    expected = 100 - references.widths(opposite, [0])
    expected[0] = 0
    assert gentlest.tolist() == np.where(expected == 100, np.inf, expected).tolist()


@on_devices
def test_k_core(device):
    graph = ev.generate.rmat(7, 6, seed=2)
    expected = nx.core_number(graph.to_networkx())
    assert module("k_core").k_core(graph, device).tolist() == [expected[v] for v in range(128)]


@pytest.mark.parametrize("device", slow_but(DEVICES, *INTERPRETED))
@pytest.mark.parametrize("k", [0, 1, 3, 50])
def test_k_hop(k, device):
    graph = random_graph(60, 90, directed=True, seed=7)
    depth = references.depths(graph, [5])
    expected = np.count_nonzero((depth >= 0) & (depth <= k))
    assert module("k_hop").k_hop(graph, 5, k, device) == expected


@pytest.mark.parametrize("device", slow_but(DEVICES, *INTERPRETED))
def test_personalised_heat(device):
    graph = ev.generate.rmat(6, 6, seed=3).largest_component()
    heat = module("personalised_heat").personalised_heat(graph, graph.labels[:2].tolist(), device)
    jumps = np.zeros(graph.num_vertices)
    jumps[:2] = 1
    np.testing.assert_allclose(heat, references.ranks(graph, damping=0.8, jumps=jumps), atol=1e-8)


@pytest.mark.parametrize("device", slow_but(DEVICES, *INTERPRETED))
def test_path_counting(device):
    example = module("path_counting")
    grid = ev.generate.grid(6, 6)
    found = run(example.PathCounting, grid, source=0, target=35, device=device)
    assert found.paths[35] == math.comb(10, 5)
    ways = [math.comb(i + j, i) * math.comb(10 - i - j, 5 - i) for i in range(6) for j in range(6)]
    assert found.through.tolist() == ways
    graph = random_graph(40, 90, directed=True, seed=3)
    found = run(example.PathCounting, graph, source=0, target=7, device=device)
    paths = np.zeros(40)
    depth = references.depths(graph, [0])
    paths[0] = 1
    for v in np.argsort(depth, kind="stable"):
        for w, _ in references.neighbours(graph, v) if depth[v] >= 0 else ():
            paths[w] += paths[v] if depth[w] == depth[v] + 1 else 0
    assert found.paths.tolist() == paths.tolist()
    assert found.through[7] == paths[7] == found.through[0]
