"""Edges as named columns, for the table formats: which columns to read, and what to write."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evener.errors import GraphError
from evener.graph.csr import Graph

if TYPE_CHECKING:
    import polars

SOURCE_NAMES = (
    "src", "source", "from", "u", "tail", "start", "fromnodeid", "source_id", "from_id", "node1",
    "node_1", "id1", "id_1",
)  # fmt: skip
TARGET_NAMES = (
    "dst", "target", "to", "v", "head", "end", "destination", "dest", "sink", "tonodeid",
    "target_id", "to_id", "node2", "node_2", "id2", "id_2",
)  # fmt: skip
WEIGHT_NAMES = ("weight", "w", "wt", "value", "cost", "distance", "length", "capacity")
# A lone third column is a weight unless its name says that it is something else.
OTHER_NAMES = (
    "id", "index", "edge_id", "time", "timestamp", "date", "year", "type", "kind", "label", "name",
    "sign", "category",
)  # fmt: skip
INDEX_NAMES = ("", "index", "unnamed: 0", "__index_level_0__")  # what pandas adds by itself


def choose_columns(names: list[str]) -> tuple[str, str, str | None] | None:
    """The columns of source, target and weight by name; None if the names do not tell.

    Names that say nothing leave the first two columns as ends and a lone third as weight.

    Examples
    --------
    >>> from evener.graph.files.columns import choose_columns
    >>> choose_columns(["weight", "to", "from"])
    ('from', 'to', 'weight')
    """
    kept = [name for name in names if name.strip().lower() not in INDEX_NAMES]
    lower = [name.strip().lower() for name in kept]
    if len(set(lower)) != len(lower):
        return None

    def find(known: tuple[str, ...]) -> str | None:
        return next((kept[lower.index(name)] for name in known if name in lower), None)

    src, dst, weight = find(SOURCE_NAMES), find(TARGET_NAMES), find(WEIGHT_NAMES)
    rest = [name for name in kept if name not in (src, dst, weight)]
    if src is None and dst is None:
        if len(kept) < 2 or weight in kept[:2]:
            return None
        src, dst, *rest = [kept[0], kept[1], *rest[2:]]
    elif src is None or dst is None:  # one end has a name we know: the other must be the only rest
        if len(rest) != 1:
            return None
        src, dst, rest = src or rest[0], dst or rest[0], []
    if weight is None and len(kept) == 3 and rest[0].strip().lower() not in OTHER_NAMES:
        weight = rest[0]
    return src, dst, weight


def is_known(name: str) -> bool:
    """Whether a name is one that columns of edges have."""
    return name.strip().lower() in (*SOURCE_NAMES, *TARGET_NAMES, *WEIGHT_NAMES)


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
        try:
            value.encode()
        except UnicodeEncodeError:
            raise GraphError(f"label {value!r} is not text that UTF-8 can hold.") from None
    return values


def require_integer_labels(graph: Graph, format: str) -> None:
    """Refuse to write names to a format that has only numbers."""
    if graph._labels.kind == "objects":
        raise GraphError(
            f"{format} files hold whole numbers only, but the labels are names; "
            "save as .csv, .parquet or .evg."
        )
    require_countable_labels(graph, format)


def require_countable_labels(graph: Graph, format: str) -> None:
    """Refuse negative labels where ids count from 0."""
    if graph._labels.kind != "objects" and graph.num_vertices:
        low = int(graph.labels.min())
        if low < 0:
            raise GraphError(f"{format} files hold ids from 0, but there is a label {low}.")


def warn_about_isolated(graph: Graph, path: Path) -> None:
    """Say that a list of edges does not hold vertices without any, or their order."""
    if graph._labels.is_range:
        return  # the note tells how many there are
    lost = int(np.count_nonzero((graph.degrees == 0) & (graph.in_degrees == 0)))
    if lost:
        warnings.warn(
            f"{path.name} lists edges, so {lost} vertices without any are not kept; "
            "save as .evg to keep them.",
            stacklevel=5,
        )
