"""White-space edge lists (SNAP, GAPBS): ``source target [weight]`` on each line.

Columns are set apart by any mix of spaces, tabs and commas; lines that begin with # or % are
comments; words above the numbers are a header. Ids are whole numbers and become labels.

Evener's note (see `note`) is the last line, because some readers stop at the first comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from evener.graph.csr import Graph
from evener.graph.files.columns import (
    choose_columns,
    edge_frame,
    require_integer_labels,
    warn_about_isolated,
)
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
    lines = data_lines(source)
    position, line = next(lines, (0, b""))
    skip = NOWHERE
    if line and not any(map(is_number, split(line))):
        after, numbers = next(lines, (0, b""))
        if numbers and all(map(is_number, split(numbers))):
            _check_header(source, position, split(line))
            skip = np.uint64(position)
            position, line = after, numbers
    tokens = split(line)
    if line and len(tokens) not in (2, 3):
        source.fail(
            f"has {len(tokens)} column{'s' * (len(tokens) != 1)} ({show(line)}); expected source, "
            "target and perhaps a weight (a line of neighbours each is format='adjlist', other "
            "tables go through Graph.from_frame)",
            source.line_at(position),
        )
    return Rules(max(2, len(tokens)), COMMENTS, skip=skip)


def data_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """The lines that are neither blank nor comments."""
    for position, line in source.lines():
        text = line.strip()
        if b"\0" in line:
            source.fail("is not a text file; expected lines of numbers", source.line_at(position))
        if b"\r" in line:
            source.fail(
                "has a carriage return within a line; expected lines that end in a line feed",
                source.line_at(position),
            )
        if text and text[0] not in COMMENTS:
            yield position, line


def split(line: bytes) -> list[bytes]:
    """The tokens of a line."""
    return line.replace(b",", b" ").split()


def is_number(token: bytes) -> bool:
    """Whether a token is a number, not a name."""
    try:
        float(token)
    except ValueError:
        return False
    return True


def _check_header(source: Source, position: int, tokens: list[bytes]) -> None:
    """Refuse a header that names the columns in another order."""
    names = [token.decode("utf-8", "replace") for token in tokens]
    if 2 <= len(names) <= 3 and choose_columns(names) != (*names[:2], *names[2:], None)[:3]:
        source.fail(
            f"names its columns {', '.join(names)}; expected source, target and weight in this "
            "order (a .csv or .tsv file may have any)",
            source.line_at(position),
        )


def write(graph: Graph, path: Path) -> None:
    """Write all arcs, one a line."""
    require_integer_labels(graph, path.suffix)
    warn_about_isolated(graph, path)
    with replacing(path) as file:
        edge_frame(graph).write_csv(file, include_header=False, separator=" ")
        file.write(Note.about(graph).line(b"#"))
