"""Rank vertices by their proximity to a few seeds: heat flows from the seeds and leaks everywhere.

python examples/personalised_heat.py

Each vertex receives equal shares of its neighbours' heat, less a leak, and the seeds get back what
leaks. So vertices rank high if many paths lead to them from the seeds, not only a short one.
"""

from __future__ import annotations

import numpy as np

import evener as ev
from evener.engine.run import run
from evener.programs import Field, Param, Program, Scalar, functor
from evener.programs.stages import gather, reduce, repeat


class PersonalisedHeat(Program):
    """Heat that has converged once no vertex changes by ``tol``."""

    heat = Field(np.float64)
    seed = Field(np.float64)
    moved = Field(np.float64)
    leak = Param(np.float64, 0.2)
    tol = Param(np.float64, 1e-9)
    largest = Scalar(np.float64, "max")

    @functor
    def given_by(src, dst, edge, s):
        return s.heat[src] / s.degree[src]

    @functor
    def warm(v, total, s):
        heat = s.leak * s.seed[v] + (1 - s.leak) * total
        s.moved[v] = abs(heat - s.heat[v])
        s.heat[v] = heat
        return True

    @functor
    def movement(v, s):
        return s.moved[v]

    @functor
    def steady(s):
        return s.largest < s.tol

    def start(self, seeds):
        self.seed[self.graph.index_of(seeds)] = 1 / len(seeds)
        self.heat[:] = self.seed

    loop = repeat(
        gather(given_by, "sum", warm, over="all"),
        reduce(movement, "max", into=largest, over="all"),
        until=steady,
        max_supersteps=1000,
    )


def personalised_heat(graph: ev.Graph, seeds: list, device: str = "auto") -> np.ndarray:
    """The heat of every vertex; it sums to 1 if every vertex has a neighbour."""
    return run(PersonalisedHeat, graph, seeds=seeds, device=device).heat


def main(device: str = "auto") -> None:
    graph = ev.generate.rmat(6, 6, seed=3).largest_component()
    seeds = graph.labels[:2].tolist()
    heat = personalised_heat(graph, seeds, device)
    warmest = np.argsort(-heat, kind="stable")[:8]
    print(f"seeds {seeds}; warmest: {graph.labels[warmest].tolist()}; sum {heat.sum():.6f}")


if __name__ == "__main__":
    main()
