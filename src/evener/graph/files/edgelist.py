"""Plain edge lists (SNAP, GAPBS): ``source target [weight]`` on each line.

Any mix of spaces, tabs and commas separates columns. Lines that begin with # or % are comments;
words above the numbers are a header. Ids are whole numbers and become labels. If the first lines
have names as ends, or the caller chooses columns, the file is read as a table (`table`).

Evener's note (see `note`) is the last line, because some readers stop at the first comment.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from evener.graph.csr import Graph
from evener.graph.files.atomic_file import replacing
from evener.graph.files.columns import (
    choose_columns,
    edge_frame,
    require_integer_labels,
    warn_about_isolated,
)
from evener.graph.files.finish import graph_of_ids
from evener.graph.files.note import Note
from evener.graph.files.request import Request
from evener.graph.files.source import Source, show
from evener.graph.files.table import (
    COMMENTS,
    detect_table,
    first_lines,
    read_table,
    warn_about_text,
)
from evener.graph.files.text import NOWHERE, Rules, parse_rows
from evener.graph.files.values import is_number


class ThirdColumn(NamedTuple):
    """How to treat a third column: as weights, or ignored."""

    columns: int = 2  # columns to read
    is_ignored: bool = False
    text: str = ""  # an example of ignored text, for a warning

    def warn(self, source: Source) -> None:
        """Warn that a column of text was ignored."""
        if self.text:
            warn_about_text(source, "the third column", self.text)


def third_column(cells: list[str], request: Request, *, is_weight: bool = False) -> ThirdColumn:
    """Classify the third column by some of its cells; ``is_weight`` if its name says so."""
    if not cells:
        return ThirdColumn()
    if request.weight is False:
        return ThirdColumn(is_ignored=True)
    if is_weight or any(map(is_number, cells)):
        return ThirdColumn(3)
    return ThirdColumn(is_ignored=True, text=next(filter(None, cells), ""))


def read(source: Source, request: Request) -> Graph:
    """Read an edge list."""
    found = None if request.column_options else _plain_rules(source, request)
    if found is None:
        return read_table(source, detect_table(source, request), request)
    rules, third = found
    rows = parse_rows(source, rules)
    third.warn(source)
    return graph_of_ids(source, rows, request, Note.find(source, b"#"), rules)


def number_rules(source: Source, request: Request) -> Rules:
    """The rules for an edge list whose ids must be numbers."""
    found = _plain_rules(source, request)
    return Rules(2, COMMENTS) if found is None else found[0]


def _plain_rules(source: Source, request: Request) -> tuple[Rules, ThirdColumn] | None:
    """Rules for reading numbers, from the first lines; None if ends are names."""
    lines = first_lines(source)
    if not lines:
        return Rules(2, COMMENTS), ThirdColumn()
    skip = NOWHERE
    numeric = [all(map(is_number, split(line)[:2])) for _, line in lines]
    if not any(map(is_number, split(lines[0][1]))) and any(numeric[1:2]):
        _check_header(source, lines[0][0], split(lines[0][1]))
        skip = np.uint64(lines[0][0])
        lines, numeric = lines[1:], numeric[1:]
    # A few names among numbers are mistakes, and the parser reports their lines.
    if 2 * sum(numeric) < len(numeric) + (not numeric[0]):
        return None
    position, line = lines[numeric.index(True)]
    tokens = split(line)
    if len(tokens) not in (2, 3):
        source.fail(
            f"has {len(tokens)} column{'s' * (len(tokens) != 1)} ({show(line)}); expected source, "
            "target and optionally a weight: choose them by src=, dst= and weight= (--src, --dst, "
            "--weight), numbers from 0 (for lines of neighbours use format='adjlist')",
            source.line_at(position),
        )
    third = ThirdColumn()
    if len(tokens) == 3:
        cells = [split(line)[2] for _, line in lines if len(split(line)) > 2]
        third = third_column([cell.decode("utf-8", "replace") for cell in cells], request)
    return Rules(third.columns, COMMENTS, skip=skip, extra=third.is_ignored), third


def split(line: bytes) -> list[bytes]:
    """The tokens of a line."""
    return line.replace(b",", b" ").split()


def _check_header(source: Source, position: int, tokens: list[bytes]) -> None:
    """Refuse a header whose columns are in another order."""
    names = [token.decode("utf-8", "replace") for token in tokens]
    chosen = choose_columns(names)
    if 2 <= len(names) <= 3 and (chosen is None or not chosen.in_order):
        source.fail(
            f"names its columns {', '.join(names)}; expected source, target and weight in this "
            "order (or choose them by src=, dst= and weight=)",
            source.line_at(position),
        )


def write(graph: Graph, path: Path) -> None:
    """Write all arcs, one per line."""
    require_integer_labels(graph, path.suffix)
    warn_about_isolated(graph, path)
    with replacing(path) as file:
        edge_frame(graph).write_csv(file, include_header=False, separator=" ")
        file.write(Note.of(graph).line(b"#"))
