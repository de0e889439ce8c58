"""The argument GRAPH: a path, ``-``, or a generator such as ``rmat:scale=18,seed=1``."""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from evener.cli.parser import add_direction
from evener.errors import GraphError
from evener.graph.csr import Graph
from evener.graph.files.request import Request, checked_request
from evener.graph.files.source import STANDARD

GRAPH_HELP = "a file, - for standard input, or a generator such as rmat:scale=10,seed=1"

_DEFAULTS = Request()
_SPEC = re.compile(r"[A-Za-z_]\w*(:[^/\\]*)?")


class Loaded(NamedTuple):
    """A graph, the time it took to load or generate, and its format."""

    graph: Graph
    seconds: float
    format: str = "generator"


def add_read_options(parser: argparse.ArgumentParser, format_flag: str = "--format") -> None:
    """Add the options for reading a file, which `read_options` collects."""
    add_direction(parser)
    parser.add_argument(
        format_flag, dest="format", metavar="F", help="format of the file (default: by its suffix)"
    )
    group = parser.add_argument_group("how a file is read")
    for name, what in (("src", "sources"), ("dst", "targets"), ("weight", "weights")):
        group.add_argument(
            f"--{name}", metavar="C", help=f"column of the {what}: its name, or its number from 0"
        )
    group.add_argument(
        "--no-weight", dest="weight", action="store_const", const=False, help="ignore weights"
    )
    group.add_argument(
        "--header", action=argparse.BooleanOptionalAction,
        help="whether the first line of a table names the columns",
    )  # fmt: skip
    group.add_argument(
        "--duplicates", metavar="HOW", default="keep",
        help="how parallel arcs are combined: keep (default), first, min, max or sum",
    )  # fmt: skip
    group.add_argument(
        "--max-bytes", metavar="N",
        help="what a file may expand to or declare, such as 4GiB (default: 100 times its size)",
    )  # fmt: skip
    group.add_argument(
        "--trusted", action="store_true", help="open an .evg folder without checking it"
    )


def read_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Collect the options of `add_read_options` as arguments of `read_graph`."""
    names = ("directed", "src", "dst", "weight", "header", "duplicates")
    return {
        "request": checked_request(**{name: getattr(arguments, name) for name in names}),
        "format": arguments.format,
        "max_bytes": arguments.max_bytes,
        "trusted": arguments.trusted,
    }


def read_graph(
    text: str,
    *,
    request: Request = _DEFAULTS,
    format: str | None = None,
    max_bytes: str | None = None,
    trusted: bool = False,
    verify: bool = False,
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
        graph, name = files.load_with_format(
            text, format, request, max_bytes, trusted=trusted, verify=verify
        )
        return Loaded(graph, time.perf_counter() - started, name)
    if request != _DEFAULTS or format is not None:
        raise GraphError(
            f"{text} is a generator, which has no format or columns; choose its direction as in "
            "rmat:scale=10,directed=true."
        )
    return Loaded(generate.from_spec(text), time.perf_counter() - started)


def read_with_direction(text: str, **options: Any) -> Loaded:
    """Like `read_graph`, but require an option if the file does not state its direction."""
    from evener.graph.files import UnknownDirectionError

    try:
        return read_graph(text, **options)
    except UnknownDirectionError:
        raise GraphError(
            f"{text} does not say whether the graph is directed; add --directed or --undirected."
        ) from None


def is_spec(text: str) -> bool:
    """Whether GRAPH names a generator; a file of that name takes precedence.

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
    """Refuse an output file that cannot be written, before any work is done.

    Examples
    --------
    >>> from evener.cli.graphs import check_output
    >>> check_output("kron", None)
    Traceback (most recent call last):
    evener.errors.GraphError: kron has no suffix that names a graph format; add one, or --to.
    """
    from evener.graph import files

    path = Path(text).expanduser()
    if text == STANDARD and format is None:
        raise GraphError("standard output has no suffix that names a graph format; add --to.")
    if files.format_of(path, format) is None:
        raise GraphError(f"{text} has no suffix that names a graph format; add one, or --to.")
    if text == STANDARD:
        return
    if not path.parent.is_dir():
        raise GraphError(f"{text} cannot be written: there is no folder {path.parent}.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GraphError(f"{text} cannot be written: the folder {path.parent} is read-only.")
