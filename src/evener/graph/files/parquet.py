"""Parquet tables of edges, read and written by polars."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from evener.graph.csr import Graph
from evener.graph.files.columns import (
    choose_columns,
    edge_frame,
    require_countable_labels,
    warn_about_isolated,
)
from evener.graph.files.finish import graph_of_ids
from evener.graph.files.note import Note
from evener.graph.files.source import COMPRESSIONS, Source
from evener.graph.files.target import replacing
from evener.graph.files.text import Rows

if TYPE_CHECKING:
    import polars

_NOTE_KEY = "evener"


def read(source: Source, directed: bool | None) -> Graph:
    """Read a Parquet table: columns by name, else the first two and a lone third."""
    frame, note_text = _table(source)
    note = None if note_text is None else Note.parse(note_text, source)
    ends = [_ids(source, frame.to_series(i)) for i in (0, 1)]
    if isinstance(ends[0], np.ndarray) != isinstance(ends[1], np.ndarray):
        source.fail("has numbers at one end of the edges and names at the other")
    weights = _weights(source, frame.to_series(2)) if frame.width == 3 else None
    return graph_of_ids(source, Rows(ends[0], ends[1], weights), directed, note)


def _table(source: Source) -> tuple[polars.DataFrame, str | None]:
    import polars as pl

    compressed = source.path.suffix.lower() in COMPRESSIONS
    if not source.data[:4].tobytes() == source.data[-4:].tobytes() == b"PAR1":
        source.fail("is not a Parquet file, or not a whole one")
    try:
        where: Any = io.BytesIO(source.text()) if compressed else source.path
        names = list(pl.read_parquet_schema(where))
        if len(names) < 2:
            source.fail(f"has {len(names)} column; expected source, target and perhaps a weight")
        chosen = choose_columns(names)
        if chosen is None:
            shown = ", ".join(names)
            source.fail(f"cannot tell which columns of {shown} are the ends; name them src and dst")
        note = pl.read_parquet_metadata(where).get(_NOTE_KEY)
        wanted = [name for name in chosen if name is not None]
        # glob: a name with brackets is a name.
        return pl.read_parquet(where, columns=wanted, glob=False).select(wanted), note
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        _refuse(source, error)
    except BaseException as error:
        # A panic inside polars is no Exception; anything else goes on its way.
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
    if column.dtype.is_float():  # pandas makes floats of integers where a column had gaps
        whole = column.cast(pl.Int64, strict=False)
        if whole.null_count() == 0 and (whole == column).all():
            return _ids(source, whole)
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    source.fail(f"column {column.name!r} is of type {column.dtype}; expected integers or strings")


def _weights(source: Source, column: polars.Series) -> np.ndarray:
    _refuse_nulls(source, column)
    if not (column.dtype.is_integer() or column.dtype.is_float()):
        source.fail(f"weights in column {column.name!r} are {column.dtype}; expected numbers")
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
        frame.write_parquet(file, metadata={_NOTE_KEY: Note.about(graph).json()})
