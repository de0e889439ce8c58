"""Plots of the algorithm benchmark, as small SVG files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evener.errors import EvenerError


def plot_cells(results: dict[str, Any], folder: Path, name: str) -> list[Path]:
    """Plot the ratios to GAPBS, then the times of all contenders for each graph."""
    try:
        import matplotlib
    except ImportError:
        raise EvenerError(
            "plots need matplotlib, which is not installed: pip install 'evener[report]'."
        ) from None
    matplotlib.use("svg")
    # The salt makes the files reproducible.
    matplotlib.rcParams.update({"svg.hashsalt": "evener", "font.size": 9})
    folder.mkdir(exist_ok=True)
    graphs = list(dict.fromkeys(cell["graph"] for cell in results["cells"]))
    plots = [_plot_graph(results, graph, folder, name) for graph in graphs]
    gapbs = [cell for cell in results["cells"] if cell["contender"] == "GAPBS"]
    return [_plot_ratios(gapbs, folder, name), *plots] if gapbs else plots


def _plot_ratios(cells: list[dict[str, Any]], folder: Path, name: str) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.add_subplot()
    algorithms = list(dict.fromkeys(cell["algorithm"] for cell in cells))
    graphs = list(dict.fromkeys(cell["graph"] for cell in cells))
    width = 0.8 / len(graphs)
    for number, graph in enumerate(graphs):
        ratios = {c["algorithm"]: c["ratio"] for c in cells if c["graph"] == graph}
        at = [i for i, algorithm in enumerate(algorithms) if algorithm in ratios]
        places = [i + (number - (len(graphs) - 1) / 2) * width for i in at]
        axes.bar(places, [ratios[algorithms[i]] for i in at], width, label=graph)
    axes.axhline(1, color="black", lw=0.8)
    axes.set_xticks(range(len(algorithms)), algorithms)
    axes.set_ylabel("run ÷ GAPBS's trial")
    figure.legend(loc="outside lower center", fontsize=7, ncols=4)
    path = folder / f"{name}-ratios.svg"
    figure.savefig(path, metadata={"Date": None})
    return path


def _plot_graph(results: dict[str, Any], graph: str, folder: Path, name: str) -> Path:
    from matplotlib.figure import Figure

    cells = [cell for cell in results["cells"] if cell["graph"] == graph]
    algorithms = list(dict.fromkeys(cell["algorithm"] for cell in cells))
    contenders = list(dict.fromkeys(cell["contender"] for cell in cells))
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(contenders)
    for number, contender in enumerate(contenders):
        times = {c["algorithm"]: c["run"] for c in cells if c["contender"] == contender}
        at = [i for i, algorithm in enumerate(algorithms) if algorithm in times]
        runs = [times[algorithms[i]] for i in at]
        medians = [run["median_s"] for run in runs]
        spread = [
            [run["median_s"] - run["q1_s"] for run in runs],
            [run["q3_s"] - run["median_s"] for run in runs],
        ]
        places = [i + (number - (len(contenders) - 1) / 2) * width for i in at]
        axes.bar(places, medians, width, yerr=spread, label=contender, error_kw={"lw": 0.8})
    axes.set_yscale("log")
    axes.set_xticks(range(len(algorithms)), algorithms)
    axes.set_ylabel("seconds (median, quartiles)")
    axes.set_title(graph)
    figure.legend(loc="outside lower center", fontsize=7, ncols=4)
    safe = "".join(letter if letter.isalnum() else "-" for letter in graph)
    path = folder / f"{name}-{safe}.svg"
    figure.savefig(path, metadata={"Date": None})
    return path
