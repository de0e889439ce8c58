"""A GPU that reads edges from the host's memory, against edges on the GPU and against the CPU.

Run on a machine with an NVIDIA GPU: ``python benchmarks/mapped.py``. Fields, frontiers and row
starts are on the GPU in both cases. Times are medians over trials, of the kernels on the GPU and of
the run on the CPU; every answer is compared with that of the CPU. ``link`` is the rate of copies
from pinned memory to the GPU, ``read`` the bytes of the visited edges per second of kernel time,
and ``predicted`` the planner's time, from rates that it measures on smaller graphs. Results go to
``benchmarks/results/mapped_cuda.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import evener as ev
from evener.bench.harness import preamble, write_results
from evener.device.link_speed import gpu_rate
from evener.device.probe import list_devices
from evener.engine.memory.edges import edges_mapped
from evener.engine.planning.calibrate import EDGES_MAPPED, Calibration, Workload


def calls(graph: Any, sources: list[int]) -> dict[str, tuple[Callable[..., Any], str]]:
    """The calls to time, functions of the trial's number and options, and the field to compare."""
    return {
        "bfs": (lambda i, **k: ev.bfs(graph, sources[i], **k), "depth"),
        "pagerank": (
            lambda i, **k: ev.pagerank(graph, tol=0, max_iterations=20, dtype=np.float32, **k),
            "rank",
        ),
        "cc": (lambda i, **k: ev.connected_components(graph, **k), "component"),
        "sssp": (lambda i, **k: ev.sssp(graph, sources[i], **k), "distance"),
    }


def measure(call: Callable[..., Any], trials: int, key: str, **options: Any) -> dict[str, Any]:
    """Time the first run, then the median of others; also returns the first result."""
    began = time.perf_counter()
    first = call(0, **options)
    found: dict[str, Any] = {"first_seconds": round(time.perf_counter() - began, 3)}
    found["compile_seconds"] = round(first.stats.get("compile_seconds", 0.0), 3)
    results = [call(trial, **options) for trial in range(trials)]
    found["ms"] = round(1000 * statistics.median(one.stats[key] for one in results), 3)
    found["edges"] = int(statistics.median(one.stats["edges"] for one in results))
    for name in ("memory", "mapped_bytes"):
        found[name] = first.stats.get(name)
    return found | {"result": first}


def case(
    name: str, call: Callable[..., Any], field: str, trials: int, edge: int
) -> dict[str, Any]:  # fmt: skip
    """One algorithm on the CPU, on the GPU, and on the GPU with edges in the host's memory."""
    on_cpu = measure(call, trials, "run_seconds", device="cpu")
    want = np.asarray(getattr(on_cpu.pop("result"), field), np.float64)
    row: dict[str, Any] = {"case": name, "target": "none", "holds": True, "cpu": on_cpu}
    for place, how in (("mapped", edges_mapped), ("card", contextlib.nullcontext)):
        with how():
            found = measure(call, trials, "device_seconds", device="cuda")
        have = np.asarray(getattr(found.pop("result"), field), np.float64)
        rtol = 1e-3 if field == "rank" else 1e-6
        np.testing.assert_allclose(have, want, rtol=rtol, atol=1e-12)
        row[place] = found
    read = row["mapped"]["edges"] * edge / row["mapped"]["ms"] / 1e6
    row["read_gb_s"] = round(read, 2)
    row["of_cpu"] = round(row["cpu"]["ms"] / row["mapped"]["ms"], 3)
    row["figure"] = (
        f"edges mapped {row['mapped']['ms']} ms ({read:.1f} GB/s), on the card "
        f"{row['card']['ms']} ms, CPU {row['cpu']['ms']} ms: {row['of_cpu']} × as fast as the CPU"
    )
    row["verified"] = True
    print(f"{name:10} {row['figure']}", flush=True)
    return row


def predict(name: str, graph: Any) -> float:
    """The milliseconds that the planner predicts for edges in the host's memory."""

    def call(other: Any, source: int, **where: Any) -> Any:
        return calls(other, [source])[name][0](0, **where)

    rate = Calibration().rate(Workload(name, call), f"cuda{EDGES_MAPPED}", graph)
    return round(1000 * graph.num_edges / rate, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--factor", type=int, default=48)
    parser.add_argument("--algorithms", default="bfs,pagerank,cc,sssp")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("-o", default=str(Path(__file__).with_name("results") / "mapped_cuda.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # 20 iterations are not meant to converge
    results = preamble("mapped_cuda", 1)
    gpu = next(one for one in list_devices() if one.kind == "cuda")
    results["machine"]["processor"] = f"{gpu.description}, beside {results['machine']['processor']}"
    graph = ev.generate.rmat(
        arguments.scale, arguments.factor, weights=(1, 63), seed=1, device="cuda"
    )
    inside = np.flatnonzero(graph.degrees > 0)
    sources = np.random.default_rng(2).choice(inside, arguments.trials).tolist()
    results["graph"] = f"R-MAT {arguments.scale}×{arguments.factor}, integer weights 1 to 63"
    results["link_gb_s"] = round(gpu_rate() / 1e9, 2)
    results["cases"] = []
    print(
        f"{graph.num_vertices} vertices, {graph.num_edges} arcs; link {results['link_gb_s']} GB/s"
    )
    for name in arguments.algorithms.split(","):
        call, field = calls(graph, sources)[name]
        edge = graph._indices.itemsize
        if name == "sssp":
            edge += graph._weights.itemsize
        results["cases"].append(case(name, call, field, arguments.trials, edge))
        write_results(Path(arguments.o), results)
    for one in results["cases"]:
        one["predicted_ms"] = predict(one["case"], graph)
        one["figure"] += f"; predicted {one['predicted_ms']} ms"
        print(f"{one['case']:10} predicted {one['predicted_ms']} ms", flush=True)
        write_results(Path(arguments.o), results)


if __name__ == "__main__":
    main()
