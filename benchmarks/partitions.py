"""Several CPU parts of one graph: speed, bytes exchanged, memory, and the planner.

    python benchmarks/partitions.py [--scale N] [--trials N] [--only planner]

* two parts of one thread each against one device of two threads;
* bytes that the policy `refined` sends, against `maximal_subset`;
* memory of six parts against one part;
* seconds that the planner predicts for several partitioners and shares, against measured seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import evener as ev
from evener.bench.cases import ALGORITHMS, ITERATIONS, choose_sources, make_graph
from evener.bench.harness import (
    limit_case,
    preamble,
    print_cases,
    write_results,
)
from evener.engine.devices import Device
from evener.engine.planning.calibrate import Calibration, Workload
from evener.engine.planning.planner import Model, choose, plan

RESULTS = Path(__file__).parent / "results" / "partitions.json"
SEED = 1
PARTS = "cpu:1+cpu:1"
SIX = "+".join(["cpu:1"] * 6)
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)  # of the edges in the first part
ENOUGH_SECONDS = 1.0
DIVIDED = ("random", "high", "low", "contiguous")

Call = Callable[..., Any]  # a function of a graph, a source and options


def _ranks(graph: Any, source: int, **where: Any) -> Any:
    return ev.pagerank(graph, tol=0.0, max_iterations=ITERATIONS, dtype=np.float32, **where)


CALLS: dict[str, Call] = {
    "bfs": lambda graph, source, **where: ev.bfs(graph, source, **where),
    "sssp": lambda graph, source, **where: ev.sssp(graph, source, **where),
    "sswp": lambda graph, source, **where: ev.sswp(graph, source, **where),
    "cc": lambda graph, source, **where: ev.connected_components(graph, **where),
    "pagerank": _ranks,
}


def speed(graph: Any, source: int, trials: int, name: str) -> list[dict[str, Any]]:
    """Compare seconds of the run itself; dividing the graph happens once and is cached."""
    cases = []
    for algorithm in ("bfs", "pagerank", "sssp", "cc"):
        call = CALLS[algorithm]
        taken: dict[str, list[float]] = {"cpu:2": [], PARTS: []}
        results = {}
        for trial in range(trials + 1):
            for device, seconds in taken.items():
                how = {"partition": "random"} if "+" in device else {}
                results[device] = call(graph, source, device=device, **how)
                if trial:
                    seconds.append(results[device].stats["run_seconds"])
        ALGORITHMS[algorithm].verify(graph, results[PARTS], [source])
        one, two = (statistics.median(seconds) for seconds in taken.values())
        figure = f"{two:.4f} s, {two / one:.2f} × one device of two threads"
        cases.append(
            limit_case(f"{algorithm} on {name}, {PARTS}", two / one, 1.5, figure, seconds=taken)
        )
    return cases


def bytes_sent(scale: int) -> list[dict[str, Any]]:
    graph = make_graph(f"kron{scale}", SEED)
    (source,) = choose_sources(graph, 1, SEED)
    cases = []
    for algorithm, call in CALLS.items():
        sent = {}
        for policy in ("refined", "maximal_subset", "all"):
            result = call(graph, source, device=PARTS, partition="random", exchange=policy)
            sent[policy] = result.stats["bytes_sent"]
        ratio = sent["refined"] / sent["maximal_subset"]
        figure = f"{sent['refined'] / 1e6:.2f} MB, {ratio:.2f} × maximal_subset"
        limit = 1.0 if algorithm == "pagerank" else 0.5
        cases.append(
            limit_case(f"refined sends: {algorithm} on kron{scale}", ratio, limit, figure, **sent)
        )
    return cases


def memory(graph: Any, source: int, name: str) -> list[dict[str, Any]]:
    cases = []
    for algorithm in ("bfs", "pagerank", "cc"):
        found = {}
        for device, how in ((PARTS, "random:shares=1/0"), (SIX, "random")):
            result = CALLS[algorithm](graph, source, device=device, partition=how)
            found[device] = sum(result.stats["memory"])
        ratio = found[SIX] / found[PARTS]
        figure = f"{found[SIX] / 1e6:.0f} MB, {ratio:.2f} × all in one part"
        cases.append(
            limit_case(f"memory of six parts: {algorithm} on {name}", ratio, 2.0, figure, **found)
        )
    return cases


def _taken(call: Call, graph: Any, source: int, how: str, trials: int) -> float:
    """Seconds of the loop of a run over two parts, after a run that divides the graph and compiles.

    The fastest run counts, as in the calibration of the model: other load only slows runs down.
    Short runs, which suffer most from it, are repeated for a second in total.
    """
    call(graph, source, device=PARTS, partition=how)
    taken: list[float] = []
    while len(taken) < trials or sum(taken) < ENOUGH_SECONDS:
        taken.append(call(graph, source, device=PARTS, partition=how).stats["loop_seconds"])
    return min(taken)


def agreement(what: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Correlation and mean error of predicted against measured seconds over placements."""
    guesses = np.array([row["predicted_s"] for row in rows])
    times = np.array([row["taken_s"] for row in rows])
    apart = 1 - float(np.corrcoef(guesses, times)[0, 1])
    error = float(np.mean(np.abs(guesses - times) / times))
    return [
        limit_case(f"{what}, 1 - correlation", apart, 0.1, f"{apart:.2f}", placements=rows),
        limit_case(f"{what}, mean error", error, 0.25, f"{error:.0%}"),
    ]


def planner(graph: Any, source: int, trials: int, name: str) -> list[dict[str, Any]]:
    """Compare the model with the time of loops; other time is equal for all placements."""
    devices = [Device("cpu", 1), Device("cpu", 1)]
    calibration = Calibration(again=True)
    cases = []
    for algorithm in ("bfs", "pagerank"):
        call = CALLS[algorithm]
        workload = Workload(algorithm, call)
        rows = []
        model = Model(graph, devices, workload, None, calibration)
        for partitioner in DIVIDED:
            for share in SHARES:
                how = f"{partitioner}:alpha={share}"
                stats = model.stats(partitioner, np.array([0.5, 0.5]), share)
                guess = model.costs.loop_seconds(stats)
                taken = _taken(call, graph, source, how, trials)
                rows.append({"partition": how, "predicted_s": guess, "taken_s": taken})
        found = plan(graph, devices, workload, calibration=calibration, partitioners=DIVIDED)
        pick = choose([one for one in found if len(one.devices) > 1])
        how = f"{pick.partitioner}:alpha={pick.alpha}"
        best = min(row["taken_s"] for row in rows)
        slower = _taken(call, graph, source, how, trials) / best
        what = f"planner: {algorithm} on {name}"
        cases += [
            *agreement(what, rows),
            limit_case(
                f"{what}, its pick against the best", slower, 1.15, f"{slower:.2f} ×: {how}"
            ),
        ]
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=20, help="scale of the graph (default: 20)")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument(
        "--only", choices=("speed", "bytes", "memory", "planner"), nargs="*", default=[],
        help="measure only these, and keep the rest of the results file",
    )  # fmt: skip
    parser.add_argument("-o", "--out", type=Path, default=RESULTS, help="the results file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # about PageRank stopping at max_iterations
    name = f"kron{arguments.scale}"
    graph = make_graph(name, SEED)
    (source,) = choose_sources(graph, 1, SEED)
    measures: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "speed": lambda: speed(graph, source, arguments.trials, name),
        "bytes": lambda: bytes_sent(arguments.scale - 4),
        "memory": lambda: memory(graph, source, name),
        "planner": lambda: planner(graph, source, arguments.trials, name),
    }
    cases = [case for what in arguments.only or measures for case in measures[what]()]
    print_cases(cases)
    if arguments.only and arguments.out.exists():
        before = json.loads(arguments.out.read_text())["cases"]
        new = {case["case"]: case for case in cases}
        cases = [new.pop(case["case"], case) for case in before] + list(new.values())
    write_results(arguments.out, {**preamble("partitions", SEED), "cases": cases})
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
