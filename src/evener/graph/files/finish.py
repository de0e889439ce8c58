"""From the rows of a file to a graph: labels, direction and weights as the file means them."""

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
    """A file does not say whether its graph is directed, and the caller did not either."""


def graph_of_ids(
    source: Source, rows: Rows, request: Request, note: Note | None, rules: Rules | None = None
) -> Graph:
    """A graph from ids that are labels: every id that occurs is a vertex, unless a note says more.

    ``rules``, here and below, are those the rows were read by; errors then tell the line.
    """
    weights = cast_weights(source, rows, note)
    if note is None or note.num_vertices is None:
        src, dst, labels = relabel_any(rows.src, rows.dst)
        first = labels.take(np.array([0]))[0] if labels.size else 0  # the smallest id
        if labels.kind != "objects" and first < 0:
            source.fail(f"has a vertex id {first}; ids are whole numbers from 0")
    elif not isinstance(rows.src, np.ndarray):
        source.fail("has names for ids, but the note of Evener says they are numbers")
    else:
        source.require_vertices(note.num_vertices)
        src, dst = shifted(source, rows, note.num_vertices, note.first, rules)
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
    """A graph from ids ``1..num_vertices``, as formats have them that announce their size.

    ``symmetric`` rows are edges listed once.
    """
    source.require_vertices(num_vertices)
    src, dst = shifted(source, rows, num_vertices, 1, rules)
    labels = Labels(num_vertices, start=1 if note is None else note.first)
    weights = cast_weights(source, rows, note)
    if not symmetric:
        return graph_of_arcs(source, (src, dst, weights), labels, request, note, warn_user=False)
    csr = build_csr(
        src, dst, summable(weights, request), num_vertices,
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
    """The arcs that a file lists as a graph, directed or not as its note or the caller wants it.

    ``warn_user`` warns of what may not be intended, unless there is a note.
    """
    src, dst, weights = arcs
    if note is not None and not note.directed:
        listed = Graph(*build_csr(src, dst, weights, labels.size), labels=labels)
        graph = mirrored(source, listed, undirected=request.directed is not True)
        return combined(graph, request)
    weights = summable(weights, request)
    if request.directed is False:
        # Of the rows of one edge the lighter counts, unless the caller says which.
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


def summable(weights: np.ndarray | None, request: Request) -> np.ndarray | None:
    """Weights in a dtype that holds what the caller wants of parallel arcs."""
    if weights is not None and request.duplicates == "sum" and weights.dtype == np.int32:
        return weights.astype(np.int64)
    return weights


def combined(graph: Graph, request: Request) -> Graph:
    """A finished graph with its parallel arcs combined as the caller wants, and its direction."""
    if request.directed is True and not graph.directed:
        graph = Graph(
            graph._indptr, graph._indices, graph._weights, directed=True, labels=graph._labels
        )
    if request.duplicates != "keep":
        src, dst, weights = graph._sources(), graph._indices, summable(graph._weights, request)
        if not graph.directed:  # each edge once: combined apart, its arcs might differ
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


def shifted(
    source: Source, rows: Rows, num_vertices: int, first: int, rules: Rules | None
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of ids that count from ``first``, after checking that they are in range."""
    last = first + num_vertices - 1
    for column in (rows.src, rows.dst):
        if len(column):
            low, high = extent(column)
            if low < first or high > last:
                row = int(np.argmax((column < first) | (column > last)))
                line = None if rules is None else line_of_row(source, rules, row)
                allowed = f"vertices {first}..{last}" if num_vertices else "no vertices"
                source.fail(
                    f"vertex {column[row]} is out of range; the file announces {allowed}", line
                )
    if first == 0:
        return rows.src, rows.dst
    return rows.src - first, rows.dst - first


def cast_weights(source: Source, rows: Rows, note: Note | None) -> np.ndarray | None:
    """Weights in the dtype that a note asks for."""
    weights = rows.weights
    if weights is None and len(rows.src) == 0 and note is not None and note.weights is not None:
        return np.empty(0, note.weights)  # no rows, so no column of weights to see
    if weights is None or note is None or note.weights is None or note.weights == weights.dtype:
        return weights
    if weights.dtype.kind == "f" and note.weights.kind == "i":
        source.fail(f"the note of Evener says weights are {note.weights}, but they are decimals")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = weights.astype(note.weights)
        # Floats may be rounded to shorter ones, but integers keep their digits.
        is_exact = weights.dtype.kind == "f" or (cast.astype(weights.dtype) == weights).all()
    if not is_exact:
        source.fail(f"the note of Evener says weights are {note.weights}, but one does not fit")
    return cast


def mirrored(source: Source, graph: Graph, *, undirected: bool = True) -> Graph:
    """A graph whose file lists every edge in both directions, after checking that it does."""
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
        source.fail(f"edge {u} {v} is not listed alike in both directions")
    if not undirected:
        return graph
    return Graph(
        graph._indptr, graph._indices, graph._weights, directed=False, labels=graph._labels
    )
