"""From the rows of a file to a graph: labels, direction and weights as the file means them."""

from __future__ import annotations

import numpy as np

from evener.errors import GraphFormatError
from evener.graph.arguments import as_weights, extent
from evener.graph.build import build_csr
from evener.graph.csr import Graph
from evener.graph.files.note import Note
from evener.graph.files.source import Source
from evener.graph.files.text import Rows, Rules, line_of_row
from evener.graph.labels import Labels
from evener.graph.relabel import relabel_any


class UnknownDirectionError(GraphFormatError):
    """A file does not say whether its graph is directed, and the caller did not either."""


def graph_of_ids(
    source: Source, rows: Rows, directed: bool | None, note: Note | None, rules: Rules | None = None
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
        src, dst = shifted(source, rows, note.num_vertices, note.first, rules)
        labels = Labels(note.num_vertices, start=note.first)
    csr = build_csr(src, dst, None if weights is None else as_weights(weights), labels.size)
    return directed_as(source, Graph(*csr, labels=labels), directed, note)


def graph_of_numbers(
    source: Source,
    rows: Rows,
    num_vertices: int,
    directed: bool | None,
    note: Note | None,
    *,
    rules: Rules | None = None,
    symmetric: bool = False,
) -> Graph:
    """A graph from ids ``1..num_vertices``, as formats have them that announce their size.

    ``symmetric`` rows are edges listed once.
    """
    src, dst = shifted(source, rows, num_vertices, 1, rules)
    labels = Labels(num_vertices, start=1 if note is None else note.first)
    weights = cast_weights(source, rows, note)
    csr = build_csr(src, dst, weights, num_vertices, symmetric=symmetric)
    if symmetric:
        return Graph(*csr, directed=directed is True, labels=labels)
    return directed_as(source, Graph(*csr, labels=labels), directed, note)


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
    with np.errstate(over="ignore"):
        cast = weights.astype(note.weights)
    if note.weights.kind == "i" and (cast != weights).any():
        source.fail(f"the note of Evener says weights are {note.weights}, but one does not fit")
    return cast


def directed_as(
    source: Source, graph: Graph, directed: bool | None, note: Note | None = None
) -> Graph:
    """The directed ``graph`` of the arcs a file lists, as its note or the caller wants it."""
    if note is not None and not note.directed:
        return mirrored(source, graph, undirected=directed is not True)
    return graph.symmetrize() if directed is False else graph


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
