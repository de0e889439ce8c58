"""Every schedule of the CUDA device on several algorithms and graphs, compared with `auto`.

``python benchmarks/gpu.py --schedules``. Milliseconds between the events around the kernel, medians
over a few trials, in which the schedules take turns. A case holds if ``auto`` takes at most 1.1
times as long as the best schedule.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import evener as ev
from evener.bench.harness import limit_case, write_results

SCHEDULES = ("thread_mapped", "dynamic", "merge_path", "virtual_warp", "warp_segmentation")
LIMIT = 1.1

Call = Callable[..., Any]


def works(graph: Any, source: int) -> dict[str, Call]:
    """The calls to time: those of `gpu`, and a push-only search."""
    return {
        "bfs": lambda **k: ev.bfs(graph, source, **k),
        "bfs, push": lambda **k: ev.bfs(graph, source, direction="push", **k),
        "pagerank": lambda **k: ev.pagerank(
            graph, tol=0, max_iterations=20, dtype=np.float32, **k
        ),
        "sssp": lambda **k: ev.sssp(graph, source, **k),
        "cc": lambda **k: ev.connected_components(graph, **k),
        "bc": lambda **k: ev.betweenness(graph, sources=[source], **k),
    }  # fmt: skip


def milliseconds(call: Call, trials: int) -> dict[str, float]:
    """The median time of each schedule; they take turns, after one untimed run of each."""
    names = (*SCHEDULES, "auto")
    times: dict[str, list[float]] = {name: [] for name in names}
    for trial in range(trials + 1):
        for name in names:
            result = call(device="cuda", device_arrays=True, schedule=name)
            if trial:
                times[name].append(1000 * result.stats["device_seconds"])
    return {name: round(statistics.median(found), 3) for name, found in times.items()}


def case_of(name: str, found: dict[str, float]) -> dict[str, Any]:
    """A table row: ``auto`` compared with the best schedule."""
    best = min(SCHEDULES, key=found.__getitem__)
    ratio = found["auto"] / found[best]
    times = ", ".join(f"{schedule} {found[schedule]:g}" for schedule in SCHEDULES)
    figure = f"{ratio:.2f} × {best}: {found['auto']:g} ms ({times})"
    return limit_case(name, ratio, LIMIT, figure, milliseconds=found)


def measure_schedules(
    results: dict[str, Any], name: str, graph: Any, trials: int, path: Path
) -> None:
    """Measure all calls on one graph, and write the results file after each."""
    source = int(np.argmax(graph.degrees))
    for work, call in works(graph, source).items():
        case = case_of(f"{work} {name}", milliseconds(call, min(trials, 5)))
        results["cases"].append(case)
        print(f"{case['case']:22} {case['figure']}", flush=True)
        write_results(path, results)
