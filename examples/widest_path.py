"""Two programs about the worst edge of a path: the widest path, and the gentlest.

python examples/widest_path.py

The widest path to a vertex has the largest minimum weight (lorries and bridges), the gentlest one
the smallest maximum weight (cyclists and hills).
"""

from __future__ import annotations

import math

import numpy as np

import evener as ev
from evener.device import atomic
from evener.engine.run import run
from evener.programs import VERTEX, WEIGHT, Field, Param, Program, Vertex, functor
from evener.programs.stages import advance, edges, nearest, repeat


class Widest(Program):
    """Widths from a source, and for each vertex a neighbour that offers its width."""

    width = Field(np.float64, fill=0.0, merge="max")
    offered_by = Field(VERTEX, fill=-1, merge="any")  # any one if several do

    @functor
    def widen(src, dst, edge, s):
        offer = min(s.width[src], np.float64(s.weight[edge]))
        return atomic.max(s.width, dst, offer) < offer

    @functor
    def note(src, dst, edge, s):
        offer = min(s.width[src], np.float64(s.weight[edge]))
        if offer > 0 and offer == s.width[dst]:
            s.offered_by[dst] = s.id[src]
        return False

    def start(self, source: Vertex):
        self.width[source] = math.inf
        return [source]

    loop = (repeat(advance(widen)), edges(note))


class Gentlest(Program):
    """The steepest edge of the gentlest path; vertices are processed in that order."""

    steepest = Field(WEIGHT, merge="min", missing=math.inf)
    delta = Param(np.float64, 1.0)

    @functor
    def climb(src, dst, edge, s):
        worst = max(s.steepest[src], s.weight[edge])
        return atomic.min(s.steepest, dst, worst) > worst

    def start(self, source: Vertex):
        self.steepest[source] = 0
        return [source]

    loop = repeat(advance(climb), order=nearest(steepest, delta))


def main(device: str = "auto") -> None:
    town = ["Aarau", "Bern", "Chur", "Davos"]
    roads = ev.Graph.from_edges(
        [0, 0, 1, 2], [1, 2, 2, 3], [7, 3, 5, 4], directed=False, labels=town
    )
    widest = run(Widest, roads, source="Aarau", device=device)
    gentlest = run(Gentlest, roads, source="Aarau", device=device)
    for name in town[1:]:
        by = roads.labels[widest.offered_by[roads.index_of(name)]]
        print(f"{name}: {widest[name]:g} tonnes, by way of {by}; slopes up to {gentlest[name]:g} %")


if __name__ == "__main__":
    main()
