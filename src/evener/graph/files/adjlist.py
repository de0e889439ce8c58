"""Adjacency lists: ``vertex neighbour neighbour …`` on each line; a lone vertex has no arcs.

Lines that begin with # or % are comments. ``format="adjlist"`` or the suffix selects this format,
because the content may look like an edge list.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evener.errors import GraphError
from evener.graph.csr import Graph
from evener.graph.files.atomic_file import replacing
from evener.graph.files.columns import require_integer_labels
from evener.graph.files.finish import graph_of_arcs
from evener.graph.files.lists import ListRules, parse_lists
from evener.graph.files.metis import neighbour_lines
from evener.graph.files.note import Note
from evener.graph.files.request import Request
from evener.graph.files.source import Source
from evener.graph.relabel import relabel

_COMMENTS = (ord("#"), ord("%"))


def read(source: Source, request: Request) -> Graph:
    """Read adjacency lists."""
    note = Note.find(source, b"#")
    rows, heads, _ = parse_lists(source, ListRules(np.uint64(0), _COMMENTS, True))
    # A vertex exists even if its line lists no neighbours: relabel it as if it had a loop.
    arcs = len(rows.src)
    ends = (np.concatenate((end, heads)) for end in (rows.src, rows.dst))
    src, dst, labels = relabel(*ends)
    listed = (src[:arcs], dst[:arcs], None)
    return graph_of_arcs(source, listed, labels, request, note, warn_user=False)


def write(graph: Graph, path: Path) -> None:
    """Write each vertex's label, followed by its neighbours."""
    if graph._weights is not None:
        raise GraphError("adjacency lists hold no weights; save as .txt, .csv, .parquet or .evg.")
    require_integer_labels(graph, path.suffix)
    labels = iter(graph.labels.tolist())
    with replacing(path) as file:
        for lines in neighbour_lines(graph, graph._labels.take(graph._indices)):
            for line in lines.split(b"\n")[:-1]:
                file.write(f"{next(labels)} ".encode() + line + b"\n")
        file.write(Note.of(graph).line(b"#"))
