"""``evener info``: the properties of a graph, and with ``--check`` whether it is valid."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from evener.cli.graphs import GRAPH_HELP, Loaded, add_read_options, read_graph, read_options
from evener.cli.output import print_fields, print_json
from evener.cli.parser import add_json, new_command
from evener.graph.csr import Graph

_DIRECTION_NOTE = (
    "the file does not say whether the graph is directed; this counts the arcs as listed "
    "(choose with --directed or --undirected)"
)


def add_command(commands: Any) -> None:
    """Add ``info`` to the parser."""
    parser = new_command(
        commands, "info", run, "show size, degrees, weights and labels of a graph",
        "  evener info roads.gr\n"
        "  evener info kron.evg --check\n"
        "  evener info rmat:scale=10,seed=1 --json",
    )  # fmt: skip
    parser.add_argument("graph", metavar="GRAPH", help=GRAPH_HELP)
    parser.add_argument(
        "--check", action="store_true", help="verify checksums, order and symmetry of all arcs"
    )
    add_read_options(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Load the graph and print its properties."""
    from evener.graph.files import UnknownDirectionError

    note = None
    options = read_options(arguments) | {"verify": arguments.check}
    try:
        loaded = read_graph(arguments.graph, **options)
    except UnknownDirectionError:
        options["request"] = options["request"]._replace(directed=True)
        loaded = read_graph(arguments.graph, **options)
        note = _DIRECTION_NOTE
    facts = {
        "path": arguments.graph,
        "format": loaded.format,
        **describe(loaded, check=arguments.check),
        **({"note": note} if note else {}),
    }
    if loaded.format == "evg" and not arguments.trusted:
        facts["checked"] = True  # opening it checks it unless an earlier opening did
    if arguments.json:
        print_json(facts)
    else:
        print_fields(_as_fields(facts))


def describe(loaded: Loaded, *, check: bool) -> dict[str, Any]:
    """The properties that ``evener info --json`` prints.

    Examples
    --------
    >>> from evener.cli.graphs import read_graph
    >>> from evener.cli.info import describe
    >>> describe(read_graph("star:num_vertices=4"), check=True)["degrees"]
    {'min': 1, 'mean': 1.5, 'max': 3}
    """
    from evener.graph import check as checks

    graph = loaded.graph
    checks.check(graph) if check else checks.check_rows(graph)
    low, mean, high = graph.degree_spread()
    return {
        "num_vertices": graph.num_vertices,
        "num_edges": graph.num_edges,
        "directed": graph.directed,
        "weights": _weights(graph),
        "labels": _labels(graph),
        "degrees": {"min": low, "mean": mean, "max": high},
        "self_loops": checks.count_self_loops(graph),
        "nbytes": graph.nbytes,
        "seconds": loaded.seconds,
        "checked": check,
    }


def _weights(graph: Graph) -> dict[str, Any] | None:
    weights = graph.weights
    if weights is None:
        return None
    low, high = (weights.min().item(), weights.max().item()) if len(weights) else (None, None)
    return {"dtype": str(weights.dtype), "min": low, "max": high}


def _labels(graph: Graph) -> dict[str, Any]:
    labels = graph._labels
    if labels.size == 0:
        return {"kind": labels.kind, "first": None, "last": None}
    ends = labels.take(np.array([0, labels.size - 1])).tolist()
    first, last = (end if isinstance(end, int | str) else str(end) for end in ends)
    return {"kind": labels.kind, "first": first, "last": last}


def _as_fields(facts: dict[str, Any]) -> dict[str, str]:
    from evener.device.limits import format_bytes

    degrees, weights, labels = facts["degrees"], facts["weights"], facts["labels"]
    fields = {
        "graph": facts["path"],
        "format": facts["format"],
        "vertices": f"{facts['num_vertices']:,}",
        "arcs": f"{facts['num_edges']:,}",
        "directed": "yes" if facts["directed"] else "no (each edge is stored as two arcs)",
        "weights": "none",
        "labels": f"{labels['first']} to {labels['last']}",
        "degrees": f"{degrees['min']} to {degrees['max']:,}, mean {degrees['mean']:.2f}",
        "self-loops": f"{facts['self_loops']:,}",
        "memory": format_bytes(facts["nbytes"]),
        "loaded in": f"{facts['seconds']:.2f} s",
        "checked": "yes, no fault found" if facts["checked"] else "no (use --check)",
    }
    if weights:
        span = "" if weights["min"] is None else f", {weights['min']:n} to {weights['max']:n}"
        fields["weights"] = weights["dtype"] + span
    if facts["num_vertices"] == 0:
        fields["labels"] = "none"
    elif labels["kind"] != "range":
        kind = "names" if labels["kind"] == "objects" else "numbers with gaps"
        fields["labels"] += f" ({kind}, in index order)"
    if "note" in facts:
        fields["note"] = facts["note"]
    return fields
