"""DIMACS shortest-path files (``.gr``): ``p sp n m``, then ``a source target weight``, from 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evener.graph.csr import Graph
from evener.graph.files.atomic_file import replacing
from evener.graph.files.columns import edge_frame
from evener.graph.files.finish import graph_of_numbers
from evener.graph.files.note import Note
from evener.graph.files.numbered import header_counts, warn_about_labels
from evener.graph.files.request import Request
from evener.graph.files.source import Source, show
from evener.graph.files.text import Rules, parse_rows

_COMMENTS = (ord("c"), ord("c"))


def read(source: Source, request: Request) -> Graph:
    """Read a DIMACS file."""
    note = Note.find(source, b"c")
    position, num_vertices, num_arcs = _problem(source)
    rules = Rules(3, _COMMENTS, tag=ord("a"), skip=np.uint64(position))
    rows = parse_rows(source, rules)
    if len(rows.src) != num_arcs:
        source.fail(f"declares {num_arcs} arcs but lists {len(rows.src)}")
    if note is not None and note.weights is None:
        rows = rows._replace(weights=None)
    return graph_of_numbers(source, rows, num_vertices, request, note, rules=rules)


def _problem(source: Source) -> tuple[int, int, int]:
    for position, line in source.data_lines(b"c"):
        fields = line.split()
        number = source.line_at(position)
        if fields[0] != b"p" or len(fields) != 4:
            source.fail(f"expected 'p sp vertices arcs', found {show(line)}", number)
        n, m = header_counts(source, fields[2:], number)
        source.require_vertices(n)
        return position, n, m
    source.fail("has no line 'p sp vertices arcs'")


def write(graph: Graph, path: Path) -> None:
    """Write all arcs; a graph without weights gets ones, which the note tells readers to drop."""
    import polars as pl

    warn_about_labels(graph, path)
    frame = edge_frame(graph, by_index=True)
    if "weight" not in frame.columns:
        frame = frame.with_columns(weight=pl.Series(np.ones(graph.num_edges, np.int8)))
    with replacing(path) as file:
        file.write(Note.of(graph).line(b"c"))
        file.write(f"p sp {graph.num_vertices} {graph.num_edges}\n".encode())
        frame.insert_column(0, pl.lit("a").alias("tag")).write_csv(
            file, include_header=False, separator=" "
        )
