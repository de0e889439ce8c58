"""Whole calls beside busy processes, as on a shared machine or during a build.

    python benchmarks/neighbours.py [--trials N] [--quick]

Every algorithm on four graphs, on ``cpu`` and on ``cpu:1``, beside 0, 1, 2 and 4 busy processes,
and beside one and two busy processes at the lowest priority. There are two limits:

* on a quiet machine ``cpu`` takes at most 1.1 times as long as ``cpu:1`` in each case;
* beside one busy process ``cpu`` takes at most twice as long as the faster of the two on a quiet
  machine.

Calls take turns and the median counts; short calls get more trials because no machine is entirely
quiet. Answers are compared with those of one thread on a quiet machine.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import evener as ev
from evener.bench.harness import interleaved, preamble, write_results

RESULTS = Path(__file__).parent / "results" / "neighbours.json"
SEED = 1
LEAST_SECONDS, MOST_TRIALS = 0.6, 101  # minimal total time of a call's trials, maximal number
DEVICES = ("cpu", "cpu:1")
SETTINGS = {
    "quiet": (0, 0), "1 busy": (1, 0), "2 busy": (2, 0), "4 busy": (4, 0),
    "1 busy, nice 19": (1, 19), "2 busy, nice 19": (2, 19),
}  # fmt: skip
QUIET_LIMIT, BUSY_LIMIT = 1.1, 2.0


def make_graphs() -> dict[str, ev.Graph]:
    weights = (1, 255)
    return {
        "grid 400x400": ev.generate.grid(400, weights=weights, seed=SEED),
        "path 100,000": ev.generate.path(100_000, weights=weights, seed=SEED),
        "rmat 13": ev.generate.rmat(13, 16, weights=weights, seed=SEED),
        "kron18": ev.generate.rmat(18, 16, weights=weights, seed=SEED),
    }


def calls_of(graph: ev.Graph) -> dict[str, tuple[str, Callable[[str], Any]]]:
    """The field of each algorithm's answer, and its call on a device."""
    source = int(np.argmax(graph.degrees))
    hot = np.zeros(graph.num_vertices)
    hot[source] = 1.0
    held = {source: 1.0, (source + 1) % graph.num_vertices: 0.0}
    few = {"max_iterations": 20}
    sources = 64 if graph.num_vertices < 10_000 else 4
    return {
        "bfs": ("depth", lambda d: ev.bfs(graph, source, device=d)),
        "sssp": ("distance", lambda d: ev.sssp(graph, source, device=d)),
        "sswp": ("width", lambda d: ev.sswp(graph, source, device=d)),
        "pagerank": ("rank", lambda d: ev.pagerank(graph, tol=0.0, device=d, **few)),
        "components": ("component", lambda d: ev.connected_components(graph, device=d)),
        "betweenness": ("score", lambda d: ev.betweenness(graph, sources=sources, device=d)),
        "circuit": ("potential", lambda d: ev.circuit(graph, held, device=d, **few)),
        "heat": ("temperature", lambda d: ev.heat(graph, hot, device=d, **few)),
        "neural": ("activation", lambda d: ev.neural(graph, initial=hot, device=d, **few)),
    }


@contextlib.contextmanager
def busy(processes: int, niceness: int) -> Iterator[None]:
    """Run other processes that keep cores busy."""
    command = ["nice", "-n", str(niceness), sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(processes)]
    try:
        time.sleep(0.3 if running else 0)  # until they have started
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def measure(graph: ev.Graph, trials: int, settings: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """Median milliseconds by algorithm, setting and device."""
    found: dict[str, Any] = {}
    for algorithm, (field, call) in calls_of(graph).items():
        want = np.asarray(getattr(call("cpu:1"), field))
        got = np.asarray(getattr(call("cpu"), field))
        assert np.allclose(got, want, rtol=1e-6, atol=1e-9), f"{algorithm} differs"
        cases = {device: functools.partial(call, device) for device in DEVICES}
        began = time.perf_counter()
        call("cpu")
        wanted = int(LEAST_SECONDS / (time.perf_counter() - began))
        times_each = max(trials, min(wanted, MOST_TRIALS))
        found[algorithm] = {}
        for setting, busy_options in settings.items():
            with busy(*busy_options):
                seconds = interleaved(cases, times_each)
            found[algorithm][setting] = {
                device: round(1e3 * statistics.median(times), 4)
                for device, times in seconds.items()
            }
    return found


def verdicts(found: dict[str, Any]) -> dict[str, float]:
    """The two ratios that have limits."""
    quiet, beside = found["quiet"], found["1 busy"]
    return {
        "quiet_ratio": round(quiet["cpu"] / quiet["cpu:1"], 3),
        "busy_ratio": round(beside["cpu"] / min(quiet.values()), 3),
    }


def case_of(name: str, algorithm: str, found: dict[str, Any]) -> dict[str, Any]:
    """A table row for the page of benchmarks."""
    ratios = verdicts(found)
    return {
        "case": f"{algorithm} on {name}",
        "figure": f"{found['quiet']['cpu']:.3g} ms, {ratios['quiet_ratio']:.2f} × `cpu:1`; "
        f"beside one busy process {found['1 busy']['cpu']:.3g} ms, {ratios['busy_ratio']:.2f} ×",
        "target": f"at most {QUIET_LIMIT} and {BUSY_LIMIT:g}",
        "holds": ratios["quiet_ratio"] <= QUIET_LIMIT and ratios["busy_ratio"] <= BUSY_LIMIT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="only quiet and one busy process")
    parser.add_argument("-o", "--out", type=Path, default=RESULTS, help="the results file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # about loops stopping at max_iterations
    settings = dict(list(SETTINGS.items())[: 2 if arguments.quick else None])
    rows = []
    print(f"{'':28}{'cpu':>9}{'cpu:1':>9}" + "".join(f"{s:>17}" for s in list(settings)[1:]))
    for name, graph in make_graphs().items():
        for algorithm, found in measure(graph, arguments.trials, settings).items():
            row = {**case_of(name, algorithm, found), "ms": found, **verdicts(found)}
            rows.append(row)
            quiet = "".join(f"{found['quiet'][device]:9.2f}" for device in DEVICES)
            others = "".join(f"{found[s]['cpu']:17.2f}" for s in list(settings)[1:])
            mark = "" if row["holds"] else "  MISSED"
            ratios = f"{row['quiet_ratio']:7.2f}{row['busy_ratio']:6.2f}{mark}"
            print(f"{name:15}{algorithm:13}{quiet}{others}{ratios}", flush=True)
    limits = {"quiet_ratio": QUIET_LIMIT, "busy_ratio": BUSY_LIMIT}
    write_results(arguments.out, {**preamble("neighbours", SEED), "limits": limits, "cases": rows})
    print(f"{sum(row['holds'] for row in rows)} of {len(rows)} hold; written to {arguments.out}")


if __name__ == "__main__":
    main()
