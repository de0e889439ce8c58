"""GraphML, by NetworkX: node ids become labels, the edge attribute ``weight`` the weights."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from evener.graph.csr import Graph
from evener.graph.files.by_networkx import parse_float, read_by_networkx, write_by_networkx
from evener.graph.files.request import Request
from evener.graph.files.source import Source

_ROOT = b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'


def read(source: Source, request: Request) -> Graph:
    """Read a GraphML file."""
    return read_by_networkx(source, request, "GraphML", _read)


def _read(networkx: ModuleType, file: Any) -> Any:
    """Like `read_graphml`, but weights keep digits that a float would lose."""
    from networkx.readwrite.graphml import GraphMLReader

    class Reader(GraphMLReader):
        def construct_types(self) -> None:
            super().construct_types()
            self.python_type.update(float=parse_float, double=parse_float)

    text = file.read().replace(b"<graphml>", _ROOT)  # as `read_graphml` does
    graphs = list(Reader()(string=text))
    if not graphs:
        raise networkx.NetworkXError("file not successfully read as graphml")
    return graphs[0]


def write(graph: Graph, path: Path) -> None:
    """Write a GraphML file."""
    write_by_networkx(graph, path, "GraphML", lambda nx, G, file: nx.write_graphml(G, file))
