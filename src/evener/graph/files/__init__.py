"""Graph files, one module for each format.

A new format is a module here with two functions,

* ``read(source: Source, directed: bool | None) -> Graph`` and
* ``write(graph: Graph, path: Path) -> None``,

and a line in `FORMATS`. `source` gives a reader its bytes and its errors, `target` gives a writer
a file that appears whole or not at all, `finish` turns rows into a graph, `text` is the compiled
parser of lines of numbers.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from evener.errors import EvenerError, GraphError, GraphFormatError
from evener.graph.csr import Graph
from evener.graph.files.finish import UnknownDirectionError
from evener.graph.files.source import COMPRESSIONS, MissingFileError, Source

__all__ = [
    "FORMATS",
    "MissingFileError",
    "UnknownDirectionError",
    "format_of",
    "load",
    "save",
    "sniff",
]

# Module and format name -> suffixes. A suffix without its dot names the format too.
FORMATS = {
    "edgelist": (".txt", ".el", ".wel", ".edges"),
    "csv": (".csv", ".tsv"),
    "matrix_market": (".mtx",),
    "dimacs": (".gr",),
    "metis": (".graph", ".metis"),
    "adjlist": (".adjlist",),
    "graphalytics": (".e", ".v"),
    "parquet": (".parquet", ".pq"),
    "evg": (".evg",),
}


def load(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    directed: bool | None = None,
    verify: bool = False,
) -> Graph:
    """Read a graph from a file.

    Parameters
    ----------
    path
        The file; ``.gz`` and ``.zst`` are decompressed. ``.evg`` is a folder, and of a pair of
        Graphalytics files either one or their common name will do.
    format
        A name or suffix from `evener.graph.files.FORMATS`; by default the suffix and the content
        decide.
    directed
        By default the format decides: symmetric Matrix Market and METIS files are undirected,
        edge lists and DIMACS files hold the arcs they list, Graphalytics graphs say it in their
        properties. True keeps the arcs of an undirected file; False makes every arc an edge,
        once for both directions.
    verify
        Compare the arrays of an ``.evg`` folder with their checksums, which takes a moment.

    Returns
    -------
    Graph
        With the labels that the file uses. The vertices of an edge list are those that occur.

    Raises
    ------
    GraphFormatError
        Names the file, the line where there is one, what is wrong and what was expected.
    MemoryBudgetError
        When the graph cannot fit into memory.

    Examples
    --------
    >>> import evener as ev
    >>> file = tmp_path / "tiny.txt"
    >>> _ = file.write_text("# from to weight\\n10 20 1.5\\n20 30 2.5\\n")
    >>> g = ev.load(file)
    >>> g.labels.tolist(), g.weights.tolist()
    ([10, 20, 30], [1.5, 2.5])
    """
    path = Path(os.path.expanduser(path))
    try:
        return _load(path, format, directed, verify)
    except OSError as error:  # a folder that may not be looked into, a name too long
        if isinstance(error, EvenerError):
            raise
        raise GraphFormatError(f"{path} cannot be read: {error.strerror or error}.") from None


def _load(path: Path, format: str | None, directed: bool | None, verify: bool) -> Graph:
    name = format_of(path, format)
    if name == "graphalytics":  # several files
        return _module(name).read(path, directed)
    if name == "evg":
        return _module(name).read(path, directed, verify=verify)
    source = Source(path)
    if path.is_dir():
        source.fail("is a folder; expected a file or an .evg folder")
    return _module(name or sniff(source)).read(source, directed)


def save(graph: Graph, path: str | os.PathLike[str], *, format: str | None = None) -> None:
    """Write a graph to a file; `Graph.save` is the public way here."""
    path = Path(os.path.expanduser(path))
    try:
        _save(graph, path, format)
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
    if path.is_dir() and name != "evg":
        raise GraphError(f"{path} is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise GraphError(f"{path} cannot be written: there is no folder {path.parent}.")
    _module(name).write(graph, path)


def format_of(path: Path, format: str | None = None) -> str | None:
    """The format that an argument or a suffix names; None if only the content can tell.

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
    if not path.name:  # the current folder, or the root
        return None
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    for name, suffixes in FORMATS.items():
        if plain.suffix.lower() in suffixes:
            return name
    if path.is_dir() and (path / "meta.json").exists():
        return "evg"
    if any(path.with_name(f"{path.name}.e{c}").exists() for c in ("", *COMPRESSIONS)):
        return "graphalytics"
    return None


def sniff(source: Source) -> str:
    """The format of a file whose name says nothing."""
    head = source.data[:64].tobytes()
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.lower().startswith(b"%%matrixmarket"):
        return "matrix_market"
    for _, line in source.lines(1 << 16):
        if line.startswith((b"p sp ", b"p ")) and len(line.split()) == 4:
            return "dimacs"
        if line.strip() and not line.startswith((b"#", b"%", b"c ", b"c\t")) and line != b"c":
            break
    return "adjlist" if source.suffix == "" and _has_lists(source) else "edgelist"


def _has_lists(source: Source) -> bool:
    """Whether lines of numbers differ in length, as neighbour lists do and edges do not."""
    lines = [line.split() for _, line in source.lines(1 << 16) if line[:1] not in (b"#", b"%")]
    numbers = all(token.isdigit() for line in lines[:100] for token in line)
    return numbers and len({len(line) for line in lines[:-1] if line}) > 1


def _module(name: str) -> Any:
    return importlib.import_module(f"evener.graph.files.{name}")
