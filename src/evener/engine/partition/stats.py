"""Statistics of a partition: shares, boundary edges before and after aggregation, ghosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evener.device import parallel
from evener.graph.csr import Graph

_CHUNK = 1 << 14  # vertices a thread takes at a time


@dataclass(frozen=True)
class PartitionStats:
    """Counts of a partition into k parts.

    Attributes
    ----------
    vertices, edges
        What each part owns.
    boundary
        For each part, how many of its edges lead to another.
    links
        ``links[p, q]``: ghosts on part p of vertices that q owns. All boundary edges of p to one
        vertex share a ghost, so these are the messages of p after aggregation.
    in_edges
        In-edges that each part holds besides its edges: 0 if the graph is undirected.
    """

    vertices: np.ndarray
    edges: np.ndarray
    boundary: np.ndarray
    links: np.ndarray
    in_edges: np.ndarray

    @property
    def ghosts(self) -> np.ndarray:
        """Ghosts on each part."""
        return self.links.sum(axis=1)

    @property
    def vertex_shares(self) -> np.ndarray:
        """The share of the vertices that each part owns."""
        return self.vertices / max(1, self.vertices.sum())

    @property
    def edge_shares(self) -> np.ndarray:
        """The share of the edges that each part owns."""
        return self.edges / max(1, self.edges.sum())

    @property
    def beta(self) -> float:
        """The share of the edges that cross parts."""
        return float(self.boundary.sum() / max(1, self.edges.sum()))

    @property
    def beta_aggregated(self) -> float:
        """Messages over edges, with one message from a part to a vertex."""
        return float(self.links.sum() / max(1, self.edges.sum()))

    @property
    def balance(self) -> float:
        """Edges of the largest part over those of an average part; 1 is even."""
        return float(self.edge_shares.max(initial=0.0) * len(self.edges)) or 1.0

    def as_dict(self) -> dict[str, Any]:
        """The statistics as plain numbers and lists.

        Examples
        --------
        >>> from evener import generate
        >>> from evener.engine.partition.stats import measure_partition
        >>> import numpy as np
        >>> path = generate.path(4)
        >>> measure_partition(path, np.array([0, 0, 1, 1]), 2).as_dict()["ghosts"]
        [1, 1]
        """
        return {
            "vertices": self.vertices.tolist(),
            "edges": self.edges.tolist(),
            "vertex_shares": self.vertex_shares.tolist(),
            "edge_shares": self.edge_shares.tolist(),
            "boundary_edges": self.boundary.tolist(),
            "beta": self.beta,
            "beta_aggregated": self.beta_aggregated,
            "ghosts": self.ghosts.tolist(),
            "balance": self.balance,
        }


def measure_partition(
    graph: Graph, part_of: np.ndarray, k: int, *, pulls: bool = False
) -> PartitionStats:
    """Count what k parts own and what they must send each other.

    Parameters
    ----------
    graph, part_of
        The graph, and the part of each vertex.
    k
        The number of parts.
    pulls
        Whether parts also hold the in-edges of their vertices, and ghosts for their sources.

    Examples
    --------
    >>> from evener import generate
    >>> from evener.engine.partition.stats import measure_partition
    >>> import numpy as np
    >>> star = measure_partition(generate.star(6), np.array([0, 1, 1, 1, 1, 1]), 2)
    >>> star.beta, star.beta_aggregated, star.ghosts.tolist()
    (1.0, 0.6, [5, 1])
    """
    part_of = part_of.astype(np.int32, copy=False)
    vertices = np.bincount(part_of, minlength=k)
    edges = np.bincount(part_of, weights=graph.degrees, minlength=k).astype(np.int64)
    boundary, links = np.zeros(k, np.int64), np.zeros((k, k), np.int64)
    in_edges = np.zeros(k, np.int64)
    chunks = -(-graph.num_vertices // _CHUNK)
    into = graph.transpose() if pulls else graph
    if into is not graph:
        in_edges += np.bincount(part_of, weights=into.degrees, minlength=k).astype(np.int64)
    # One byte per vertex instead of one per part and vertex: a pass over vertices is cheap.
    for part in range(k):
        seen = np.zeros(graph.num_vertices, np.uint8)
        crossing = np.zeros(chunks, np.int64)
        _mark(chunks, graph._indptr, graph._indices, part_of, part, seen, crossing)
        boundary[part] = crossing.sum()
        if into is not graph:
            _mark(chunks, into._indptr, into._indices, part_of, part, seen, crossing)
        links[part] = np.bincount(part_of[seen.view(bool)], minlength=k)
    return PartitionStats(vertices, edges, boundary, links, in_edges)


@parallel
def _mark(chunk, indptr, indices, part_of, part, seen, crossing):
    """Mark the ghosts of a part; threads that write the same byte all write a 1."""
    found = 0
    for v in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(part_of))):
        if part_of[v] == part:
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if part_of[u] != part:
                    seen[u] = 1
                    found += 1
    crossing[chunk] = found
