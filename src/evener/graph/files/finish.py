"""From the rows of a file to a graph: labels, direction and weights as the file means them."""

from __future__ import annotations

import numpy as np

from evener.errors import GraphFormatError
from evener.graph.csr import Graph
from evener.graph.files.note import Note
from evener.graph.files.source import Source
from evener.graph.files.text import Rows
from evener.graph.labels import Labels, extent, relabel_any


class UnknownDirectionError(GraphFormatError):
    """A file does not say whether its graph is directed, and the caller did not either."""


def graph_of_ids(source: Source, rows: Rows, directed: bool | None, note: Note | None) -> Graph:
    """A graph from ids that are labels: every id that occurs is a vertex, unless a note says more."""
    weights = cast_weights(source, rows.weights, note)
    if note is None or note.num_vertices is None:
        src, dst, labels = relabel_any(rows.src, rows.dst)
    else:
        src, dst = shifted(source, rows, note.num_vertices, note.first)
        labels = Labels(note.num_vertices, start=note.first)
    graph = Graph.from_edges(src, dst, weights, labels=labels)
    return directed_as(source, graph, directed, note)


def graph_of_numbers(
    source: Source, rows: Rows, num_vertices: int, directed: bool | None, note: Note | None
) -> Graph:
    """A graph from ids ``1..num_vertices``, as formats have them that announce their size."""
    src, dst = shifted(source, rows, num_vertices, 1)
    labels = Labels(num_vertices, start=1 if note is None else note.first)
    weights = cast_weights(source, rows.weights, note)
    graph = Graph.from_edges(src, dst, weights, num_vertices=num_vertices, labels=labels)
    return directed_as(source, graph, directed, note)


def shifted(
    source: Source, rows: Rows, num_vertices: int, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of ids that count from ``first``, after checking that they are in range."""
    for column in (rows.src, rows.dst):
        if len(column):
            low, high = extent(column)
            if low < first or high >= first + num_vertices:
                row = int(np.flatnonzero((column < first) | (column >= first + num_vertices))[0])
                expected = f"{first}..{first + num_vertices - 1}" if num_vertices else "no vertices"
                source.fail(
                    f"edge {row + 1} names vertex {column[row]}, but the file announces {expected}"
                )
    if first == 0:
        return rows.src, rows.dst
    return rows.src - first, rows.dst - first


def cast_weights(
    source: Source, weights: np.ndarray | None, note: Note | None
) -> np.ndarray | None:
    """Weights in the dtype that a note asks for."""
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
    return Graph(graph._indptr, graph._indices, graph._weights, directed=False, labels=graph._labels)
