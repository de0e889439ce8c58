"""Graph files, one module for each format.

A new format is a module here with two functions,

* ``read(source: Source, request: Request) -> Graph`` and
* ``write(graph: Graph, path: Path) -> None``,

and a line in `FORMATS`. `source` provides a reader's bytes and errors, `request` the caller's
options, `target` a file that is replaced atomically, `finish` turns rows into a graph, `text` is
the compiled parser of lines of numbers, `table` reads all other tables.
"""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

from evener.device import parse_bytes
from evener.device.mapped_files import require_whole
from evener.errors import EvenerError, GraphError, GraphFormatError
from evener.graph.csr import Graph
from evener.graph.files.finish import UnknownDirectionError
from evener.graph.files.request import Column, Request, checked_request
from evener.graph.files.source import COMPRESSIONS, STANDARD, MissingFileError, Source

__all__ = [
    "FORMATS",
    "MissingFileError",
    "UnknownDirectionError",
    "format_of",
    "load",
    "load_with_format",
    "save",
    "sniff",
]

# Module and format name -> suffixes. A suffix without its dot also names the format.
FORMATS = {
    "edgelist": (".txt", ".el", ".wel", ".edges"),
    "csv": (".csv", ".tsv"),
    "matrix_market": (".mtx",),
    "dimacs": (".gr",),
    "metis": (".graph", ".metis"),
    "adjlist": (".adjlist",),
    "graphalytics": (".e", ".v"),
    "parquet": (".parquet", ".pq"),
    "graphml": (".graphml",),
    "gml": (".gml",),
    "gexf": (".gexf",),
    "evg": (".evg",),
}
_TABLES = ("edgelist", "csv", "parquet")
_ATTRIBUTED = ("graphml", "gml", "gexf")  # weights are attributes of edges
_STARTS = re.compile(rb"\s*(?:(?:<[?!][^>]*>\s*)*<(graphml|gexf)\b|graph\s*\[)")
_FOLDERS = ("graphalytics", "evg")  # formats of several files


def load(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    directed: bool | None = None,
    src: Column = None,
    dst: Column = None,
    weight: Column = None,
    header: bool | None = None,
    duplicates: str = "keep",
    max_bytes: int | str | None = None,
    trusted: bool = False,
    verify: bool = False,
) -> Graph:
    """Read a graph from a file.

    Parameters
    ----------
    path
        The file; ``.gz`` and ``.zst`` are decompressed. ``.evg`` is a folder; a Graphalytics graph
        is named by either of its files or by their common name. ``"-"`` is standard input.
    format
        A name or suffix from `evener.graph.files.FORMATS`; by default the suffix and the content
        decide.
    directed
        By default the format decides: symmetric Matrix Market and METIS files are undirected, edge
        lists and DIMACS files list arcs, the properties of a Graphalytics graph say whether it is
        directed. True keeps the arcs of an undirected file; False turns arcs into undirected
        edges, one for both directions.
    src, dst, weight
        Columns of a table, by name or by number from 0. By default they are recognised by their
        names, or are the first columns of two or three. ``weight=False`` ignores weights. In
        GraphML, GML and GEXF ``weight`` is an attribute of the edges.
    header
        Whether the first line of a table names the columns. By default Evener detects it, and
        refuses an ambiguous table.
    duplicates
        ``"keep"`` parallel arcs, or combine them as in `Graph.from_edges`: ``"first"``, ``"min"``,
        ``"max"`` or ``"sum"``. In an undirected graph the rows of both directions are parallel.
    max_bytes
        Limit for the bytes that the file may expand to or declare, as a number or as ``"4GiB"``;
        by default a hundred times its size, and at least 256 MiB.
    trusted
        Open an ``.evg`` folder unchecked. By default Evener checks the checksums and contents of
        the arrays when it first opens the folder, and records in the user's cache folder that they
        are sound as long as they do not change.
    verify
        Check the arrays of an ``.evg`` folder in any case.

    Returns
    -------
    Graph
        With the labels of the file. The vertices of an edge list are those that occur in it.

    Raises
    ------
    GraphFormatError
        Names the file, the line if there is one, what is wrong and what was expected.
    MemoryBudgetError
        If the graph does not fit into memory, or is out of proportion to its file.

    Examples
    --------
    >>> import evener as ev
    >>> file = tmp_path / "tiny.txt"
    >>> _ = file.write_text("# from to weight\\n10 20 1.5\\n20 30 2.5\\n")
    >>> g = ev.load(file)
    >>> g.labels.tolist(), g.weights.tolist()
    ([10, 20, 30], [1.5, 2.5])
    >>> _ = (tmp_path / "routes.csv").write_text("airline,leaves,reaches\\nLX,ZRH,SFO\\n")
    >>> ev.load(tmp_path / "routes.csv", src="leaves", dst="reaches").labels.tolist()
    ['SFO', 'ZRH']
    """
    request = checked_request(
        directed=directed, duplicates=duplicates, src=src, dst=dst, weight=weight, header=header
    )
    return load_with_format(path, format, request, max_bytes, trusted=trusted, verify=verify)[0]


def load_with_format(
    path: str | os.PathLike[str],
    format: str | None,
    request: Request,
    max_bytes: int | str | None = None,
    *,
    trusted: bool = False,
    verify: bool = False,
) -> tuple[Graph, str]:
    """Like `load`; also returns the name of the format."""
    if trusted and verify:
        raise GraphError("trusted skips the check that verify asks for; give only one of them.")
    most = None if max_bytes is None else parse_bytes(max_bytes)
    path = Path(os.path.expanduser(path))
    try:
        graph, name = _load(path, format, request, most, trusted, verify)
        require_whole()
    except OSError as error:  # an unreadable folder, or a name that is too long
        if isinstance(error, EvenerError):
            raise
        raise GraphFormatError(f"{path} cannot be read: {error.strerror or error}.") from None
    if request.weight is False and graph._weights is not None:
        rows = (graph._indptr, graph._indices)
        graph = Graph(*rows, directed=graph.directed, labels=graph._labels)
    return graph, name


def _load(
    path: Path, format: str | None, request: Request, most: int | None, trusted: bool, verify: bool
) -> tuple[Graph, str]:
    name = format_of(path, format)
    if name in _FOLDERS and str(path) == STANDARD:
        raise GraphError(f"a graph of format {name} is several files, but standard input is one.")
    source = None
    if name is None or name not in _FOLDERS:
        source = Source(path, most)
        if path.is_dir() and not source.is_standard:
            source.fail("is a folder; expected a file or an .evg folder")
        name = name or sniff(source)
    unused = request.column_options
    if unused and name not in _TABLES and not (name in _ATTRIBUTED and unused == ["weight"]):
        raise GraphError(
            f"{path} is a file of format {name}, not a table with columns; leave out "
            f"{', '.join(unused)}."
        )
    module = _module(name)
    if name == "evg":
        return module.read(path, request, most, trusted=trusted, verify=verify), name
    if name == "graphalytics":
        return module.read(path, request, most), name
    return module.read(source, request), name


def save(graph: Graph, path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Write a graph to a file; users call `Graph.save`."""
    path = Path(os.path.expanduser(path))
    try:
        _save(graph, path, format)
    except BrokenPipeError:  # the reader of our output has exited
        raise
    except (OSError, ValueError) as error:
        if isinstance(error, EvenerError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise GraphError(f"{path} cannot be written: {reason}.") from None


def _save(graph: Graph, path: Path, format: str | None) -> None:
    name = format_of(path, format)
    if name is None:
        known = " ".join(suffix for suffixes in FORMATS.values() for suffix in suffixes)
        raise GraphError(
            f"{path} has no suffix that names a graph format; use one of {known}, or format=."
        )
    if str(path) == STANDARD:
        if name in _FOLDERS:
            raise GraphError(
                f"a graph of format {name} is several files, but standard output is one."
            )
    elif path.is_dir() and name != "evg":
        raise GraphError(f"{path} is a folder; give the name of a file.")
    elif not path.parent.is_dir():
        raise GraphError(f"{path} cannot be written: there is no folder {path.parent}.")
    _module(name).write(graph, path)


def format_of(path: Path, format: str | None = None) -> str | None:
    """The format that the argument or the suffix names; None if neither names one.

    Examples
    --------
    >>> from pathlib import Path
    >>> from evener.graph.files import format_of
    >>> format_of(Path("roads.gr.gz"))
    'dimacs'
    """
    if format is not None:
        for name, suffixes in FORMATS.items():
            if format == name or f".{str(format).removeprefix('.')}" in suffixes:
                return name
        raise GraphError(f"format is {format!r}; it must be one of {', '.join(FORMATS)}.")
    if not path.name or str(path) == STANDARD:  # the current folder, or the root
        return None
    suffix = path.suffix.lower()
    if suffix in COMPRESSIONS:
        suffix = path.with_suffix("").suffix.lower()
    for name, suffixes in FORMATS.items():
        if suffix in suffixes:
            return name
    if path.is_dir() and (path / "meta.json").exists():
        return "evg"
    if any(path.with_name(f"{path.name}.e{c}").exists() for c in ("", *COMPRESSIONS)):
        return "graphalytics"
    return None


def sniff(source: Source) -> str:
    """Guess the format of a file from its content."""
    head = source.data[:1024].tobytes()
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.lower().startswith(b"%%matrixmarket"):
        return "matrix_market"
    if found := _STARTS.match(head):
        return "gml" if found[1] is None else found[1].decode()
    for line in source.head():
        if line.startswith((b"p sp ", b"p ")) and len(line.split()) == 4:
            return "dimacs"
        if line.strip() and not line.startswith((b"#", b"%", b"c ", b"c\t")) and line != b"c":
            break
    return "adjlist" if source.suffix == "" and _has_lists(source) else "edgelist"


def _has_lists(source: Source) -> bool:
    """Whether lines of numbers differ in length, as in neighbour lists but not in edge lists."""
    lines = [line.split() for line in source.head() if line[:1] not in (b"#", b"%")]
    numbers = all(token.isdigit() for line in lines[:100] for token in line)
    return numbers and len({len(line) for line in lines[:-1] if line}) > 1


def _module(name: str) -> Any:
    return importlib.import_module(f"evener.graph.files.{name}")
