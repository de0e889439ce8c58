"""The CUDA device against its targets: five algorithms on four graphs, each answer verified.

Run on a machine with an NVIDIA GPU: ``python benchmarks/gpu.py``. A time is that of the whole
call, from Python to Python, with the graph on the device and the result left there; ``kernel`` is
the time between the events around the kernel. Medians over 16 seeded sources in the largest
component; the first of them is compared with the cpu device. Results go to
``benchmarks/results/cuda.json``.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import evener as ev
from evener.bench.harness import limit_case, preamble, write_results

# Milliseconds to reach, and those of the best peer measured on an H200.
TARGETS = {
    "bfs": {"kron20": (1.0, 4.1), "kron20x128": (1.5, 4.6), "kron22x48": (2.0, 5.5),
            "grid2k": (9, 550)},
    "sssp": {"kron20": (8, 22), "kron20x128": (20, 49), "kron22x48": (30, 69), "grid2k": (40, 690)},
    "pagerank": {"kron20": (5, 8.9), "kron20x128": (18, 25.5), "kron22x48": (40, 54.3),
                 "grid2k": (3, 4.8)},
    "cc": {"kron20": (1.5, 46), "kron20x128": (3, 16.4), "kron22x48": (5, 43.5),
           "grid2k": (2, 75.9)},
    "bc": {"kron20": (15, 50), "kron20x128": (40, 169), "kron22x48": (70, 393),
           "grid2k": (120, 3821)},
}  # fmt: skip
GRAPHS: dict[str, Callable[[], Any]] = {
    "kron20": lambda: ev.generate.rmat(20, 16, weights=(1, 63), seed=1),
    "kron20x128": lambda: ev.generate.rmat(20, 128, weights=(1, 63), seed=1),
    "kron22x48": lambda: ev.generate.rmat(22, 48, weights=(1, 63), seed=1),
    "grid2k": lambda: thinned_grid(2048),
}


def thinned_grid(side: int) -> Any:
    """A square grid less 5 % of its edges, with whole weights from 1 to 63."""
    grid = ev.generate.grid(side, side, weights=(1, 63), seed=1)
    src, dst, weights = grid._sources(), grid.indices, grid.weights
    once = src < dst
    kept = np.random.default_rng(1).random(int(once.sum())) >= 0.05
    ends = (src[once][kept], dst[once][kept], weights[once][kept])
    return ev.Graph.from_edges(*ends, num_vertices=grid.num_vertices, directed=False)


def with_real_weights(graph: Any) -> Any:
    """The graph with its weights, which are whole numbers, as float32."""
    weights = graph._weights.astype(np.float32)
    return ev.Graph(
        graph._indptr, graph._indices, weights, directed=graph.directed, labels=graph._labels
    )


def sources_of(graph: Any, count: int) -> np.ndarray:
    """Seeded vertices of the largest component, none isolated."""
    component = ev.connected_components(graph, device="cuda").component
    giant = np.bincount(component).argmax()
    inside = np.flatnonzero((component == giant) & (graph.degrees > 0))
    return np.random.default_rng(2).choice(inside, count, replace=False)


def calls(graph: Any, sources: np.ndarray) -> dict[str, tuple[Callable[..., Any], str]]:
    """What is timed: a function of the trial's number and options, and the field to compare."""
    return {
        "bfs": (lambda i, **k: ev.bfs(graph, int(sources[i]), **k), "depth"),
        "sssp": (lambda i, **k: ev.sssp(graph, int(sources[i]), **k), "distance"),
        "pagerank": (
            lambda i, **k: ev.pagerank(graph, tol=0, max_iterations=20, dtype=np.float32, **k),
            "rank",
        ),
        "cc": (lambda i, **k: ev.connected_components(graph, **k), "component"),
        "bc": (
            lambda i, **k: ev.betweenness(graph, sources=np.roll(sources, -i)[:4].tolist(), **k),
            "score",
        ),
    }


def measure(call: Callable[..., Any], field: str, trials: int, verify: bool) -> dict[str, Any]:
    """Time one cell, and compare its first answer with that of the cpu device."""
    options = {"device": "cuda", "device_arrays": True}
    began = time.perf_counter()
    first = call(0, **options)
    found = {"first_seconds": round(time.perf_counter() - began, 3)}
    found["compile_seconds"] = round(first.stats["compile_seconds"], 3)
    if verify:
        want = np.asarray(getattr(call(0, device="cpu"), field), np.float64)
        have = getattr(first, field).get().astype(np.float64)
        rtol = 1e-3 if field == "rank" else 1e-6
        np.testing.assert_allclose(have, want, rtol=rtol, atol=1e-12)
    walls, kernels = [], []
    for trial in range(trials):
        began = time.perf_counter()
        result = call(trial, **options)
        walls.append(1000 * (time.perf_counter() - began))
        kernels.append(1000 * result.stats["device_seconds"])
    found |= {
        "kernel_ms": round(statistics.median(kernels), 3),
        "wall_ms": round(statistics.median(walls), 3),
        "edges": result.stats["edges"],
        "supersteps": result.stats["supersteps"],
        "verified": verify,
    }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--algorithms", default=",".join(TARGETS))
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("-o", default=str(Path(__file__).with_name("results") / "cuda.json"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # 20 iterations are not meant to converge
    results = preamble("cuda", 1)
    results["cases"] = []
    print(f"{'':10} {'':12} {'kernel':>9} {'wall':>9} {'target':>7} {'peer':>7}")
    for name in given.graphs.split(","):
        graph = with_real_weights(GRAPHS[name]())
        sources = sources_of(graph, 16)
        for algorithm in given.algorithms.split(","):
            call, field = calls(graph, sources)[algorithm]
            trials = given.trials if algorithm in ("bfs", "sssp") else min(given.trials, 5)
            cell = measure(call, field, trials, not given.no_verify)
            target, peer = TARGETS[algorithm][name]
            figure = f"{cell['kernel_ms']} ms (whole call {cell['wall_ms']}; best peer {peer})"
            more = cell | {"peer_ms": peer}
            case = limit_case(f"{algorithm} {name}", cell["kernel_ms"], target, figure, **more)
            results["cases"].append(case)
            print(
                f"{algorithm:10} {name:12} {cell['kernel_ms']:9.3f} {cell['wall_ms']:9.3f} "
                f"{target:7} {peer:7}",
                flush=True,
            )
            write_results(Path(given.o), results)


if __name__ == "__main__":
    main()
