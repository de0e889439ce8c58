"""Count the vertices within k hops of a vertex.

python examples/k_hop.py
"""

from __future__ import annotations

import numpy as np

import evener as ev
from evener.device import atomic
from evener.engine.run import run
from evener.programs import Field, Param, Program, Scalar, Vertex, functor
from evener.programs.stages import advance, reduce, repeat

FAR = 2**31 - 1


class KHop(Program):
    """A breadth-first search of k levels that counts the vertices it reaches."""

    hop = Field(np.int32, fill=FAR, merge="min", missing=-1)
    k = Param(np.int64, 2)
    seen = Scalar(np.int64, "sum")

    @functor
    def far(dst, s):
        return s.hop[dst] == FAR

    @functor
    def reach(src, dst, edge, s):
        hop = s.hop[src] + 1
        return atomic.min(s.hop, dst, hop) > hop

    @functor
    def is_near(v, s):
        return 1 if s.hop[v] != FAR else 0

    def start(self, source: Vertex):
        self.hop[source] = 0
        return [source]

    loop = (
        repeat(advance(reach, where=far), max_supersteps=k),
        reduce(is_near, "sum", into=seen, over="all"),
    )


def k_hop(graph: ev.Graph, source: object, k: int, device: str = "auto") -> int:
    """The number of vertices within k hops, including the source."""
    hop = run(KHop, graph, source=source, k=k, device=device).hop
    return int(np.count_nonzero(hop >= 0))


def main(device: str = "auto") -> None:
    graph = ev.generate.grid(30, 30)
    for k in (0, 1, 2, 5, 10, 58, 100):
        print(f"within {k} hops of the corner of a grid: {k_hop(graph, 0, k, device)}")


if __name__ == "__main__":
    main()
