"""LDBC Graphalytics: ``name.v`` with vertex ids, ``name.e`` with edges, ``name.properties``.

The properties say whether the graph is directed; an undirected edge is listed once.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from evener.errors import GraphError
from evener.graph.csr import Graph
from evener.graph.files import edgelist
from evener.graph.files.columns import edge_frame, require_integer_labels
from evener.graph.files.finish import UnknownDirectionError, cast_weights
from evener.graph.files.note import Note
from evener.graph.files.source import COMPRESSIONS, MissingFileError, Source
from evener.graph.files.target import replacing
from evener.graph.files.text import Rules, line_of_row, parse_rows
from evener.graph.labels import Labels


def read(path: Path, directed: bool | None) -> Graph:
    """Read the files of a graph, given either of them or their common name."""
    base, _ = _base(path)
    vertices, edges = _find(base, ".v"), _find(base, ".e")
    said, note = _properties(base)
    if directed is None and said is None:
        raise UnknownDirectionError(
            f"{edges.path} does not say whether the graph is directed and there is no "
            f"{base.name}.properties; pass directed=True or directed=False."
        )
    undirected = not said if directed is None else not directed
    ids = parse_rows(vertices, Rules(1, edgelist.COMMENTS, extra=True)).src
    try:
        labels = Labels.of(ids)
    except GraphError as error:
        vertices.fail(str(error).rstrip("."))
    rules = edgelist.rules_of(edges)
    rows = parse_rows(edges, rules)
    src, dst = (_indices(edges, labels, column, rules) for column in (rows.src, rows.dst))
    weights = cast_weights(edges, rows, note)
    return Graph.from_edges(src, dst, weights, directed=not undirected, labels=labels)


def _indices(source: Source, labels: Labels, column: np.ndarray, rules: Rules) -> np.ndarray:
    try:
        return labels.index_of(column)
    except GraphError:
        unknown = ~np.isin(column, labels.array())
        row = int(np.argmax(unknown))
        line = line_of_row(source, rules, row)
        source.fail(f"vertex {column[row]} is not listed; expected one of the .v file", line)


def _base(path: Path) -> tuple[Path, str]:
    """The common name of the files, and the suffix of compression."""
    compression = path.suffix if path.suffix.lower() in COMPRESSIONS else ""
    plain = path.with_suffix("") if compression else path
    return (plain.with_suffix("") if plain.suffix.lower() in (".v", ".e") else plain), compression


def _find(base: Path, suffix: str) -> Source:
    for compression in ("", *COMPRESSIONS):
        candidate = base.with_name(base.name + suffix + compression)
        if candidate.is_file():
            return Source(candidate)
    raise MissingFileError(
        f"{base}{suffix} does not exist; a Graphalytics graph is a .v and an .e file."
    )


def _properties(base: Path) -> tuple[bool | None, Note | None]:
    """Whether the graph is directed and Evener's note, as far as the properties say."""
    path = base.with_name(base.name + ".properties")
    if not path.is_file() or path.stat().st_size == 0:
        return None, None
    source = Source(path)
    directed = None
    for position, line in source.lines():
        key, _, value = line.partition(b"=")
        if key.strip().endswith(b".directed"):
            said = value.strip().lower()
            if said not in (b"true", b"false"):
                source.fail("directed must be true or false", source.line_at(position))
            directed = said == b"true"
    return directed, Note.find(source, b"#")


def write(graph: Graph, path: Path) -> None:
    """Write all three files."""
    import polars as pl

    require_integer_labels(graph, "Graphalytics")
    base, compression = _base(path)
    name = f"graph.{base.name}"
    properties = [
        Note.about(graph).line(b"#").decode().rstrip(),
        f"{name}.vertex-file = {base.name}.v",
        f"{name}.edge-file = {base.name}.e",
        f"{name}.meta.vertices = {graph.num_vertices}",
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
        edge_frame(graph, once=True).write_csv(edge_file, include_header=False, separator=" ")
        # Comments keep a file from being empty, which would look like a failed copy.
        vertex_file.write(b"# vertices\n")
        edge_file.write(b"# edges\n")
        property_file.write("\n".join(properties).encode() + b"\n")
