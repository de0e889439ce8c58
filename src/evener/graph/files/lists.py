"""The compiled parser of neighbour lists: METIS (one line per vertex) and adjacency lists."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import numpy as np

from evener import progress
from evener.device import compiled, parallel, require_memory
from evener.graph.files.numbers import NEEDS_FLOAT, OK, read_index
from evener.graph.files.source import Source
from evener.graph.files.text import (
    BAD_VERTEX_WEIGHT,
    MISSING_COLUMN,
    NEEDS_INT64,
    PIECE,
    TOO_MANY,
    Rows,
    ends_token,
    first_line,
    narrowed,
    next_line,
    read_id,
    read_weight,
    refuse,
    skip_blanks,
    skip_separator,
)

# Outcomes of reading a list, in addition to those of `text`.
_MISSING_VERTEX_WEIGHT = 20
_MISSING_WEIGHT = 21
_MISSING_NEIGHBOUR = 22

_NEWLINE = 10
_U1 = np.uint64(1)


class ListRules(NamedTuple):
    """How a format lists neighbours, as numbers for compiled code."""

    begin: np.uint64  # position after the header
    comments: tuple[int, int]
    named: bool  # a line begins with its vertex, and blank lines are ignored
    skipped: int = 0  # numbers before the neighbours: weights of the vertex itself
    weighted: bool = False  # a weight follows each neighbour
    num_lines: int = -1  # number of lines if a header declares it


class Lists(NamedTuple):
    """Arcs, the vertex of each line, and the number of lines."""

    rows: Rows
    heads: np.ndarray
    num_lines: int


def parse_lists(source: Source, rules: ListRules) -> Lists:
    """Read lists of neighbours; ids are those of the file, unnamed lines are numbered from 1."""
    data = source.data
    pieces = -(-len(data) // PIECE)
    with progress.task(f"reading {source.path.name}"):
        counts = np.zeros((pieces + 1, 2), np.int64)  # lines, arcs
        _count_lists(pieces, data, rules, counts)
        np.cumsum(counts, axis=0, out=counts)
        num_lines, offsets = counts[-1, 0], counts[:, 1]
        ids: np.dtype = np.dtype(np.int32)
        as_float = False
        while True:
            total = int(offsets[-1])
            require_memory(
                total * (2 * ids.itemsize + 8 * rules.weighted), f"Reading {source.path}"
            )
            src, dst = np.empty(total, ids), np.empty(total, ids)
            heads = np.empty(num_lines if rules.named else 0, ids)
            weights = np.empty(total if rules.weighted else 0, np.float64 if as_float else np.int64)
            found = np.zeros((pieces, 2), np.int64)  # outcome, position
            _read_lists(
                pieces, data, rules, counts, offsets, as_float, src, dst, weights, heads, found
            )
            if (found[:, 0] == NEEDS_INT64).any():
                ids = np.dtype(np.int64)
            elif (found[:, 0] == NEEDS_FLOAT).any() and not as_float:
                as_float = True
            else:
                break
    for outcome, position in found[found[:, 0] != OK]:
        _refuse(source, rules, int(outcome), int(position))
    rows = Rows(src, dst, narrowed(weights) if rules.weighted else None)
    return Lists(rows, heads, int(num_lines))


def _refuse(source: Source, rules: ListRules, outcome: int, position: int) -> NoReturn:
    """Raise the error for an outcome, with messages about lists where those about rows mislead."""
    line = source.line_at(position)
    if outcome == _MISSING_VERTEX_WEIGHT:
        numbers = "a number" if rules.skipped == 1 else f"{rules.skipped} numbers"
        source.fail(
            "a weight of the vertex is missing; the header says that every line begins with "
            f"{numbers} for weights and size",
            line,
        )
    if outcome == _MISSING_WEIGHT:
        source.fail("the last neighbour has no weight; expected one after each neighbour", line)
    if outcome == _MISSING_NEIGHBOUR:
        source.fail("there is no neighbour before a comma; expected a whole number", line)
    refuse(source, outcome, position)


def line_of_list(source: Source, rules: ListRules, number: int) -> int:
    """The line of list ``number``, which counts from 0."""
    return source.line_at(int(_find_list(source.data, rules, number)))


@compiled(allocates=False)
def _find_list(data, rules, number):
    end = np.uint64(len(data))
    at = np.uint64(0)
    while at < end:
        number -= _is_list(data, at, end, rules)
        if number < 0:
            break
        at = next_line(data, at, end)
    return at


@compiled(allocates=False)
def _is_list(data, at, end, rules):
    """Whether the line that begins here is a list: after the header, and not a comment."""
    if at < rules.begin:
        return False
    at = skip_blanks(data, at, end)
    if at >= end or data[at] == _NEWLINE:
        return not rules.named
    return data[at] != rules.comments[0] and data[at] != rules.comments[1]


@compiled(allocates=False)
def _skip_token(data, at, end):
    """The position after a token of any kind."""
    at += _U1
    while not ends_token(data, at, end):
        at += _U1
    return at


@compiled(allocates=False)
def _count_tokens(data, at, end):
    """Count the numbers on a line; returns (count, position of the next line)."""
    count = 0
    while True:
        at = skip_separator(data, at, end)
        if at >= end or data[at] == _NEWLINE:
            return count, at + _U1
        count += 1
        at = _skip_token(data, at, end)


@parallel
def _count_lists(piece, data, rules, counts):
    end = np.uint64(len(data))
    at, stop = first_line(data, piece), min(np.uint64((piece + 1) * PIECE), end)
    lines = arcs = 0
    before = rules.skipped + (1 if rules.named else 0)
    per_arc = 2 if rules.weighted else 1
    while at < stop:
        if _is_list(data, at, end, rules):
            found, at = _count_tokens(data, at, end)
            lines += 1
            # Rounded up, so that a missing weight does not make the next line seem too long.
            arcs += (max(found - before, 0) + per_arc - 1) // per_arc
        else:
            at = next_line(data, at, end)
    counts[piece + 1, 0], counts[piece + 1, 1] = lines, arcs


@parallel
def _read_lists(piece, data, rules, counts, offsets, as_float, src, dst, weights, heads, found):
    end = np.uint64(len(data))
    at, stop = first_line(data, piece), min(np.uint64((piece + 1) * PIECE), end)
    line, arc = counts[piece, 0], offsets[piece]
    outcome = OK
    while at < stop and outcome == OK:
        if not _is_list(data, at, end, rules):
            at = next_line(data, at, end)
            continue
        outcome, at, arc = _read_list(
            data, at, end, rules, as_float, line, arc, offsets[piece + 1],
            src, dst, weights, heads,
        )  # fmt: skip
        line += 1
    found[piece, 0], found[piece, 1] = outcome, at


@compiled(allocates=False)
def _read_list(data, at, end, rules, as_float, line, arc, last, src, dst, weights, heads):
    """Read one line; returns (outcome, position, next arc)."""
    at = skip_blanks(data, at, end)
    head = np.int64(line + 1)
    if rules.named:
        outcome, at = read_id(data, at, end, line, heads)
        if outcome != OK:
            return outcome, at, arc
        head = np.int64(heads[line])
    for _ in range(rules.skipped):
        at = skip_blanks(data, at, end)
        if at >= end or data[at] == _NEWLINE:
            return _MISSING_VERTEX_WEIGHT, at, arc
        _, stop, status = read_index(data, at, end)
        if status != OK or not ends_token(data, stop, end):
            return BAD_VERTEX_WEIGHT, at, arc
        at = stop
    while True:
        at = skip_separator(data, at, end)
        if at >= end or data[at] == _NEWLINE:
            return OK, at + _U1, arc
        if arc >= last or 0 <= rules.num_lines <= line:
            return TOO_MANY, at, arc
        src[arc] = head
        outcome, at = read_id(data, at, end, arc, dst)
        if outcome == MISSING_COLUMN:
            return _MISSING_NEIGHBOUR, at, arc
        if outcome == OK and rules.weighted:
            outcome, at = read_weight(
                data, skip_separator(data, at, end), end, as_float, arc, weights
            )
            if outcome == MISSING_COLUMN:
                return _MISSING_WEIGHT, at, arc
        if outcome != OK:
            return outcome, at, arc
        arc += 1
