"""Delimited tables: CSV and TSV with or without a header, ids that are numbers or names.

Plain tables of numbers go through Evener's own parser, which also takes the blanks that pass for
CSV in the wild; names, quotes and further columns go through polars.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evener.graph.csr import Graph
from evener.graph.files import edgelist
from evener.graph.files.columns import (
    SOURCE_NAMES,
    TARGET_NAMES,
    WEIGHT_NAMES,
    choose_columns,
    edge_frame,
)
from evener.graph.files.finish import graph_of_ids
from evener.graph.files.note import Note
from evener.graph.files.source import Source, show
from evener.graph.files.target import replacing
from evener.graph.files.text import Rows, narrowed

if TYPE_CHECKING:
    import polars

_SAMPLE = 200  # lines looked at before choosing the reader


def read(source: Source, directed: bool | None) -> Graph:
    """Read a table of edges."""
    if b"\0" in source.data[: 1 << 16].tobytes():
        source.fail("is not a text file; expected a table of edges")
    if _is_plain(source):
        return edgelist.read(source, directed)
    import polars as pl

    frame = _table(source)
    names = frame.columns
    if len(names) < 2:
        source.fail(f"has {len(names)} column; expected source, target and perhaps a weight")
    src, dst, weight = choose_columns(names)
    for name in (src, dst):
        missing = frame[name].is_null() | (frame[name] == "")
        if missing.any():
            source.fail(f"column {name!r} is empty in row {missing.arg_true()[0] + 1}")
    weights = None if weight is None else _numbers(source, frame[weight])
    ends = [_ids(frame[name]) for name in (src, dst)]
    if ends[0].dtype != ends[1].dtype:  # numbers on one side only: names on both
        ends = [frame[src], frame[dst]]
    columns: list[Any] = [end if end.dtype == pl.String else end.to_numpy() for end in ends]
    rows = Rows(columns[0], columns[1], weights)
    return graph_of_ids(source, rows, directed, Note.find(source, b"#"))


def _is_plain(source: Source) -> bool:
    """Whether the first lines are numbers in two or three columns, perhaps under a header."""
    header = None
    for count, (_, line) in enumerate(source.lines(1 << 16)):
        tokens = edgelist.split(line)
        if not tokens or tokens[0][0] in edgelist.COMMENTS:
            continue
        if header is None and edgelist.is_header(tokens):
            header = [token.decode("utf-8", "replace").strip('"') for token in tokens]
            expected = (*header[:2], header[2] if len(header) == 3 else None)
            if len(header) > 3 or choose_columns(header) != expected or b'"' in line:
                return False
            continue
        if count > _SAMPLE:
            break
        if b'"' in line or b";" in line or len(tokens) not in (2, 3):
            return False
        if not all(token.lstrip(b"-").isdigit() for token in tokens[:2]):
            return False
    return True


def _table(source: Source) -> polars.DataFrame:
    """The whole table as text, by polars."""
    import polars as pl

    first = next(
        (line for _, line in source.lines() if line.strip() and not line.startswith(b"#")), b""
    )
    separator = max(",\t; |", key=lambda s: first.count(s.encode()))
    if separator.encode() not in first:
        source.fail(f"has one column ({show(first)}); expected at least source and target")
    try:
        frame = pl.read_csv(
            io.BytesIO(source.text()), separator=separator, infer_schema=False,
            has_header=_has_header(first, separator), comment_prefix="#",
        )  # fmt: skip
    except pl.exceptions.PolarsError as error:
        source.fail(f"is not a table that polars can read ({_first_line(error)})")
    return frame.select(pl.all().str.strip_chars())


def _has_header(line: bytes, separator: str) -> bool:
    """A header has no number in it, and names a column that we know or has no digit at all."""
    tokens = [
        token.strip(b' "').decode("utf-8", "replace") for token in line.split(separator.encode())
    ]
    if any(token.replace(".", "", 1).lstrip("-").isdigit() for token in tokens):
        return False
    src, dst, weight = choose_columns(tokens) if len(tokens) > 1 else ("", "", None)
    known = [name for name in (src, dst, weight) if name is not None]
    names = SOURCE_NAMES + TARGET_NAMES + WEIGHT_NAMES
    return any(name.lower() in names for name in known)


def _ids(column: polars.Series) -> polars.Series:
    """Text as whole numbers if all of it is."""
    import polars as pl

    if column.str.contains(r"^[0-9]+$").all():
        numbers = column.cast(pl.Int64, strict=False)
        if numbers.null_count() == 0:
            return numbers
    return column


def _numbers(source: Source, column: polars.Series) -> np.ndarray:
    import polars as pl

    for dtype in (pl.Int64, pl.Float64):
        numbers = column.cast(dtype, strict=False)
        bad = numbers.is_null() if dtype == pl.Int64 else numbers.is_null() | numbers.is_nan()
        if not bad.any():
            return narrowed(numbers.to_numpy())
    row = bad.arg_true()[0]
    value = column[row]
    source.fail(f"weight {value!r} in row {row + 1} is not a number")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:200]


def write(graph: Graph, path: Path) -> None:
    """Write all arcs under a header."""
    plain = path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path
    with replacing(path) as file:
        edge_frame(graph).write_csv(file, separator="\t" if plain.suffix.lower() == ".tsv" else ",")
        if graph._labels.kind != "objects":
            file.write(Note.about(graph).line(b"#"))
