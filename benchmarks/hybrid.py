"""Device sets with a GPU: parts on one GPU against the GPU alone, CPU and GPU against the CPU.

    python benchmarks/hybrid.py [--only parts hybrid directed] [--warm]

Run on a machine with an NVIDIA GPU. Every answer is compared with that of one device; times are the
fastest of several runs, without dividing the graph and compiling.

* ``parts``: two and four parts on the GPU, by kernel time;
* ``hybrid``: shares alpha of the edges on the CPU, against the CPU alone and against the speedup
  that the model predicts (`evener.engine.planning.planner`) after calibration on generated graphs;
  also the speedup of ideal parts, which take their share of the edges times the time of the device
  alone;
* ``directed``: a directed graph that exceeds a memory limit on the GPU: ``high``, ``random`` and
  ``low`` at one alpha that is feasible for all of them, and at the smallest alpha of each; also the
  GPU alone with edges in the host's memory;
* the accuracy of the model in all these cases.

Results go to ``benchmarks/results/parts_cuda.json``. ``--warm`` first compiles all kernels in
parallel, which takes a minute.
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

PARTS_LIMIT = 2.0  # times the GPU alone
REACHED = 0.85  # of the speedup that the model predicts
HIGH_LIMIT = 1.5  # times as fast as the CPU alone
PICK_LIMIT = 1.15  # times the best measured placement
DIVIDED = ("high", "random", "low")
STEPS = 3  # halvings in the search for the smallest alpha: to 1/8

Call = Callable[..., Any]
began = time.perf_counter()


def say(*words: Any) -> None:
    """Print a line with the time since the start."""
    print(f"[{time.perf_counter() - began:6.1f} s]", *words, flush=True)


def call_of(name: str, iterations: int) -> tuple[Call, str]:
    """The call to time, a function of a graph, a source and options, and the field to compare."""
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
    """A case: seconds of the run and of the kernels, the answer, the fastest result."""

    seconds: float
    kernel: float
    answer: np.ndarray
    result: Any


class Bench:
    """One algorithm on one graph."""

    def __init__(self, name: str, graph: Any, arguments: argparse.Namespace):
        self.name, self.graph, self.arguments = name, graph, arguments
        self.call, self.field = call_of(name, arguments.iterations)
        self.source = int(np.argmax(graph.degrees))
        self.want: np.ndarray | None = None

    def run(self, device: str, **options: Any) -> Timed:
        """Run once to compare the answer, then time several runs."""
        results = [
            self.call(self.graph, self.source, device=device, **options)
            for _ in range(self.arguments.trials + 1)
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
        """One, two and four parts on a GPU, by kernel time."""
        cases, alone = [], 0.0
        for k in (1, 2, 4):
            timed = self.run("+".join(["cuda"] * k))
            alone = alone or timed.kernel
            ratio, stats = timed.kernel / alone, timed.result.stats
            fields = {
                "kernel_ms": round(1000 * timed.kernel, 3), "ratio": round(ratio, 3),
                "edges": stats["edges"], "supersteps": stats["supersteps"],
                "bytes_sent": stats.get("bytes_sent", 0), "verified": True,
            }  # fmt: skip
            figure = f"{fields['kernel_ms']} ms, {ratio:.2f} × one part"
            case = f"{self.name}, {k} parts on the GPU"
            cases.append(limit_case(case, ratio, PARTS_LIMIT, figure, **fields))
            say(case, figure)
        return cases


class Hybrid(Bench):
    """One algorithm on CPU and GPU together, against the CPU alone and against the model."""

    def __init__(
        self, name: str, graph: Any, arguments: argparse.Namespace, limit: int | None = None
    ):
        super().__init__(name, graph, arguments)
        self.devices = [Device("cpu", arguments.threads), Device("cuda")]
        self.set = "+".join(map(str, self.devices))
        counts = {num_threads(), max(1, num_threads() // 2)}  # fewer threads have faster barriers
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

    def measure_placement(self, partitioner: str, alpha: float, note: str = "") -> dict[str, Any]:
        """Measure one placement."""
        how = f"{partitioner}:alpha={alpha:g}"
        stats = self.model.stats(partitioner, np.array([0.5, 0.5]), alpha)
        guess = self.model.costs.loop_seconds(stats)
        timed = self.run(self.set, partition=how)
        cpu, ran = self.cpu.seconds, timed.result.stats
        ideal = max(stats.edges * np.array([cpu, self.gpu.seconds]) / self.graph.num_edges)
        speedup, predicted = cpu / timed.seconds, cpu / guess
        self.rows.append({"partition": how, "predicted_s": guess, "taken_s": timed.seconds})
        fields = {
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
        case = limit_case(name, reached, REACHED, figure, **fields)
        case["holds"] = reached >= REACHED
        case["target"] = f"at least {REACHED} of the model's speedup"
        say(name, f"{1e3 * timed.seconds:.2f} ms: {figure}")
        return case

    def measure_auto(self) -> dict[str, Any]:
        """Measure both devices with the partition that Evener chooses."""
        timed = self.run(self.set)
        speedup, how = self.cpu.seconds / timed.seconds, timed.result.explain().splitlines()[1]
        case = f"{self.name}, cpu+cuda, auto"
        figure = f"{speedup:.2f} × the CPU alone. {how}"
        say(case, figure)
        fields = limit_case(case, speedup, 0, figure, seconds=timed.seconds, verified=True)
        return fields | {"holds": True, "target": "none: for comparison"}

    def measure_pick(self, limit: int, mapped: float) -> dict[str, Any]:
        """The planner's choice under a memory limit on the GPU, against the best placement."""
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
            self.measure_placement(chosen.partitioner, chosen.alpha, ", the planner's pick")
            what, taken = self.rows[-1]["partition"], self.rows[-1]["taken_s"]
        slower = taken / min(measured)
        case = f"planner: {self.name}, directed, its pick against the best"
        say(case, f"{slower:.2f} ×: {what}")
        return limit_case(case, slower, PICK_LIMIT, f"{slower:.2f} ×: {what}")


def measure_shares(graph: Any, arguments: argparse.Namespace, save: Call) -> None:
    """Measure CPU and GPU together, with several shares of the edges on the CPU."""
    benches = [Hybrid(name, graph, arguments) for name in arguments.hybrid]
    for alpha in arguments.alphas:
        for partitioner in DIVIDED:
            for bench in benches:  # they share the division of the graph
                save([bench.measure_placement(partitioner, alpha)])
    for bench in benches:
        save([bench.measure_auto()])
        save(agreement(f"model: {bench.name}, cpu+cuda", bench.rows))


def measure_directed(graph: Any, arguments: argparse.Namespace, save: Call) -> None:
    """Measure a directed graph of which only a part fits on the GPU."""
    for name in arguments.directed:
        program = call_of(name, 1)[0](ev.generate.path(4), 0, device="cpu")._declaration
        limit = int(arguments.room * estimate_memory(program, graph)[0])
        one = Hybrid(name, graph, arguments, limit)
        shares = np.array([0.5, 0.5])
        smallest = {how: one.model.smallest_alpha(how, shares, STEPS) for how in DIVIDED}
        say(f"{name}: smallest alphas with {limit / 1e9:.2f} GB on the GPU: {smallest}")
        common = max(smallest.values())
        for how in DIVIDED:
            case = one.measure_placement(how, common, ", directed, at one alpha")
            if how == "high":
                case["holds"] = case["speedup"] >= HIGH_LIMIT
                case["target"] = f"at least {HIGH_LIMIT} × the CPU alone"
            save([case])
        for how in DIVIDED:
            if smallest[how] < common:
                note = ", directed, at its smallest alpha"
                save([one.measure_placement(how, smallest[how], note)])
        save(agreement(f"model: {name}, cpu+cuda, directed", one.rows))
        with edges_mapped():
            timed = one.run("cuda")
        save([one.measure_pick(limit, timed.seconds)])
        speedup = one.cpu.seconds / timed.seconds
        figure = f"{1e3 * timed.seconds:.2f} ms, {speedup:.2f} × the CPU alone"
        say(f"{name}, directed, edges mapped: {figure}")
        case = limit_case(f"{name}, cuda with its edges in the host's memory, directed", speedup, 0,
                          figure, seconds=timed.seconds, verified=True)  # fmt: skip
        save([case | {"holds": True, "target": "none: for comparison"}])


def warm(arguments: argparse.Namespace) -> None:
    """Compile in parallel, on small graphs of the same types."""
    wanted = [(name, device) for name in arguments.algorithms for device in ("cuda", "cuda+cuda")]
    hybrids = {*arguments.hybrid, *arguments.directed}
    wanted += [(name, device) for name in hybrids for device in
               ("cuda", f"cpu:{num_threads()}", f"cpu:{arguments.threads}+cuda")]  # fmt: skip
    # The longest start first.
    wanted = sorted(set(wanted), key=lambda one: "cpu" not in one[1] or "cuda" not in one[1])
    running: list[subprocess.Popen[bytes]] = []
    for name, device in wanted:
        while sum(one.poll() is None for one in running) >= max(1, num_threads() - 2):
            time.sleep(0.1)
        both = name in arguments.directed and device != "cuda+cuda"
        graphs = (False, True) if both else (False,)
        words = [sys.executable, __file__, "--compile", json.dumps([name, device, graphs])]
        running.append(subprocess.Popen(words, env=os.environ))
    say("compiled:", [one.wait() for one in running])


def compile_one(name: str, device: str, graphs: Sequence[bool]) -> None:
    """Run once on small graphs in this process, directed or not."""
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
    parser.add_argument("--directed-scale", type=int, default=24, help="with edge factor 16")
    parser.add_argument("--algorithms", default="bfs,pagerank,sssp,cc", **names)
    parser.add_argument("--hybrid", default="bfs,pagerank", **names)
    parser.add_argument("--directed", default="bfs", **names)
    parser.add_argument("--threads", type=int, default=num_threads(), help="CPU threads in sets")
    parser.add_argument("--iterations", type=int, default=20, help="iterations of PageRank")
    parser.add_argument(
        "--alphas", default="0.5,0.75", type=lambda text: [float(one) for one in text.split(",")]
    )
    parser.add_argument("--room", type=float, default=0.5, help="share of the graph on the GPU")
    parser.add_argument("--trials", type=int, default=10, help="trials; the fastest counts")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    parser.add_argument("-o", default=str(Path(__file__).with_name("results") / "parts_cuda.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # iterations are not meant to converge
    if arguments.compile:
        compile_one(*json.loads(arguments.compile))
        return
    if arguments.warm:
        warm(arguments)
    results = preamble("parts_cuda", 1)
    results["graph"] = (
        f"R-MAT {arguments.scale}×{arguments.factor}, integer weights 1 to 63; directed: R-MAT "
        f"{arguments.directed_scale}×16; PageRank: {arguments.iterations} iterations"
    )
    results["cases"] = []

    def save(cases: list[dict[str, Any]]) -> None:
        results["cases"] += cases
        write_results(Path(arguments.o), results)

    if {"parts", "hybrid"} & set(arguments.only):
        scale, factor = arguments.scale, arguments.factor
        graph = ev.generate.rmat(scale, factor, weights=(1, 63), seed=1, device="cuda")
        say(f"{graph.num_vertices} vertices, {graph.num_edges} arcs")
        if "parts" in arguments.only:
            for name in arguments.algorithms:
                save(Bench(name, graph, arguments).parts())
        if "hybrid" in arguments.only:
            measure_shares(graph, arguments, save)
    if "directed" in arguments.only:
        scale = arguments.directed_scale
        graph = ev.generate.rmat(scale, 16, seed=1, directed=True, device="cuda")
        say(f"directed: {graph.num_vertices} vertices, {graph.num_edges} arcs")
        measure_directed(graph, arguments, save)


if __name__ == "__main__":
    main()
