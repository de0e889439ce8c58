"""The cost of running a program beyond its work: functors, memory, compiling, a busy machine.

    python benchmarks/engine.py [--scale N] [--trials N]

* functor overhead: PageRank by the engine against the same loops written by hand;
* memory of a run: its peak compared with the graph and the program's fields;
* the first call in a process, with an empty and with a full cache of compiled code;
* PageRank and connected components beside another process that keeps one core busy.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import evener as ev
from evener.algorithms.pagerank import PageRank
from evener.bench.cases import ALGORITHMS, ITERATIONS, choose_sources, make_graph
from evener.bench.harness import (
    limit_case,
    preamble,
    print_cases,
    ratio_case,
    run_script,
    timed,
    write_results,
)
from evener.device import compiled, num_threads
from evener.device.sync import barrier, claim, new_sync
from evener.device.team import run_together

RESULTS = Path(__file__).parent / "results" / "engine.json"
SEED = 1
CHUNK = 1024  # vertices that a thread claims at a time, the same number as in the engine
ONE = np.uint64(1)


@compiled(allocates=False, fastmath={"reassoc", "nsz"})  # so that the sum can be vectorized
def pagerank_by_hand(
    thread, threads, sync, indptr, indices, degrees, rank, share, other, moved, partials
):
    """The work of the program `PageRank` in 32 bits, without operators and functors."""
    n = len(rank)
    base, damping = np.float32(0.15) / np.float32(n), np.float32(0.85)
    for iteration in range(ITERATIONS):
        old, new = (share, other) if iteration % 2 == 0 else (other, share)
        first = claim(sync, CHUNK)
        while first < n:
            change = 0.0
            for v in range(first, min(first + CHUNK, n)):
                e, stop = np.uint64(indptr[v]), np.uint64(indptr[v + 1])
                total = np.float32(0)
                while e < stop:
                    total += old[indices[e]]
                    e += ONE
                value = base + damping * total
                moved[v] = abs(value - rank[v])
                rank[v] = value
                new[v] = value / np.float32(degrees[v])
                change += moved[v]
            partials[first // CHUNK] = change
            first = claim(sync, CHUNK)
        barrier(sync, threads)
        change = 0.0
        for partial in partials:
            change += partial
        if barrier(sync, threads) or change < 0:
            return True
    return False


def functor_overhead(scale: int, trials: int) -> list[dict[str, Any]]:
    graph = make_graph(f"uniform{scale}", SEED)  # every vertex has arcs
    n, threads = graph.num_vertices, num_threads()
    unsigned = [array.view(f"u{array.itemsize}") for array in (graph._indptr, graph._indices)]
    by_engine, by_hand = [], []
    for trial in range(trials + 1):
        result = ev.run(
            PageRank, graph, tol=0.0, max_iterations=ITERATIONS, dtype="float32", device="cpu"
        )
        rank = np.full(n, 1 / n, np.float32)
        share = rank / graph.degrees.astype(np.float32)
        fields = (rank, share, np.empty_like(share), np.empty_like(rank))
        arguments = (*unsigned, graph.degrees, *fields, np.zeros((n + CHUNK - 1) // CHUNK))
        pagerank_by_hand.compile_for(0, threads, new_sync(), *arguments)
        seconds, _ = timed(lambda args=arguments: run_together(
            pagerank_by_hand, threads, new_sync(), *args))  # fmt: skip
        assert np.allclose(result.rank, rank, rtol=1e-3), "the ranks differ"
        if trial:
            by_engine.append(result.stats["run_seconds"])
            by_hand.append(seconds)
    name = f"functor overhead: PageRank on uniform{scale}"
    return [ratio_case(name, by_engine, by_hand, 1.05, "the loops by hand")]


MEMORY_SCRIPT = """
import json, warnings
from pathlib import Path
from evener.bench.cases import ALGORITHMS, choose_sources, make_graph
from evener.engine.job import set_up
from evener.graph.csr import Graph
from evener.programs.reals import with_reals
warnings.simplefilter("ignore")
def status(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
from {module} import {program} as program
small = make_graph("kron10", 1)
algorithm = ALGORITHMS["{name}"]
algorithm.run(small, [0], "cpu")
program = with_reals(program, "float32") if "{name}" == "pagerank" else program
fields = set_up(program, small, {parameters}).fields.values()
bytes_a_vertex = sum(array.nbytes for array in fields) / small.num_vertices
graph = make_graph("kron{scale}", 1)
sources = choose_sources(graph, 1, 1)
graph = Graph(graph._indptr, graph._indices, directed=False)  # without cached forms
algorithm.run(small, [0], "cpu")
Path("/proc/self/clear_refs").write_text("5")  # resets the peak
before = status("VmRSS")
result = algorithm.run(graph, sources, "cpu")
needed = graph.nbytes + bytes_a_vertex * graph.num_vertices
print(json.dumps(dict(peak=graph.nbytes + status("VmHWM") - before, needed=int(needed))))
"""

MEMORY_CASES = [
    ("bfs", "evener.algorithms.bfs", "BFS", "dict(source=0)"),
    ("pagerank", "evener.algorithms.pagerank", "DanglingPageRank", "{}"),
    ("cc", "evener.algorithms.connected_components", "Components", "{}"),
]


def memory(scale: int) -> list[dict[str, Any]]:
    cases = []
    for name, module, program, parameters in MEMORY_CASES:
        found = run_script(
            MEMORY_SCRIPT.format(
                name=name, module=module, program=program, parameters=parameters, scale=scale
            )
        )
        ratio = found["peak"] / found["needed"]
        figure = f"{ratio:.2f} × (graph + fields), {found['peak'] / 1e6:.0f} MB"
        cases.append(
            limit_case(f"memory of a run: {name} on kron{scale}", ratio, 1.6, figure, **found)
        )
    return cases


# Makes the graph without compiled code, and imports Numba before the clock starts.
FIRST_CALL_SCRIPT = """
import json, time
import numpy as np
from evener.bench.cases import ALGORITHMS
from evener.graph.csr import Graph
n = 1000
ends = np.sort((np.arange(n)[:, None] + [1, n - 1, 7, n - 7]) % n).astype(np.int32)
starts = np.arange(0, 4 * n + 1, 4, dtype=np.int32)
graph = Graph(starts, ends.ravel(), np.ones(4 * n, np.int32), directed=False)
import numba
start = time.perf_counter()
ALGORITHMS["{name}"].run(graph, [0, 1, 2, 3], "cpu")
print(json.dumps(dict(seconds=time.perf_counter() - start)))
"""


def first_calls(trials: int) -> list[dict[str, Any]]:
    cases = []
    for name in ALGORITHMS:
        script = FIRST_CALL_SCRIPT.format(name=name)
        with tempfile.TemporaryDirectory() as cache:
            cold = run_script(script, {"EVENER_CACHE": cache})["seconds"]
            warm = statistics.median(
                run_script(script, {"EVENER_CACHE": cache})["seconds"] for _ in range(trials)
            )
        what = f"first call of {name}"
        cases.append(limit_case(f"{what}, nothing compiled", cold, 5.0, f"{cold:.2f} s"))
        figure = f"{warm:.3f} s beyond importing Numba"
        cases.append(limit_case(f"{what}, from the cache", warm, 0.1, figure))
    return cases


@contextlib.contextmanager
def busy_process() -> Iterator[None]:
    """Run another process that keeps a core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.3)  # until it has started
        yield
    finally:
        process.kill()
        process.wait()


def busy_neighbour(scale: int, trials: int) -> list[dict[str, Any]]:
    graph = make_graph(f"kron{scale}", SEED)
    sources = choose_sources(graph, 1, SEED)
    cases = []
    for name in ("pagerank", "cc"):
        algorithm = ALGORITHMS[name]
        alone, beside = [], []
        for trial in range(trials + 1):
            quiet = algorithm.run(graph, sources, "cpu").stats["run_seconds"]
            with busy_process():
                busy = algorithm.run(graph, sources, "cpu").stats["run_seconds"]
            if trial:
                alone.append(quiet)
                beside.append(busy)
        what = f"{name} on kron{scale} beside a busy process"
        cases.append(ratio_case(what, beside, alone, 2.2, "alone"))
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=20, help="scale of the graphs (default: 20)")
    parser.add_argument("--trials", type=int, default=7)
    parser.add_argument("-o", "--out", type=Path, default=RESULTS, help="the results file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # about PageRank stopping at max_iterations
    cases = [
        *functor_overhead(arguments.scale, arguments.trials),
        *memory(arguments.scale),
        *first_calls(arguments.trials),
        *busy_neighbour(arguments.scale, arguments.trials),
    ]
    print_cases(cases)
    write_results(arguments.out, {**preamble("engine", SEED), "cases": cases})
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
