"""GraphML, by NetworkX: ids are the labels, an attribute ``weight`` of the edges the weights."""

from __future__ import annotations

from pathlib import Path

from evener.graph.csr import Graph
from evener.graph.files.by_networkx import read_by_networkx, write_by_networkx
from evener.graph.files.request import Request
from evener.graph.files.source import Source


def read(source: Source, request: Request) -> Graph:
    """Read a GraphML file."""
    return read_by_networkx(source, request, "GraphML", lambda nx, file: nx.read_graphml(file))


def write(graph: Graph, path: Path) -> None:
    """Write a GraphML file."""
    write_by_networkx(graph, path, "GraphML", lambda nx, made, file: nx.write_graphml(made, file))
