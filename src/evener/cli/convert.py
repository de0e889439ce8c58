"""``evener convert``: read a graph in one format and write it in another."""

from __future__ import annotations

import argparse
import time
from typing import Any

from evener.cli.graphs import GRAPH_HELP, Loaded, check_output, read_decided
from evener.cli.output import print_json
from evener.cli.parser import add_direction, add_json, new_command


def add_command(commands: Any) -> None:
    """Add ``convert`` to the parser."""
    parser = new_command(
        commands, "convert", run, "read a graph and write it in another format",
        "  evener convert roads.gr roads.evg\n"
        "  evener convert web.txt.gz web.mtx --undirected\n"
        "  evener convert rmat:scale=10,seed=1 kron.el.zst",
    )  # fmt: skip
    parser.add_argument("graph", metavar="IN", help=GRAPH_HELP)
    parser.add_argument("out", metavar="OUT", help="the file to write; its suffix says the format")
    add_direction(parser)
    parser.add_argument("--from", dest="format", metavar="F", help="format of IN, if not by suffix")
    parser.add_argument("--to", metavar="F", help="format of OUT, if not by suffix")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Load, save and say so in one line."""
    check_output(arguments.out, arguments.to)
    loaded = read_decided(
        arguments.graph, directed=arguments.directed, format=arguments.format, verify=True
    )
    write_graph(loaded, arguments.out, arguments.to, arguments.json, "loaded")


def write_graph(loaded: Loaded, path: str, format: str | None, as_json: bool, verb: str) -> None:
    """Save a graph and report what was written and how long it took."""
    graph = loaded.graph
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
    print(
        f"{path}: {graph.num_vertices:,} vertices, {graph.num_edges:,} arcs, {kind}; "
        f"{verb} in {loaded.seconds:.2f} s, saved in {seconds:.2f} s"
    )
