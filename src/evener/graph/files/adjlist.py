"""Adjacency lists: ``vertex neighbour neighbour …`` on each line; a lone vertex has no arcs.

Lines that begin with # or % are comments. Only ``format="adjlist"`` or the suffix says that a file
is one: an edge list looks alike.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evener.errors import GraphError
from evener.graph.csr import Graph
from evener.graph.files.columns import require_integer_labels
from evener.graph.files.finish import graph_of_ids
from evener.graph.files.lists import ListRules, parse_lists
from evener.graph.files.metis import neighbour_lines
from evener.graph.files.note import Note
from evener.graph.files.source import Source
from evener.graph.files.target import replacing
from evener.graph.files.text import Rows
from evener.graph.labels import Labels

_COMMENTS = (ord("#"), ord("%"))


def read(source: Source, directed: bool | None) -> Graph:
    """Read adjacency lists."""
    note = Note.find(source, b"#")
    rows, heads = parse_lists(source, ListRules(np.uint64(0), _COMMENTS, True))
    # Each line's vertex exists even without neighbours: number it along as a loop, then drop it.
    padded = Rows(np.concatenate((rows.src, heads)), np.concatenate((rows.dst, heads)), None)
    graph = graph_of_ids(source, padded, None, None)
    src = graph._labels.index_of(rows.src)
    dst = graph._labels.index_of(rows.dst)
    labels: Labels = graph._labels
    arcs = Graph.from_edges(src, dst, num_vertices=labels.size, labels=labels)
    from evener.graph.files.finish import directed_as

    return directed_as(source, arcs, directed, note)


def write(graph: Graph, path: Path) -> None:
    """Write the neighbours of each vertex behind its label."""
    if graph._weights is not None:
        raise GraphError("adjacency lists hold no weights; save as .txt, .csv, .parquet or .evg.")
    require_integer_labels(graph, path.suffix)
    labels = iter(graph.labels.tolist())
    with replacing(path) as file:
        for lines in neighbour_lines(graph, graph._labels.take(graph._indices)):
            for line in lines.split(b"\n")[:-1]:
                file.write(f"{next(labels)} ".encode() + line + b"\n")
        file.write(Note.about(graph).line(b"#"))
