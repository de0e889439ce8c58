"""Device sets with a GPU: parts on one card against the card alone, CPU and GPU against the CPU.

Run on a machine with an NVIDIA GPU: ``python benchmarks/parts.py``. Times are those of runs, as
`Result.stats` tells them (``run_seconds``: without dividing the graph and compiling), medians over
trials; every answer is compared with that of one device. Hybrid runs have the share alpha of the
edges on the CPU. The model is TOTEM's (`evener.engine.planner`) with the rates of the CPU alone and
the GPU alone on this very graph. Results go to ``benchmarks/results/parts_cuda.json``.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import evener as ev
from evener.bench.harness import limit_case, preamble, write_results
from evener.engine.calibrate import Calibration, Workload
from evener.engine.planner import _Model
from evener.engine.run import Device

PARTS_LIMIT = 2.0  # times the card alone
REACHED = 0.85  # of the speedup that the model predicts
HIGH_LIMIT = 1.5  # times as fast as the CPU alone


def calls(graph: Any) -> dict[str, tuple[Callable[..., Any], str]]:
    """What is run: a function of the options, and the field to compare."""
    source = int(np.argmax(graph.degrees))
    return {
        "bfs": (lambda g=graph, s=source, **k: ev.bfs(g, s, **k), "depth"),
        "pagerank": (
            lambda g=graph, s=source, **k: ev.pagerank(
                g, tol=0, max_iterations=20, dtype=np.float32, **k
            ),
            "rank",
        ),
        "cc": (lambda g=graph, s=source, **k: ev.connected_components(g, **k), "component"),
        "sssp": (lambda g=graph, s=source, **k: ev.sssp(g, s, **k), "distance"),
        "bc": (lambda g=graph, s=source, **k: ev.betweenness(g, sources=[s], **k), "score"),
    }


def run(call: Callable[..., Any], field: str, want: Any, trials: int, **options: Any) -> Any:
    """Seconds of a run, what it answered, and the last result."""
    result = call(**options)
    found = np.asarray(getattr(result, field), np.float64)
    if want is not None:
        rtol = 1e-3 if field in ("rank", "score") else 1e-6
        np.testing.assert_allclose(found, want, rtol=rtol, atol=1e-9)
    seconds, kernels = [], []
    for _ in range(trials):
        result = call(**options)
        seconds.append(result.stats["run_seconds"])
        kernels.append(result.stats.get("device_seconds", 0.0))
    return statistics.median(seconds), statistics.median(kernels), found, result


class Measured(Calibration):
    """The rates of this graph itself; links and traffic as calibrated."""

    def __init__(self, rates: dict[str, float]):
        super().__init__()
        self.rates = rates

    def rate(self, workload: Workload, device: str, like: Any) -> float:
        """Edges a second."""
        return self.rates["cuda" if device.startswith("cuda") else "cpu"]


def predicted(graph: Any, workload: Workload, rates: dict[str, float], how: str) -> float:
    """Seconds by the model for a placement on cpu+cuda."""
    model = _Model(graph, [Device("cpu"), Device("cuda")], workload, None, Measured(rates))
    name, _, alpha = how.partition(":alpha=")
    found = model.stats(name, np.array([0.5, 0.5]), float(alpha))
    times = found.edges / model.rates() + model.message_seconds(found)
    return float(times.max())


def measure_parts(name: str, call: Any, field: str, trials: int, counts: list[int]) -> list[dict]:
    """A GPU in one, two and four parts, by the time of the kernels."""
    cases, want, alone = [], None, 0.0
    for k in counts:
        device = "+".join(["cuda"] * k)
        _, kernel, found, result = run(call, field, want, trials, device=device)
        want = found if want is None else want
        alone = alone or kernel
        ratio = kernel / alone
        told = {
            "kernel_ms": round(1000 * kernel, 3), "ratio": round(ratio, 3),
            "edges": result.stats["edges"], "supersteps": result.stats["supersteps"],
            "bytes_sent": result.stats.get("bytes_sent", 0), "verified": True,
        }  # fmt: skip
        figure = f"{told['kernel_ms']} ms, {ratio:.2f} × one part"
        cases.append(
            limit_case(f"{name}, {k} parts on the GPU", ratio, PARTS_LIMIT, figure, **told)
        )
        print(f"{name:10} parts {k}: {figure}", flush=True)
    return cases


def measure_hybrid(
    name: str, graph: Any, call: Any, field: str, trials: int, placements: list[str]
) -> list[dict]:
    """CPU and GPU together against the CPU alone and against the model."""
    cpu, _, want, _ = run(call, field, None, trials, device="cpu")
    gpu, _, _, _ = run(call, field, want, trials, device="cuda")
    print(f"{name:10} cpu {1000 * cpu:.2f} ms, cuda {1000 * gpu:.2f} ms", flush=True)
    rates = {"cpu": graph.num_edges / cpu, "cuda": graph.num_edges / gpu}
    workload = Workload(name, lambda g, source, **k: calls(g)[name][0](**k))
    cases = []
    for how in placements:
        seconds, _, _, result = run(call, field, want, trials, device="cpu+cuda", partition=how)
        speedup, model = cpu / seconds, cpu / predicted(graph, workload, rates, how)
        told = {
            "seconds": seconds, "cpu_seconds": cpu, "cuda_seconds": gpu,
            "speedup": round(speedup, 3), "predicted_speedup": round(model, 3),
            "supersteps": result.stats["supersteps"], "bytes_sent": result.stats["bytes_sent"],
            "edges": result.stats["edges"], "owned": result.stats["owned"],
            "ghosts": result.stats["ghosts"], "verified": True,
        }  # fmt: skip
        reached = speedup / model
        figure = f"{speedup:.2f} × the CPU alone; the model says {model:.2f} ×"
        case = limit_case(f"{name}, cpu+cuda, {how}", reached, REACHED, figure, **told)
        case["holds"] = reached >= REACHED
        case["target"] = f"at least {REACHED} of the model's speedup"
        if how.startswith("high"):
            case["holds"] = case["holds"] and speedup >= HIGH_LIMIT
            case["target"] += f", and {HIGH_LIMIT} × the CPU"
        cases.append(case)
        print(f"{name:10} {how:18} {1000 * seconds:8.2f} ms: {figure}", flush=True)
        for row in list(result.trace)[:8]:
            times = [f"{1e3 * x:.2f}" for x in row["communication_seconds"]]
            spent = [f"{1e3 * x:.2f}" for x in row["compute_seconds"]]
            print("      ", row["direction"], row["frontier"], "compute", spent, "told", times)
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--factor", type=int, default=48)
    parser.add_argument("--parts", default="1,2,4")
    parser.add_argument("--algorithms", default="bfs,pagerank,cc,sssp,bc")
    parser.add_argument("--hybrid", default="bfs,pagerank,cc,sssp")
    parser.add_argument("--alphas", default="0.5,0.75")
    parser.add_argument("--partitioners", default="high,random,low")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("-o", default=str(Path(__file__).with_name("results") / "parts_cuda.json"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # 20 iterations are not meant to converge
    results = preamble("parts_cuda", 1)
    results["graph"] = f"R-MAT {given.scale}×{given.factor}, integer weights 1 to 63"
    results["cases"] = []
    graph = ev.generate.rmat(given.scale, given.factor, weights=(1, 63), seed=1)
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
    for name in filter(None, given.hybrid.split(",")):
        call, field = found[name]
        results["cases"] += measure_hybrid(name, graph, call, field, given.trials, placements)
        write_results(Path(given.o), results)


if __name__ == "__main__":
    main()
