"""Edges as named columns, for the table formats: which columns to read, and what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evener.errors import GraphError
from evener.graph.csr import Graph

if TYPE_CHECKING:
    import polars

SOURCE_NAMES = ("src", "source", "from", "u", "fromnodeid", "tail")
TARGET_NAMES = ("dst", "target", "to", "v", "tonodeid", "destination", "dest", "head")
WEIGHT_NAMES = ("weight", "w", "wt", "value", "cost", "distance", "length")


def choose_columns(names: list[str]) -> tuple[str, str, str | None]:
    """The columns of source, target and weight: by name, else the first two and a lone third.

    Examples
    --------
    >>> from evener.graph.files.columns import choose_columns
    >>> choose_columns(["weight", "to", "from"])
    ('from', 'to', 'weight')
    """
    lower = [name.strip().lower() for name in names]

    def find(known: tuple[str, ...]) -> str | None:
        return next((names[lower.index(name)] for name in known if name in lower), None)

    src, dst = find(SOURCE_NAMES), find(TARGET_NAMES)
    if src is None or dst is None:
        src, dst = names[0], names[1]
    weight = find(WEIGHT_NAMES)
    if weight in (src, dst):
        weight = None
    if weight is None and len(names) == 3:
        weight = next(name for name in names if name not in (src, dst))
    return src, dst, weight


def edge_frame(graph: Graph, *, once: bool = False, by_index: bool = False) -> polars.DataFrame:
    """A table of the arcs: src, dst and weight if there are weights.

    ``once`` lists an undirected edge in one direction only; ``by_index`` gives the ends as
    ``1..n`` instead of labels.
    """
    import polars as pl

    src, dst, weights = graph._sources(), graph._indices, graph._weights
    if once and not graph.directed:
        kept = src <= dst
        src, dst = src[kept], dst[kept]
        weights = None if weights is None else weights[kept]
    columns: dict[str, Any] = {}
    for name, ends in (("src", src), ("dst", dst)):
        columns[name] = ends.astype(np.int64) + 1 if by_index else graph._labels.take(ends)
    if graph._labels.kind == "objects" and not by_index:
        for name in ("src", "dst"):
            columns[name] = pl.Series(name, text_labels(columns[name]), dtype=pl.String)
    if weights is not None:
        columns["weight"] = weights
    return pl.DataFrame(columns)


def text_labels(labels: np.ndarray) -> list[str]:
    """Labels as a list of strings; GraphError if they are something else."""
    values = labels.tolist()
    for value in values:
        if not isinstance(value, str):
            raise GraphError(
                f"label {value!r} cannot be written to a file; use integers or strings."
            )
    return values


def require_integer_labels(graph: Graph, format: str) -> None:
    """Refuse to write names to a format that has only numbers."""
    if graph._labels.kind == "objects":
        raise GraphError(
            f"{format} files hold whole numbers only, but the labels are names; "
            "save as .csv, .parquet or .evg."
        )
    low = int(graph.labels.min()) if graph.num_vertices else 0
    if low < 0:
        raise GraphError(f"{format} files hold ids from 0, but there is a label {low}.")
