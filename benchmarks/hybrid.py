"""Device sets with a GPU: parts on one card against the card alone, CPU and GPU against the CPU.

    python benchmarks/hybrid.py [--only parts hybrid directed] [--warm]

Run on a machine with an NVIDIA GPU. Every answer is compared with that of one device; times are the
fastest of some runs, without dividing the graph and compiling.

* ``parts``: two and four parts on the card, by the time of the kernels;
* ``hybrid``: the share alpha of the edges on the CPU, against the CPU alone and against the speedup
  that the model predicts (`evener.engine.planning.planner`), calibrated on generated graphs. Beside
  it is what ideal parts would reach, which cost what their share of the edges costs the device
  alone;
* ``directed``: a directed graph of which a limit lets the GPU have a part: ``high``, ``random`` and
  ``low`` at one alpha that all of them can have, and each at the smallest of its own; beside them
  the GPU alone that reads edges from the host's memory;
* how well the model goes with all of these.

Results go to ``benchmarks/results/parts_cuda.json``. ``--warm`` compiles all kernels side by side
first, which takes a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import evener as ev
from evener.bench.harness import limit_case, preamble, write_results
from evener.device import num_threads
from evener.engine.devices import Device
from evener.engine.memory.edges import edges_mapped
from evener.engine.memory.estimate import estimate_memory
from evener.engine.planning.calibrate import Calibration, Workload, loop_seconds
from evener.engine.planning.planner import Model, choose, plan
from partitions import agreement

PARTS_LIMIT = 2.0  # times the card alone
REACHED = 0.85  # of the speedup that the model predicts
HIGH_LIMIT = 1.5  # times as fast as the CPU alone
PICK_LIMIT = 1.15  # times the best placement that was measured
DIVIDED = ("high", "random", "low")
STEPS = 3  # halvings in the search for the smallest alpha: to 1/8

Call = Callable[..., Any]
began = time.perf_counter()


def say(*words: Any) -> None:
    """Print what is known, with the time."""
    print(f"[{time.perf_counter() - began:6.1f} s]", *words, flush=True)


def call_of(name: str, iterations: int) -> tuple[Call, str]:
    """What is run, a function of a graph, a source and options; and the field to compare."""
    return {
        "bfs": (lambda g, s, **k: ev.bfs(g, s, **k), "depth"),
        "pagerank": (
            lambda g, s, **k: ev.pagerank(
                g, tol=0, max_iterations=iterations, dtype=np.float32, **k
            ),
            "rank",
        ),
        "cc": (lambda g, s, **k: ev.connected_components(g, **k), "component"),
        "sssp": (lambda g, s, **k: ev.sssp(g, s, **k), "distance"),
        "bc": (lambda g, s, **k: ev.betweenness(g, sources=[s], **k), "score"),
    }[name]


class Timed(NamedTuple):
    """A cell: seconds of the run and of the kernels, the answer, the fastest result."""

    seconds: float
    kernel: float
    found: np.ndarray
    result: Any


class Bench:
    """One algorithm on one graph."""

    def __init__(self, name: str, graph: Any, given: argparse.Namespace):
        self.name, self.graph, self.given = name, graph, given
        self.call, self.field = call_of(name, given.iterations)
        self.source = int(np.argmax(graph.degrees))
        self.want: np.ndarray | None = None

    def run(self, device: str, **options: Any) -> Timed:
        """Run it once to compare the answer, then time it."""
        results = [
            self.call(self.graph, self.source, device=device, **options)
            for _ in range(self.given.trials + 1)
        ]
        found = np.asarray(getattr(results[0], self.field), np.float64)
        if self.want is None:
            self.want = found
        rtol = 1e-3 if self.field in ("rank", "score") else 1e-6
        np.testing.assert_allclose(found, self.want, rtol=rtol, atol=1e-9)
        best = min(results[1:], key=loop_seconds)
        kernel = min(float(one.stats.get("device_seconds", 0.0)) for one in results[1:])
        return Timed(loop_seconds(best), kernel, found, best)

    def parts(self) -> list[dict[str, Any]]:
        """A GPU in one, two and four parts, by the time of the kernels."""
        cases, alone = [], 0.0
        for k in (1, 2, 4):
            timed = self.run("+".join(["cuda"] * k))
            alone = alone or timed.kernel
            ratio, stats = timed.kernel / alone, timed.result.stats
            told = {
                "kernel_ms": round(1000 * timed.kernel, 3), "ratio": round(ratio, 3),
                "edges": stats["edges"], "supersteps": stats["supersteps"],
                "bytes_sent": stats.get("bytes_sent", 0), "verified": True,
            }  # fmt: skip
            figure = f"{told['kernel_ms']} ms, {ratio:.2f} × one part"
            case = f"{self.name}, {k} parts on the GPU"
            cases.append(limit_case(case, ratio, PARTS_LIMIT, figure, **told))
            say(case, figure)
        return cases


class Hybrid(Bench):
    """CPU and GPU together against the CPU alone and against the model, one algorithm."""

    def __init__(self, name: str, graph: Any, given: argparse.Namespace, limit: int | None = None):
        super().__init__(name, graph, given)
        self.devices = [Device("cpu", given.threads), Device("cuda")]
        self.set = "+".join(map(str, self.devices))
        counts = {num_threads(), max(1, num_threads() // 2)}  # fewer may meet faster
        self.cpu = min((self.run(f"cpu:{count}") for count in counts), key=lambda one: one.seconds)
        self.gpu = self.run("cuda")
        self.calibration = Calibration()
        workload = Workload(name, self.call)
        limits = None if limit is None else [None, limit]
        self.model = Model(graph, self.devices, workload, limits, self.calibration)
        self.rows: list[dict[str, Any]] = []
        began = time.perf_counter()
        costs = self.model.costs
        self.cpu_predicted = self.model.alone(0).seconds
        say(f"{name}: CPU {1e3 * self.cpu.seconds:.2f} ms (the model says "
            f"{1e3 * self.cpu_predicted:.2f}), GPU {1e3 * self.gpu.seconds:.2f} ms; "
            f"calibrated in {time.perf_counter() - began:.1f} s: {costs}")  # fmt: skip

    def placed(self, partitioner: str, alpha: float, note: str = "") -> dict[str, Any]:
        """One placement."""
        how = f"{partitioner}:alpha={alpha:g}"
        stats = self.model.stats(partitioner, np.array([0.5, 0.5]), alpha)
        guess = self.model.costs.loop_seconds(stats)
        timed = self.run(self.set, partition=how)
        cpu, ran = self.cpu.seconds, timed.result.stats
        ideal = max(stats.edges * np.array([cpu, self.gpu.seconds]) / self.graph.num_edges)
        speedup, predicted = cpu / timed.seconds, cpu / guess
        self.rows.append({"partition": how, "predicted_s": guess, "taken_s": timed.seconds})
        told = {
            "device": self.set, "seconds": timed.seconds, "run_seconds": ran["run_seconds"],
            "cpu_seconds": cpu, "cpu_predicted_seconds": self.cpu_predicted,
            "cuda_seconds": self.gpu.seconds, "predicted_seconds": guess,
            "speedup": round(speedup, 3), "predicted_speedup": round(predicted, 3),
            "speedup_of_ideal_parts": round(cpu / ideal, 3), "beta": stats.beta,
            "beta_aggregated": stats.beta_aggregated, "supersteps": ran["supersteps"],
            "bytes_sent": ran["bytes_sent"], "edges": ran["edges"], "owned": ran["owned"],
            "ghosts": ran["ghosts"], "verified": True,
            "trace": [
                {name: row[name] for name in ("direction", "compute_seconds",
                                              "communication_seconds", "device_edges")}
                for row in list(timed.result.trace)[:8]
            ],
        }  # fmt: skip
        figure = (
            f"{speedup:.2f} × the CPU alone; the model says {predicted:.2f} ×, "
            f"ideal parts {cpu / ideal:.2f} ×"
        )
        reached = speedup / predicted
        name = f"{self.name}, cpu+cuda, {how}{note}"
        case = limit_case(name, reached, REACHED, figure, **told)
        case["holds"] = reached >= REACHED
        case["target"] = f"at least {REACHED} of the model's speedup"
        say(name, f"{1e3 * timed.seconds:.2f} ms: {figure}")
        return case

    def unsaid(self) -> dict[str, Any]:
        """Both, with the partition that they have if nobody names one."""
        timed = self.run(self.set)
        speedup, how = self.cpu.seconds / timed.seconds, timed.result.explain().splitlines()[1]
        case = f"{self.name}, cpu+cuda, auto"
        figure = f"{speedup:.2f} × the CPU alone. {how}"
        say(case, figure)
        told = limit_case(case, speedup, 0, figure, seconds=timed.seconds, verified=True)
        return told | {"holds": True, "target": "none: it stands beside the others"}

    def pick(self, limit: int, mapped: float) -> dict[str, Any]:
        """The placement that the planner chooses with a limit on the GPU, against the best."""
        workload = Workload(self.name, self.call)
        chosen = choose(plan(
            self.graph, self.devices, workload, partitioners=DIVIDED, limits=[None, limit],
            calibration=self.calibration,
        ))  # fmt: skip
        measured = [row["taken_s"] for row in self.rows] + [mapped, self.cpu.seconds]
        if chosen.mapped:
            what, taken = "cuda with its edges in the host's memory", mapped
        elif len(chosen.devices) == 1:
            what, taken = chosen.devices[0], self.cpu.seconds
        else:
            self.placed(chosen.partitioner, chosen.alpha, ", the planner's pick")
            what, taken = self.rows[-1]["partition"], self.rows[-1]["taken_s"]
        slower = taken / min(measured)
        case = f"planner: {self.name}, directed, its pick against the best"
        say(case, f"{slower:.2f} ×: {what}")
        return limit_case(case, slower, PICK_LIMIT, f"{slower:.2f} ×: {what}")


def on_two_shares(graph: Any, given: argparse.Namespace, keep: Call) -> None:
    """CPU and GPU with given shares of the edges on the CPU."""
    found = [Hybrid(name, graph, given) for name in given.hybrid]
    for alpha in given.alphas:
        for partitioner in DIVIDED:
            for one in found:  # they share the division of the graph
                keep([one.placed(partitioner, alpha)])
    for one in found:
        keep([one.unsaid()])
        keep(agreement(f"model: {one.name}, cpu+cuda", one.rows))


def limited(graph: Any, given: argparse.Namespace, keep: Call) -> None:
    """A directed graph, and a GPU with room for a part of it."""
    for name in given.directed:
        program = call_of(name, 1)[0](ev.generate.path(4), 0, device="cpu")._declaration
        limit = int(given.room * estimate_memory(program, graph)[0])
        one = Hybrid(name, graph, given, limit)
        shares = np.array([0.5, 0.5])
        smallest = {how: one.model.smallest_alpha(how, shares, STEPS) for how in DIVIDED}
        say(f"{name}: smallest alphas with {limit / 1e9:.2f} GB on the GPU: {smallest}")
        common = max(smallest.values())
        for how in DIVIDED:
            case = one.placed(how, common, ", directed, at one alpha")
            if how == "high":
                case["holds"] = case["speedup"] >= HIGH_LIMIT
                case["target"] = f"at least {HIGH_LIMIT} × the CPU alone"
            keep([case])
        for how in DIVIDED:
            if smallest[how] < common:
                keep([one.placed(how, smallest[how], ", directed, at its smallest alpha")])
        keep(agreement(f"model: {name}, cpu+cuda, directed", one.rows))
        with edges_mapped():
            timed = one.run("cuda")
        keep([one.pick(limit, timed.seconds)])
        speedup = one.cpu.seconds / timed.seconds
        figure = f"{1e3 * timed.seconds:.2f} ms, {speedup:.2f} × the CPU alone"
        say(f"{name}, directed, edges mapped: {figure}")
        case = limit_case(f"{name}, cuda with its edges in the host's memory, directed", speedup, 0,
                          figure, seconds=timed.seconds, verified=True)  # fmt: skip
        keep([case | {"holds": True, "target": "none: it stands beside the others"}])


def warm(given: argparse.Namespace) -> None:
    """Compile side by side, on small graphs of the same types."""
    wanted = [(name, device) for name in given.algorithms for device in ("cuda", "cuda+cuda")]
    hybrids = {*given.hybrid, *given.directed}
    wanted += [(name, device) for name in hybrids for device in
               ("cuda", f"cpu:{num_threads()}", f"cpu:{given.threads}+cuda")]  # fmt: skip
    # What takes longest is begun first.
    wanted = sorted(set(wanted), key=lambda one: "cpu" not in one[1] or "cuda" not in one[1])
    running: list[subprocess.Popen[bytes]] = []
    for name, device in wanted:
        while sum(one.poll() is None for one in running) >= max(1, num_threads() - 2):
            time.sleep(0.1)
        both = name in given.directed and device != "cuda+cuda"
        graphs = (False, True) if both else (False,)
        words = [sys.executable, __file__, "--compile", json.dumps([name, device, graphs])]
        running.append(subprocess.Popen(words, env=os.environ))
    say("compiled:", [one.wait() for one in running])


def compile_one(name: str, device: str, graphs: Sequence[bool]) -> None:
    """Run once on small graphs, directed or not, in this process."""
    for directed in graphs:
        weights = None if directed else (1, 63)
        graph = ev.generate.rmat(16, 16, weights=weights, seed=1, directed=directed)
        options = {"partition": "high:alpha=0.5"} if "+" in device else {}
        call_of(name, 2)[0](graph, int(np.argmax(graph.degrees)), device=device, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = {"type": lambda text: [name for name in text.split(",") if name]}
    parser.add_argument("--only", nargs="*", default=["parts", "hybrid", "directed"])
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--factor", type=int, default=48)
    parser.add_argument("--directed-scale", type=int, default=24, help="of a graph with factor 16")
    parser.add_argument("--algorithms", default="bfs,pagerank,sssp,cc", **names)
    parser.add_argument("--hybrid", default="bfs,pagerank", **names)
    parser.add_argument("--directed", default="bfs", **names)
    parser.add_argument("--threads", type=int, default=num_threads(), help="of the CPU in sets")
    parser.add_argument("--iterations", type=int, default=20, help="of PageRank")
    parser.add_argument(
        "--alphas", default="0.5,0.75", type=lambda text: [float(one) for one in text.split(",")]
    )
    parser.add_argument("--room", type=float, default=0.5, help="on the GPU, of the whole graph")
    parser.add_argument("--trials", type=int, default=10, help="of which the fastest counts")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    parser.add_argument("-o", default=str(Path(__file__).with_name("results") / "parts_cuda.json"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # iterations are not meant to converge
    if given.compile:
        compile_one(*json.loads(given.compile))
        return
    if given.warm:
        warm(given)
    results = preamble("parts_cuda", 1)
    results["graph"] = (
        f"R-MAT {given.scale}×{given.factor}, integer weights 1 to 63; directed: R-MAT "
        f"{given.directed_scale}×16; PageRank: {given.iterations} iterations"
    )
    results["cases"] = []

    def keep(cases: list[dict[str, Any]]) -> None:
        results["cases"] += cases
        write_results(Path(given.o), results)

    if {"parts", "hybrid"} & set(given.only):
        graph = ev.generate.rmat(given.scale, given.factor, weights=(1, 63), seed=1, device="cuda")
        say(f"{graph.num_vertices} vertices, {graph.num_edges} arcs")
        if "parts" in given.only:
            for name in given.algorithms:
                keep(Bench(name, graph, given).parts())
        if "hybrid" in given.only:
            on_two_shares(graph, given, keep)
    if "directed" in given.only:
        graph = ev.generate.rmat(given.directed_scale, 16, seed=1, directed=True, device="cuda")
        say(f"directed: {graph.num_vertices} vertices, {graph.num_edges} arcs")
        limited(graph, given, keep)


if __name__ == "__main__":
    main()
