"""LDBC Graphalytics: ``name.v`` with vertex ids, ``name.e`` with edges, ``name.properties``.

The properties say whether the graph is directed; an undirected edge is listed once.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evener.errors import GraphError
from evener.graph.csr import Graph
from evener.graph.files.atomic_file import replacing
from evener.graph.files.columns import edge_frame, require_integer_labels
from evener.graph.files.edgelist import number_rules
from evener.graph.files.finish import UnknownDirectionError, cast_weights, widen_for_sums
from evener.graph.files.note import Note
from evener.graph.files.numbered import header_counts
from evener.graph.files.request import Request
from evener.graph.files.source import COMPRESSIONS, MissingFileError, Source
from evener.graph.files.table import COMMENTS
from evener.graph.files.text import Rules, line_of_row, parse_rows
from evener.graph.labels import Labels


class _Properties(NamedTuple):
    """The properties file: direction, row counts of the other files, Evener's note."""

    directed: bool | None = None
    vertices: int | None = None
    edges: int | None = None
    note: Note | None = None


def read(path: Path, request: Request, max_bytes: int | None = None) -> Graph:
    """Read a graph, given either of its files or their common name."""
    base, _ = _base(path)
    vertices, edges = _find(base, ".v", max_bytes), _find(base, ".e", max_bytes)
    properties = _read_properties(base)
    note, directed = properties.note, request.directed
    if directed is None and properties.directed is None:
        raise UnknownDirectionError(
            f"{edges.path} does not say whether the graph is directed and there is no "
            f"{base.name}.properties; pass directed=True or directed=False."
        )
    undirected = not properties.directed if directed is None else not directed
    ids = parse_rows(vertices, Rules(1, COMMENTS, extra=True)).src
    try:
        labels = Labels.of(ids)
    except GraphError as error:
        vertices.fail(str(error).rstrip("."))
    rules = number_rules(edges, request)
    rows = parse_rows(edges, rules)
    _check_counts(base, properties, (vertices, len(ids)), (edges, len(rows.src)))
    src, dst = (_indices(edges, labels, column, rules) for column in (rows.src, rows.dst))
    weights = widen_for_sums(cast_weights(edges, rows, note), request)
    return Graph.from_edges(
        src, dst, weights,
        directed=not undirected, duplicates=request.duplicates, labels=labels,
    )  # fmt: skip


def _check_counts(
    base: Path, properties: _Properties, vertices: tuple[Source, int], edges: tuple[Source, int]
) -> None:
    """Refuse files of different graphs, which an interrupted save may leave behind."""
    for (source, count), expected in ((vertices, properties.vertices), (edges, properties.edges)):
        if expected not in (None, count):
            source.fail(f"has {count} rows, but {base.name}.properties declares {expected}")


def _indices(source: Source, labels: Labels, column: np.ndarray, rules: Rules) -> np.ndarray:
    try:
        return labels.index_of(column)
    except GraphError:
        unknown = ~np.isin(column, labels.array())
        row = int(np.argmax(unknown))
        line = line_of_row(source, rules, row)
        source.fail(f"vertex {column[row]} is not listed; expected a vertex of the .v file", line)


def _base(path: Path) -> tuple[Path, str]:
    """The common name of the files, and the compression suffix."""
    compression = path.suffix if path.suffix.lower() in COMPRESSIONS else ""
    plain = path.with_suffix("") if compression else path
    return (plain.with_suffix("") if plain.suffix.lower() in (".v", ".e") else plain), compression


def _find(base: Path, suffix: str, max_bytes: int | None) -> Source:
    for compression in ("", *COMPRESSIONS):
        candidate = base.with_name(base.name + suffix + compression)
        if candidate.exists():
            return Source(candidate, max_bytes)
    raise MissingFileError(
        f"{base}{suffix} does not exist; a Graphalytics graph is a .v and an .e file."
    )


def _read_properties(base: Path) -> _Properties:
    path = base.with_name(base.name + ".properties")
    if not path.is_file() or path.stat().st_size == 0:
        return _Properties()
    source = Source(path)
    properties = _Properties(note=Note.find(source, b"#"))
    for position, line in source.data_lines():
        key, _, value = (part.strip() for part in line.partition(b"="))
        if key.endswith(b".directed"):
            if value.lower() not in (b"true", b"false"):
                source.fail("directed must be true or false", source.line_at(position))
            properties = properties._replace(directed=value.lower() == b"true")
        elif key.endswith((b".meta.vertices", b".meta.edges")):
            (count,) = header_counts(source, [value], source.line_at(position))
            if key.endswith(b"edges"):
                properties = properties._replace(edges=count)
            else:
                properties = properties._replace(vertices=count)
    return properties


def write(graph: Graph, path: Path) -> None:
    """Write all three files."""
    import polars as pl

    require_integer_labels(graph, "Graphalytics")
    base, compression = _base(path)
    rows = edge_frame(graph, once=True)
    name = f"graph.{base.name}"
    properties = [
        Note.of(graph).line(b"#").decode().rstrip(),
        f"{name}.vertex-file = {base.name}.v",
        f"{name}.edge-file = {base.name}.e",
        f"{name}.meta.vertices = {graph.num_vertices}",
        f"{name}.meta.edges = {len(rows)}",
        f"{name}.directed = {'true' if graph.directed else 'false'}",
    ]
    if graph._weights is not None:
        kind = "integer" if graph._weights.dtype.kind == "i" else "real"
        properties.append(f"{name}.edge-properties.names = weight")
        properties.append(f"{name}.edge-properties.types = {kind}")
    with contextlib.ExitStack() as files:
        vertex_file, edge_file, property_file = (
            files.enter_context(replacing(base.with_name(base.name + suffix)))
            for suffix in (f".v{compression}", f".e{compression}", ".properties")
        )
        vertices = pl.DataFrame({"id": graph._labels.array()})
        vertices.write_csv(vertex_file, include_header=False)
        rows.write_csv(edge_file, include_header=False, separator=" ")
        # A comment at the end: an empty file would look like a failed copy.
        vertex_file.write(b"# vertices\n")
        edge_file.write(b"# edges\n")
        property_file.write("\n".join(properties).encode() + b"\n")
