"""METIS graph files: ``n m [fmt]``, then one line with the neighbours of each vertex from 1 on.

The graph is undirected and both ends list every edge. ``fmt`` says whether an edge weight follows
each neighbour; weights and sizes of vertices must be whole numbers and are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from evener.errors import GraphError
from evener.graph.csr import Graph
from evener.graph.files.atomic_file import replacing
from evener.graph.files.finish import apply_request, graph_of_numbers, require_mirrored
from evener.graph.files.lists import ListRules, line_of_list, parse_lists
from evener.graph.files.note import Note
from evener.graph.files.numbered import header_counts, warn_about_labels
from evener.graph.files.request import Request
from evener.graph.files.source import Source, show
from evener.graph.files.text import Rows

_COMMENTS = (ord("%"), ord("%"))


def read(source: Source, request: Request) -> Graph:
    """Read a METIS file."""
    note = Note.find(source, b"%")
    begin, n, m, skipped, weighted = _header(source)
    if n > len(source.data):  # a line takes at least a byte
        source.fail(f"declares {n} vertices, more than the file has lines")
    rules = ListRules(np.uint64(begin), _COMMENTS, False, skipped, weighted, num_lines=n)
    lists, _, lines = parse_lists(source, rules)
    if lines < n:
        source.fail(f"declares {n} vertices but has {lines} lines of neighbours")
    _check_range(source, lists, rules)
    note = None if note is None else note._replace(directed=True)
    graph = graph_of_numbers(source, lists, n, Request(directed=True), note)
    loops = int(np.count_nonzero(lists.src == lists.dst))
    if len(lists.src) not in (2 * m, 2 * m - loops):  # a loop may be listed once or twice
        source.fail(f"declares {m} edges, so {2 * m} neighbours, but lists {len(lists.src)}")
    return apply_request(require_mirrored(source, graph), request)


def _header(source: Source) -> tuple[int, int, int, int, bool]:
    """Returns position of the lists, vertices, edges, numbers before the neighbours, weights?"""
    for position, line in source.data_lines(b"%"):
        number = source.line_at(position)
        fields = line.split()
        if not 2 <= len(fields) <= 4:
            source.fail(f"expected 'vertices edges [format]', found {show(line)}", number)
        n, m, *rest = header_counts(source, fields, number)
        kind = fields[2].decode().zfill(3) if rest else "000"
        if len(kind) != 3 or set(kind) - {"0", "1"}:
            source.fail(f"format is {show(fields[2])}; expected up to three digits 0 or 1", number)
        sizes, vertex_weights, edge_weights = (digit == "1" for digit in kind)
        constraints = rest[1] if len(rest) > 1 else 1
        if constraints > 1 << 16:
            source.fail(
                f"declares {constraints} weights per vertex; expected at most 65536", number
            )
        skipped = sizes + (constraints if vertex_weights else 0)
        begin = position + len(line) + 1
        while begin < len(source.data) and source.data[begin - 1] != 10:
            begin += 1
        return begin, n, m, skipped, edge_weights
    source.fail("has no header; expected 'vertices edges [format]'")


def _check_range(source: Source, lists: Rows, rules: ListRules) -> None:
    """Refuse a neighbour that is not a vertex, and name its line."""
    out_of_range = (lists.dst < 1) | (lists.dst > rules.num_lines)
    if out_of_range.any():
        arc = int(np.argmax(out_of_range))
        line = line_of_list(source, rules, int(lists.src[arc]) - 1)
        source.fail(
            f"neighbour {lists.dst[arc]} is out of range; expected 1..{rules.num_lines}", line
        )


def write(graph: Graph, path: Path) -> None:
    """Write the neighbour lists of an undirected graph, with weights if they are integers."""
    if graph.directed:
        raise GraphError(
            "METIS files hold undirected graphs; call symmetrize() first, or convert --undirected."
        )
    if graph._weights is not None and graph._weights.dtype.kind != "i":
        raise GraphError("METIS files hold whole-number weights; convert the weights first.")
    warn_about_labels(graph, path)
    loops = int(np.count_nonzero(graph._sources() == graph._indices))
    edges = (graph.num_edges - loops) // 2 + loops
    header = f"{graph.num_vertices} {edges}" + (" 001" if graph._weights is not None else "")
    with replacing(path) as file:
        file.write(Note.of(graph).line(b"%"))
        file.write(header.encode() + b"\n")
        for line in neighbour_lines(graph, graph._indices.astype(np.int64) + 1):
            file.write(line)


def neighbour_lines(graph: Graph, neighbours: np.ndarray) -> Iterator[bytes]:
    """The neighbour lists as lines of text, some thousand at a time."""
    rows = 1 << 13
    for first in range(0, graph.num_vertices, rows):
        starts = graph._indptr[first : first + rows + 1].tolist()
        shown = list(map(str, neighbours[starts[0] : starts[-1]].tolist()))
        if graph._weights is not None:
            weights = graph._weights[starts[0] : starts[-1]].tolist()
            shown = [f"{v} {w}" for v, w in zip(shown, weights, strict=True)]
        base = starts[0]
        lines = (" ".join(shown[a - base : b - base]) for a, b in pairwise(starts))
        yield ("\n".join(lines) + "\n").encode()
