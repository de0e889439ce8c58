"""What commands do with a result: check and write files, count what was traversed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evener.engine.results.frames import TABLES, suffix_of, write_table
from evener.errors import GraphError
from evener.graph.files.source import STANDARD
from evener.graph.files.target import check_target

if TYPE_CHECKING:
    from evener.engine.results.result import Result


def check_file(text: str, flag: str, *, force: bool = False) -> Path:
    """The file that an option names, which is refused if it cannot be written, before any work.

    One that exists is refused too, unless ``force`` says that it may be replaced.

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
        raise GraphError(f"{text} exists; name another file, or give --force to replace it.")
    check_target(path)
    return path


def check_table(text: str, what: str, flag: str, *, force: bool = False) -> Path:
    """As `check_file`, of a table of ``what``, whose suffix says the format.

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
        raise GraphError(f"{text}: {what} are written as {', '.join(TABLES)}; give one of these.")
    return check_file(text, flag, force=force)


def write_trace(result: Result, text: str) -> None:
    """Write a trace: ``.json`` for Chrome and Perfetto, any other suffix as a table."""
    path = Path(text).expanduser()
    if suffix_of(path) == ".json":
        result.trace.to_chrome(path)
    else:
        write_table(result.trace.to_frame(), text)


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
    if not (from_source and result._is_search):
        return max(result.graph.num_edges, result.stats.get("edges", 0))
    return int(result.graph.degrees[result.reached].sum(dtype=np.int64))
