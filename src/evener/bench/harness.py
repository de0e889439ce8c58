"""Shared by all benchmarks: timing, statistics, machine data and results files."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evener.device.limits import num_cores, total_memory
from evener.errors import EvenerError
from evener.versions import versions


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Median and spread of some times, in seconds.

    Examples
    --------
    >>> from evener.bench.harness import summary
    >>> summary([3.0, 1.0, 2.0])["median_s"]
    2.0
    """
    if not seconds:
        raise EvenerError("there are no times to summarize; run at least one trial.")
    quartiles = [seconds[0]] * 3
    if len(seconds) > 1:
        quartiles = statistics.quantiles(seconds, n=4, method="inclusive")
    found = {
        "median_s": statistics.median(seconds),
        "min_s": min(seconds),
        "q1_s": quartiles[0],
        "q3_s": quartiles[2],
        "max_s": max(seconds),
    }
    return {name: round(value, 7) for name, value in found.items()}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds that a call takes, and its return value.

    Examples
    --------
    >>> from evener.bench.harness import timed
    >>> timed(lambda: 7)[1]
    7
    """
    start = time.perf_counter()
    value = call()
    return time.perf_counter() - start, value


def interleaved(cases: dict[str, Callable[[], Any]], trials: int) -> dict[str, list[float]]:
    """Time cases in turn, after one untimed run of each.

    Taking turns makes other load on the machine disturb all cases alike.

    Examples
    --------
    >>> from evener.bench.harness import interleaved
    >>> {name: len(seconds) for name, seconds in interleaved({"a": int, "b": str}, 3).items()}
    {'a': 3, 'b': 3}
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for trial in range(trials + 1):
        for name, case in cases.items():
            elapsed, _ = timed(case)
            if trial:
                seconds[name].append(elapsed)
    return seconds


def run_script(script: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Run Python text in a new process; the last line it prints is the result as JSON.

    Examples
    --------
    >>> from evener.bench.harness import run_script
    >>> run_script("print('{}')")
    {}
    """
    out = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})},
    )  # fmt: skip
    if out.returncode:
        last = (out.stderr.strip().splitlines() or ["no output"])[-1]
        raise EvenerError(f"a benchmark's process failed with code {out.returncode}: {last}")
    return json.loads(out.stdout.strip().splitlines()[-1])


def machine() -> dict[str, Any]:
    """Processor, cores and memory of this machine."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {"processor": model, "cores": num_cores(), "memory_bytes": total_memory()}


def commit() -> str:
    """The commit that is measured; a plus sign marks uncommitted changes."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"],
            capture_output=True, text=True, check=False, cwd=Path(__file__).parent,
        )  # fmt: skip
    except OSError:  # git is not installed
        return "unknown"
    return found.stdout.strip() or "unknown"


def preamble(benchmark: str, seed: int) -> dict[str, Any]:
    """The first fields of every results file: what is needed to repeat a benchmark."""
    now = datetime.datetime.now(datetime.UTC)
    known = {name: version for name, version in versions().items() if version != "not installed"}
    return {
        "benchmark": benchmark,
        "commit": commit(),
        "date": now.isoformat(timespec="seconds"),
        "seed": seed,
        "machine": machine(),
        "versions": known,
    }


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Write a results file atomically."""
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def ratio_case(
    name: str, ours: Sequence[float], peer: Sequence[float], limit: float, peer_name: str
) -> dict[str, Any]:
    """A table row: Evener's time as a multiple of a peer's, and whether it is within a limit."""
    ratio = statistics.median(ours) / statistics.median(peer)
    return {
        "case": name,
        "evener": summary(ours),
        "peer": {"name": peer_name, **summary(peer)},
        "ratio": round(ratio, 3),
        "limit": limit,
        "figure": f"{statistics.median(ours):.3g} s, {ratio:.2f} × {peer_name}",
        "target": f"at most {limit} ×",
        "holds": ratio <= limit,
    }


def limit_case(name: str, value: float, limit: float, figure: str, **more: Any) -> dict[str, Any]:
    """A table row: one figure, and whether it is within a limit."""
    return {
        "case": name,
        **more,
        "value": round(value, 4),
        "limit": limit,
        "figure": figure,
        "target": f"at most {limit:g}",
        "holds": value <= limit,
    }


def print_cases(cases: list[dict[str, Any]]) -> None:
    """Print the cases as text."""
    width = max(len(case["case"]) for case in cases)
    for case in cases:
        verdict = "ok" if case["holds"] else "MISSED"
        print(f"{case['case']:<{width}}  {case['figure']:<46} {case['target']:<24} {verdict}")
