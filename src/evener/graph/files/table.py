"""Delimited text as a table: separator, header and rows, and the edges in them.

Polars reads columns as text; a column becomes numbers if all its cells are numbers. Names are
taken literally: ``007`` and ``7`` differ. ``\\N``, which databases write for null, is null.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evener.device import require_memory
from evener.graph.csr import Graph
from evener.graph.files.columns import Chosen, is_known, pick_columns
from evener.graph.files.finish import graph_of_ids
from evener.graph.files.note import Note
from evener.graph.files.request import Request
from evener.graph.files.source import Source, show
from evener.graph.files.text import Rows
from evener.graph.files.values import is_number, weights_of, whole_numbers
from evener.graph.load_warnings import warn

if TYPE_CHECKING:
    import polars

COMMENTS = (ord("#"), ord("%"))
NOTHING = "\\N"
_SAMPLE = 200  # rows examined before choosing the reader, unless they are very long
_SAMPLE_BYTES = 1 << 20
_MOST_COLUMNS = 1 << 14  # the limit of a spreadsheet
_BYTES_PER_CHARACTER = 6  # memory for reading: the text twice, columns and labels


class Table(NamedTuple):
    """The layout of a table, detected from its first lines."""

    separator: str | None  # None: blanks
    begin: int  # position of the first row
    header_at: int | None
    names: list[str] | None
    rows: list[list[str]]
    has_quotes: bool = False  # in those rows

    @property
    def width(self) -> int:
        """The number of columns in the first lines."""
        return len(self.names or next(iter(self.rows), [])) or 2


def detect_table(source: Source, request: Request) -> Table:
    """Detect the separator, the header and the first rows."""
    lines = first_lines(source)
    if not lines:
        return Table(None, 0, None, None, [])
    separator = _separator(source, [line for _, line in lines])
    position, first = lines[0]
    _check_width(source, position, first, len(_cells(first, separator)))
    cells = [_cells(line, separator) for _, line in lines]
    has_quotes = any(b'"' in line for _, line in lines)
    if not _has_header(source, cells, separator, lines[0], request):
        return Table(separator, lines[0][0], None, None, cells, has_quotes)
    if cells[0] in cells[1:]:
        again = lines[1 + cells[1:].index(cells[0])][0]
        source.fail("repeats the header; expected an edge", source.line_at(again))
    if len(cells) > 1 and len(cells[1]) > len(cells[0]):
        source.fail(
            f"has {len(cells[1])} columns below {len(cells[0])} names; expected a name for each",
            source.line_at(lines[1][0]),
        )
    begin = lines[0][0] + len(lines[0][1]) + 1
    begin += source.data[begin - 1 : begin].tobytes() == b"\r"
    return Table(separator, begin, lines[0][0], cells[0], cells[1:], has_quotes)


def first_lines(source: Source) -> list[tuple[int, bytes]]:
    """The positions and content of the lines to detect the layout from."""
    lines, size = [], 0
    for position, line in text_lines(source):
        lines.append((position, line))
        size += len(line)
        if len(lines) > _SAMPLE or size > _SAMPLE_BYTES:
            break
    return lines


def text_lines(source: Source) -> Any:
    """The positions and lines of text that are neither blank nor comments."""
    for position, line in source.data_lines(bytes(COMMENTS)):
        if b"\0" in line:
            if source.data[:2].tobytes() in (b"\xff\xfe", b"\xfe\xff"):
                source.fail("is UTF-16 text; save it as UTF-8")
            source.fail("is not a text file; expected lines of numbers", source.line_at(position))
        if b"\r" in line:
            source.fail(
                "has a carriage return within the line; expected lines that end in a line feed",
                source.line_at(position),
            )
        yield position, line


def _separator(source: Source, lines: list[bytes]) -> str | None:
    """The mark that occurs equally often in all lines; None (blanks) if there is no such mark.

    Tabs take precedence, since names do not contain them; then the most frequent mark, since a
    comma may be part of a name or of a decimal (``a;b;3,5``).
    """
    order = "\t,;|" if source.suffix == ".tsv" else ",\t;|"
    counts = {mark: [line.count(mark.encode()) for line in lines] for mark in order}
    alike = [mark for mark, found in counts.items() if found[0] and len(set(found)) == 1]
    if "\t" in alike:
        return "\t"
    if alike:
        return max(alike, key=lambda mark: counts[mark][0])
    return next((mark for mark, found in counts.items() if found[0]), None)


def _check_width(source: Source, position: int, line: bytes, width: int) -> None:
    if width < 2:
        source.fail(
            f"has one column ({show(line)}); expected at least source and target",
            source.line_at(position),
        )
    if width > _MOST_COLUMNS:
        source.fail(
            f"has {width} columns; expected source, target and optionally a weight, and at most "
            f"{_MOST_COLUMNS} columns",
            source.line_at(position),
        )


def _cells(line: bytes, separator: str | None) -> list[str]:
    """The cells of a line; a quoted cell may contain separators, and quotes if doubled."""
    text = line.decode("utf-8", "replace")
    if '"' not in text:
        return text.split() if separator is None else [c.strip() for c in text.split(separator)]
    if separator is None:
        found = re.findall(r'"([^"]*(?:""[^"]*)*)"|(\S+)', text)
        return [(quoted or plain).replace('""', '"') for quoted, plain in found]
    mark = re.escape(separator)
    pattern = rf'[ ]*(?:"([^"]*(?:""[^"]*)*)"[^{mark}]*|([^{mark}]*))(?:{mark}|$)'
    cells, at = [], 0
    while at <= len(text):
        found_cell = re.compile(pattern).match(text, at)
        assert found_cell is not None
        quoted, plain = found_cell.groups()
        cells.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        at = found_cell.end()
        if not found_cell[0].endswith(separator):
            break
    return cells


def _has_header(
    source: Source,
    cells: list[list[str]],
    separator: str | None,
    first: tuple[int, bytes],
    request: Request,
) -> bool:
    """Whether the first line names the columns; GraphFormatError if it might be an edge."""
    if request.header is not None:
        return request.header
    if separator == ";":  # then the comma is a decimal point
        cells = [[cell.replace(",", ".") for cell in row] for row in cells]
    head, rest = cells[0], [row for row in cells[1:] if row != cells[0]]
    if any(map(is_number, head)):
        return False
    wanted = {column.strip().lower() for column in (request.src, request.dst, request.weight)
              if isinstance(column, str)}  # fmt: skip
    if wanted & {name.strip().lower() for name in head}:
        return True
    below = {cell for row in rest for cell in row}
    if sum(map(is_known, head)) and not set(head) & below - {""}:
        return True
    for i, name in enumerate(head):  # a word above numbers
        if name not in ("", NOTHING) and rest and all(is_number(row[i]) for row in rest if row[i:]):
            return True
    if set(head) & below:  # its words are vertices in other rows
        return False
    source.fail(
        f"cannot tell whether {show(first[1])} names the columns or is an edge; say header=True "
        "(--header) or header=False (--no-header)",
        source.line_at(first[0]),
    )


def read_table(source: Source, table: Table, request: Request) -> Graph:
    """Read a table with ids of any kind."""
    cells = table.rows[0] if table.rows else [""] * table.width
    chosen = pick_columns(source, table.names, cells, request)
    frame = _frame(source, table, chosen)
    shown = [f"column {name}" for name in table.names or range(table.width)]
    ends = [frame["src"], frame["dst"]]
    for i, end in zip(chosen[:2], ends, strict=True):
        if (end == "").any():
            row, line = _place(source, table, (end == "").arg_true()[0])
            source.fail(f"{shown[i]} is empty{row}; expected a vertex", line)
    missing = (ends[0] == NOTHING) | (ends[1] == NOTHING)
    if missing.any():
        count = int(missing.sum())
        warn(
            f"{source.name}: {count:,} row{'s' * (count != 1)} with {NOTHING} as a vertex "
            f"{'were' if count > 1 else 'was'} ignored."
        )
    kept = (~missing).arg_true()
    frame = frame[kept]
    weights = None
    if chosen.weight is not None:
        weights = _weights(source, table, frame["weight"], shown[chosen.weight], kept, chosen)
    rows = Rows(*_ids(frame["src"], frame["dst"]), weights)
    note = None if {"src", "dst"} & set(request.column_options) else Note.find(source, b"#")
    return graph_of_ids(source, rows, request, note)


def _frame(source: Source, table: Table, chosen: Chosen) -> polars.DataFrame:
    """The chosen columns of all rows, as text without nulls."""
    import polars as pl

    kinds = {"src": chosen.src, "dst": chosen.dst, "weight": chosen.weight}
    numbers = {name: number for name, number in kinds.items() if number is not None}
    text = _body(source, table)
    separator = table.separator or "\t"
    wanted = sorted(set(numbers.values()))
    require_memory(_BYTES_PER_CHARACTER * len(text), f"Reading {source.name}")
    if not text:
        return pl.DataFrame({name: pl.Series([], dtype=pl.String) for name in numbers})
    try:
        frame = pl.read_csv(
            io.BytesIO(text), separator=separator, infer_schema=False, has_header=False,
            columns=wanted,
        )  # fmt: skip
    except pl.exceptions.PolarsError as error:
        _refuse(source, table, str(error))
    has_quotes = b'"' in text
    columns = []
    for name, number in numbers.items():
        column = frame.to_series(wanted.index(number)).fill_null("").alias(name)
        # Without quotes, blanks around a name are not part of it.
        columns.append(column if has_quotes else column.str.strip_chars())
    return pl.DataFrame(columns)


def _body(source: Source, table: Table) -> bytes:
    """The rows in the form that polars reads: no comments or blank lines, single separators."""
    text = source.data[table.begin :].tobytes()
    body, _, last = text.rstrip(b"\r\n").rpartition(b"\n")
    if last.startswith(b"# evener: "):
        text = body
    text = _without_blank_lines(text)
    if table.separator is None:
        comments = rb"^(?:[ \t]*+[#%][^\n]*+(?:\n|\Z))++"
        text = _outside_quotes(comments + rb"|^[ \t]+|[ \t\r]+$", b"", text)
        return _outside_quotes(rb"[ \t]+", b"\t", text)
    # A line with a separator is not a comment: the name of a vertex may begin with #.
    mark = re.escape(table.separator.encode())
    return re.sub(rb"(?m)^(?:[#%%][^\n%s]*+(?:\n|\Z))++" % mark, b"", text)


def _without_blank_lines(text: bytes) -> bytes:
    """Remove blank lines, a run of them at once, because each match takes memory."""
    begin = re.match(rb"[ \t\r\n]*(?:\n|\Z)", text)
    text = text if begin is None else text[begin.end() :]
    return _outside_quotes(rb"\n[ \t\r\n]*(?:\n|\Z)", b"\n", text)


def _outside_quotes(pattern: bytes, instead: bytes, text: bytes) -> bytes:
    if b'"' not in text:
        return re.sub(rb"(?m)" + pattern, instead, text)
    return re.sub(rb'(?m)("[^"]*")|' + pattern, lambda found: found[1] or instead, text)


def _refuse(source: Source, table: Table, reason: str) -> Any:
    """Raise the error for a table that polars cannot read, with the line if it can be found."""
    if "utf-8" in reason.lower() or "utf8" in reason.lower():
        source.fail("is not UTF-8 text; convert it first, for instance by iconv -f latin1 -t utf-8")
    for position, line in text_lines(source):
        found = len(_cells(line, table.separator))
        if position >= table.begin and found != table.width:
            source.fail(
                f"has {found} columns; expected {table.width} as in the lines above",
                source.line_at(position),
            )
    source.fail(f"is not a table that polars can read ({reason.strip().splitlines()[0][:200]})")


def _place(source: Source, table: Table, row: int) -> tuple[str, int | None]:
    """The place of a row: its line, or words if quotes, comments or blank lines hide the line."""
    text = source.data[table.begin :].tobytes()
    if b'"' in text or re.search(rb"(?m)^[ \t]*(\r?$|[#%])", text.rstrip(b"\r\n")):
        return f" in row {row + 1}", None
    return "", source.line_at(table.begin) + row


def _ids(src: polars.Series, dst: polars.Series) -> tuple[Any, Any]:
    """Both ends as whole numbers if all cells are; otherwise both stay names."""
    ends = [whole_numbers(end) for end in (src, dst)]
    if ends[0] is None or ends[1] is None:
        return src, dst
    return ends[0], ends[1]


def _weights(
    source: Source, table: Table, column: polars.Series, name: str, kept: Any, chosen: Chosen
) -> np.ndarray | None:
    """A column as numbers; None if it is text and was not explicitly chosen as the weight."""
    if table.separator == ";":  # as in `_has_header`
        column = column.str.replace(r"^([+-]?[0-9]*),([0-9]+)$", "$1.$2")
    found = weights_of(column)
    if found.weights is not None:
        return found.weights
    if found.is_text and not chosen.is_sure:
        example = column.filter((column != "") & (column != NOTHING))
        if len(example):
            warn_about_text(source, name, example[0])
        return None
    row, line = _place(source, table, int(kept[found.row]))
    hint = "" if chosen.is_sure else ", or weight=False (--no-weight) to ignore the column"
    source.fail(f"the weight{row} is {found.what}; expected a number{hint}", line)


def warn_about_text(source: Source, name: str, example: str) -> None:
    """Warn that a possible column of weights was ignored."""
    warn(f"{source.name}: {name} holds text ({show(example.encode())}) and was ignored.")
