"""Serial references for the algorithms: twenty plain lines each, or SciPy and NetworkX."""

from __future__ import annotations

import heapq
import importlib
from collections import deque
from typing import Any

import networkx as nx
import numpy as np

from evener.graph.csr import Graph


def neighbours(graph: Graph, v: int) -> list[tuple[int, Any]]:
    """The out-arcs of a vertex as pairs of target and weight."""
    arcs = slice(graph.indptr[v], graph.indptr[v + 1])
    targets = graph.indices[arcs].tolist()
    weights = [1] * len(targets) if graph.weights is None else graph.weights[arcs].tolist()
    return list(zip(targets, weights, strict=True))


def depths(graph: Graph, sources: list[int]) -> np.ndarray:
    """Hops from the nearest of some indices, -1 where there is no path."""
    depth = np.full(graph.num_vertices, -1)
    depth[sources] = 0
    waiting = deque(sources)
    while waiting:
        v = waiting.popleft()
        for w, _ in neighbours(graph, v):
            if depth[w] < 0:
                depth[w] = depth[v] + 1
                waiting.append(w)
    return depth


def distances(graph: Graph, sources: list[int]) -> np.ndarray:
    """Dijkstra's algorithm, infinite where there is no path."""
    distance = np.full(graph.num_vertices, np.inf)
    distance[sources] = 0
    heap = [(0, v) for v in sources]
    while heap:
        d, v = heapq.heappop(heap)
        if d > distance[v]:
            continue
        for w, weight in neighbours(graph, v):
            if d + weight < distance[w]:
                distance[w] = d + weight
                heapq.heappush(heap, (d + weight, w))
    return distance


def widths(graph: Graph, sources: list[int]) -> np.ndarray:
    """Dijkstra's algorithm for the widest path: 0 where there is none, infinite at a source."""
    width = np.zeros(graph.num_vertices)
    width[sources] = np.inf
    heap = [(-np.inf, v) for v in sources]
    while heap:
        w, v = heapq.heappop(heap)
        for u, weight in neighbours(graph, v):
            offer = min(-w, weight)
            if offer > width[u]:
                width[u] = offer
                heapq.heappush(heap, (-offer, u))
    return width


def ranks(
    graph: Graph, *, damping: float = 0.85, jumps: Any = None, weighted: bool = False,
    iterations: int = 500,
) -> np.ndarray:  # fmt: skip
    """PageRank by powers of a dense matrix."""
    n = graph.num_vertices
    if n == 0:
        return np.empty(0)
    arcs = matrix(graph) if weighted else matrix(graph, ones=True)
    jumps = np.full(n, 1 / n) if jumps is None else np.asarray(jumps) / np.sum(jumps)
    out = arcs.sum(axis=1, keepdims=True)
    step = np.where(out > 0, arcs / np.where(out > 0, out, 1), jumps)
    rank = np.full(n, 1 / n)
    for _ in range(iterations):
        rank = (1 - damping) * jumps + damping * rank @ step
    return rank


def matrix(graph: Graph, *, ones: bool = False) -> np.ndarray:
    """The dense adjacency matrix; parallel arcs add up."""
    dense = np.zeros((graph.num_vertices, graph.num_vertices))
    weights = 1 if ones or graph.weights is None else graph.weights
    np.add.at(dense, (graph._sources(), graph.indices), weights)
    return dense


def components(graph: Graph) -> np.ndarray:
    """The smallest index in the weak component of each vertex."""
    component = np.arange(graph.num_vertices)
    undirected = nx.Graph()
    undirected.add_nodes_from(range(graph.num_vertices))
    undirected.add_edges_from(zip(graph._sources().tolist(), graph.indices.tolist(), strict=True))
    for found in nx.connected_components(undirected):
        component[list(found)] = min(found)
    return component


def betweenness(graph: Graph, *, normalized: bool = True) -> np.ndarray:
    """NetworkX's betweenness; parallel arcs must have been combined."""
    other = nx.DiGraph() if graph.directed else nx.Graph()
    other.add_nodes_from(range(graph.num_vertices))
    other.add_edges_from(zip(graph._sources().tolist(), graph.indices.tolist(), strict=True))
    score = nx.betweenness_centrality(other, normalized=normalized)
    return np.array([score[v] for v in range(graph.num_vertices)])


def potentials(graph: Graph, fixed: dict[int, float]) -> np.ndarray:
    """Kirchhoff's equations, solved as such; every free node must be joined to a held one."""
    conductance = matrix(graph).T
    equations = np.diag(conductance.sum(axis=1)) - conductance
    right = np.zeros(graph.num_vertices)
    for v, potential in fixed.items():
        equations[v] = 0
        equations[v, v] = 1
        right[v] = potential
    return np.linalg.solve(equations, right)


def temperatures(graph: Graph, start: np.ndarray, step: float, steps: int) -> np.ndarray:
    """The explicit scheme with a dense matrix, for so many steps."""
    rates = matrix(graph).T
    q = start
    for _ in range(steps):
        q = q + step * (rates @ q - rates.sum(axis=1) * q)
    return q


def activations(graph: Graph, start: np.ndarray, iterations: int) -> np.ndarray:
    """tanh of the weighted sums with a dense matrix, so many times; inputs stay as they are."""
    weights = matrix(graph).T
    inputs = graph.in_degrees == 0
    x = start
    for _ in range(iterations):
        x = np.where(inputs, start, np.tanh(weights @ x))
    return x


def verify(algorithm, *arguments, **named):
    module = importlib.import_module(f"evener.algorithms.{algorithm.__name__}")
    return module.verify(*arguments, **named)
