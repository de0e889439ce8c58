"""Delimited tables: CSV and TSV with or without a header, with numbers or names as ids.

Evener's own parser reads plain tables of numbers, even if blanks separate the columns; polars reads
tables with names, quotes or further columns (`table`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evener.errors import GraphFormatError
from evener.graph.csr import Graph
from evener.graph.files.atomic_file import replacing
from evener.graph.files.columns import (
    choose_columns,
    edge_frame,
    require_countable_labels,
    warn_about_isolated,
)
from evener.graph.files.edgelist import third_column
from evener.graph.files.finish import graph_of_ids
from evener.graph.files.note import Note
from evener.graph.files.request import Request
from evener.graph.files.source import COMPRESSIONS, Source
from evener.graph.files.table import COMMENTS, Table, detect_table, read_table
from evener.graph.files.text import NOWHERE, Rules, parse_rows


def read(source: Source, request: Request) -> Graph:
    """Read a table of edges."""
    table = detect_table(source, request)
    if not _is_plain(table, request):
        return read_table(source, table, request)
    named = None if table.names is None else choose_columns(table.names)
    third = third_column(
        [row[2] for row in table.rows if len(row) > 2], request,
        is_weight=named is not None and named.weight is not None and named.is_sure,
    )  # fmt: skip
    skip = NOWHERE if table.header_at is None else np.uint64(table.header_at)
    rules = Rules(third.columns, COMMENTS, skip=skip, extra=third.is_ignored)
    try:
        rows = parse_rows(source, rules)
    except GraphFormatError:
        if b'"' not in source.text():
            raise
        return read_table(source, table, request)  # quotes below the sampled rows
    third.warn(source)
    return graph_of_ids(source, rows, request, Note.find(source, b"#"), rules)


def _is_plain(table: Table, request: Request) -> bool:
    """Whether Evener's parser can read the table: whole numbers, columns in order, nothing else."""
    if table.separator not in (None, ",", "\t") or table.has_quotes:
        return False
    if {"src", "dst", "weight"} & set(request.column_options):
        return False
    if table.names is not None:
        chosen = choose_columns(table.names)
        if len(table.names) > 3 or chosen is None or not chosen.in_order:
            return False
        if len(table.names) == 3 and chosen.weight is None:
            return False
    widths = {len(row) for row in table.rows}
    if widths - {2} and widths - {3}:
        return False
    if table.names is not None and table.rows and widths != {len(table.names)}:
        return False
    ids = [cell for row in table.rows for cell in row[:2]]
    return all(cell.isdigit() and (cell == "0" or cell[0] != "0") for cell in ids)


def write(graph: Graph, path: Path) -> None:
    """Write all arcs below a header, with names in quotes."""
    require_countable_labels(graph, "CSV")
    warn_about_isolated(graph, path)
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    with replacing(path) as file:
        edge_frame(graph).write_csv(
            file, separator="\t" if plain.suffix.lower() == ".tsv" else ",",
            quote_style="non_numeric" if graph._labels.kind == "objects" else "necessary",
        )  # fmt: skip
        file.write(Note.of(graph).line(b"#"))
