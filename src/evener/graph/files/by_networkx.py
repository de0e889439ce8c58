"""Formats that NetworkX reads and writes, with the extra `evener[networkx]`."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from evener.device import require_memory
from evener.errors import EvenerError, GraphError
from evener.graph.convert import from_networkx, to_networkx
from evener.graph.csr import Graph
from evener.graph.files.atomic_file import replacing
from evener.graph.files.columns import text_labels
from evener.graph.files.finish import apply_request
from evener.graph.files.request import Request
from evener.graph.files.source import Source

_WHOLE = re.compile(r"[+-]?[0-9]+")
_ID = re.compile(r"0|-?[1-9][0-9]{0,18}")
_LONG_EXPONENT = re.compile(rb"[+-]?\b\d[\d.]*[eE]\+?\d{3,}\b")
_BYTES_PER_CHARACTER = 20  # memory of a NetworkX graph and the text it is read from


def read_by_networkx(
    source: Source, request: Request, format: str, read: Callable[[ModuleType, Any], Any]
) -> Graph:
    """Read a file by NetworkX; if all ids are whole numbers, they become integers."""
    networkx = _networkx(format)
    require_memory(_BYTES_PER_CHARACTER * len(source.data), f"Reading {source.name}")
    try:
        found = read(networkx, io.BytesIO(source.text()))
    except (MemoryError, EvenerError):
        raise
    except Exception as error:  # the errors of NetworkX's parsers have no common base
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        source.fail(f"is not {format} that NetworkX can read ({reason})")
    weight = "weight" if request.weight is None else str(request.weight or "")
    found = _with_whole_numbers(networkx, found)
    try:
        text_labels(np.array([name for name in found if isinstance(name, str)], object))
        graph = from_networkx(found, weight=weight or None)
        if request.has_weight and graph._weights is None and graph.num_edges:
            raise GraphError(f"no edge has an attribute {weight!r}.")
        _refuse_overflow(source, graph)
    except GraphError as error:
        source.fail(str(error).rstrip("."))
    return apply_request(graph, request)


def parse_number(text: str) -> int | float:
    """Parse a number; whole numbers become integers, which keep all digits.

    Examples
    --------
    >>> from evener.graph.files.by_networkx import parse_number
    >>> parse_number("9007199254740993"), parse_number("2.5")
    (9007199254740993, 2.5)
    """
    return int(text) if _WHOLE.fullmatch(text.strip()) else float(text)


def parse_float(text: str) -> int | float:
    """Parse a number that a file declares a float; an integer if a float would lose digits.

    Examples
    --------
    >>> from evener.graph.files.by_networkx import parse_float
    >>> parse_float("9007199254740993"), parse_float("2")
    (9007199254740993, 2.0)
    """
    number = parse_number(text)
    return number if isinstance(number, int) and _loses_digits(number) else float(text)


def _loses_digits(whole: int) -> bool:
    try:
        return float(whole) != whole
    except OverflowError:
        return True


def _refuse_overflow(source: Source, graph: Graph) -> None:
    """Refuse a decimal that overflowed to infinity, which NetworkX accepts."""
    weights = graph._weights
    if weights is None or weights.dtype.kind != "f" or not np.isinf(weights).any():
        return
    for found in _LONG_EXPONENT.finditer(source.text()):
        if np.isinf(float(found[0])):
            what = f"{found[0].decode()!r} is too large for a float; expected a number or inf"
            source.fail(what, source.line_at(found.start()))


def _with_whole_numbers(networkx: ModuleType, found: Any) -> Any:
    """Turn node names into integers if all of them are; the files store names as text."""
    names = list(found)
    if not names or not all(type(name) is str and _ID.fullmatch(name) for name in names):
        return found
    if not all(-(1 << 63) <= int(name) < 1 << 63 for name in names):
        return found
    return networkx.relabel_nodes(found, {name: int(name) for name in names})


def write_by_networkx(
    graph: Graph, path: Path, format: str, write: Callable[[ModuleType, Any, Any], None]
) -> None:
    """Write a file by NetworkX."""
    networkx = _networkx(format)
    if graph._labels.kind == "objects":
        text_labels(graph.labels)  # refuses labels that are not text
    converted = to_networkx(graph)
    with replacing(path) as file:
        write(networkx, converted, file)


def _networkx(format: str) -> ModuleType:
    try:
        import networkx
    except ImportError:
        raise EvenerError(
            f"{format} files are read and written by NetworkX, which is not installed: "
            "pip install evener[networkx]."
        ) from None
    return networkx
