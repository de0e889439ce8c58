"""GML, by NetworkX: labels are the labels, or ids where a file has none."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from evener.graph.csr import Graph
from evener.graph.files.by_networkx import read_by_networkx, write_by_networkx
from evener.graph.files.request import Request
from evener.graph.files.source import Source


def read(source: Source, request: Request) -> Graph:
    """Read a GML file."""
    return read_by_networkx(source, request, "GML", _read)


def _read(networkx: ModuleType, file: Any) -> Any:
    try:
        return networkx.read_gml(file)
    except networkx.NetworkXError as error:
        if "label" not in str(error):
            raise
        file.seek(0)  # nodes without labels, or two with the same
        return networkx.read_gml(file, label="id")


def write(graph: Graph, path: Path) -> None:
    """Write a GML file."""
    write_by_networkx(graph, path, "GML", lambda nx, made, file: nx.write_gml(made, file))
