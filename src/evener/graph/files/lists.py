"""The compiled parser of neighbour lists: METIS (a line each vertex) and adjacency lists."""

from __future__ import annotations

from typing import NamedTuple

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

_NEWLINE = 10
_U1 = np.uint64(1)


class ListRules(NamedTuple):
    """How a format lists neighbours, as numbers that compiled code understands."""

    begin: np.uint64  # position behind the header
    comments: tuple[int, int]
    named: bool  # a line begins with its vertex and blank lines mean nothing
    skipped: int = 0  # numbers before the neighbours: weights of the vertex itself
    weighted: bool = False  # every neighbour is followed by a weight
    num_lines: int = -1  # how many lines there are, if a header says so


class Lists(NamedTuple):
    """Arcs, and the vertex that each line speaks of."""

    rows: Rows
    heads: np.ndarray


def parse_lists(source: Source, rules: ListRules) -> Lists:
    """Read lists of neighbours; ids keep the file's numbering, lines without names count from 1."""
    data = source.data
    pieces = -(-len(data) // PIECE)
    with progress.task(f"reading {source.path.name}"):
        counts = np.zeros((pieces + 1, 2), np.int64)  # lines, numbers
        _count_lists(pieces, data, rules, counts)
        np.cumsum(counts, axis=0, out=counts)
        num_lines = counts[-1, 0]
        per_arc = 2 if rules.weighted else 1
        before = rules.skipped + (1 if rules.named else 0)
        # A malformed line makes these wrong by some; the reader checks before it writes.
        offsets = np.maximum.accumulate(
            np.maximum(counts[:, 1] - before * counts[:, 0], 0) // per_arc
        )
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
        refuse(source, int(outcome), int(position))
    return Lists(Rows(src, dst, narrowed(weights) if rules.weighted else None), heads)


@compiled(allocates=False)
def _is_list(data, at, end, rules):
    """Whether the line that begins here is a list: behind the header, no comment."""
    if at < rules.begin:
        return False
    at = skip_blanks(data, at, end)
    if at >= end or data[at] == _NEWLINE:
        return not rules.named
    return data[at] != rules.comments[0] and data[at] != rules.comments[1]


@compiled(allocates=False)
def _skip_token(data, at, end):
    """The position behind a token, whatever it is."""
    at += _U1
    while not ends_token(data, at, end):
        at += _U1
    return at


@compiled(allocates=False)
def _count_tokens(data, at, end):
    """Numbers on the line that begins here; returns (count, position of the next line)."""
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
    lines = tokens = 0
    while at < stop:
        if _is_list(data, at, end, rules):
            found, at = _count_tokens(data, at, end)
            lines += 1
            tokens += found
        else:
            at = next_line(data, at, end)
    counts[piece + 1, 0], counts[piece + 1, 1] = lines, tokens


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
            return MISSING_COLUMN, at, arc
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
        if outcome == OK and rules.weighted:
            outcome, at = read_weight(
                data, skip_separator(data, at, end), end, as_float, arc, weights
            )
        if outcome != OK:
            return outcome, at, arc
        arc += 1
