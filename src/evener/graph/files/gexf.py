"""GEXF, by NetworkX: node ids become labels, edge weights become weights."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from evener.graph.csr import Graph
from evener.graph.files.by_networkx import (
    parse_float,
    parse_number,
    read_by_networkx,
    write_by_networkx,
)
from evener.graph.files.request import Request
from evener.graph.files.source import Source


def read(source: Source, request: Request) -> Graph:
    """Read a GEXF file."""
    return read_by_networkx(source, request, "GEXF", _read)


def _read(networkx: ModuleType, file: Any) -> Any:
    """Like `read_gexf`, but weights keep digits that a float would lose."""
    from networkx.readwrite.gexf import GEXFReader

    class Reader(GEXFReader):
        def construct_types(self) -> None:
            super().construct_types()
            self.python_type.update(float=parse_float, double=parse_float)

        def decode_attr_elements(self, gexf_keys: Any, obj_xml: Any) -> Any:
            found = super().decode_attr_elements(gexf_keys, obj_xml)
            if obj_xml.tag.endswith("edge") and "weight" in obj_xml.attrib:
                # Removed here because the caller would convert it to a float.
                found["weight"] = parse_number(obj_xml.attrib.pop("weight"))
            return found

    return Reader()(file)


def write(graph: Graph, path: Path) -> None:
    """Write a GEXF file."""
    write_by_networkx(graph, path, "GEXF", lambda nx, G, file: nx.write_gexf(G, file))
