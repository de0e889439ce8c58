"""``evener convert``: read a graph in one format and write it in another."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from evener.cli.graphs import (
    GRAPH_HELP,
    Loaded,
    add_read_options,
    check_output,
    read_options,
    read_with_direction,
)
from evener.cli.output import print_json
from evener.cli.parser import add_json, new_command
from evener.errors import GraphError
from evener.graph.files.source import STANDARD

OUT_HELP = "the file to write, whose suffix names the format, or - for standard output"


def add_command(commands: Any) -> None:
    """Add ``convert`` to the parser."""
    parser = new_command(
        commands, "convert", run, "read a graph and write it in another format",
        "  evener convert roads.gr roads.evg\n"
        "  evener convert web.txt.gz web.mtx --undirected\n"
        "  evener convert rmat:scale=10,seed=1 kron.el.zst\n"
        "  zcat routes.csv.gz | evener convert - - --src 2 --dst 4 --to tsv > routes.tsv",
    )  # fmt: skip
    parser.add_argument("graph", metavar="IN", help=GRAPH_HELP)
    parser.add_argument("out", metavar="OUT", help=OUT_HELP)
    add_read_options(parser, "--from")
    parser.add_argument("--to", metavar="F", help="format of OUT (default: by its suffix)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Load, save and report in one line."""
    check_output(arguments.out, arguments.to)
    options = read_options(arguments)
    loaded = read_with_direction(arguments.graph, **options, verify=not options["trusted"])
    write_graph(loaded, arguments.out, arguments.to, arguments.json, "loaded")


def write_graph(loaded: Loaded, path: str, format: str | None, as_json: bool, verb: str) -> None:
    """Save a graph, and report its size and the time taken."""
    graph = loaded.graph
    if path == STANDARD and as_json:
        raise GraphError("--json and the graph would both go to standard output; leave one out.")
    started = time.perf_counter()
    graph.save(path, format=format)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {
                "path": path,
                "num_vertices": graph.num_vertices,
                "num_edges": graph.num_edges,
                "directed": graph.directed,
                f"{verb}_seconds": loaded.seconds,
                "saved_seconds": seconds,
            }
        )
        return
    kind = "directed" if graph.directed else "undirected"
    place = "standard output" if path == STANDARD else path
    print(
        f"{place}: {graph.num_vertices:,} vertices, {graph.num_edges:,} arcs, {kind}; "
        f"{verb} in {loaded.seconds:.2f} s, saved in {seconds:.2f} s",
        file=sys.stderr if path == STANDARD else sys.stdout,
    )
