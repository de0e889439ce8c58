"""Matrix Market files, read and written by SciPy: a square matrix is a graph, from 1.

A symmetric matrix is an undirected graph, any other a directed one; a pattern has no weights.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from evener import progress
from evener.graph.csr import Graph, as_weights
from evener.graph.files.finish import cast_weights, directed_as, mirrored
from evener.graph.files.note import Note
from evener.graph.files.numbered import announced, warn_about_labels
from evener.graph.files.source import Source, show
from evener.graph.files.target import replacing
from evener.graph.labels import Labels

_FIELDS = (b"pattern", b"real", b"double", b"integer", b"unsigned-integer")
_SYMMETRIES = (b"general", b"symmetric", b"skew-symmetric")
_MIN_ENTRY_BYTES = 4  # "1 1\n"


def read(source: Source, directed: bool | None) -> Graph:
    """Read a Matrix Market file."""
    field, symmetry, num_vertices = _check_header(source)
    note = _find_note(source)
    matrix = _matrix(source)
    weights = None if field == b"pattern" else as_weights(matrix.data)
    if weights is not None and np.isnan(weights).any():
        source.fail("has a weight that is not a number (NaN)")
    graph = Graph.from_edges(
        matrix.row, matrix.col, cast_weights(source, weights, note), num_vertices=num_vertices,
        labels=Labels(num_vertices, start=1 if note is None else note.first),
    )  # fmt: skip
    if symmetry == b"symmetric":
        return mirrored(source, graph, undirected=directed is not True)
    return directed_as(source, graph, directed)


def _check_header(source: Source) -> tuple[bytes, bytes, int]:
    """Read the first lines ourselves: SciPy would allocate whatever a header announces."""
    lines = source.lines()
    _, banner = next(lines)
    words = banner.lower().split()
    if len(words) != 5 or words[0] != b"%%matrixmarket" or words[1] != b"matrix":
        source.fail("expected '%%MatrixMarket matrix coordinate real general' or the like", 1)
    layout, field, symmetry = words[2:]
    if layout != b"coordinate":
        source.fail(f"the matrix is {show(layout)}; a graph is a 'coordinate' matrix", 1)
    if field not in _FIELDS:
        source.fail(f"entries are {show(field)}; expected real, integer or pattern", 1)
    if symmetry not in _SYMMETRIES:
        source.fail(f"symmetry is {show(symmetry)}; expected general or symmetric", 1)
    for position, line in lines:
        if line.strip() and not line.startswith(b"%"):
            return field, symmetry, _check_size(source, position, line)
    source.fail("has no line with the size of the matrix")


def _check_size(source: Source, position: int, line: bytes) -> int:
    number = source.line_at(position)
    fields = line.split()
    if len(fields) != 3:
        source.fail(f"expected 'rows columns entries', found {show(line)}", number)
    rows, columns, entries = announced(source, fields, number)
    if rows != columns:
        source.fail(f"the matrix is {rows} × {columns}; a graph needs a square one", number)
    left = len(source.data) - position - len(line)
    if entries > left // _MIN_ENTRY_BYTES + 1:
        source.fail(f"{entries} entries are announced, more than the file has room for", number)
    if rows >= 1 << 31:
        source.fail(f"{rows} rows are more than SciPy's reader takes (2^31 - 1)", number)
    return rows


def _find_note(source: Source) -> Note | None:
    for number, (_, line) in enumerate(source.lines(4096), start=1):
        if line.startswith((b"% evener: ", b"%evener: ")):
            return Note.parse(line.split(b": ", 1)[1], source, number)
        if not line.startswith(b"%"):
            break
    return None


def _matrix(source: Source) -> Any:
    from scipy.io import mmread

    # SciPy's reader runs in C++ without reporting, so the bar only shows that it is at work.
    with progress.task(f"reading {source.path.name}"):
        try:
            return mmread(io.BytesIO(source.text()), spmatrix=False).tocoo()
        except (ValueError, OverflowError, TypeError, RuntimeError, OSError) as error:
            reason = str(error).strip().split("\n", 1)[0][:200]
            line, _, what = reason.partition(":")
            if line.startswith("Line ") and line[5:].isdigit():
                source.fail(f"{what.strip() or reason}; expected an entry of the matrix", int(line[5:]))
            source.fail(f"is not a Matrix Market file that SciPy can read ({reason})")


def write(graph: Graph, path: Path) -> None:
    """Write the adjacency matrix; an undirected graph as the lower half of a symmetric one."""
    from scipy.io import mmwrite
    from scipy.sparse import coo_array

    warn_about_labels(graph, path)
    pattern = graph._weights is None
    src, dst = graph._sources(), graph._indices
    data = np.ones(graph.num_edges, np.int8) if pattern else graph._weights
    if not graph.directed:
        kept = src >= dst
        src, dst, data = src[kept], dst[kept], data[kept]  # type: ignore[index]
    matrix = coo_array((data, (src, dst)), shape=(graph.num_vertices, graph.num_vertices))
    with replacing(path) as file:
        mmwrite(
            file, matrix, comment=Note.about(graph).line(b"").decode().strip(),
            field="pattern" if pattern else None,
            symmetry="general" if graph.directed else "symmetric",
        )  # fmt: skip
