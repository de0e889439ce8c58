"""GML, by NetworkX: node labels become labels, or ids if a file has no labels."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

from evener.graph.csr import Graph
from evener.graph.files.by_networkx import read_by_networkx, write_by_networkx
from evener.graph.files.request import Request
from evener.graph.files.source import Source

_WHOLE = re.compile(r"[+-]?[0-9]+")


def read(source: Source, request: Request) -> Graph:
    """Read a GML file."""
    return read_by_networkx(source, request, "GML", _read)


def _read(networkx: ModuleType, file: Any) -> Any:
    try:
        found = networkx.read_gml(file, destringizer=_wrapped)
    except networkx.NetworkXError as error:
        if "label" not in str(error):
            raise
        file.seek(0)  # nodes without labels, or with duplicate ones
        found = networkx.read_gml(file, label="id", destringizer=_wrapped)
    for *_, data in found.edges(data=True):
        for name, value in data.items():
            if isinstance(value, tuple):
                # GML writes integers of more than 32 bits as strings.
                data[name] = int(value[0]) if _WHOLE.fullmatch(value[0]) else value[0]
    return networkx.relabel_nodes(
        found, {node: node[0] for node in found if isinstance(node, tuple)}
    )


def _wrapped(text: str) -> tuple[str]:
    """Wrap a string so that NetworkX keeps it: it would turn the name ``[]`` into a list."""
    return (text,)


def write(graph: Graph, path: Path) -> None:
    """Write a GML file."""
    write_by_networkx(graph, path, "GML", lambda nx, G, file: nx.write_gml(G, file))
