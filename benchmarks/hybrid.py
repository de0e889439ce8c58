"""Device sets with a GPU: parts on one card against the card alone, CPU and GPU against the CPU.

Run on a machine with an NVIDIA GPU: ``python benchmarks/hybrid.py``. Times are those of runs,
without dividing the graph and compiling, medians over trials; every answer is compared with that of
one device. Hybrid runs have the share alpha of the edges on the CPU. The model is TOTEM's
(`evener.engine.planner`) with the rates of the CPU alone and the GPU alone on this very graph; the
CPU alone and the hybrid each have the number of threads that suits them best. Results go to
``benchmarks/results/parts_cuda.json``.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import evener as ev
from evener.bench.harness import limit_case, preamble, write_results
from evener.device import num_threads
from evener.engine.calibrate import Calibration, Workload
from evener.engine.planner import _Model
from evener.engine.run import Device

PARTS_LIMIT = 2.0  # times the card alone
REACHED = 0.85  # of the speedup that the model predicts
HIGH_LIMIT = 1.5  # times as fast as the CPU alone


iterations = 20  # of PageRank


def calls(graph: Any) -> dict[str, tuple[Callable[..., Any], str]]:
    """What is run: a function of the options, and the field to compare."""
    source = int(np.argmax(graph.degrees))
    return {
        "bfs": (lambda g=graph, s=source, **k: ev.bfs(g, s, **k), "depth"),
        "pagerank": (
            lambda g=graph, s=source, **k: ev.pagerank(
                g, tol=0, max_iterations=iterations, dtype=np.float32, **k
            ),
            "rank",
        ),
        "cc": (lambda g=graph, s=source, **k: ev.connected_components(g, **k), "component"),
        "sssp": (lambda g=graph, s=source, **k: ev.sssp(g, s, **k), "distance"),
        "bc": (lambda g=graph, s=source, **k: ev.betweenness(g, sources=[s], **k), "score"),
    }


class Timed(NamedTuple):
    """A cell: seconds of the run and of the kernels, the answer, the last result, the device."""

    seconds: float
    kernel: float
    found: np.ndarray
    result: Any
    device: str


def run(call: Callable[..., Any], field: str, want: Any, trials: int, **options: Any) -> Timed:
    """Run it once to compare the answer, then time it."""
    result = call(**options)
    found = np.asarray(getattr(result, field), np.float64)
    if want is not None:
        rtol = 1e-3 if field in ("rank", "score") else 1e-6
        np.testing.assert_allclose(found, want, rtol=rtol, atol=1e-9)
    seconds, kernels = [], []
    for _ in range(trials):
        result = call(**options)
        # Of a hybrid run the loop on both devices, without bringing two halves of a result
        # together; runs on one device have nothing of the kind.
        seconds.append(result.stats.get("loop_seconds", result.stats["run_seconds"]))
        kernels.append(result.stats.get("device_seconds", 0.0))
    middle = statistics.median
    return Timed(middle(seconds), middle(kernels), found, result, options["device"])


def fastest(call: Any, field: str, want: Any, trials: int, names: list[str], **more: Any) -> Timed:
    """The fastest of several devices."""
    found = [run(call, field, want, trials, device=name, **more) for name in names]
    for one in found:
        print(f"           {one.device:14} {1000 * one.seconds:9.3f} ms", flush=True)
    return min(found, key=lambda one: one.seconds)


class Measured(Calibration):
    """The rates of this graph itself; links and traffic as calibrated."""

    def __init__(self, rates: dict[str, float]):
        super().__init__()
        self.rates = rates

    def rate(self, workload: Workload, device: str, like: Any) -> float:
        """Edges a second."""
        return self.rates["cuda" if device.startswith("cuda") else "cpu"]


def measure_parts(name: str, call: Any, field: str, trials: int, counts: list[int]) -> list[dict]:
    """A GPU in one, two and four parts, by the time of the kernels."""
    cases, want, alone = [], None, 0.0
    for k in counts:
        timed = run(call, field, want, trials, device="+".join(["cuda"] * k))
        want = timed.found if want is None else want
        alone = alone or timed.kernel
        ratio, stats = timed.kernel / alone, timed.result.stats
        told = {
            "kernel_ms": round(1000 * timed.kernel, 3), "ratio": round(ratio, 3),
            "edges": stats["edges"], "supersteps": stats["supersteps"],
            "bytes_sent": stats.get("bytes_sent", 0), "verified": True,
        }  # fmt: skip
        figure = f"{told['kernel_ms']} ms, {ratio:.2f} × one part"
        case = f"{name}, {k} parts on the GPU"
        cases.append(limit_case(case, ratio, PARTS_LIMIT, figure, **told))
        print(f"{name:10} parts {k}: {figure}", flush=True)
    return cases


class Hybrid:
    """CPU and GPU together against the CPU alone and against the model, one algorithm."""

    def __init__(self, name: str, graph: Any, trials: int, threads: list[int]):
        self.name, self.graph, self.trials = name, graph, trials
        self.call, self.field = calls(graph)[name]
        self.threads = threads
        names = [f"cpu:{count}" for count in threads]
        self.cpu = fastest(self.call, self.field, None, trials, names)
        self.gpu = run(self.call, self.field, self.cpu.found, trials, device="cuda")
        rates = {"cpu": graph.num_edges / self.cpu.seconds,
                 "cuda": graph.num_edges / self.gpu.seconds}  # fmt: skip
        self.calibration = Measured(rates)
        print(f"{name:10} {self.cpu.device} {1000 * self.cpu.seconds:.2f} ms, "
              f"cuda {1000 * self.gpu.seconds:.2f} ms", flush=True)  # fmt: skip

    def predicted(self, how: str) -> float:
        """Seconds by the model."""
        workload = Workload(self.name, lambda g, source, **k: calls(g)[self.name][0](**k))
        devices = [Device("cpu"), Device("cuda")]
        model = _Model(self.graph, devices, workload, None, self.calibration)
        name, _, alpha = how.partition(":alpha=")
        found = model.stats(name, np.array([0.5, 0.5]), float(alpha))
        return float((found.edges / model.rates() + model.message_seconds(found)).max())

    def case(self, how: str) -> dict[str, Any]:
        """One placement."""
        names = [f"cpu:{count}+cuda" for count in self.threads]
        timed = fastest(self.call, self.field, self.cpu.found, self.trials, names, partition=how)
        cpu, stats = self.cpu.seconds, timed.result.stats
        speedup, model = cpu / timed.seconds, cpu / self.predicted(how)
        told = {
            "device": timed.device, "seconds": timed.seconds, "run_seconds": stats["run_seconds"],
            "cpu_seconds": cpu, "cpu_device": self.cpu.device, "cuda_seconds": self.gpu.seconds,
            "speedup": round(speedup, 3), "predicted_speedup": round(model, 3),
            "supersteps": stats["supersteps"], "bytes_sent": stats["bytes_sent"],
            "edges": stats["edges"], "owned": stats["owned"], "ghosts": stats["ghosts"],
            "verified": True,
        }  # fmt: skip
        reached = speedup / model
        figure = f"{speedup:.2f} × the CPU alone; the model says {model:.2f} ×"
        case = limit_case(f"{self.name}, cpu+cuda, {how}", reached, REACHED, figure, **told)
        case["holds"] = reached >= REACHED
        case["target"] = f"at least {REACHED} of the model's speedup"
        if how.startswith("high"):
            case["holds"] = case["holds"] and speedup >= HIGH_LIMIT
            case["target"] += f", and {HIGH_LIMIT} × the CPU"
        print(f"{self.name:10} {how:18} {1000 * timed.seconds:8.2f} ms: {figure}", flush=True)
        for row in list(timed.result.trace)[:6]:
            times = [f"{1e3 * x:.2f}" for x in row["communication_seconds"]]
            spent = [f"{1e3 * x:.2f}" for x in row["compute_seconds"]]
            print("      ", row["direction"], row["frontier"], "compute", spent, "told", times)
        return case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--factor", type=int, default=48)
    parser.add_argument("--parts", default="1,2,4")
    parser.add_argument("--algorithms", default="bfs,pagerank,cc,sssp,bc")
    parser.add_argument("--hybrid", default="bfs,pagerank,cc,sssp")
    parser.add_argument(
        "--threads", default="", help="CPU threads to try, as bfs=8/16,pagerank=16; default all"
    )
    parser.add_argument("--iterations", type=int, default=20, help="of PageRank")
    parser.add_argument("--alphas", default="0.5,0.75")
    parser.add_argument("--partitioners", default="high,random,low")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("-o", default=str(Path(__file__).with_name("results") / "parts_cuda.json"))
    given = parser.parse_args()
    global iterations
    iterations = given.iterations
    warnings.simplefilter("ignore", RuntimeWarning)  # 20 iterations are not meant to converge
    results = preamble("parts_cuda", 1)
    results["graph"] = f"R-MAT {given.scale}×{given.factor}, integer weights 1 to 63"
    results["cases"] = []
    graph = ev.generate.rmat(given.scale, given.factor, weights=(1, 63), seed=1, device="cuda")
    print(f"{graph.num_vertices} vertices, {graph.num_edges} arcs", flush=True)
    found = calls(graph)
    for name in filter(None, given.algorithms.split(",")):
        call, field = found[name]
        counts = [int(k) for k in given.parts.split(",")]
        results["cases"] += measure_parts(name, call, field, given.trials, counts)
        write_results(Path(given.o), results)
    placements = [
        f"{name}:alpha={alpha}"
        for alpha in given.alphas.split(",")
        for name in given.partitioners.split(",")
    ]
    said = dict(one.split("=") for one in filter(None, given.threads.split(",")))
    hybrids = [
        Hybrid(name, graph, given.trials, [
            int(count) for count in said.get(name, str(num_threads())).split("/")
        ])
        for name in filter(None, given.hybrid.split(","))
    ]  # fmt: skip
    for how in placements if hybrids else []:
        for hybrid in hybrids:
            results["cases"].append(hybrid.case(how))
            write_results(Path(given.o), results)


if __name__ == "__main__":
    main()
