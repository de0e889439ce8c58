"""Make a graph, save and load it, run four algorithms and show their results.

python examples/demo.py [--scale 17] [--device cpu]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evener as ev
from evener.cli.output import print_table
from evener.cli.results import edges_traversed
from evener.cli.run import show_rate
from evener.engine.results.frames import show


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def make_graph(scale: int, folder: str) -> ev.Graph:
    """Generate a graph, save it, and load it from the file."""
    print(f"Generating an R-MAT graph of scale {scale} (the first run also compiles) …")
    generated, making = timed(lambda: ev.generate.rmat(scale, 16, weights=(1, 255), seed=1))
    path = Path(folder) / "rmat.evg"
    _, saving = timed(lambda: generated.save(path))
    graph, loading = timed(lambda: ev.load(path))
    print(graph)
    print(
        f"generated in {making:.2f} s, saved in {saving:.2f} s, loaded in {loading * 1e3:.1f} ms\n"
    )
    return graph


def run_all(graph: ev.Graph, device: str) -> None:
    """Run the algorithms one after another, then show all results in one table."""
    hub = graph.labels[graph.degrees.argmax()].item()  # a source that reaches many vertices
    runs = {
        "bfs": lambda: ev.bfs(graph, hub, device=device),
        "sssp": lambda: ev.sssp(graph, hub, device=device),
        "pagerank": lambda: ev.pagerank(graph, device=device),
        "connected_components": lambda: ev.connected_components(graph, device=device),
    }
    rows = []
    for name, call in runs.items():
        print(f"{name} …", end=" ", flush=True)
        result = call()
        seconds = result.stats["run_seconds"]
        compiling, edges = result.stats.get("compile_seconds", 0.0), result.stats["edges"]
        print(f"compiled or loaded in {compiling:.2f} s, ran in {seconds * 1e3:.1f} ms")
        top = [f"{row[0]} ({show(row[1])})" for row in result._highlights(2).iter_rows()]
        arcs = edges_traversed(result, from_source=name in ("bfs", "sssp"))
        teps = show_rate(arcs / seconds)
        rows.append((name, f"{seconds * 1e3:.1f}", f"{edges:,}", teps, ", ".join(top)))
    print(f"\nbfs and sssp start from vertex {hub}, which has the most neighbours:\n")
    print_table(("algorithm", "run ms", "edges visited", "MTEPS", "top vertices"), rows)
    print("\nMTEPS: millions of traversed edges per second. For a search, all arcs of the vertices")
    print("it reaches count, even if it does not visit them. Top vertices: the farthest ones, the")
    print("highest ranks, the largest components (smallest member and size).")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=17, help="2**scale vertices")
    parser.add_argument("--device", default="auto", help="where to run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run_all(make_graph(arguments.scale, folder), arguments.device)


if __name__ == "__main__":
    main()
