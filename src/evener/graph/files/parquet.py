"""Parquet tables of edges, read and written by polars."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from evener.errors import GraphError
from evener.graph.csr import Graph
from evener.graph.files.atomic_file import replacing
from evener.graph.files.columns import (
    Chosen,
    edge_frame,
    pick_columns,
    require_countable_labels,
    warn_about_isolated,
)
from evener.graph.files.finish import graph_of_ids
from evener.graph.files.note import Note
from evener.graph.files.request import Request
from evener.graph.files.source import COMPRESSIONS, Source
from evener.graph.files.text import Rows
from evener.graph.load_warnings import warn

if TYPE_CHECKING:
    import polars

_NOTE_KEY = "evener"
_ROW_BYTES = 24  # memory for a source, a target and a weight


def read(source: Source, request: Request) -> Graph:
    """Read a Parquet table: columns by name, else the first two and a lone third."""
    if request.header is not None:
        raise GraphError(
            f"{source.name} is a Parquet file, whose columns have names; leave out header."
        )
    columns, chosen, note_text = _table(source, request)
    is_chosen = {"src", "dst"} & set(request.column_options)
    note = None if note_text is None or is_chosen else Note.parse(note_text, source)
    ends = [_ids(source, column) for column in columns[:2]]
    if isinstance(ends[0], np.ndarray) != isinstance(ends[1], np.ndarray):
        source.fail("has numbers at one end of the edges and names at the other")
    weights = _weights(source, columns[2], chosen.is_sure) if len(columns) == 3 else None
    return graph_of_ids(source, Rows(ends[0], ends[1], weights), request, note)


def _table(source: Source, request: Request) -> tuple[list[polars.Series], Chosen, str | None]:
    """The columns of the edges, their choice, and the text of Evener's note."""
    import polars as pl

    compressed = source.is_standard or source.path.suffix.lower() in COMPRESSIONS
    if not source.data[:4].tobytes() == source.data[-4:].tobytes() == b"PAR1":
        source.fail("is not a Parquet file, or is cut short")
    try:
        where: Any = io.BytesIO(source.text()) if compressed else source.path
        names = list(pl.read_parquet_schema(where))
        if len(names) < 2:
            source.fail(f"has {len(names)} column; expected source, target and optionally a weight")
        chosen = pick_columns(source, names, names, request)
        note = pl.read_parquet_metadata(where).get(_NOTE_KEY)
        # glob=False: brackets in the name are part of the name.
        rows = pl.scan_parquet(where, glob=False).select(pl.len()).collect().item()
        source.require_allowed(_ROW_BYTES * rows, f"declares {rows} rows, which take {{}}")
        wanted = [names[number] for number in chosen[:3] if number is not None]
        frame = pl.read_parquet(where, columns=list(dict.fromkeys(wanted)), glob=False)
        return [frame[name] for name in wanted], chosen, note
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        _refuse(source, error)
    except BaseException as error:
        # A panic inside polars is not an Exception; anything else is raised again.
        if type(error).__name__ != "PanicException":
            raise
        _refuse(source, error)


def _refuse(source: Source, error: BaseException) -> NoReturn:
    from evener.errors import EvenerError

    if isinstance(error, EvenerError):
        raise error
    reason = str(error).strip().split("\n", 1)[0][:200]
    source.fail(f"is not a Parquet file that polars can read ({reason})")


def _ids(source: Source, column: polars.Series) -> Any:
    import polars as pl

    _refuse_nulls(source, column)
    if column.dtype.is_integer():
        if column.dtype == pl.UInt64 and len(column) and int(column.max()) >= 1 << 63:  # type: ignore[arg-type]
            source.fail(f"column {column.name!r} has an id of 2^63 or more")
        narrow = column.dtype in (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16)
        return np.ascontiguousarray(column.to_numpy(), np.int32 if narrow else np.int64)
    if column.dtype.is_float():  # pandas turns integers into floats if a column has gaps
        whole = column.cast(pl.Int64, strict=False)
        if whole.null_count() == 0 and (whole == column).all():
            return _ids(source, whole)
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    source.fail(f"column {column.name!r} is of type {column.dtype}; expected integers or strings")


def _weights(source: Source, column: polars.Series, is_sure: bool) -> np.ndarray | None:
    if not (column.dtype.is_integer() or column.dtype.is_float()):
        if not is_sure:
            warn(f"{source.name}: {column.name} is of type {column.dtype} and was ignored.")
            return None
        source.fail(f"weights in column {column.name!r} are {column.dtype}; expected numbers")
    _refuse_nulls(source, column)
    if column.dtype.is_float() and column.is_nan().any():
        row = column.is_nan().arg_true()[0] + 1
        source.fail(f"weight in row {row} of column {column.name!r} is not a number (NaN)")
    return column.to_numpy()


def _refuse_nulls(source: Source, column: polars.Series) -> None:
    if column.null_count():
        row = column.is_null().arg_true()[0] + 1
        source.fail(f"column {column.name!r} has no value in row {row}")


def write(graph: Graph, path: Path) -> None:
    """Write all arcs, with Evener's note in the file's metadata."""
    require_countable_labels(graph, "Parquet")
    warn_about_isolated(graph, path)
    frame = edge_frame(graph)
    with replacing(path) as file:
        frame.write_parquet(file, metadata={_NOTE_KEY: Note.of(graph).json()})
