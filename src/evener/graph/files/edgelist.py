"""White-space edge lists (SNAP, GAPBS): ``source target [weight]`` on each line.

Columns are set apart by any mix of spaces, tabs and commas; lines that begin with # or % are
comments; a first line of words is a header. Ids are whole numbers and become labels.

Evener's note (see `note`) is the last line, because some readers stop at the first comment.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evener.graph.csr import Graph
from evener.graph.files.columns import edge_frame, require_integer_labels
from evener.graph.files.finish import graph_of_ids
from evener.graph.files.note import Note
from evener.graph.files.source import Source, show
from evener.graph.files.target import replacing
from evener.graph.files.text import NOWHERE, Rules, parse_rows

COMMENTS = (ord("#"), ord("%"))


def read(source: Source, directed: bool | None) -> Graph:
    """Read an edge list."""
    note = Note.find(source, b"#")
    rules = rules_of(source)
    return graph_of_ids(source, parse_rows(source, rules), directed, note, rules)


def rules_of(source: Source) -> Rules:
    """The number of columns, from the first line of numbers, and the header if there is one."""
    skip = NOWHERE
    for position, line in source.lines():
        tokens = split(line)
        if not tokens or tokens[0][0] in COMMENTS:
            continue
        if b"\0" in line:
            source.fail("is not a text file; expected lines of numbers", source.line_at(position))
        if skip == NOWHERE and is_header(tokens):
            skip = np.uint64(position)
            continue
        if len(tokens) not in (2, 3):
            source.fail(
                f"has {len(tokens)} columns ({show(line)}); expected source, target and perhaps a "
                "weight (a line of neighbours each is format='adjlist', other tables go through "
                "Graph.from_frame)",
                source.line_at(position),
            )
        return Rules(len(tokens), COMMENTS, skip=skip)
    return Rules(2, COMMENTS, skip=skip)


def split(line: bytes) -> list[bytes]:
    """The tokens of a line."""
    return line.replace(b",", b" ").split()


def is_header(tokens: list[bytes]) -> bool:
    """Whether a line names columns: two or more words, all of them letters."""
    return len(tokens) >= 2 and all(token.strip(b'"_- ').isalpha() for token in tokens)


def write(graph: Graph, path: Path) -> None:
    """Write all arcs, one a line."""
    require_integer_labels(graph, path.suffix)
    with replacing(path) as file:
        edge_frame(graph).write_csv(file, include_header=False, separator=" ")
        file.write(Note.about(graph).line(b"#"))
