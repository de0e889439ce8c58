"""A small suite for `compute-sanitizer`, which slows kernels down a hundred times.

    python tests/gpu/sanitize.py                       # compiles, and checks the answers
    compute-sanitizer --tool memcheck python tests/gpu/sanitize.py
    compute-sanitizer --tool racecheck python tests/gpu/sanitize.py
    compute-sanitizer --tool initcheck python tests/gpu/sanitize.py

Graphs are small and grids have two blocks, since those spin at barriers. CuPy's pool is off, and
every array has memory of its own: what is written beyond one is then seen. Names of algorithms or
programs choose some of them.
"""

import sys
from pathlib import Path

import numpy as np

import evener as ev
from evener.device import cuda
from evener.engine.memory import layout
from evener.engine.memory.layout import CLEARED, Layout
from evener.engine.run import run as run_program
from evener.engine.targets import gpu

BLOCKS = 2


def graphs():
    """One with a list that is cut, short ones, and loops; and a directed one."""
    k = 700
    src = np.r_[np.zeros(k, int), np.arange(k), np.arange(0, k, 9)]
    dst = np.r_[np.arange(1, k + 1), np.arange(1, k + 1), np.arange(0, k, 9)]
    weight = 1 + (src + dst) % 9
    yield ev.Graph.from_edges(src, dst, weight, num_vertices=k + 3, directed=False)
    rmat = ev.generate.rmat(8, 6, weights=(1, 9), seed=1, directed=True)
    yield ev.Graph(rmat.indptr, rmat.indices, rmat.weights.astype(np.int64), directed=True)


class Apart(Layout):
    """Every array in a region of its own, but for those that host and kernel share.

    Queues are cleared: to read one beyond its end, and not to use what was read, is no mistake.
    """

    given = 0
    queue = None

    def cleared(self, length, dtype):
        return self._place(length, dtype, f"{CLEARED} {len(self.sizes)}")

    def scratch(self, length, dtype):
        if self.given < 2:  # words of frontiers and a queue are uploaded in one piece
            self.given, self.queue = self.given + 1, (length, dtype)
            return super().scratch(length, dtype)
        if (length, dtype) == self.queue:
            return self.cleared(length, dtype)
        return self._place(length, dtype, f"scratch {len(self.sizes)}")


def few_blocks():
    """Let kernels have few blocks."""
    made = cuda.GridKernel.__init__

    def init(self, *arguments):
        made(self, *arguments)
        self.blocks = BLOCKS

    cuda.GridKernel.__init__ = init


def main(chosen):
    """Run all algorithms and programs, or those chosen."""
    here = Path(__file__)
    sys.path[:0] = [str(here.parents[1]), str(here.parents[2] / "examples")]
    from cases import ALGORITHMS, LOOPS, assert_same, run

    from programs.cases import parameters_for

    cuda.library().cuda.set_allocator(None)
    gpu.Layout = Apart
    layout.SCRATCH = f"{CLEARED} and uploaded"
    few_blocks()
    for graph in graphs():
        for algorithm in ALGORITHMS:
            if not chosen or algorithm in chosen:
                want = run(algorithm, graph, device="cpu")
                assert_same(run(algorithm, graph, device="cuda"), want, algorithm)
                print(algorithm, flush=True)
        for program, fields in LOOPS.items():
            if not chosen or program.__name__ in chosen:
                given = parameters_for(program, graph)
                want, have = (
                    run_program(program, graph, device=d, **given) for d in ("cpu", "cuda")
                )
                for name in fields:
                    np.testing.assert_allclose(getattr(have, name), getattr(want, name), rtol=1e-9)
                print(program.__name__, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
