"""Adapters for other Python graph libraries: the same graph, the same work.

Making an adapter converts the graph, untimed. It has a method for each algorithm that the library
offers, which returns the work to time and a function that turns its result into a finding, untimed.
Evener does not depend on any of these libraries.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from evener.bench.cases import ITERATIONS, Algorithm
from evener.bench.contenders import Skipped, Timing, Trial
from evener.bench.findings import Finding, components, depths, top
from evener.bench.graphblas import GraphBLAS
from evener.bench.harness import timed
from evener.graph.csr import Graph

Work = tuple[Callable[[], Any], Callable[[Any], Finding]]

BUDGET_S = 10.0  # for all trials of a peer on one case
SLOW_ARCS = 4_000_000  # limit for libraries with an object per edge


class SciPy:
    """Graph routines of SciPy; PageRank as a matrix-vector product."""

    name, package, most_arcs = "SciPy", "scipy", None

    def __init__(self, graph: Graph, threads: int):
        from scipy.sparse import csgraph, csr_array

        n = graph.num_vertices
        weights = np.asarray(graph.weights, dtype=np.float64)
        self.csgraph, self.n = csgraph, n
        self.matrix = csr_array((weights, graph.indices, graph.indptr), shape=(n, n))
        into = graph.transpose()
        ones = np.ones(into.num_edges, np.float32)
        self.into = csr_array((ones, into.indices, into.indptr), shape=(n, n))
        self.degrees = graph.degrees

    def bfs(self, source: int) -> Work:
        return (
            lambda: self.csgraph.breadth_first_order(self.matrix, source)[0],
            lambda order: {"reached": len(order)},
        )

    def sssp(self, source: int) -> Work:
        return lambda: self.csgraph.dijkstra(self.matrix, indices=source), depths

    def pagerank(self) -> Work:
        def work() -> np.ndarray:
            rank = np.full(self.n, np.float32(1 / self.n))
            dangling = self.degrees == 0
            out = np.maximum(self.degrees, 1).astype(np.float32)
            for _ in range(ITERATIONS):
                jump = np.float32(0.15 + 0.85 * rank[dangling].sum()) / np.float32(self.n)
                rank = jump + np.float32(0.85) * (self.into @ (rank / out))
            return rank

        return work, top

    def cc(self) -> Work:
        return (
            lambda: self.csgraph.connected_components(self.matrix, directed=False)[0],
            components,
        )


class NetworkX:
    """NetworkX, in pure Python; PageRank runs to its tolerance."""

    name, package, most_arcs = "NetworkX", "networkx", SLOW_ARCS

    def __init__(self, graph: Graph, threads: int):
        import networkx

        self.nx, self.graph, self.n = networkx, graph.to_networkx(), graph.num_vertices

    def bfs(self, source: int) -> Work:
        return (
            lambda: self.nx.single_source_shortest_path_length(self.graph, source),
            lambda found: depths(list(found.values())),
        )

    def sssp(self, source: int) -> Work:
        return (
            lambda: self.nx.single_source_dijkstra_path_length(self.graph, source),
            lambda found: depths(list(found.values())),
        )

    def pagerank(self) -> Work:
        return (
            lambda: self.nx.pagerank(self.graph, weight=None, max_iter=1000),
            lambda found: top([found[v] for v in range(self.n)]),
        )

    def cc(self) -> Work:
        undirected = not self.graph.is_directed()
        search = self.nx.connected_components if undirected else self.nx.weakly_connected_components
        return lambda: sum(1 for _ in search(self.graph)), components

    def bc(self, sources: Sequence[int]) -> Work:
        subset = self.nx.betweenness_centrality_subset
        return (
            lambda: subset(self.graph, sources, list(self.graph)),
            lambda found: top([found[v] for v in range(self.n)], sources),
        )


class NetworKit:
    """NetworKit, in C++ with OpenMP; its sampled betweenness draws its own sources."""

    name, package, most_arcs = "NetworKit", "networkit", None

    def __init__(self, graph: Graph, threads: int):
        import networkit

        networkit.setNumberOfThreads(threads)
        self.nk, self.directed = networkit, graph.directed
        weights, ends = _each_edge(graph)
        src, dst = (end.astype(np.uint64) for end in ends)  # it misreads other dtypes
        self.weighted = networkit.GraphFromCoo(
            (weights, (src, dst)), n=graph.num_vertices, weighted=True, directed=graph.directed
        )
        # Its PageRank and betweenness use weights if the graph has them.
        self.graph = networkit.graphtools.toUnweighted(self.weighted)

    def bfs(self, source: int) -> Work:
        return self._distances(self.nk.distance.BFS, self.graph, source)

    def sssp(self, source: int) -> Work:
        return self._distances(self.nk.distance.Dijkstra, self.weighted, source)

    def _distances(self, search: Any, graph: Any, source: int) -> Work:
        def work() -> Any:
            return search(graph, source, storePaths=False).run().getDistances(asarray=True)

        return work, depths

    def pagerank(self) -> Work:
        def work() -> Any:
            search = self.nk.centrality.PageRank(self.graph, 0.85, 1e-300)
            search.maxIterations = ITERATIONS
            return search.run().scores()

        return work, top

    def cc(self) -> Work:
        kind = self.nk.components
        search = kind.WeaklyConnectedComponents if self.directed else kind.ConnectedComponents
        return lambda: search(self.graph).run().numberOfComponents(), components

    def bc(self, sources: Sequence[int]) -> Work:
        search = self.nk.centrality.EstimateBetweenness
        work = lambda: search(self.graph, len(sources), False, True).run().scores()  # noqa: E731
        return work, lambda found: {}


class IGraph:
    """igraph, in C on one thread; PageRank uses its own direct solver."""

    name, package, most_arcs = "igraph", "igraph", None

    def __init__(self, graph: Graph, threads: int):
        import igraph

        weights, (src, dst) = _each_edge(graph)
        ends = np.column_stack((src, dst)).astype(np.int64)
        self.graph = igraph.Graph(n=graph.num_vertices, edges=ends, directed=graph.directed)
        self.graph.es["weight"] = weights.tolist()

    def bfs(self, source: int) -> Work:
        return lambda: self.graph.distances(source)[0], depths

    def sssp(self, source: int) -> Work:
        return lambda: self.graph.distances(source, weights="weight")[0], depths

    def pagerank(self) -> Work:
        return self.graph.pagerank, top

    def cc(self) -> Work:
        return lambda: len(self.graph.connected_components(mode="weak")), components

    def bc(self, sources: Sequence[int]) -> Work:
        return (
            lambda: self.graph.betweenness(sources=list(sources)),
            lambda found: top(found, sources),
        )


class RustworkX:
    """rustworkx, in Rust with a Python object per edge; PageRank runs to its tolerance."""

    name, package, most_arcs = "rustworkx", "rustworkx", SLOW_ARCS

    def __init__(self, graph: Graph, threads: int):
        import rustworkx

        self.rx, self.n = rustworkx, graph.num_vertices
        self.graph = rustworkx.PyDiGraph()
        self.graph.add_nodes_from(range(self.n))
        weights = np.asarray(graph.weights).tolist()
        arcs = zip(graph._sources().tolist(), graph.indices.tolist(), weights, strict=True)
        self.graph.add_edges_from(list(arcs))

    def bfs(self, source: int) -> Work:
        return (
            lambda: self.rx.bfs_successors(self.graph, source),
            lambda found: {"reached": len({source}.union(*(children for _, children in found)))},
        )

    def sssp(self, source: int) -> Work:
        return (
            lambda: self.rx.dijkstra_shortest_path_lengths(self.graph, source, float),
            lambda found: depths([0.0, *(found[v] for v in found if v != source)]),
        )

    def pagerank(self) -> Work:
        return (
            lambda: self.rx.pagerank(self.graph, max_iter=1000),
            lambda found: top([found[v] for v in range(self.n)]),
        )

    def cc(self) -> Work:
        return lambda: self.rx.number_weakly_connected_components(self.graph), components


def _each_edge(graph: Graph) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Weights and ends of the edges; each undirected edge once."""
    src, dst, weights = graph._sources(), graph.indices, np.asarray(graph.weights, dtype=np.float64)
    if not graph.directed:
        once = src <= dst
        src, dst, weights = src[once], dst[once], weights[once]
    return weights, (src, dst)


class Peer:
    """A contender that uses an adapter, which is made on first use."""

    budget_s: float | None = BUDGET_S

    def __init__(self, adapter: Any, graph: Graph, threads: int):
        self.name, self.adapter, self.graph, self.threads = adapter.name, adapter, graph, threads
        self._library: Any = None
        self._facts: dict[str, Any] = {}

    def prepare(self, algorithm: Algorithm) -> Trial:
        """Convert the graph; `Skipped` if the library lacks the algorithm or the graph is large."""
        if importlib.util.find_spec(self.adapter.package) is None:
            raise Skipped(f"{self.adapter.package} is not installed")
        if not hasattr(self.adapter, algorithm.name):
            raise Skipped(f"{self.name} has no such routine")
        most = self.adapter.most_arcs
        if most is not None and self.graph.num_edges > most:
            raise Skipped(f"measured up to {most:,} arcs, and this graph has more")
        if self._library is None:
            convert = lambda: self.adapter(self.graph, self.threads)  # noqa: E731
            seconds, self._library = timed(lambda: self._skip_on_error(convert))
            self._facts = {"convert_s": round(seconds, 3)}
        return lambda sources: self._trial(algorithm, sources)

    def facts(self) -> dict[str, Any]:
        """Seconds for converting the graph."""
        return self._facts

    def _trial(self, algorithm: Algorithm, sources: Sequence[int]) -> Timing:
        arguments: tuple[Any, ...] = ()
        if algorithm.sources:
            arguments = (sources[0],) if algorithm.sources == 1 else (list(sources),)
        work, summarize = getattr(self._library, algorithm.name)(*arguments)
        seconds, answer = timed(lambda: self._skip_on_error(work))
        return Timing(seconds, seconds, self._skip_on_error(lambda: summarize(answer)))

    def _skip_on_error(self, work: Callable[[], Any]) -> Any:
        """Run work; turn an error of the library into `Skipped`."""
        try:
            return work()
        except Exception as error:
            raise Skipped(f"{self.name} raised {type(error).__name__}: {error}") from error


PEERS: list[Any] = [SciPy, NetworkX, NetworKit, IGraph, GraphBLAS, RustworkX]


def versions_of_peers() -> dict[str, str]:
    """The versions of the installed peers.

    Examples
    --------
    >>> from evener.bench.peers import versions_of_peers
    >>> "scipy" in versions_of_peers()
    True
    """
    found = {}
    for adapter in PEERS:
        name = getattr(adapter, "distribution", adapter.package)
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
