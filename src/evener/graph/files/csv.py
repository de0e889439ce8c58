"""Delimited tables: CSV and TSV with or without a header, ids that are numbers or names.

Plain tables of numbers go through Evener's own parser, which also takes the blanks that pass for
CSV in the wild; names, quotes and further columns go through polars. Names are taken as they
stand: ``007`` and ``7`` differ.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evener.graph.csr import Graph
from evener.graph.files import edgelist
from evener.graph.files.columns import (
    choose_columns,
    edge_frame,
    is_known,
    require_countable_labels,
    warn_about_isolated,
)
from evener.graph.files.finish import graph_of_ids
from evener.graph.files.note import Note
from evener.graph.files.source import COMPRESSIONS, Source, show
from evener.graph.files.target import replacing
from evener.graph.files.text import Rows, Rules, narrowed, parse_rows

if TYPE_CHECKING:
    import polars

_SAMPLE = 200  # rows looked at before choosing the reader
_WHOLE = r"^(0|[1-9][0-9]*)$"  # as a number is written; 007 is a name


class _Table(NamedTuple):
    """How a table is laid out, from its first lines."""

    separator: str | None  # None: blanks
    begin: int  # position of the first row
    header_at: int | None
    names: list[str] | None
    rows: list[list[str]]


def read(source: Source, directed: bool | None) -> Graph:
    """Read a table of edges."""
    table = _look_at(source)
    if _is_plain(table):
        skip = edgelist.NOWHERE if table.header_at is None else np.uint64(table.header_at)
        rules = Rules(len(table.rows[0]) if table.rows else 2, edgelist.COMMENTS, skip=skip)
        rows = parse_rows(source, rules)
        return graph_of_ids(source, rows, directed, Note.find(source, b"#"), rules)
    return _read_by_polars(source, table, directed)


def _look_at(source: Source) -> _Table:
    """Find separator, header and the first rows."""
    lines = []
    for position, line in edgelist.data_lines(source):
        lines.append((position, line))
        if len(lines) > _SAMPLE:
            break
    if not lines:
        return _Table(None, 0, None, None, [])
    separator = _separator(source, lines[0][1])
    cells = [_cells(line, separator) for _, line in lines]
    if len(cells[0]) < 2:
        source.fail(
            f"has one column ({show(lines[0][1])}); expected at least source and target",
            source.line_at(lines[0][0]),
        )
    if not _has_header(source, cells, lines[0]):
        return _Table(separator, lines[0][0], None, None, cells)
    if cells[0] in cells[1:]:
        again = lines[1 + cells[1:].index(cells[0])][0]
        source.fail("the header stands here again; expected an edge", source.line_at(again))
    begin = lines[0][0] + len(lines[0][1]) + 1
    begin += source.data[begin - 1 : begin].tobytes() == b"\r"
    return _Table(separator, begin, lines[0][0], cells[0], cells[1:])


def _separator(source: Source, line: bytes) -> str | None:
    """What sets the columns apart; blanks only if nothing else does."""
    order = "\t,;|" if source.suffix == ".tsv" else ",\t;|"
    return next((mark for mark in order if mark.encode() in line), None)


def _cells(line: bytes, separator: str | None) -> list[str]:
    text = line.decode("utf-8", "replace")
    if separator is None:
        return text.split()
    return [cell.strip() for cell in next(csv.reader([text], delimiter=separator), [])]


def _has_header(source: Source, cells: list[list[str]], first: tuple[int, bytes]) -> bool:
    """Whether the first line names the columns; refuse to guess between names and an edge."""
    head, rest = cells[0], [row for row in cells[1:] if row != cells[0]]
    if any(edgelist.is_number(cell.encode()) for cell in head):
        return False
    below = {cell for row in rest for cell in row}
    if sum(map(is_known, head)) and not set(head) & below - {""}:
        return True
    if rest and all(len([c for c in row if edgelist.is_number(c.encode())]) > 1 for row in rest):
        return True  # words above numbers
    if set(head) & below:  # its words are vertices elsewhere
        return False
    source.fail(
        f"cannot tell whether {show(first[1])} names the columns or is an edge; name them source "
        "and target, or read the table yourself and use Graph.from_frame",
        source.line_at(first[0]),
    )


def _is_plain(table: _Table) -> bool:
    """Whether Evener's parser can take it: whole numbers, columns in order, nothing else."""
    if table.separator not in (None, ",", "\t"):
        return False
    if table.names is not None:
        expected = (*table.names[:2], *table.names[2:], None)[:3]
        if len(table.names) > 3 or choose_columns(table.names) != expected:
            return False
    widths = {len(row) for row in table.rows}
    if widths - {2} and widths - {3}:
        return False
    if table.names is not None and table.rows and widths != {len(table.names)}:
        return False
    ids = [cell for row in table.rows for cell in row[:2]]
    return all(cell.lstrip("-").isdigit() and (cell == "0" or cell[0] != "0") for cell in ids)


def _read_by_polars(source: Source, table: _Table, directed: bool | None) -> Graph:
    import polars as pl

    frame = _frame(source, table)
    chosen = choose_columns(frame.columns)
    if chosen is None:
        names = ", ".join(frame.columns)
        source.fail(f"cannot tell which of the columns {names} are the ends; name them src and dst")
    src, dst, weight = chosen
    for name in (src, dst):
        missing = frame[name].is_null() | (frame[name] == "")
        if missing.any():
            row, line = _place(source, table, missing.arg_true()[0])
            source.fail(f"column {name!r} is empty{row}; expected the end of an edge", line)
    weights = None if weight is None else _numbers(source, table, frame[weight])
    ends = [_ids(frame[name]) for name in (src, dst)]
    if ends[0].dtype != ends[1].dtype:  # numbers on one side only: names on both
        ends = [frame[src], frame[dst]]
    columns: list[Any] = [end if end.dtype == pl.String else end.to_numpy() for end in ends]
    rows = Rows(columns[0], columns[1], weights)
    return graph_of_ids(source, rows, directed, Note.find(source, b"#"))


def _frame(source: Source, table: _Table) -> polars.DataFrame:
    """All rows as text."""
    import polars as pl

    text = source.data[table.begin :].tobytes()
    body, _, last = text.rstrip(b"\r\n").rpartition(b"\n")
    if last.startswith(b"# evener: "):
        text = body
    if text.startswith(b"#") or b"\n#" in text:
        text = _without_comments(text, (table.separator or " ").encode())
    names = table.names or [f"column {i + 1}" for i in range(len(table.rows[0]))]
    try:
        frame = pl.read_csv(
            io.BytesIO(text or b"\n"), separator=table.separator or " ", infer_schema=False,
            has_header=False,
        )  # fmt: skip
    except pl.exceptions.NoDataError:
        return pl.DataFrame({name: pl.Series([], dtype=pl.String) for name in names})
    except pl.exceptions.PolarsError as error:
        reason = str(error).strip().split("\n", 1)[0][:200]
        source.fail(f"is not a table that polars can read ({reason})")
    if frame.width != len(names):
        source.fail(f"has {frame.width} columns below {len(names)} names; expected as many")
    frame.columns = names
    if b'"' not in text:  # then blanks around a name cannot be meant
        frame = frame.select(pl.all().str.strip_chars())
    return frame.filter(~pl.all_horizontal(pl.all().is_null() | (pl.all() == "")))


def _without_comments(text: bytes, separator: bytes) -> bytes:
    """Drop lines that begin with # and have one column: with more it is the name of a vertex."""
    lines = text.split(b"\n")
    return b"\n".join(line for line in lines if line[:1] != b"#" or separator in line)


def _place(source: Source, table: _Table, row: int) -> tuple[str, int | None]:
    """Where a row is: its line, or words instead where quotes or blank lines hide it."""
    text = source.data[table.begin :].tobytes()
    if b'"' in text or b"\n\n" in text or b"\n\r\n" in text:
        return f" in row {row + 1}", None
    return "", source.line_at(table.begin) + row


def _ids(column: polars.Series) -> polars.Series:
    """Text as whole numbers if all of it is; pandas writes 3.0 where a column had gaps."""
    import polars as pl

    for pattern, kind in ((_WHOLE, pl.Int64), (r"^(0|[1-9][0-9]*)\.0$", pl.Float64)):
        if len(column) and column.str.contains(pattern).all():
            numbers = column.cast(kind, strict=False).cast(pl.Int64, strict=False)
            if numbers.null_count() == 0:
                return numbers
    return column


def _numbers(source: Source, table: _Table, column: polars.Series) -> np.ndarray:
    import polars as pl

    for dtype in (pl.Int64, pl.Float64):
        numbers = column.cast(dtype, strict=False)
        bad = numbers.is_null() if dtype == pl.Int64 else numbers.is_null() | numbers.is_nan()
        if not bad.any():
            return narrowed(numbers.to_numpy())
    at = bad.arg_true()[0]
    row, line = _place(source, table, at)
    shown = "empty" if column[at] in (None, "") else f"{column[at]!r}"
    source.fail(f"the weight{row} is {shown}; expected a number", line)


def write(graph: Graph, path: Path) -> None:
    """Write all arcs under a header; names in quotes."""
    require_countable_labels(graph, "CSV")
    warn_about_isolated(graph, path)
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    with replacing(path) as file:
        edge_frame(graph).write_csv(
            file, separator="\t" if plain.suffix.lower() == ".tsv" else ",",
            quote_style="non_numeric" if graph._labels.kind == "objects" else "necessary",
        )  # fmt: skip
        file.write(Note.about(graph).line(b"#"))
