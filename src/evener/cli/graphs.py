"""What commands mean by GRAPH: a path, or a generator such as ``rmat:scale=18,seed=1``."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from evener.errors import GraphError
from evener.graph.csr import Graph

GRAPH_HELP = "a file, or a generator such as rmat:scale=10,seed=1"

_SPEC = re.compile(r"[A-Za-z_]\w*(:[^/\\]*)?")


class Loaded(NamedTuple):
    """A graph and how long it took to load or generate."""

    graph: Graph
    seconds: float


def read_graph(
    text: str, *, directed: bool | None = None, format: str | None = None, verify: bool = False
) -> Loaded:
    """Load a file or run a generator.

    Examples
    --------
    >>> from evener.cli.graphs import read_graph
    >>> read_graph("path:num_vertices=4").graph.num_edges
    6
    """
    from evener.graph import files, generate

    started = time.perf_counter()
    if not is_spec(text):
        graph = files.load(text, format=format, directed=directed, verify=verify)
    elif directed is None and format is None:
        graph = generate.from_spec(text)
    else:
        raise GraphError(
            f"{text} is a generator: it has no format, and says itself whether it is directed, "
            "as in rmat:scale=10,directed=true."
        )
    return Loaded(graph, time.perf_counter() - started)


def read_decided(
    text: str, *, directed: bool | None = None, format: str | None = None, verify: bool = False
) -> Loaded:
    """As `read_graph`, where a file that leaves its direction open needs an option to say it."""
    from evener.graph.files import UnknownDirectionError

    try:
        return read_graph(text, directed=directed, format=format, verify=verify)
    except UnknownDirectionError:
        raise GraphError(
            f"{text} does not say whether the graph is directed; add --directed or --undirected."
        ) from None


def format_name(text: str, format: str | None) -> str:
    """The name of the format in which a GRAPH was read.

    Examples
    --------
    >>> from evener.cli.graphs import format_name
    >>> format_name("roads.gr.gz", None), format_name("rmat:scale=10", None)
    ('dimacs', 'generator')
    """
    from evener.graph import files
    from evener.graph.files.source import Source

    if is_spec(text):
        return "generator"
    path = Path(text).expanduser()
    return files.format_of(path, format) or files.sniff(Source(path))


def is_spec(text: str) -> bool:
    """Whether GRAPH names a generator; a file of that name goes first.

    Examples
    --------
    >>> from evener.cli.graphs import is_spec
    >>> is_spec("rmat:scale=10"), is_spec("roads.gr"), is_spec("data/rmat:scale=10")
    (True, False, False)
    """
    from evener.graph.generate import KINDS

    if not _SPEC.fullmatch(text) or os.path.lexists(text):
        return False
    return ":" in text or text in KINDS


def check_output(text: str, format: str | None) -> None:
    """Refuse an output that cannot be written, before any work is done for it.

    Examples
    --------
    >>> from evener.cli.graphs import check_output
    >>> check_output("kron", None)
    Traceback (most recent call last):
    evener.errors.GraphError: kron has no suffix that names a graph format; give one, or --to.
    """
    from evener.graph import files

    path = Path(text).expanduser()
    if files.format_of(path, format) is None:
        raise GraphError(f"{text} has no suffix that names a graph format; give one, or --to.")
    if not path.parent.is_dir():
        raise GraphError(f"{text} cannot be written: there is no folder {path.parent}.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GraphError(f"{text} cannot be written: the folder {path.parent} is read-only.")
