"""The compiled parser of line-based formats: rows of numbers, and shared parts for neighbour lists.

A file is cut into pieces of 1 MiB; a piece owns the lines that begin in it. A first pass counts
rows, so that each piece knows where its rows go; a second one reads them. Both run on all cores.
Ids are read as 32 bits and weights as integers; if the file needs wider ids or floats, the pass is
repeated.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from evener import progress
from evener.device import compiled, parallel, require_memory
from evener.graph.files.numbers import (
    INEXACT,
    INFINITE,
    NEEDS_FLOAT,
    NOT_A_NUMBER,
    OK,
    TOO_LARGE,
    read_float,
    read_index,
    read_integer,
)
from evener.graph.files.source import Source, show

PIECE = 1 << 20

# Outcomes of reading a row, in addition to those of a number.
NEEDS_INT64 = 10
MISSING_COLUMN = 11
EXTRA_COLUMN = 12
BAD_WEIGHT = 13
BAD_LINE = 14
TOO_MANY = 15
BAD_VERTEX_WEIGHT = 16

_NEWLINE, _TAB, _RETURN, _SPACE, _COMMA = 10, 9, 13, 32, 44


NOWHERE = np.uint64((1 << 64) - 1)
_U1 = np.uint64(1)


class Rules(NamedTuple):
    """How to parse the lines of a format, as numbers for compiled code."""

    columns: int  # 1 to 3: source, target, weight
    comments: tuple[int, int]  # bytes that begin a comment
    tag: int = 0  # the byte that begins a row (DIMACS: a), or 0
    skip: np.uint64 = NOWHERE  # position of a line to skip: a header
    extra: bool = False  # whether further columns are ignored
    real: bool = False  # whether weights are floats even if they look like integers


class Rows(NamedTuple):
    """Columns of a file: source, target, and weight or None."""

    src: np.ndarray
    dst: np.ndarray
    weights: np.ndarray | None


def parse_rows(source: Source, rules: Rules) -> Rows:
    """Read rows of one, two or three numbers; ids are those of the file."""
    data = source.data
    pieces = -(-len(data) // PIECE)
    with progress.task(f"reading {source.path.name}"):
        room = np.zeros(pieces + 1, np.int64)
        _count_rows(pieces, data, rules, room)
        offsets = np.cumsum(room)
        ids: np.dtype = np.dtype(np.int32)
        as_float = rules.real
        while True:
            total = int(offsets[-1])
            per_row = ids.itemsize * min(rules.columns, 2) + (8 if rules.columns == 3 else 0)
            require_memory(total * per_row, f"Reading {source.path}")
            src = np.empty(total, ids)
            dst = np.empty(total if rules.columns > 1 else 0, ids)
            weights = np.empty(
                total if rules.columns == 3 else 0, np.float64 if as_float else np.int64
            )
            found = np.zeros((pieces, 3), np.int64)  # rows, outcome, position of the fault
            _read_rows(pieces, data, rules, offsets, as_float, src, dst, weights, found)
            if (found[:, 1] == NEEDS_INT64).any():
                ids = np.dtype(np.int64)
            elif (found[:, 1] == NEEDS_FLOAT).any() and not as_float:
                as_float = True
            else:
                break
    _refuse_first_fault(source, found, rules.columns)
    columns: tuple[np.ndarray, ...] = (src, dst, weights)
    if found[:, 0].sum() != total:  # comments or blank lines between the rows
        columns = tuple(_closed_up(column, offsets, found[:, 0]) for column in columns)
    return Rows(columns[0], columns[1], narrowed(columns[2]) if rules.columns == 3 else None)


def narrowed(weights: np.ndarray) -> np.ndarray:
    """Integer weights in 32 bits if they fit."""
    if weights.dtype == np.int64 and len(weights):
        limits = np.iinfo(np.int32)
        if weights.min() >= limits.min and weights.max() <= limits.max:
            return weights.astype(np.int32)
    return weights.astype(np.int32) if len(weights) == 0 else weights


def _closed_up(column: np.ndarray, offsets: np.ndarray, counts: np.ndarray) -> np.ndarray:
    if len(column) == 0:
        return column
    at = 0
    for start, count in zip(offsets[:-1], counts, strict=True):
        column[at : at + count] = column[start : start + count]
        at += count
    return column[:at].copy()


def _refuse_first_fault(source: Source, found: np.ndarray, columns: int) -> None:
    faulty = np.flatnonzero(found[:, 1] != OK)
    if len(faulty) == 0:
        return
    _, outcome, position = found[faulty[0]]
    refuse(source, int(outcome), int(position), columns)


def refuse(source: Source, outcome: int, position: int, columns: int = 0) -> NoReturn:
    """Raise the error for an outcome of the compiled parser."""
    line = source.line_at(position)
    rest = source.line_bytes(position)
    token = next(iter(rest.replace(b",", b" ").split()), rest)
    expected = "source, target and weight" if columns == 3 else "source and target"
    if outcome == MISSING_COLUMN:
        source.fail(f"a number is missing; expected {expected}", line)
    if outcome == EXTRA_COLUMN:
        source.fail(
            f"{show(token)} is one column too many; expected {expected} as in the lines above", line
        )
    if outcome == TOO_LARGE:
        source.fail(f"{show(token)} is too large; expected a number below 2^63", line)
    if outcome == INFINITE:
        source.fail(f"{show(token)} is too large for a float; expected a number or inf", line)
    if outcome == INEXACT:
        source.fail(
            f"{show(token)} loses digits as a float, which the decimals in other lines require; "
            "expected whole numbers only, or fewer digits",
            line,
        )
    if outcome == BAD_VERTEX_WEIGHT:
        source.fail(f"{show(token)} is not the weight of a vertex; expected a whole number", line)
    if outcome == BAD_LINE:
        source.fail(f"a line cannot begin with {show(token)} here", line)
    if outcome == TOO_MANY:
        source.fail("there is more here than the header declares", line)
    if outcome in (BAD_WEIGHT, NEEDS_FLOAT):
        source.fail(f"{show(token)} is not a weight; expected a number", line)
    if token.startswith(b"-") and token[1:].isdigit():
        source.fail(f"vertex id {show(token)} is negative; expected a whole number from 0", line)
    source.fail(f"{show(token)} is not a vertex id; expected a whole number", line)


def line_of_row(source: Source, rules: Rules, row: int) -> int:
    """The line of a row."""
    return source.line_at(int(_find_row(source.data, rules, row)))


@compiled(allocates=False)
def _find_row(data, rules, row):
    end = np.uint64(len(data))
    at = np.uint64(0)
    while at < end:
        row -= _is_row(data, at, end, rules)
        if row < 0:
            break
        at = next_line(data, at, end)
    return at


@compiled(allocates=False)
def skip_blanks(data, at, end):
    """Move to the next byte that is not a space, a tab or a carriage return at a line's end."""
    while at < end:
        byte = data[at]
        if byte == _RETURN:
            if at + _U1 < end and data[at + _U1] != _NEWLINE:
                break
        elif byte != _SPACE and byte != _TAB:
            break
        at += _U1
    return at


@compiled(allocates=False)
def skip_separator(data, at, end):
    """Move to the next column: over blanks with at most one comma among them."""
    at = skip_blanks(data, at, end)
    if at < end and data[at] == _COMMA:
        at = skip_blanks(data, at + _U1, end)
    return at


@compiled(allocates=False)
def ends_token(data, at, end):
    """Whether a token ends at this position."""
    if at >= end:
        return True
    byte = data[at]
    return byte == _SPACE or byte == _TAB or byte == _NEWLINE or byte == _COMMA or byte == _RETURN


@compiled(allocates=False)
def next_line(data, at, end):
    """The position after the next line feed."""
    while at < end and data[at] != _NEWLINE:
        at += _U1
    return at + _U1


@compiled(allocates=False)
def first_line(data, piece):
    """The position of the first line that begins in a piece."""
    start = np.uint64(piece * PIECE)
    return start if piece == 0 else next_line(data, start - _U1, np.uint64(len(data)))


@compiled(allocates=False)
def _is_row(data, at, end, rules):
    """Whether the line that begins here is a row: not blank, not a comment, not skipped."""
    if at == rules.skip:
        return False
    at = skip_blanks(data, at, end)
    if at >= end or data[at] == _NEWLINE:
        return False
    return data[at] != rules.comments[0] and data[at] != rules.comments[1]


@parallel
def _count_rows(piece, data, rules, room):
    """Count an upper bound of the rows of each piece, exact for the first and the last piece."""
    end = np.uint64(len(data))
    stop = min(np.uint64((piece + 1) * PIECE), end)
    count = 0
    if piece == 0 or stop == end:
        at = first_line(data, piece)
        while at < stop:
            count += _is_row(data, at, end, rules)
            at = next_line(data, at, end)
    else:  # a line begins after each line feed
        for byte in data[piece * PIECE - 1 : (piece + 1) * PIECE - 1]:
            count += byte == _NEWLINE
    room[piece + 1] = count


@parallel
def _read_rows(piece, data, rules, offsets, as_float, src, dst, weights, found):
    end = np.uint64(len(data))
    stop = min(np.uint64((piece + 1) * PIECE), end)
    first = np.uint64(offsets[piece])
    row = first
    at = first_line(data, piece)
    outcome = OK
    while at < stop:
        if not _is_row(data, at, end, rules):
            at = next_line(data, at, end)
            continue
        outcome, at = _read_row(data, at, end, rules, as_float, row, src, dst, weights)
        if outcome != OK:
            break
        row += _U1
    found[piece, 0] = row - first
    found[piece, 1] = outcome
    found[piece, 2] = at


@compiled(allocates=False)
def _read_row(data, at, end, rules, as_float, row, src, dst, weights):
    """Read one line into ``row``; returns (outcome, position after it or of the fault)."""
    at = skip_blanks(data, at, end)
    if rules.tag:
        if data[at] != rules.tag or not ends_token(data, at + _U1, end):
            return BAD_LINE, at
        at = skip_blanks(data, at + _U1, end)
    outcome, at = read_id(data, at, end, row, src)
    if outcome == OK and rules.columns > 1:
        outcome, at = read_id(data, skip_separator(data, at, end), end, row, dst)
    if outcome == OK and rules.columns > 2:
        outcome, at = read_weight(data, skip_separator(data, at, end), end, as_float, row, weights)
    if outcome != OK:
        return outcome, at
    if rules.extra:
        return OK, next_line(data, at, end)
    at = skip_separator(data, at, end)  # a line may end in a comma
    if at < end and data[at] != _NEWLINE:
        return EXTRA_COLUMN, at
    return OK, at + _U1


@compiled(allocates=False)
def read_id(data, at, end, row, out):
    """Read a vertex id into ``out[row]``; returns (outcome, position)."""
    value, stop, status = read_index(data, at, end)
    if status == NOT_A_NUMBER and (at >= end or data[at] == _NEWLINE or data[at] == _COMMA):
        return MISSING_COLUMN, at
    if status == OK and not ends_token(data, stop, end):
        return NOT_A_NUMBER, at
    if status != OK:
        return status, at
    out[row] = value
    if out[row] != value:
        return NEEDS_INT64, at
    return OK, stop


@compiled(allocates=False)
def read_weight(data, at, end, as_float, row, out):
    """Read a weight into ``out[row]``; returns (outcome, position)."""
    if at >= end or data[at] == _NEWLINE or data[at] == _COMMA:
        return MISSING_COLUMN, at
    if as_float:
        real, stop, status = read_float(data, at, end)
        out[row] = real
    else:
        whole, stop, status = read_integer(data, at, end)
        out[row] = whole
    if status == NOT_A_NUMBER or (status == OK and not ends_token(data, stop, end)):
        return BAD_WEIGHT, at
    return status, stop
