"""Edges as columns, for the table formats: choosing the columns to read, and writing them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evener.errors import GraphError, did_you_mean
from evener.graph.csr import Graph
from evener.graph.files.request import Column, Request
from evener.graph.files.source import Source
from evener.graph.load_warnings import warn

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
# A lone third column is a weight unless it has one of these names.
OTHER_NAMES = (
    "id", "index", "edge_id", "time", "timestamp", "date", "year", "type", "kind", "label", "name",
    "sign", "category",
)  # fmt: skip
INDEX_NAMES = ("", "index", "unnamed: 0", "__index_level_0__")  # index columns written by pandas
_MOST_SHOWN = 12  # columns listed in an error


class Chosen(NamedTuple):
    """Numbers of the columns of source, target and weight; None without weights."""

    src: int
    dst: int
    weight: int | None
    is_sure: bool = True  # the weight was requested or is named as one, not just a third column

    @property
    def in_order(self) -> bool:
        """Whether they are the first columns of a table, in the order source, target, weight."""
        return (self.src, self.dst) == (0, 1) and self.weight in (None, 2)


def choose_columns(names: list[str]) -> Chosen | None:
    """Choose the columns of source, target and weight by name; None if that is ambiguous.

    If no name is known, the first two of two or three columns are the ends, the third the weight.

    Examples
    --------
    >>> from evener.graph.files.columns import choose_columns
    >>> choose_columns(["weight", "to", "from"])[:3]
    (2, 1, 0)
    """
    lower = [name.strip().lower() for name in names]
    kept = [i for i, name in enumerate(lower) if name not in INDEX_NAMES]
    if len({lower[i] for i in kept}) != len(kept):
        return None

    def find(known: tuple[str, ...]) -> int | None:
        return next((lower.index(name) for name in known if name in lower), None)

    src, dst, weight = find(SOURCE_NAMES), find(TARGET_NAMES), find(WEIGHT_NAMES)
    rest = [i for i in kept if i not in (src, dst, weight)]
    if src is None and dst is None:
        if not 2 <= len(kept) <= 3 or weight in kept[:2]:
            return None
        src, dst, rest = kept[0], kept[1], rest[2:]
    elif src is None or dst is None:  # one end has a known name: the other must be the only rest
        if len(rest) != 1:
            return None
        src, dst, rest = (rest[0], dst, []) if src is None else (src, rest[0], [])
    assert src is not None
    assert dst is not None
    if weight is None and len(kept) == 3 and rest and lower[rest[0]] not in OTHER_NAMES:
        return Chosen(src, dst, rest[0], is_sure=False)
    return Chosen(src, dst, weight)


def pick_columns(
    source: Source, names: list[str] | None, cells: list[str], request: Request
) -> Chosen:
    """Choose the columns that the caller requests, else by their names.

    ``cells`` is the first row; errors show it if the columns have no names.
    """
    width = len(cells if names is None else names)
    shown = names if names is not None else [f"column {i}" for i in range(width)]

    def number(wanted: Column, option: str) -> int:
        return _number_of(source, names, width, wanted, option)

    ends = [
        None if end is None else number(end, option)
        for option, end in (("src", request.src), ("dst", request.dst))
    ]
    found = choose_columns(shown)
    if None in ends:
        if found is None and ends != [None, None] and width == 2:
            ends = [1 - ends[1] if end is None else end for end in ends]  # type: ignore[operator]
        elif found is None:
            there = [f"{i} ({cell})" for i, cell in enumerate(cells)] if names is None else names
            source.fail(
                f"cannot tell which of its columns are the ends: {_listed(there)}; choose them by "
                "src= and dst= (--src, --dst), as names or numbers from 0"
            )
        else:
            ends = [found[i] if end is None else end for i, end in enumerate(ends)]
    src, dst = ends
    assert src is not None
    assert dst is not None
    if request.weight is False:
        return Chosen(src, dst, None)
    if request.weight is not None:
        return Chosen(src, dst, number(request.weight, "weight"))
    if found is not None and request.src is None and request.dst is None:
        return found
    # With columns chosen by the caller, another column is a weight only by its name.
    lower = [name.strip().lower() for name in names or ()]
    known = (lower.index(name) for name in WEIGHT_NAMES if name in lower)
    return Chosen(src, dst, next((i for i in known if i not in (src, dst)), None))


def _number_of(
    source: Source, names: list[str] | None, width: int, wanted: Column, option: str
) -> int:
    if isinstance(wanted, str) and names is not None:
        for form in (str, lambda name: name.strip().lower()):
            same = [i for i, name in enumerate(names) if form(name) == form(wanted)]
            if len(same) == 1:
                return same[0]
            if same:
                raise GraphError(
                    f"{source.name} has {len(same)} columns {wanted!r}; give {option} as a number "
                    f"from 0: {', '.join(map(str, same))}."
                )
    if isinstance(wanted, str) and not (wanted.isascii() and wanted.isdecimal()):
        there = "no header" if names is None else f"the columns {_listed(names)}"
        near = did_you_mean(wanted, names or ())
        raise GraphError(
            f"{option} is {wanted!r}, but {source.name} has {there}{near}; give the number of a "
            f"column, from 0{'' if names is None else ', or one of these names'}."
        )
    assert wanted is not None
    if int(wanted) >= width:
        raise GraphError(
            f"{option} is column {wanted}, but {source.name} has columns 0 to {width - 1}."
        )
    return int(wanted)


def _listed(names: list[str]) -> str:
    shown = ", ".join(name[:40] for name in names[:_MOST_SHOWN])
    return shown + (f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else "")


def is_known(name: str) -> bool:
    """Whether a name is usual for a column of edges."""
    return name.strip().lower() in (*SOURCE_NAMES, *TARGET_NAMES, *WEIGHT_NAMES)


def edge_frame(graph: Graph, *, once: bool = False, by_index: bool = False) -> polars.DataFrame:
    """A table of the arcs: src, dst, and weight if there are weights.

    ``once`` lists each undirected edge in one direction; ``by_index`` numbers the ends ``1..n``
    instead of using labels.
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
    """Labels as a list of strings; GraphError for other labels."""
    values = labels.tolist()
    for value in values:
        if not isinstance(value, str):
            raise GraphError(
                f"label {value!r} cannot be written to a file; use integers or strings."
            )
        try:
            value.encode()
        except UnicodeEncodeError:
            raise GraphError(f"label {value!r} cannot be encoded as UTF-8.") from None
    return values


def require_integer_labels(graph: Graph, format: str) -> None:
    """Refuse to write names in a format of numbers."""
    if graph._labels.kind == "objects":
        raise GraphError(
            f"{format} files hold whole numbers only, but the labels are names; "
            "save as .csv, .parquet or .evg."
        )
    require_countable_labels(graph, format)


def require_countable_labels(graph: Graph, format: str) -> None:
    """Refuse to write negative labels in a format whose ids start at 0."""
    if graph._labels.kind != "objects" and graph.num_vertices:
        low = int(graph.labels.min())
        if low < 0:
            raise GraphError(f"{format} files hold ids from 0, but the graph has a label {low}.")


def warn_about_isolated(graph: Graph, path: Path) -> None:
    """Warn that a list of edges loses isolated vertices."""
    if graph._labels.is_range:
        return  # the note holds their number
    lost = int(np.count_nonzero((graph.degrees == 0) & (graph.in_degrees == 0)))
    if lost:
        warn(
            f"{path.name} lists edges, so isolated vertices are lost ({lost} here); "
            "save as .evg to keep them.",
            UserWarning,
        )
