"""Four algorithms as vertex-centric programs: search, shortest paths, components, rank.

python examples/vertex_centric.py

In this model (CuSha, warp segmentation) every vertex computes a value for each of its in-edges,
reduces these values to one, and says whether that updated it; a run ends when no vertex is updated.
New values are visible at once, so a run takes fewer supersteps than the longest shortest path.
"""

from __future__ import annotations

import numpy as np

import evener as ev

FAR = 1 << 30


class Hops(ev.vertex.VertexProgram):
    """Hops from a source, which is given as an index."""

    depth = ev.Field(np.int32, fill=FAR, missing=-1)
    origin = ev.Param(np.int64, 0)

    @ev.functor
    def init(v, s):
        if s.id[v] == s.origin:
            s.depth[v] = 0

    @ev.functor
    def compute(src, edge, s):
        return min(s.depth[src] + 1, FAR)

    @ev.functor
    def reduce(a, b):
        return min(a, b)

    @ev.functor
    def updated(v, value, s):
        if value < s.depth[v]:
            s.depth[v] = value
            return True
        return False


class Distances(ev.vertex.VertexProgram):
    """Lengths of shortest paths from a source."""

    distance = ev.Field(np.float64, fill=np.inf)
    reduce = "min"

    @ev.functor
    def compute(src, edge, s):
        return s.distance[src] + s.weight[edge]

    @ev.functor
    def updated(v, value, s):
        if value < s.distance[v]:
            s.distance[v] = value
            return True
        return False

    def start(self, source: ev.Vertex):
        self.distance[source] = 0


class Labels(ev.vertex.VertexProgram):
    """Components of an undirected graph: each vertex adopts the smallest index it hears of."""

    label = ev.Field(np.int64)

    @ev.functor
    def init(v, s):
        s.label[v] = s.id[v]

    @ev.functor
    def compute(src, edge, s):
        return s.label[src]

    @ev.functor
    def reduce(a, b):
        return min(a, b)

    @ev.functor
    def updated(v, value, s):
        if value < s.label[v]:
            s.label[v] = value
            return True
        return False


class Rank(ev.vertex.VertexProgram):
    """PageRank if every vertex has an out-edge."""

    rank = ev.Field(np.float64)
    damping = ev.Param(np.float64, 0.85)
    tol = ev.Param(np.float64, 1e-12)

    @ev.functor
    def init(v, s):
        s.rank[v] = 1 / s.num_vertices

    @ev.functor
    def compute(src, edge, s):
        return s.rank[src] / s.degree[src]

    @ev.functor
    def updated(v, value, s):
        new = (1 - s.damping) / s.num_vertices + s.damping * value
        moved = abs(new - s.rank[v])
        s.rank[v] = new
        return moved > s.tol


def main(device: str = "auto") -> None:
    graph = ev.generate.rmat(7, 6, weights=(1, 9), seed=1).largest_component()
    depth = ev.run(Hops, graph, origin=0, device=device).depth
    distance = ev.run(Distances, graph, source=int(graph.labels[0]), device=device).distance
    label = ev.run(Labels, graph, device=device).label
    rank = ev.run(Rank, graph, device=device)
    print(f"{graph}\nvertices at each depth: {np.bincount(depth).tolist()}")
    print(f"the largest distance is {distance.max():g}; components: {len(np.unique(label))}")
    print(f"the highest ranks:\n{rank.top(3)}")


if __name__ == "__main__":
    main()
