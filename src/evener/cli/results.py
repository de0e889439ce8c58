"""Output files of commands, and the count of traversed edges."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evener.engine.results.frames import TABLES, suffix_of, write_table
from evener.errors import GraphError
from evener.graph.files.atomic_file import require_writable
from evener.graph.files.source import STANDARD

if TYPE_CHECKING:
    from evener.engine.results.result import Result


def check_file(text: str, flag: str, *, force: bool = False) -> Path:
    """Check before any work that the file named by an option can be written, and return its path.

    An existing file is refused unless ``force`` allows replacing it.

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
    if path.exists() and not force:
        raise GraphError(f"{text} exists; name another file, or use --force to replace it.")
    require_writable(path)
    return path


def check_table(text: str, what: str, flag: str, *, force: bool = False) -> Path:
    """Like `check_file`, for a table of ``what`` whose suffix names the format.

    Examples
    --------
    >>> from evener.cli.results import check_table
    >>> check_table("ranks.xlsx", "results", "-o")
    Traceback (most recent call last):
    evener.errors.GraphError: ranks.xlsx: results are written as .csv, .tsv, .parquet, .json, ...
    """
    if text == STANDARD and flag == "-o":
        return Path(text)
    if text and suffix_of(Path(text).expanduser()) not in TABLES:
        raise GraphError(
            f"{text}: {what} are written as {', '.join(TABLES)}; use one of these suffixes."
        )
    return check_file(text, flag, force=force)


def write_trace(result: Result, text: str) -> None:
    """Write a trace: ``.json`` for Chrome and Perfetto, or a table for any other suffix."""
    path = Path(text).expanduser()
    if suffix_of(path) == ".json":
        result.trace.to_chrome(path)
    else:
        write_table(result.trace.to_frame(), text)


def edges_traversed(result: Result, *, from_source: bool) -> int:
    """The number of edges for traversed edges per second (TEPS).

    For a search, the arcs of all reached vertices, as in Graph 500, so that a search which skips
    edges is rated faster. Otherwise the arcs of the graph, or the arcs visited if there were more,
    as in the iterations of PageRank.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.cli.results import edges_traversed
    >>> r = ev.bfs(ev.Graph.from_edges([0, 1, 3], [1, 2, 4]), 0, device="python")
    >>> edges_traversed(r, from_source=True), edges_traversed(r, from_source=False)
    (2, 3)
    """
    if not (from_source and result._is_search):
        return max(result.graph.num_edges, result.stats.get("edges", 0))
    return int(result.graph.degrees[result.reached].sum(dtype=np.int64))
