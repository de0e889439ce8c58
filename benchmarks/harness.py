"""What every benchmark needs: timing, peak memory, the machine, results files."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evener.device import num_cores
from evener.device.limits import total_memory
from evener.versions import versions

RESULTS = Path(__file__).parent / "results"


def interleaved(cases: dict[str, Callable[[], Any]], trials: int) -> dict[str, list[float]]:
    """Seconds of each case, taking turns, after one run of each that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for trial in range(trials + 1):
        for name, case in cases.items():
            start = time.perf_counter()
            case()
            elapsed = time.perf_counter() - start
            if trial:
                seconds[name].append(elapsed)
    return seconds


def summary(seconds: list[float]) -> dict[str, float]:
    """Median and spread."""
    return {
        "median_s": round(statistics.median(seconds), 4),
        "min_s": round(min(seconds), 4),
        "max_s": round(max(seconds), 4),
    }


def peak_bytes(script: str) -> dict[str, int]:
    """Run a script in its own process; it prints one JSON object last."""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(out.stdout.strip().splitlines()[-1])


def machine() -> dict[str, Any]:
    """The processor, as far as it matters for the figures."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {"processor": model, "cores": num_cores(), "memory_bytes": total_memory()}


def commit() -> str:
    """The commit that was measured; a plus sign marks changes that are not in it."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def write_results(name: str, cases: list[dict[str, Any]], seed: int) -> Path:
    """Write a results file with what is needed to repeat it."""
    path = RESULTS / f"{name}.json"
    content = {
        "benchmark": name,
        "commit": commit(),
        "seed": seed,
        "machine": machine(),
        "versions": {k: v for k, v in versions().items() if v != "not installed"},
        "cases": cases,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def print_table(cases: list[dict[str, Any]]) -> None:
    """The cases as lines for people."""
    width = max(len(case["case"]) for case in cases)
    for case in cases:
        verdict = "ok" if case["holds"] else "MISSED"
        print(f"{case['case']:<{width}}  {case['figure']:<46} {case['target']:<24} {verdict}")
