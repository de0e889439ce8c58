"""Turn the rows of a file into a graph: labels, direction and weights."""

from __future__ import annotations

import numpy as np

from evener.errors import GraphFormatError
from evener.graph.arguments import as_weights, extent
from evener.graph.build import build_csr
from evener.graph.csr import Graph
from evener.graph.files.note import Note
from evener.graph.files.request import Request
from evener.graph.files.source import Source
from evener.graph.files.text import Rows, Rules, line_of_row
from evener.graph.labels import Labels
from evener.graph.load_warnings import warn_about_direction, warn_about_parallel_arcs
from evener.graph.relabel import relabel_any


class UnknownDirectionError(GraphFormatError):
    """Neither the file nor the caller says whether the graph is directed."""


def graph_of_ids(
    source: Source, rows: Rows, request: Request, note: Note | None, rules: Rules | None = None
) -> Graph:
    """Make a graph from ids that become labels; a note may name more vertices than occur.

    Here and below, ``rules`` are those by which the rows were read; with them errors name the line.
    """
    weights = cast_weights(source, rows, note)
    if note is None or note.num_vertices is None:
        src, dst, labels = relabel_any(rows.src, rows.dst)
        first = labels.take(np.array([0]))[0] if labels.size else 0  # the smallest id
        if labels.kind != "objects" and first < 0:
            source.fail(f"has a vertex id {first}; ids must be whole numbers from 0")
    elif not isinstance(rows.src, np.ndarray):
        source.fail("has names as ids, but Evener's note says they are numbers")
    else:
        source.require_vertices(note.num_vertices)
        src, dst = indices_from(source, rows, note.num_vertices, note.first, rules)
        labels = Labels(note.num_vertices, start=note.first)
    weights = None if weights is None else as_weights(weights)
    return graph_of_arcs(source, (src, dst, weights), labels, request, note)


def graph_of_numbers(
    source: Source,
    rows: Rows,
    num_vertices: int,
    request: Request,
    note: Note | None,
    *,
    rules: Rules | None = None,
    symmetric: bool = False,
) -> Graph:
    """Make a graph from ids ``1..num_vertices``, for formats that declare their size.

    ``symmetric`` means that each row is an undirected edge, listed once.
    """
    source.require_vertices(num_vertices)
    src, dst = indices_from(source, rows, num_vertices, 1, rules)
    labels = Labels(num_vertices, start=1 if note is None else note.first)
    weights = cast_weights(source, rows, note)
    if not symmetric:
        return graph_of_arcs(source, (src, dst, weights), labels, request, note, warn_user=False)
    csr = build_csr(
        src, dst, widen_for_sums(weights, request), num_vertices,
        symmetric=True, duplicates=request.duplicates,
    )  # fmt: skip
    return Graph(*csr, directed=request.directed is True, labels=labels)


def graph_of_arcs(
    source: Source,
    arcs: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    labels: Labels,
    request: Request,
    note: Note | None = None,
    *,
    warn_user: bool = True,
) -> Graph:
    """Make a graph from listed arcs, directed or not as the note or the caller says.

    ``warn_user`` allows warnings about what may not be intended, unless there is a note.
    """
    src, dst, weights = arcs
    if note is not None and not note.directed:
        listed = Graph(*build_csr(src, dst, weights, labels.size), labels=labels)
        graph = require_mirrored(source, listed, undirected=request.directed is not True)
        return apply_request(graph, request)
    weights = widen_for_sums(weights, request)
    if request.directed is False:
        # An edge gets the smallest weight of its rows, unless the caller chooses otherwise.
        how = "min" if request.duplicates == "keep" else request.duplicates
        csr = build_csr(src, dst, weights, labels.size, symmetric=True, duplicates=how)
        return Graph(*csr, directed=False, labels=labels)
    csr = build_csr(src, dst, weights, labels.size, duplicates=request.duplicates)
    graph = Graph(*csr, labels=labels)
    if warn_user and note is None:
        if request.directed is None:
            says = any(b"undirected" in line.lower() for line in _comments(source))
            warn_about_direction(graph, source.name, says_undirected=says)
        if request.duplicates == "keep":
            warn_about_parallel_arcs(graph, source.name)
    return graph


def _comments(source: Source) -> list[bytes]:
    return [line for line in source.head() if line[:1] in (b"#", b"%")]


def widen_for_sums(weights: np.ndarray | None, request: Request) -> np.ndarray | None:
    """Widen integer weights if the caller wants the sum of parallel arcs."""
    if weights is not None and request.duplicates == "sum" and weights.dtype == np.int32:
        return weights.astype(np.int64)
    return weights


def apply_request(graph: Graph, request: Request) -> Graph:
    """Combine parallel arcs and set the direction of a finished graph as the caller requests."""
    if request.directed is True and not graph.directed:
        graph = Graph(
            graph._indptr, graph._indices, graph._weights, directed=True, labels=graph._labels
        )
    if request.duplicates != "keep":
        src, dst = graph._sources(), graph._indices
        weights = widen_for_sums(graph._weights, request)
        if not graph.directed:  # each edge once: its two arcs must get the same weight
            once = src <= dst
            src, dst = src[once], dst[once]
            weights = None if weights is None else weights[once]
        csr = build_csr(
            src, dst, weights, graph.num_vertices,
            symmetric=not graph.directed, duplicates=request.duplicates,
        )  # fmt: skip
        graph = Graph(*csr, directed=graph.directed, labels=graph._labels)
    if request.directed is False and graph.directed:
        how = "min" if request.duplicates == "keep" else request.duplicates
        return graph.symmetrize(duplicates=how)
    return graph


def indices_from(
    source: Source, rows: Rows, num_vertices: int, first: int, rules: Rules | None
) -> tuple[np.ndarray, np.ndarray]:
    """Convert ids that count from ``first`` to indices, after checking their range."""
    last = first + num_vertices - 1
    for column in (rows.src, rows.dst):
        if len(column):
            low, high = extent(column)
            if low < first or high > last:
                row = int(np.argmax((column < first) | (column > last)))
                line = None if rules is None else line_of_row(source, rules, row)
                allowed = f"vertices {first}..{last}" if num_vertices else "no vertices"
                source.fail(
                    f"vertex {column[row]} is out of range; the file declares {allowed}", line
                )
    if first == 0:
        return rows.src, rows.dst
    return rows.src - first, rows.dst - first


def cast_weights(source: Source, rows: Rows, note: Note | None) -> np.ndarray | None:
    """Convert weights to the dtype in the note."""
    weights = rows.weights
    if weights is None and len(rows.src) == 0 and note is not None and note.weights is not None:
        return np.empty(0, note.weights)  # without rows there is no column of weights
    if weights is None or note is None or note.weights is None or note.weights == weights.dtype:
        return weights
    if weights.dtype.kind == "f" and note.weights.kind == "i":
        source.fail(f"has decimals as weights, but Evener's note says they are {note.weights}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = weights.astype(note.weights)
        # Floats may be rounded to narrower ones, but integers must keep their digits.
        is_exact = weights.dtype.kind == "f" or (cast.astype(weights.dtype) == weights).all()
    if not is_exact:
        source.fail(f"has a weight that does not fit {note.weights}, which Evener's note declares")
    return cast


def require_mirrored(source: Source, graph: Graph, *, undirected: bool = True) -> Graph:
    """Check that a file lists every edge in both directions, and return its graph."""
    turned = graph.transpose()
    if not np.array_equal(graph._indptr, turned._indptr):
        row = int(np.flatnonzero(graph._indptr != turned._indptr)[0]) - 1
        source.fail(
            f"vertex {graph._labels.take(np.array([row]))[0]} lists neighbours that do not list "
            "it; expected every edge in both directions"
        )
    differs = graph._indices != turned._indices
    if graph._weights is not None and turned._weights is not None:
        differs |= graph._weights != turned._weights
    if differs.any():
        arc = int(np.argmax(differs))
        u, v = graph._labels.take(np.array([graph._sources()[arc], graph._indices[arc]]))
        source.fail(f"lists edge {u} {v} differently in its two directions")
    if not undirected:
        return graph
    return Graph(
        graph._indptr, graph._indices, graph._weights, directed=False, labels=graph._labels
    )
