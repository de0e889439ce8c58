"""Results for people: rows of a table, and ``docs/benchmarks.md`` made from the results files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evener.errors import EvenerError

COLUMNS = (
    "graph", "algorithm", "contender", "median", "quartiles", "whole call", "Marcs/s",
    "evener ÷ it", "whole call ÷ it", "answer",
)  # fmt: skip

_HEADER = """\
# Benchmarks

Written by `make bench-report` from the files in `benchmarks/results`; no figure is typed by hand.
Ratios are within one run, in which the contenders took turns; below 1 is faster than the other.
"""


def rows_of(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each cell of a benchmark of algorithms, under `COLUMNS`.

    ``evener ÷ it`` compares the time of the first device's run with a contender's, ``whole call``
    what a caller waits for.
    """
    rows: list[tuple[str, ...]] = []
    for cell in results["cells"]:
        run, wall = cell["run"], cell["wall"]
        answer = "verified"
        if not cell.get("verified"):
            answer = {True: "the same", False: "DIFFERS", None: "not compared"}[cell["agrees"]]
        rows.append(
            (
                cell["graph"], cell["algorithm"], cell["contender"],
                seconds(run["median_s"]), f"{seconds(run['q1_s'])} – {seconds(run['q3_s'])}",
                seconds(wall["median_s"]), f"{cell['arcs_per_second'] / 1e6:.4g}",
                _ratio(cell.get("ratio")), _ratio(cell.get("ratio_wall")), answer,
            )
        )  # fmt: skip
    return rows


def skips_of(results: dict[str, Any]) -> list[str]:
    """A line for each reason for which contenders were left out.

    Examples
    --------
    >>> from evener.bench.report import skips_of
    >>> left = {"graph": "kron20", "algorithm": "bfs", "contender": "NetworkX", "why": "too slow"}
    >>> skips_of({"skipped": [left, {**left, "algorithm": "cc"}]})
    ['Left out: NetworkX at bfs, cc on kron20: too slow.']
    """
    places: dict[tuple[str, str], dict[str, list[str]]] = {}
    for skip in results["skipped"]:
        graphs = places.setdefault((skip["contender"], skip["why"]), {})
        graphs.setdefault(skip["graph"], []).append(skip["algorithm"])
    return [
        f"Left out: {contender} at "
        + "; ".join(f"{', '.join(algorithms)} on {graph}" for graph, algorithms in graphs.items())
        + f": {why}."
        for (contender, why), graphs in places.items()
    ]


def totals_of(results: dict[str, Any]) -> list[str]:
    """How Evener stands against GAPBS, and against the fastest other library on each graph.

    Examples
    --------
    >>> from evener.bench.report import totals_of
    >>> cell = {"graph": "kron20", "algorithm": "bfs", "ratio": 0.8, "ratio_wall": 0.9}
    >>> totals_of({"cells": [{**cell, "contender": "GAPBS"}]})
    ['Of 1 cells with GAPBS 1 at most 1.00 and 1 at most 0.85 (whole call: 1 and 0).']
    >>> totals_of({"cells": [{**cell, "ratio_wall": 0.1, "contender": "igraph"}]})
    ['Whole calls beside the fastest other library, on kron20: bfs 10.0 × as fast as igraph.']
    >>> totals_of({"cells": [{**cell, "ratio_wall": 25.0, "contender": "igraph"}]})
    ['Whole calls beside the fastest other library, on kron20: bfs 0.04 × as fast as igraph.']
    """
    ratios: dict[str, list[float]] = {"ratio": [], "ratio_wall": []}
    fastest: dict[str, dict[str, tuple[float, str]]] = {}
    for cell in results["cells"]:
        if cell["contender"] == "GAPBS":
            for name, found in ratios.items():
                found.append(cell[name])
        elif "ratio" in cell and not cell["contender"].startswith("evener"):
            on_graph = fastest.setdefault(cell["graph"], {})
            fastest_so_far = on_graph.get(cell["algorithm"], (0.0, ""))
            mine = (cell["ratio_wall"], cell["contender"])
            on_graph[cell["algorithm"]] = max(fastest_so_far, mine)
    lines = []
    if ratios["ratio"]:
        run, wall = ([sum(r <= limit for r in found) for limit in (1.0, 0.85)]
                     for found in ratios.values())  # fmt: skip
        lines.append(
            f"Of {len(ratios['ratio'])} cells with GAPBS {run[0]} at most 1.00 and {run[1]} at "
            f"most 0.85 (whole call: {wall[0]} and {wall[1]})."
        )
    for graph, on_graph in fastest.items():
        figures = [
            f"{name} {_times(1 / ratio)} × as fast as {who}"
            for name, (ratio, who) in on_graph.items()
        ]
        lines.append(
            f"Whole calls beside the fastest other library, on {graph}: {', '.join(figures)}."
        )
    return lines


def seconds(value: float) -> str:
    """A time for people.

    Examples
    --------
    >>> from evener.bench.report import seconds
    >>> seconds(0.01234), seconds(2.5)
    ('12.3 ms', '2.50 s')
    """
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.3g} ms"


def write_page(results: Path, page: Path) -> list[Path]:
    """Write the page from all results files in a folder, with plots beside it.

    Parameters
    ----------
    results
        The folder of the results files.
    page
        The Markdown file to write; plots go to a folder of its name.

    Returns
    -------
    list of Path
        What was written.
    """
    found = {path: read_results(path) for path in sorted(results.glob("*.json"))}
    if not found:
        raise EvenerError(f"{results} holds no results; run make bench first.")
    written, sections = [page], [_HEADER]
    for path, content in found.items():
        title = path.stem.replace("_", " ").capitalize()
        lines = [f"## {title}", "", _conditions(path, content), ""]
        if "cells" in content:
            from evener.bench.plots import plot_cells

            plots = plot_cells(content, page.with_suffix(""), path.stem)
            written += plots
            for plot in plots:
                lines += [f"![{plot.stem}]({plot.parent.name}/{plot.name})", ""]
            lines += _table(COLUMNS, rows_of(content))
            lines += ["", *(f"* {line}" for line in [*totals_of(content), *skips_of(content)])]
        else:
            lines += _table(
                ("case", "measured (median)", "target", ""),
                [
                    (case["case"], case["figure"], case["target"],
                     "holds" if case["holds"] else "**missed**")
                    for case in content["cases"]
                ],
            )  # fmt: skip
        sections.append("\n".join(lines) + "\n")
    page.write_text("\n".join(sections), encoding="utf-8")
    return written


def read_results(path: Path) -> dict[str, Any]:
    """Read a results file; EvenerError if it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise EvenerError(f"{path} is no results file: {error}.") from None
    if not isinstance(content, dict) or not {"cells", "cases"} & content.keys():
        raise EvenerError(f"{path} is no results file: it has neither cells nor cases.")
    return content


def _conditions(path: Path, content: dict[str, Any]) -> str:
    machine, versions = content["machine"], content["versions"]
    known = ", ".join(
        f"{name} {version}"
        for name, version in versions.items()
        if name not in ("evener", "platform", "cores", "memory")
    )
    threads = f", {content['threads']} threads used" if "threads" in content else ""
    date = f"{content['date'][:10]}, " if "date" in content else ""
    return (
        f"{machine['processor']}, {machine['cores']} cores{threads}, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB; {date}commit {content['commit']}, "
        f"seed {content['seed']}; {known}. Source: `benchmarks/results/{path.name}`."
    )


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _ratio(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def _times(value: float) -> str:
    """How many times as fast: what is a small part of it is not nothing."""
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"
