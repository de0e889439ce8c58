"""Matrix Market files: a square sparse matrix is a graph; rows and columns count from 1.

A symmetric matrix is an undirected graph, any other a directed one; a pattern has no weights.
SciPy's reader is not used because version 1.17 crashes the process on damaged files.
"""

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
from evener.graph.files.text import Rows, Rules, parse_rows

_FIELDS = (b"pattern", b"real", b"double", b"integer", b"unsigned-integer")
_SYMMETRIES = (b"general", b"symmetric", b"skew-symmetric")
_COMMENTS = (ord("%"), ord("%"))


def read(source: Source, request: Request) -> Graph:
    """Read a Matrix Market file."""
    field, symmetry, size_at, num_vertices, num_entries = _check_header(source)
    note = _find_note(source)
    columns = 2 if field == b"pattern" else 3
    rules = Rules(columns, _COMMENTS, skip=np.uint64(size_at), real=field in (b"real", b"double"))
    rows = parse_rows(source, rules)
    if len(rows.src) != num_entries:
        source.fail(f"declares {num_entries} entries but has {len(rows.src)}")
    if rows.weights is not None and rows.weights.dtype.kind == "f" and not rules.real:
        source.fail("declares integer entries but has decimals")
    if symmetry == b"skew-symmetric":
        rows = _with_negatives(rows)
    # The symmetry of the matrix already says what the note says about direction.
    note = None if note is None else note._replace(directed=True)
    return graph_of_numbers(
        source, rows, num_vertices, request, note, rules=rules, symmetric=symmetry == b"symmetric"
    )


def _with_negatives(rows: Rows) -> Rows:
    """Add the negated mirror images, which a skew-symmetric matrix omits."""
    off = rows.src != rows.dst
    assert rows.weights is not None
    return Rows(
        np.concatenate((rows.src, rows.dst[off])),
        np.concatenate((rows.dst, rows.src[off])),
        np.concatenate((rows.weights, -rows.weights[off])),
    )


def _check_header(source: Source) -> tuple[bytes, bytes, int, int, int]:
    """Returns field, symmetry, position of the size line, vertices and entries."""
    words = source.line_bytes(0).lower().split()
    if len(words) != 5 or words[0] != b"%%matrixmarket" or words[1] != b"matrix":
        source.fail("expected a header like '%%MatrixMarket matrix coordinate real general'", 1)
    layout, field, symmetry = words[2:]
    if layout != b"coordinate":
        source.fail(f"the matrix is {show(layout)}; a graph is a 'coordinate' matrix", 1)
    if field not in _FIELDS:
        source.fail(f"entries are {show(field)}; expected real, integer or pattern", 1)
    if symmetry not in _SYMMETRIES:
        source.fail(f"symmetry is {show(symmetry)}; expected general or symmetric", 1)
    if symmetry == b"skew-symmetric" and field == b"pattern":
        source.fail("a pattern cannot be skew-symmetric", 1)
    for position, line in source.data_lines(b"%"):
        return field, symmetry, position, *_check_size(source, position, line)
    source.fail("has no line with the size of the matrix")


def _check_size(source: Source, position: int, line: bytes) -> tuple[int, int]:
    number = source.line_at(position)
    fields = line.split()
    if len(fields) != 3:
        source.fail(f"expected 'rows columns entries', found {show(line)}", number)
    rows, columns, entries = header_counts(source, fields, number)
    if rows != columns:
        source.fail(f"the matrix is {rows} × {columns}; expected a square matrix", number)
    source.require_vertices(rows)
    return rows, entries


def _find_note(source: Source) -> Note | None:
    for number, line in enumerate(source.head(), start=1):
        if line.startswith(b"% evener: "):
            return Note.parse(line.split(b": ", 1)[1], source, number)
        if not line.startswith(b"%"):
            break
    return None


def write(graph: Graph, path: Path) -> None:
    """Write the adjacency matrix; an undirected graph as the lower half of a symmetric one."""
    warn_about_labels(graph, path)
    frame = edge_frame(graph, once=True, by_index=True)
    if not graph.directed:  # src <= dst here, but the lower half has the larger index first
        frame = frame.select(["dst", "src", *frame.columns[2:]])
    field = "pattern"
    if graph._weights is not None:
        field = "integer" if graph._weights.dtype.kind == "i" else "real"
    symmetry = "general" if graph.directed else "symmetric"
    with replacing(path) as file:
        file.write(f"%%MatrixMarket matrix coordinate {field} {symmetry}\n".encode())
        file.write(Note.of(graph).line(b"%"))
        file.write(f"{graph.num_vertices} {graph.num_vertices} {len(frame)}\n".encode())
        frame.write_csv(file, include_header=False, separator=" ")
