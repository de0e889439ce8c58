"""The adapter for python-graphblas: algorithms as products over semirings, as in LAGraph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evener.bench.cases import ITERATIONS
from evener.bench.findings import Finding, components, depths, top
from evener.graph.csr import Graph


class GraphBLAS:
    """SuiteSparse:GraphBLAS through python-graphblas: parallel sparse matrix products."""

    name, package, most_arcs = "python-graphblas", "graphblas", None
    distribution = "python-graphblas"

    def __init__(self, graph: Graph, threads: int):
        import graphblas

        graphblas.ss.config["nthreads"] = threads
        self.gb, self.n, self.degrees = graphblas, graph.num_vertices, graph.degrees
        self.weights = self._matrix(graph, np.asarray(graph.weights, dtype=np.float64))
        self.arcs = self._matrix(graph, np.ones(graph.num_edges, np.float32))
        self.into = self.arcs
        if graph.directed:
            self.into = self._matrix(graph.transpose(), np.ones(graph.num_edges, np.float32))

    def _matrix(self, graph: Graph, values: np.ndarray) -> Any:
        indptr = graph.indptr.astype(np.uint64)
        indices = graph.indices.astype(np.uint64)
        return self.gb.Matrix.from_csr(indptr, indices, values, ncols=self.n)

    def bfs(self, source: int) -> Any:
        any_pair = self.gb.semiring.any_pair

        def work() -> Any:
            level = self.gb.Vector(np.int32, self.n)
            front = self.gb.Vector(np.float32, self.n)
            front[source] = 1
            depth = 0
            while front.nvals:
                level(front.S) << depth
                front(~level.S, replace=True) << any_pair(front @ self.arcs)
                depth += 1
            return level

        return work, self._depths

    def sssp(self, source: int) -> Any:
        """Bellman-Ford, restricted to the vertices whose distance decreased."""
        gb = self.gb

        def work() -> Any:
            distance = gb.Vector(np.float64, self.n)
            distance[source] = 0.0
            front = distance.dup()
            while front.nvals:
                offer = gb.semiring.min_plus(front @ self.weights).new()
                better = gb.binary.lt(offer & distance).new()
                front = gb.select.valuene(better, False).new()
                nearer = offer.dup(mask=~distance.S)
                nearer(front.S) << offer
                distance(gb.binary.min) << nearer
                front = nearer
            return distance

        return work, self._depths

    def pagerank(self) -> Any:
        gb, n = self.gb, self.n

        def work() -> Any:
            plus_second = gb.semiring.plus_second
            out = gb.Vector.from_dense(np.maximum(self.degrees, 1).astype(np.float32))
            dangling = gb.Vector.from_dense((self.degrees == 0).astype(np.float32))
            rank = gb.Vector.from_dense(np.full(n, 1 / n, np.float32))
            for _ in range(ITERATIONS):
                lost = (rank @ dangling).new().value
                share = gb.binary.truediv(rank & out).new()
                jump = np.float32((0.15 + 0.85 * lost) / n)
                total = plus_second(self.into @ share).new()
                rank = gb.Vector.from_dense(np.full(n, jump, np.float32))
                rank(gb.binary.plus) << total.apply(gb.binary.times, np.float32(0.85))
            return rank

        return work, lambda rank: top(rank.to_dense())

    def cc(self) -> Any:
        """FastSV (Zhang, Azad, Buluç: SIAM PP 2020)."""
        gb = self.gb
        both = (self.into,) if self.into is self.arcs else (self.into, self.arcs)

        def work() -> int:
            parent = np.arange(self.n)
            grand = parent
            while True:
                offered = grand.copy()
                known = gb.Vector.from_dense(grand)
                for matrix in both:
                    seen, values = gb.semiring.min_second(matrix @ known).new().to_coo()
                    offered[seen] = np.minimum(offered[seen], values)
                hooked = np.minimum(parent, offered)
                np.minimum.at(hooked, parent, offered)  # hooks the roots too
                parent = np.minimum(hooked, grand)
                following = parent[parent]
                if np.array_equal(following, grand):
                    return len(np.unique(grand))
                grand = following

        return work, components

    def bc(self, sources: Sequence[int]) -> Any:
        """All sources at once, one row each; dependencies go back over the levels."""
        gb, k = self.gb, len(sources)

        def work() -> Any:
            plus_first = gb.semiring.plus_first
            paths = gb.Matrix.from_coo(np.arange(k), sources, np.ones(k), nrows=k, ncols=self.n)
            front = plus_first(paths @ self.arcs).new(mask=~paths.S)
            levels = []
            while front.nvals:
                levels.append(front.dup(np.bool_))
                paths(gb.binary.plus) << front
                front << plus_first(front @ self.arcs)
                front = front.dup(mask=~paths.S)
            delta = gb.Matrix(np.float64, k, self.n)
            delta << 1.0
            for depth in range(len(levels) - 1, 0, -1):
                share = gb.binary.truediv(delta & paths).new(mask=levels[depth].S)
                back = plus_first(share @ self.into).new(mask=levels[depth - 1].S)
                delta(gb.binary.plus) << gb.binary.times(back & paths)
            return delta.reduce_columnwise(gb.monoid.plus).new()

        return work, lambda score: top(score.to_dense(), sources)

    @staticmethod
    def _depths(found: Any) -> Finding:
        return depths(found.to_coo()[1])
