"""What tests of device sets share: algorithms, partitioners, policies and programs."""

import importlib.util
import os

import numpy as np
import pytest

import evener as ev
from evener.algorithms.pagerank import DanglingPageRank
from evener.engine.partition.partitioners import PARTITIONERS
from evener.operators.shared.policies import EVERY
from graphs import with_int64_weights
from programs.merged import Reset, Totals
from programs.searches import Nearest, Paths, Plain, Search
from programs.stages import Gathered, Labels, OnEdges, Scattered, Slices

# What tests of algorithms run on; a machine with a GPU may ask for others.
DEVICES = os.environ.get("EVENER_TEST_DEVICES", "python python+python cpu").split()
on_devices = pytest.mark.parametrize("device", DEVICES)
alone = pytest.mark.parametrize("device", [name for name in DEVICES if "+" not in name])

PROGRAMS = [
    Search, Nearest, Plain, Paths, Labels, Gathered, Scattered, OnEdges, Slices, Reset, Totals,
    DanglingPageRank,
]  # fmt: skip
# Those that `make test` compiles for parts: see `engine/test_kernel_texts.py`.
FEW_PROGRAMS = [Search, Gathered, Scattered, OnEdges, Reset, Totals]
# Of each program one direction, since each is a kernel to be compiled.
DIRECTION = {Nearest: "pull", Plain: "push", Scattered: "push", OnEdges: "pull"}


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


def small(directed=False):
    """A graph with whole weights from 0."""
    return with_int64_weights(ev.generate.rmat(7, 5, seed=3, weights=(0, 9), directed=directed))


def halves(graph):
    """Weights above 0 that are no integers."""
    return ev.Graph(graph.indptr, graph.indices, np.maximum(graph.weights, 1) / 8,
                    directed=graph.directed)  # fmt: skip


ALGORITHMS = {
    "bfs": lambda g, **o: ev.bfs(g, 1, **o).depth,
    "bfs to a level": lambda g, **o: ev.bfs(g, 1, target=5, cutoff=2, **o).depth,
    "sssp": lambda g, **o: ev.sssp(g, 1, **o).distance,
    "sssp parents": lambda g, **o: ev.sssp(g, 1, **o).parent,
    "sssp to a target": lambda g, **o: ev.sssp(g, 1, target=5, **o).distance,
    "sssp to a distance": lambda g, **o: ev.sssp(halves(g), 1, cutoff=0.8, **o).distance,
    "sswp": lambda g, **o: ev.sswp(g, 1, **o).width,
    "pagerank": lambda g, **o: ev.pagerank(g, **o).rank,
    "weighted pagerank": lambda g, **o: ev.pagerank(halves(g), weighted=True, **o).rank,
    "components": lambda g, **o: ev.connected_components(g, **o).component,
    "betweenness": lambda g, **o: ev.betweenness(g, sources=4, **o).score,
    "circuit": lambda g, **o: ev.circuit(halves(g), {1: 1.0, 5: 0.0}, **o).potential,
    "heat": lambda g, **o: ev.heat(halves(g), {1: 9.0}, **o).temperature,
    "neural": lambda g, **o: ev.neural(halves(g), max_iterations=20, **o).activation,
}
