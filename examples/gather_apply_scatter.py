"""Four algorithms as gather, apply, scatter: search, shortest paths, components, rank.

python examples/gather_apply_scatter.py

In this model (PowerGraph, MapGraph, VertexAPI2) a vertex of the frontier gathers values over its
in-edges and applies their combination to itself. If that changed it, it scatters: its out-edges
decide which neighbours join the next frontier.
"""

from __future__ import annotations

import numpy as np

import evener as ev

UNREACHED = 2**31 - 1


class Hops(ev.gas.GasProgram):
    """Hops from a source: nothing is gathered; the superstep is the depth."""

    depth = ev.Field(np.int32, fill=UNREACHED, missing=-1)

    @ev.functor
    def apply(v, s):
        if s.depth[v] > s.superstep:
            s.depth[v] = s.superstep
            return True
        return False

    @ev.functor
    def scatter(src, dst, edge, s):
        return s.depth[dst] == UNREACHED

    def start(self, source: ev.Vertex):
        return [source]


class Distances(ev.gas.GasProgram):
    """Lengths of shortest paths from a source."""

    distance = ev.Field(np.float64, fill=np.inf)
    combine = "min"

    @ev.functor
    def gather(src, dst, edge, s):
        return s.distance[src] + s.weight[edge]

    @ev.functor
    def apply(v, total, s):
        if total < s.distance[v]:
            s.distance[v] = total
            return True
        return s.superstep == 0  # the sources

    @ev.functor
    def scatter(src, dst, edge, s):
        return s.distance[src] + s.weight[edge] < s.distance[dst]

    def start(self, source: ev.Vertex):
        self.distance[source] = 0
        return [source]


class Labels(ev.gas.GasProgram):
    """Components of an undirected graph: each vertex adopts the smallest index it hears of."""

    label = ev.Field(ev.VERTEX)

    @ev.functor
    def gather(src, dst, edge, s):
        return s.label[src]

    @ev.functor
    def combine(a, b):
        return min(a, b)

    @ev.functor
    def apply(v, total, s):
        if total < s.label[v]:
            s.label[v] = total
            return True
        return s.superstep == 0

    @ev.functor
    def scatter(src, dst, edge, s):
        return s.label[src] < s.label[dst]

    def start(self):
        self.label[:] = np.arange(self.num_vertices)


class Rank(ev.gas.GasProgram):
    """PageRank if every vertex has an out-edge; a vertex whose in-neighbours are steady rests."""

    rank = ev.Field(np.float64)
    damping = ev.Param(np.float64, 0.85)
    tol = ev.Param(np.float64, 1e-12)

    @ev.functor
    def gather(src, dst, edge, s):
        return s.rank[src] / s.degree[src]

    @ev.functor
    def apply(v, total, s):
        new = (1 - s.damping) / s.num_vertices + s.damping * total
        moved = abs(new - s.rank[v])
        s.rank[v] = new
        return moved > s.tol

    @ev.functor
    def scatter(src, dst, edge, s):
        return True

    def start(self):
        self.rank[:] = 1 / self.num_vertices


def main(device: str = "auto") -> None:
    graph = ev.generate.rmat(7, 6, weights=(1, 9), seed=1).largest_component()
    source = int(graph.labels[0])
    depth = ev.run(Hops, graph, source=source, device=device).depth
    distance = ev.run(Distances, graph, source=source, device=device).distance
    label = ev.run(Labels, graph, device=device).label
    rank = ev.run(Rank, graph, device=device)
    print(f"{graph}\nvertices at each depth: {np.bincount(depth).tolist()}")
    print(f"the largest distance is {distance.max():g}; components: {len(np.unique(label))}")
    print(f"the highest ranks:\n{rank.top(3)}")


if __name__ == "__main__":
    main()
