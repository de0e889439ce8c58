"""Count the shortest paths from one vertex to another, and those through each vertex.

python examples/path_counting.py

The count of a vertex is the sum over all neighbours one level nearer. It *follows* the depth: if
two devices reach a vertex, only counts that came with the smaller depth are added. A pass back over
the recorded levels counts the ways onward to the target.
"""

from __future__ import annotations

import numpy as np

import evener as ev
from evener.device import atomic
from evener.engine.run import run
from evener.programs import Field, Program, Vertex, functor
from evener.programs.stages import advance, backwards, compute, repeat

UNREACHED = 2**31 - 1


class PathCounting(Program):
    """Shortest paths between two vertices, in floats: exact up to 2^53."""

    through = Field(np.float64)
    depth = Field(np.int32, fill=UNREACHED, merge="min", missing=-1)
    paths = Field(np.float64, merge="sum", follows=depth)  # from the source
    onward = Field(np.float64, merge="sum")  # to the target

    @functor
    def visit(src, dst, edge, s):
        hops = s.depth[src] + 1
        before = atomic.min(s.depth, dst, hops)
        if before >= hops:  # also where another came first: every way counts
            atomic.add(s.paths, dst, s.paths[src])
        return before > hops

    @functor
    def look_back(src, dst, edge, s):
        if s.depth[dst] - 1 == s.depth[src]:
            atomic.add(s.onward, src, s.onward[dst])
        return False

    @functor
    def multiply(v, s):
        s.through[v] = s.paths[v] * s.onward[v]

    def start(self, source: Vertex, target: Vertex):
        self.depth[source] = 0
        self.paths[source] = 1
        self.onward[target] = 1
        return [source]

    loop = (
        repeat(advance(visit), record=True),
        backwards(advance(look_back)),
        compute(multiply, over="all"),
    )


def main(device: str = "auto") -> None:
    side = 5
    grid = ev.generate.grid(side, side)
    found = run(PathCounting, grid, source=0, target=side * side - 1, device=device)
    print(f"from corner to corner of a grid of {side}²: {found.paths[-1]:g} shortest paths,")
    print("through each vertex:")
    print(found.through.reshape(side, side).astype(int))


if __name__ == "__main__":
    main()
