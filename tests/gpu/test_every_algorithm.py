"""Every algorithm with every schedule, in every direction, finds what the CPU finds."""

import numpy as np
import pytest
from cases import ALGORITHMS, DIRECTED, assert_same, expected, graphs, random_graph, run, suits

import evener as ev
from evener.operators.gpu.schedules import SCHEDULES

NAMED = [name for name in SCHEDULES if ":" not in name and name != "dynamic"]


def on_all_graphs(algorithm, **options):
    for name, graph in graphs().items():
        if suits(algorithm, graph):
            have = run(algorithm, graph, device="cuda", **options)
            assert_same(have, expected(algorithm, name), f"{algorithm} on {name}, {options}")


def cases():
    """Each compiles kernels of its own; those that `test_random` uses too are of its group."""
    for algorithm in ALGORITHMS:
        for schedule in ("auto", *NAMED):
            for direction in ("auto", "push", "pull"):
                if direction == "auto" or algorithm in DIRECTED:
                    known = direction == "auto"
                    group = f"{algorithm} {schedule}" + ("" if known else f" {direction}")
                    marks = [pytest.mark.xdist_group(group)]
                    if schedule != "auto" and not known:
                        marks.append(pytest.mark.slow)
                    yield pytest.param(algorithm, schedule, direction, marks=marks)


@pytest.mark.parametrize(("algorithm", "schedule", "direction"), list(cases()))
def test_equals_the_cpu(algorithm, schedule, direction):
    on_all_graphs(algorithm, schedule=schedule, direction=direction)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if ":" in name])
@pytest.mark.parametrize("algorithm", ["bfs", "sssp", "pagerank", "betweenness"])
def test_widths_of_virtual_warps(algorithm, schedule):
    on_all_graphs(algorithm, schedule=schedule)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
@pytest.mark.parametrize("algorithm", ["sssp", "sswp"])
def test_weights_of_every_dtype(algorithm, dtype):
    for seed in range(4):
        graph = random_graph(seed, dtype=dtype)
        want = run(algorithm, graph, device="cpu")
        assert_same(run(algorithm, graph, device="cuda"), want, f"{dtype} {seed}")


@pytest.mark.parametrize("algorithm", ["bfs", "pagerank", "components"])
def test_graphs_without_weights(algorithm):
    graph = ev.generate.rmat(11, 8, seed=4)
    assert_same(run(algorithm, graph, device="cuda"), run(algorithm, graph, device="cpu"), "rmat")


@pytest.mark.parametrize("algorithm", ["pagerank", "weighted pagerank", "heat", "neural"])
def test_vertices_in_the_order_of_degrees(algorithm, monkeypatch):
    monkeypatch.setattr("evener.engine.memory.gpu_graph.RELABEL_ARCS", 0)
    monkeypatch.setattr("evener.engine.memory.gpu_graph.RELABEL_SKEW", 0)
    for name in ("rmat", "star and more", "random 1"):
        graph = graphs()[name]
        fresh = ev.Graph(graph.indptr, graph.indices, graph.weights, directed=graph.directed)
        assert_same(run(algorithm, fresh, device="cuda"), expected(algorithm, name), name)


def test_many_sources_side_by_side():
    from evener.engine.sources_at_once import sources_at_once

    graph = ev.generate.grid(40, 50)
    assert sources_at_once("cuda", graph, 100) == 16
    assert sources_at_once("cuda", ev.generate.rmat(18, 16), 100) == 1  # its frontiers fill the GPU
    want = ev.betweenness(graph, sources=50, device="cpu").score
    have = ev.betweenness(graph, sources=50, device="cuda").score
    np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12)
