"""What commands do with a result: write its table or trace to a file, show its top vertices."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evener.errors import GraphError
from evener.graph.files.target import check_target, replacing

if TYPE_CHECKING:
    import polars

    from evener.engine.result import Result

TABLES = (".csv", ".tsv", ".parquet", ".json", ".jsonl", ".ndjson")
_COMPRESSED = (".gz", ".zst")


def check_file(text: str, flag: str) -> Path:
    """The file that an option names, which is refused if it cannot be written, before any work.

    Examples
    --------
    >>> from evener.cli.results import check_file
    >>> check_file("", "--trace")
    Traceback (most recent call last):
    evener.errors.GraphError: --trace is empty; name a file.
    """
    if not text:
        raise GraphError(f"{flag} is empty; name a file.")
    path = Path(text).expanduser()
    if path.is_dir():
        raise GraphError(f"{text} cannot be written: it is a folder.")
    if not path.parent.is_dir():
        raise GraphError(f"{text} cannot be written: there is no folder {path.parent}.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GraphError(f"{text} cannot be written: the folder {path.parent} is read-only.")
    check_target(path)
    return path


def check_table(text: str, what: str, flag: str) -> Path:
    """As `check_file`, of a table of ``what``, whose suffix says the format.

    Examples
    --------
    >>> from evener.cli.results import check_table
    >>> check_table("ranks.xlsx", "results", "-o")
    Traceback (most recent call last):
    evener.errors.GraphError: ranks.xlsx: results are written as .csv, .tsv, .parquet, .json, ...
    """
    if text and _suffix(Path(text).expanduser()) not in TABLES:
        raise GraphError(f"{text}: {what} are written as {', '.join(TABLES)}; give one of these.")
    return check_file(text, flag)


def write_table(frame: polars.DataFrame, text: str) -> None:
    """Write a frame in the format of the suffix; the file appears whole or not at all.

    JSON has no infinities: there, what is not finite is null.

    Examples
    --------
    >>> import polars
    >>> from evener.cli.results import write_table
    >>> write_table(polars.DataFrame({"vertex": [3], "depth": [1]}), str(tmp_path / "d.csv"))
    >>> (tmp_path / "d.csv").read_text()
    'vertex,depth\\n3,1\\n'
    """
    path = Path(text).expanduser()
    suffix, frame = _suffix(path), _plain_columns(frame)
    file: Any
    with replacing(path) as file:
        if suffix == ".parquet":
            frame.write_parquet(file)
        elif suffix == ".json":
            frame.write_json(file)
        elif suffix in (".jsonl", ".ndjson"):
            frame.write_ndjson(file)
        else:
            _with_a_column_each(frame).write_csv(file, separator="\t" if suffix == ".tsv" else ",")


def write_trace(result: Result, text: str) -> None:
    """Write a trace: ``.json`` for Chrome and Perfetto, any other suffix as a table."""
    path = Path(text).expanduser()
    if _suffix(path) == ".json":
        result.trace.to_chrome(path)
    else:
        write_table(result.trace.to_frame(), text)


def highlights(result: Result, k: int) -> polars.DataFrame:
    """The vertices of interest: those with the largest values, or the largest groups.

    A field that holds vertices (``component``) names groups. Where what was not reached is
    infinite it is left out: the farthest vertex is the farthest of those reached.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.cli.results import highlights
    >>> g = ev.Graph.from_edges([0, 2, 3], [1, 3, 4])
    >>> highlights(ev.connected_components(g, device="python"), 1).rows()
    [(2, 3)]
    """
    import polars

    first = next(iter(result._fields), None)
    if first is None:
        return polars.DataFrame()
    values = result._fields[first]
    if first in result._holds_vertices:
        members, counts = np.unique(values, return_counts=True)
        largest = np.argsort(-counts, kind="stable")[:k]
        labels, absent = result._labels_of(members[largest])
        named = [None if no else at for at, no in zip(labels.tolist(), absent, strict=True)]
        return polars.DataFrame({first: named, "vertices": counts[largest]}, strict=False)
    untouched = result._untouched.get(first)
    if isinstance(untouched, float) and math.isinf(untouched):
        reached = np.flatnonzero(values != untouched)
        order = np.lexsort((reached, -values[reached]))
        return result._frame(reached[order[:k]])
    return result.top(k)


def edges_traversed(result: Result, *, from_source: bool) -> int:
    """The edges that traversed edges per second (TEPS) count.

    From a source, the arcs of all vertices reached, as in Graph 500: a search that skips edges is
    faster for it, not slower. Else all arcs of the graph, or those visited where there are more,
    as when PageRank goes over them in each iteration.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.cli.results import edges_traversed
    >>> r = ev.bfs(ev.Graph.from_edges([0, 1, 3], [1, 2, 4]), 0, device="python")
    >>> edges_traversed(r, from_source=True), edges_traversed(r, from_source=False)
    (2, 3)
    """
    first = next(iter(result._fields), None)
    if first is None or not from_source:
        return max(result.graph.num_edges, result.stats.get("edges", 0))
    reached = result._fields[first] != result._untouched.get(first)
    return int(result.graph.degrees[reached].sum(dtype=np.int64))


def _suffix(path: Path) -> str:
    """The suffix that says the format, that of compression set aside (``.csv.gz``)."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in _COMPRESSED else suffix


def _with_a_column_each(frame: polars.DataFrame) -> polars.DataFrame:
    """The frame with a column for each device where it has lists: CSV has none."""
    import polars

    for name, dtype in frame.schema.items():
        if isinstance(dtype, polars.List):
            length = int(frame[name].list.len().max() or 0)  # type: ignore[arg-type]
            parts = [polars.col(name).list.get(p).alias(f"{name}_{p}") for p in range(length)]
            frame = frame.with_columns(parts).drop(name)
    return frame


def _plain_columns(frame: polars.DataFrame) -> polars.DataFrame:
    """The frame with labels of any other type than numbers and strings as text."""
    import polars

    for name, dtype in frame.schema.items():
        if dtype == polars.Object:
            texts: list[Any] = [None if v is None else str(v) for v in frame[name].to_list()]
            frame = frame.with_columns(polars.Series(name, texts, dtype=polars.String))
    return frame
