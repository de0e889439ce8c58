"""A graph as text: its summary, on one line and as an HTML table for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from evener.device import format_bytes
from evener.graph.labels import Labels

if TYPE_CHECKING:
    from evener.graph.csr import Graph


def summary(graph: Graph) -> dict[str, str]:
    """The properties of a graph by name.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.graph.describe import summary
    >>> summary(ev.generate.star(4))["degrees"]
    '1..3, mean 1.5'
    """
    low, mean, high = graph.degree_spread()
    return {
        "vertices": f"{graph.num_vertices:,}",
        "arcs": f"{graph.num_edges:,}",
        "directed": "yes" if graph.directed else "no",
        "weights": "none" if graph.weights is None else str(graph.weights.dtype),
        "labels": _describe_labels(graph._labels),
        "degrees": f"{low}..{high}, mean {mean:.1f}",
        "memory": format_bytes(graph.nbytes),
    }


def one_line(graph: Graph) -> str:
    """What ``repr`` shows."""
    about = summary(graph)
    kind = "directed" if graph.directed else "undirected"
    weights = "" if graph.weights is None else f", {about['weights']} weights"
    return (
        f"Graph({about['vertices']} vertices, {about['arcs']} arcs, {kind}{weights}; "
        f"degrees {about['degrees']}; {about['memory']})"
    )


def html_table(graph: Graph) -> str:
    """What a notebook shows."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{name}</th><td>{html.escape(value)}</td></tr>"
        for name, value in summary(graph).items()
    )
    return f"<table><caption>evener.Graph</caption>{rows}</table>"


def _describe_labels(labels: Labels) -> str:
    if labels.size == 0:
        return "none"
    if labels.is_range:
        return f"{labels.start}..{labels.start + labels.size - 1}"
    first, last = labels.take(np.array([0, labels.size - 1]))
    return f"{first!s} … {last!s} ({labels.kind})"
