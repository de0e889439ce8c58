"""Shared by formats that declare their size and number their vertices 1..n."""

from __future__ import annotations

from pathlib import Path

from evener.graph.csr import Graph
from evener.graph.files.source import Source, show
from evener.graph.load_warnings import warn


def header_counts(source: Source, fields: list[bytes], line: int) -> list[int]:
    """The counts of a header line, each a whole number of at most 18 digits."""
    counts = []
    for field in fields:
        if not field.isdigit() or len(field) > 18:
            source.fail(f"{show(field)} is not a count; expected a whole number", line)
        counts.append(int(field))
    return counts


def warn_about_labels(graph: Graph, path: Path) -> None:
    """Warn that a format with its own numbering drops the labels of a graph."""
    if not graph._labels.is_range:
        warn(
            f"{path.name} numbers the vertices 1..{graph.num_vertices} in index order; "
            "the graph's labels are not kept.",
            UserWarning,
        )
