"""The core number of every vertex: the largest k for which it is in a subgraph of degrees ≥ k.

python examples/k_core.py

Peeling (Matula, Beck: Smallest-last ordering, J. ACM 1983): remove the vertices of the smallest
degree, and those whose degree falls to it, until there are none; then continue with the smallest
remaining degree.
"""

from __future__ import annotations

import numpy as np

import evener as ev
from evener.device import atomic
from evener.engine.run import run
from evener.programs import Field, Program, Scalar, functor
from evener.programs.stages import advance, compute, filter, reduce, repeat

PEELED = 2**31 - 1


class KCore(Program):
    """Core numbers of an undirected graph without loops and parallel edges."""

    core = Field(np.int32, fill=-1)
    left = Field(np.int32, merge="sum")  # remaining neighbours
    shell = Scalar(np.int32, "min")

    @functor
    def remains(dst, s):
        return s.core[dst] < 0

    @functor
    def neighbours_left(v, s):
        return s.left[v] if s.core[v] < 0 else PEELED

    @functor
    def falls(v, s):
        return s.core[v] < 0 and s.left[v] <= s.shell

    @functor
    def peel(v, s):
        s.core[v] = s.shell

    @functor
    def lose_one(src, dst, edge, s):
        atomic.add(s.left, dst, -1)
        return True

    def start(self):
        self.left[:] = self.graph.degrees

    next_shell = (
        reduce(neighbours_left, "min", into=shell, over="all"),
        filter(falls, over="all"),
    )
    loop = (
        *next_shell,
        repeat(
            repeat(compute(peel), advance(lose_one, where=remains), filter(falls)),
            *next_shell,
        ),
    )


def k_core(graph: ev.Graph, device: str = "auto") -> np.ndarray:
    """The core number of every vertex."""
    return run(KCore, graph, device=device).core


def main(device: str = "auto") -> None:
    graph = ev.generate.rmat(7, 8, seed=1)
    core = k_core(graph, device)
    print(f"{graph}\nvertices in each shell: {np.bincount(core).tolist()}")
    innermost = np.count_nonzero(core == core.max())
    print(f"the innermost core, k = {core.max()}, has {innermost} vertices")


if __name__ == "__main__":
    main()
