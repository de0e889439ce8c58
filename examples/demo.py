"""The main job of this version: make a graph, write it in several formats, read it back.

python examples/demo.py [--scale 18]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import evener as ev


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=18, help="2**scale vertices")
    scale = parser.parse_args().scale
    console = Console()

    console.print(f"Generating an R-MAT graph of scale {scale} (the first run also compiles) …")
    ev.generate.rmat(8, weights=(1, 255))
    graph, seconds = timed(lambda: ev.generate.rmat(scale, 16, weights=(1, 255), seed=1))
    console.print(f"{graph} in {seconds:.2f} s")

    table = Table("format", "write", "read", "M arcs/s read", "size", title="Out and in again")
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".evg", ".parquet", ".wel", ".wel.zst", ".csv", ".mtx", ".gr", ".graph"):
            path = Path(folder) / f"rmat{suffix}"
            ev.generate.path(3, weights=(1, 2)).save(path)
            ev.load(path)  # compile before the clock runs
            _, writing = timed(lambda path=path: graph.save(path))
            back, reading = timed(lambda path=path: ev.load(path))
            assert back.num_edges == graph.num_edges
            files = [path] if path.is_file() else list(path.iterdir())
            size = sum(file.stat().st_size for file in files)
            table.add_row(
                suffix, f"{writing:.2f} s", f"{reading:.3f} s",
                f"{graph.num_edges / reading / 1e6:,.0f}", f"{size / 1e6:.0f} MB",
            )  # fmt: skip
    console.print(table)

    hubs = graph.degrees.argsort()[-5:][::-1]
    console.print("Largest degrees:", ", ".join(f"vertex {v}: {graph.degrees[v]:,}" for v in hubs))
    core = graph.largest_component()
    console.print(f"Largest component: {core}")


if __name__ == "__main__":
    main()
