"""GEXF, by NetworkX: ids are the labels, the weights of the edges the weights."""

from __future__ import annotations

from pathlib import Path

from evener.graph.csr import Graph
from evener.graph.files.by_networkx import read_by_networkx, write_by_networkx
from evener.graph.files.request import Request
from evener.graph.files.source import Source


def read(source: Source, request: Request) -> Graph:
    """Read a GEXF file."""
    return read_by_networkx(source, request, "GEXF", lambda nx, file: nx.read_gexf(file))


def write(graph: Graph, path: Path) -> None:
    """Write a GEXF file."""
    write_by_networkx(graph, path, "GEXF", lambda nx, made, file: nx.write_gexf(made, file))
