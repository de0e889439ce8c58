"""The widest path with a limited number of stops: values must advance one edge per superstep.

python examples/few_stops.py

Writes are visible at once, also to other edges in the same superstep, so a value may travel over
several edges in one superstep. Here each superstep must add exactly one stop, so the functor reads
the width that a vertex had when the superstep began.
"""

from __future__ import annotations

import numpy as np

import evener as ev
from evener.device import atomic
from evener.engine.run import run
from evener.programs import Field, Param, Program, Vertex, functor
from evener.programs.stages import advance, repeat


class FewStops(Program):
    """The width of the widest path with at most a number of edges."""

    width = Field(np.float64, fill=0.0, merge="max")
    stops = Param(np.int64, 3)

    @functor
    def widen(src, dst, edge, s):
        offer = min(s.before.width[src], np.float64(s.weight[edge]))
        return atomic.max(s.width, dst, offer) < offer

    def start(self, source: Vertex):
        self.width[source] = np.inf
        return [source]

    loop = repeat(advance(widen), max_supersteps=stops)


def few_stops(graph: ev.Graph, source: object, stops: int, device: str = "auto") -> np.ndarray:
    """The width for each vertex, 0 if it cannot be reached with that many stops."""
    return run(FewStops, graph, source=source, stops=stops, device=device).width


def main(device: str = "auto") -> None:
    graph = ev.generate.rmat(8, 8, weights=(1, 99), seed=4)
    source = int(np.argmax(graph.degrees))
    for stops in (1, 2, 3, 10):
        width = few_stops(graph, source, stops, device)
        others = np.delete(width, source)
        print(f"with at most {stops} stops: {others[others > 0].mean():.2f} wide on average")


if __name__ == "__main__":
    main()
