"""Output of commands: aligned fields or a table for people, JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

_PIPE_WIDTH = 200  # characters in a row of a table that goes to a pipe or file


def print_json(value: Any) -> None:
    """Print JSON that every parser accepts, with infinities and NaN as strings.

    Examples
    --------
    >>> from evener.cli.output import print_json
    >>> print_json({"max": float("inf")})
    {
      "max": "inf"
    }
    """
    print(json.dumps(_finite(value), indent=2, allow_nan=False))


def print_fields(fields: dict[str, str]) -> None:
    """Print one line per field, with aligned values.

    Examples
    --------
    >>> from evener.cli.output import print_fields
    >>> print_fields({"vertices": "4", "arcs": "6"})
    vertices  4
    arcs      6
    """
    width = max(map(len, fields))
    for name, value in fields.items():
        print(f"{name:<{width}}  {value}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below headings, wrapped to the width of the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for row in rows:
        table.add_row(*map(Text, row))  # Text: no markup in brackets, no colours on numbers
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    with console.capture() as captured:
        console.print(table)
    # Not printed by rich, which ends the process when the reader of a pipe has exited.
    for line in captured.get().splitlines():
        print(line.rstrip())


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
