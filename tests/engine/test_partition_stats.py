"""Statistics of partitions against sets counted one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evener import generate
from evener.engine.partition.partitioners import partition
from evener.engine.partition.stats import measure_partition
from graphs import DEGENERATE, graphs


@given(graphs(25, 80), st.sampled_from([1, 2, 3, 8]), st.booleans(), st.integers(0, 99))
@settings(max_examples=80)
def test_counts(graph, k, pulls, seed):
    part_of = np.random.default_rng(seed).integers(0, k, graph.num_vertices)
    found = measure_partition(graph, part_of, k, pulls=pulls)
    arcs = list(zip(graph._sources().tolist(), graph.indices.tolist(), strict=True))
    for p in range(k):
        assert found.vertices[p] == (part_of == p).sum()
        assert found.edges[p] == sum(part_of[u] == p for u, _ in arcs)
        crossing = [(u, v) for u, v in arcs if part_of[u] == p != part_of[v]]
        assert found.boundary[p] == len(crossing)
        ghosts = {v for _, v in crossing}
        if pulls:
            ghosts |= {u for u, v in arcs if part_of[v] == p != part_of[u]}
        assert found.ghosts[p] == len(ghosts)
        for q in range(k):
            assert found.links[p, q] == sum(part_of[v] == q for v in ghosts)
    assert found.beta <= 1
    if arcs:
        assert found.beta == found.boundary.sum() / len(arcs)
        assert found.balance == pytest.approx(found.edges.max() * k / len(arcs))
    if not pulls:
        assert found.beta_aggregated <= found.beta


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_graphs(name):
    graph = DEGENERATE[name]()
    found = measure_partition(graph, partition(graph, "random", [1, 1, 1]), 3)
    assert found.vertices.sum() == graph.num_vertices
    assert found.edges.sum() == graph.num_edges
    assert found.vertex_shares.sum() == pytest.approx(float(graph.num_vertices > 0))
    assert found.balance >= 1
    assert set(found.as_dict()) >= {"beta", "beta_aggregated", "ghosts", "balance"}


def test_aggregation_helps_skewed_graphs_more():
    # As TOTEM shows for R-MAT and uniform graphs (its figure 4).
    aggregated = [
        measure_partition(graph, partition(graph, "random", [1, 1]), 2).beta_aggregated
        for graph in (generate.rmat(14, 16, seed=1), generate.uniform(14, 16, seed=1))
    ]
    assert aggregated[0] < aggregated[1] < 0.05
