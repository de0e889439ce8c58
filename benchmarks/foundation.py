"""Speed and memory of loading, building and generating, each against a peer in the same run.

    python benchmarks/foundation.py [--gapbs DIR] [--trials N]

``--gapbs`` names the folder of a built GAPBS; without it, its case is skipped.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse

import evener as ev
from evener.bench.harness import (
    interleaved,
    preamble,
    print_cases,
    ratio_case,
    run_script,
    write_results,
)

RESULTS = Path(__file__).parent / "results" / "foundation.json"
SEED = 1
VERTICES, EDGES, ARCS = 1 << 20, 10_000_000, 1 << 25


def text_and_parquet(folder: Path, trials: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(SEED)
    ends = rng.integers(0, VERTICES, (2, EDGES))
    frame = pl.DataFrame({"src": ends[0], "dst": ends[1]})
    text, parquet = folder / "edges.txt", folder / "edges.parquet"
    frame.write_csv(text, separator="\t", include_header=False)
    frame.write_parquet(parquet)
    seconds = interleaved(
        {
            "read_csv": lambda: pl.read_csv(text, separator="\t", has_header=False),
            "text": lambda: ev.load(text),
            "read_parquet": lambda: pl.read_parquet(parquet),
            "parquet": lambda: ev.load(parquet),
        },
        trials,
    )
    return [
        ratio_case(
            "10 M edges of text to Graph", seconds["text"], seconds["read_csv"], 2.0,
            "polars.read_csv",
        ),
        ratio_case(
            "10 M edges of Parquet to Graph", seconds["parquet"], seconds["read_parquet"], 2.5,
            "polars.read_parquet",
        ),
    ]  # fmt: skip


def from_edges(trials: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(SEED)
    src, dst = rng.integers(0, VERTICES, (2, ARCS), dtype=np.int32)
    weight = rng.random(ARCS, dtype=np.float32)

    def by_scipy() -> None:
        shape = (VERTICES, VERTICES)
        matrix = scipy.sparse.coo_array((weight, (src, dst)), shape=shape).tocsr()
        matrix.sum_duplicates()

    def by_evener() -> None:
        ev.Graph.from_edges(src, dst, weight, num_vertices=VERTICES, duplicates="sum")

    seconds = interleaved({"scipy": by_scipy, "evener": by_evener}, trials)
    name = "from_edges of 33 M weighted arcs, duplicates summed"
    return [ratio_case(name, seconds["evener"], seconds["scipy"], round(1 / 3, 3), "SciPy")]


def rmat(gapbs: Path | None, trials: int) -> list[dict[str, Any]]:
    if gapbs is None:
        return []
    ours, theirs = [], []
    environment = {**os.environ, "OMP_NUM_THREADS": str(os.cpu_count())}
    for trial in range(trials + 1):
        start = time.perf_counter()
        graph = ev.generate.rmat(20, 16, seed=SEED)
        elapsed = time.perf_counter() - start
        with tempfile.TemporaryDirectory() as folder:
            out = subprocess.run(
                [gapbs / "converter", "-g", "20", "-k", "16", "-s", "-b", f"{folder}/g.sg"],
                capture_output=True, text=True, check=True, env=environment,
            ).stdout  # fmt: skip
        if trial:
            ours.append(elapsed)
            theirs.append(sum(map(float, re.findall(r"(?:Generate|Build) Time:\s+([\d.]+)", out))))
    case = ratio_case("R-MAT 20 × 16 generated and built", ours, theirs, 1.0, "GAPBS converter")
    return [{**case, "arcs": graph.num_edges}]


MEMORY_SCRIPT = """
import json, numpy as np
from pathlib import Path
from evener.graph.csr import Graph
rng = np.random.default_rng({seed})
def status(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
def build(n, m):
    src, dst = rng.integers(0, n, (2, m), dtype=np.int32)
    weight = rng.random(m, dtype=np.float32) if {weighted} else None
    size = src.nbytes + dst.nbytes + (0 if weight is None else weight.nbytes)
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS") - size
    graph = Graph.from_edges(src, dst, weight, num_vertices=n, {options})
    return status("VmHWM") - before, size + graph.nbytes
build(1 << 20, 1 << 21)
peak, needed = build({vertices}, {arcs})
print(json.dumps(dict(peak=peak, needed=needed)))
"""


def memory() -> list[dict[str, Any]]:
    cases = []
    for name, weighted, options, arcs in [
        ("directed", False, "directed=True", ARCS),
        ("undirected, simple", False, 'directed=False, duplicates="first"', ARCS // 2),
        ("weighted, summed", True, 'duplicates="sum"', ARCS),
    ]:
        found = run_script(
            MEMORY_SCRIPT.format(
                seed=SEED, weighted=weighted, options=options, vertices=VERTICES, arcs=arcs
            )
        )
        ratio = found["peak"] / found["needed"]
        cases.append(
            {
                "case": f"peak memory of a build, {name}",
                **found,
                "ratio": round(ratio, 3),
                "limit": 2.5,
                "figure": f"{ratio:.2f} × (input + CSR), {found['peak'] / 1e6:.0f} MB",
                "target": "at most 2.5 ×",
                "holds": ratio <= 2.5,
            }
        )
    return cases


def importing(trials: int) -> list[dict[str, Any]]:
    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    run("import evener")
    bare = [run("pass") for _ in range(trials)]
    full = [run("import evener") for _ in range(trials)]
    seconds = statistics.median(full) - statistics.median(bare)
    return [
        {
            "case": "import evener",
            "seconds": round(seconds, 3),
            "limit": 0.5,
            "figure": f"{seconds:.3f} s beyond starting Python",
            "target": "under 0.5 s",
            "holds": seconds < 0.5,
        }
    ]


def opening(folder: Path, trials: int) -> list[dict[str, Any]]:
    paths = {}
    for scale in (10, 20):
        paths[scale] = folder / f"rmat{scale}.evg"
        ev.generate.rmat(scale, seed=SEED).save(paths[scale])
    seconds = interleaved(
        {str(scale): lambda path=path: ev.load(path) for scale, path in paths.items()},
        10 * trials,
    )
    small, large = (1000 * statistics.median(seconds[key]) for key in ("10", "20"))
    return [
        {
            "case": "opening .evg of scale 10 and of scale 20",
            "milliseconds": {"scale 10": round(small, 3), "scale 20": round(large, 3)},
            "limit": 2.0,
            "figure": f"{small:.2f} ms and {large:.2f} ms",
            "target": "alike (within 2 ×)",
            "holds": large < 2 * small,
        }
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gapbs", type=Path, help="folder of a built GAPBS")
    parser.add_argument("--trials", type=int, default=15)
    arguments = parser.parse_args()
    cases: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        cases += text_and_parquet(Path(name), arguments.trials)
        cases += from_edges(arguments.trials)
        cases += rmat(arguments.gapbs, max(3, arguments.trials // 2))
        cases += memory()
        cases += importing(arguments.trials)
        cases += opening(Path(name), arguments.trials)
    print_cases(cases)
    write_results(RESULTS, {**preamble("foundation", SEED), "cases": cases})
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    main()
