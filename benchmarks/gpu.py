"""The CUDA device against its targets: five algorithms on four graphs, each answer verified.

Run on a machine with an NVIDIA GPU: ``python benchmarks/gpu.py``. Targets apply to ``kernel``, the
time between the events around the kernel; the time of the whole Python call is reported too. The
graph is on the device, and results stay there. Times are medians over 16 seeded sources in the
largest component; the answer for the first source is compared with the cpu device. Results go to
``benchmarks/results/cuda.json``.

``--gteps`` measures BFS on two graphs of one and two billion arcs instead: arcs of the source's
component per second, and the memory that generating and BFS take on the GPU, without code. Results
go to ``benchmarks/results/cuda_gteps.json``.

``--schedules`` compares the schedules (`gpu_schedules`); results go to
``benchmarks/results/cuda_schedules.json``.

``--compile`` measures the first call in a new process, with an empty cache and then from the cache;
results go to ``benchmarks/results/cuda_compile.json``.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import evener as ev
from evener.bench.harness import limit_case, preamble, print_cases, timed, write_results
from evener.device import cuda as device
from evener.device import format_bytes
from evener.device.probe import list_devices
from evener.engine.memory.gpu import TWICE, TWICE_BESIDES
from evener.operators.gpu.schedules.common import PIECE_WORDS, room_for_pieces
from gpu_schedules import measure_schedules

# Target milliseconds, and those of the best peer measured on an H200.
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
    "kron20": lambda: ev.generate.rmat(20, 16, weights=(1, 63), seed=1, device="cuda"),
    "kron20x128": lambda: ev.generate.rmat(20, 128, weights=(1, 63), seed=1, device="cuda"),
    "kron22x48": lambda: ev.generate.rmat(22, 48, weights=(1, 63), seed=1, device="cuda"),
    "grid2k": lambda: ev.generate.grid(2048, removed=0.05, weights=(1, 63), seed=1, device="cuda"),
}
GRAPHS_FOR_SCHEDULES: dict[str, Callable[[], Any]] = {
    **GRAPHS,
    "kron22x16": lambda: ev.generate.rmat(22, 16, weights=(1, 63), seed=1, device="cuda"),
    "uniform20": lambda: ev.generate.uniform(20, 16, weights=(1, 63), seed=1, device="cuda"),
}
COMPILE_SECONDS, CACHED_SECONDS = 8.0, 0.3  # limits for a first call
LARGE = {"kron20x1023": (20, 1023), "kron24x63": (24, 63)}  # scale and edge factor
PAPER_GTEPS = 22.3  # push-only BFS on six K40 (Pan et al. 2017)


def with_real_weights(graph: Any) -> Any:
    """The graph with its integer weights as float32."""
    weights = graph._weights.astype(np.float32)
    return ev.Graph(
        graph._indptr, graph._indices, weights, directed=graph.directed, labels=graph._labels
    )


def sources_of(graph: Any, count: int) -> np.ndarray:
    """Seeded random vertices of the largest component."""
    component = ev.connected_components(graph, device="cuda").component
    giant = np.bincount(component).argmax()
    inside = np.flatnonzero((component == giant) & (graph.degrees > 0))
    return np.random.default_rng(2).choice(inside, count, replace=False)


def calls(graph: Any, sources: np.ndarray) -> dict[str, tuple[Callable[..., Any], str]]:
    """The calls to time, functions of the trial's number and options, and the field to compare."""
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
    """Time one case, and compare its first answer with that of the cpu device."""
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


# ---- large graphs ------------------------------------------------------------------------------


class Memory(NamedTuple):
    """GPU memory of a call: bytes that the driver gave, and bytes in use at the peak."""

    given: int
    used: int


def with_memory(call: Callable[[], Any]) -> tuple[Memory, float, Any]:
    """The additional memory of a call, its seconds and its return value."""
    cuda = device.library().cuda

    class Watch(cuda.MemoryHook):  # type: ignore[name-defined, misc]
        name = "watch"
        given = now = used = 0

        def alloc_postprocess(self, **event: Any) -> None:
            self.given += event["mem_size"]

        def malloc_postprocess(self, **event: Any) -> None:
            self.now += event["mem_size"]
            self.used = max(self.used, self.now)

        def free_postprocess(self, **event: Any) -> None:
            self.now -= event["mem_size"]

    device.library().get_default_memory_pool().free_all_blocks()
    with Watch() as watch:
        seconds, value = timed(call)
    return Memory(watch.given, watch.used), seconds, value


def frontier_bytes(graph: Any) -> int:
    """Bytes of two queues of all vertices, with room for duplicates, and of pieces of lists."""
    n = graph.num_vertices
    queues = 2 * (n + n // TWICE + TWICE_BESIDES) * graph.indices.itemsize
    return queues + 8 * PIECE_WORDS * room_for_pieces(graph.num_edges)


def large_cases(name: str, trials: int, verify: bool) -> list[dict[str, Any]]:
    """BFS on one large graph: its rate, its memory, and the cost of generating the graph."""
    scale, edge_factor = LARGE[name]
    ev.generate.rmat(10, edge_factor, seed=1, device="cuda")  # compiles the generator
    taken, seconds, graph = with_memory(
        lambda: ev.generate.rmat(scale, edge_factor, seed=1, device="cuda")
    )
    n, m = graph.num_vertices, graph.num_edges
    total = device.library().cuda.Device().mem_info[1]
    generated = limit_case(
        f"rmat {name} generated, GB on the GPU", taken.given / 1e9, round(total / 1e9, 1),
        f"{taken.given / 1e9:.1f} at its peak, in {seconds:.2f} s; {m:,} arcs",
        seconds=round(seconds, 3), vertices=n, arcs=m, **taken._asdict(),
    )  # fmt: skip
    sources = sources_of(graph, trials)
    bfs = calls(graph, sources)["bfs"][0]
    (_, extra), _, first = with_memory(lambda: bfs(0, device="cuda", device_arrays=True))
    arcs = int(graph.degrees[first.depth.get() >= 0].sum(dtype=np.int64))
    frontier = frontier_bytes(graph)
    left = (extra - frontier) / n
    memory = limit_case(
        f"bfs {name}, bytes a vertex beside graph and frontier", left, 16,
        f"{left:.1f} ({format_bytes(extra)} beside the graph, the frontier's "
        f"{format_bytes(frontier)} among them)",
        graph_bytes=graph.nbytes, device_bytes=extra, frontier_bytes=frontier,
    )  # fmt: skip
    rates = [
        rate_case(f"bfs {name}, {direction}", bfs, direction, arcs, trials, verify)
        for direction in ("auto", "push")
    ]
    rates[0]["sources"] = sources.tolist()
    return [generated, *rates, memory]


def rate_case(
    name: str, bfs: Callable[..., Any], direction: str, arcs: int, trials: int, verify: bool
) -> dict[str, Any]:
    """Arcs of the component per second, compared with the paper's push-only BFS."""
    found = measure(functools.partial(bfs, direction=direction), "depth", trials, verify)
    rate, of_call = (arcs / found[key] / 1e6 for key in ("kernel_ms", "wall_ms"))
    figure = (
        f"{rate:.0f} GTEPS, {found['kernel_ms']} ms (whole call {found['wall_ms']} ms, "
        f"{of_call:.0f} GTEPS); {found['edges']:,} of {arcs:,} arcs visited"
    )
    more = found | {"arcs": arcs, "gteps_of_call": round(of_call, 1)}
    case = limit_case(name, rate, PAPER_GTEPS, figure, **more)
    return case | {"target": f"at least {PAPER_GTEPS}", "holds": rate >= PAPER_GTEPS}


# ---- first calls -------------------------------------------------------------------------------

FIRST_CALL = """
import sys, warnings
import numpy as np
import evener as ev
from gpu import calls, with_real_weights
warnings.simplefilter("ignore", RuntimeWarning)
graph = with_real_weights(ev.generate.rmat(12, 16, weights=(1, 63), seed=1))
call = calls(graph, np.arange(4))[sys.argv[1]][0]
print(call(0, device="cuda").stats["compile_seconds"])
"""


def compile_cases(algorithm: str) -> list[dict[str, Any]]:
    """Seconds in which the first call compiles its kernel, and loads it from the cache."""
    cases = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "EVENER_CACHE": cache}
        for what, limit in (("compiled", COMPILE_SECONDS), ("from the cache", CACHED_SECONDS)):
            process = subprocess.run(
                [sys.executable, "-c", FIRST_CALL, algorithm], env=environment, check=True,
                capture_output=True, text=True, cwd=Path(__file__).parent,
            )  # fmt: skip
            seconds = float(process.stdout.split()[-1])
            cases.append(limit_case(f"{algorithm}, {what}", seconds, limit, f"{seconds:.2f} s"))
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", help="the graphs, separated by commas (default: all)")
    parser.add_argument("--algorithms", default=",".join(TARGETS))
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--gteps", action="store_true", help="BFS on the large graphs instead")
    parser.add_argument("--schedules", action="store_true", help="compare the schedules instead")
    parser.add_argument("--compile", action="store_true", help="measure first calls instead")
    parser.add_argument("-o", help="the results file")
    arguments = parser.parse_args()
    modes = [mode for mode in ("gteps", "schedules", "compile") if getattr(arguments, mode)]
    name = "_".join(["cuda", *modes[:1]])
    out = Path(arguments.o or Path(__file__).with_name("results") / f"{name}.json")
    graphs = list(LARGE if arguments.gteps else GRAPHS)
    if arguments.graphs:
        graphs = arguments.graphs.split(",")
    results = preamble(name, 1)
    gpu = next(one for one in list_devices() if one.kind == "cuda")
    results["machine"]["processor"] = f"{gpu.description}, beside {results['machine']['processor']}"
    results["cases"] = []
    if arguments.gteps:
        for graph in graphs:
            results["cases"] += large_cases(graph, arguments.trials, not arguments.no_verify)
            write_results(out, results)
        print_cases(results["cases"])
    elif arguments.compile:
        for algorithm in arguments.algorithms.split(","):
            results["cases"] += compile_cases(algorithm)
        write_results(out, results)
        print_cases(results["cases"])
    elif arguments.schedules:
        warnings.simplefilter("ignore", RuntimeWarning)  # 20 iterations are not meant to converge
        for name, make in GRAPHS_FOR_SCHEDULES.items():
            if not arguments.graphs or name in graphs:
                measure_schedules(results, name, with_real_weights(make()), arguments.trials, out)
    else:
        measure_table(results, graphs, arguments, out)


def measure_table(
    results: dict[str, Any], graphs: list[str], arguments: argparse.Namespace, out: Path
) -> None:
    """Measure algorithms on graphs; print and write each case as soon as it is measured."""
    warnings.simplefilter("ignore", RuntimeWarning)  # 20 iterations are not meant to converge
    print(f"{'':10} {'':12} {'kernel':>9} {'wall':>9} {'target':>7} {'peer':>7}")
    for name in graphs:
        graph = with_real_weights(GRAPHS[name]())
        sources = sources_of(graph, 16)
        for algorithm in arguments.algorithms.split(","):
            call, field = calls(graph, sources)[algorithm]
            cell = measure(call, field, arguments.trials, not arguments.no_verify)
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
            write_results(out, results)


if __name__ == "__main__":
    main()
