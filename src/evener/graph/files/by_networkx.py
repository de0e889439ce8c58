"""Formats that NetworkX reads and writes, for those who have it: `evener[networkx]`."""

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
from evener.graph.files.columns import text_labels
from evener.graph.files.finish import combined
from evener.graph.files.request import Request
from evener.graph.files.source import Source
from evener.graph.files.target import replacing

_WHOLE = re.compile(r"[+-]?[0-9]+")
_ID = re.compile(r"0|-?[1-9][0-9]{0,18}")
_LONG_EXPONENT = re.compile(rb"[+-]?\b\d[\d.]*[eE]\+?\d{3,}\b")
_BYTES_PER_CHARACTER = 20  # of memory that a graph of NetworkX and its text take


def read_by_networkx(
    source: Source, request: Request, format: str, read: Callable[[ModuleType, Any], Any]
) -> Graph:
    """Have NetworkX read a file; ids that all are whole numbers become integers."""
    networkx = _networkx(format)
    require_memory(_BYTES_PER_CHARACTER * len(source.data), f"Reading {source.name}")
    try:
        found = read(networkx, io.BytesIO(source.text()))
    except (MemoryError, EvenerError):
        raise
    except Exception as error:  # what the parsers below NetworkX raise has no common base
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        source.fail(f"is not {format} that NetworkX can read ({reason})")
    weight = "weight" if request.weight is None else str(request.weight or "")
    found = _with_whole_numbers(networkx, found)
    try:
        text_labels(np.array([name for name in found if isinstance(name, str)], object))
        graph = from_networkx(found, weight=weight or None)
        if request.has_weight and graph._weights is None and graph.num_edges:
            raise GraphError(f"no edge has an attribute {weight!r}.")
        _require_fitting(source, graph)
    except GraphError as error:
        source.fail(str(error).rstrip("."))
    return combined(graph, request)


def as_written(text: str) -> int | float:
    """A number as it stands in a file: whole numbers are integers, which keep their digits.

    Examples
    --------
    >>> from evener.graph.files.by_networkx import as_written
    >>> as_written("9007199254740993"), as_written("2.5")
    (9007199254740993, 2.5)
    """
    return int(text) if _WHOLE.fullmatch(text.strip()) else float(text)


def as_float(text: str) -> int | float:
    """A number that a file declares a float, but an integer where a float loses digits.

    Examples
    --------
    >>> from evener.graph.files.by_networkx import as_float
    >>> as_float("9007199254740993"), as_float("2")
    (9007199254740993, 2.0)
    """
    written = as_written(text)
    return written if isinstance(written, int) and _loses_digits(written) else float(text)


def _loses_digits(whole: int) -> bool:
    try:
        return float(whole) != whole
    except OverflowError:
        return True


def _require_fitting(source: Source, graph: Graph) -> None:
    """Refuse a decimal that has become infinite, which NetworkX takes as it is."""
    weights = graph._weights
    if weights is None or weights.dtype.kind != "f" or not np.isinf(weights).any():
        return
    for found in _LONG_EXPONENT.finditer(source.text()):
        if np.isinf(float(found[0])):
            what = f"{found[0].decode()!r} is too large for a float; expected a number or inf"
            source.fail(what, source.line_at(found.start()))


def _with_whole_numbers(networkx: ModuleType, found: Any) -> Any:
    """The graph with integers for nodes whose ids all are, as files have nothing but text."""
    names = list(found)
    if not names or not all(type(name) is str and _ID.fullmatch(name) for name in names):
        return found
    if not all(-(1 << 63) <= int(name) < 1 << 63 for name in names):
        return found
    return networkx.relabel_nodes(found, {name: int(name) for name in names})


def write_by_networkx(
    graph: Graph, path: Path, format: str, write: Callable[[ModuleType, Any, Any], None]
) -> None:
    """Have NetworkX write a file."""
    networkx = _networkx(format)
    if graph._labels.kind == "objects":
        text_labels(graph.labels)  # refuses what is no text
    made = to_networkx(graph)
    with replacing(path) as file:
        write(networkx, made, file)


def _networkx(format: str) -> ModuleType:
    try:
        import networkx
    except ImportError:
        raise EvenerError(
            f"{format} files are read and written by NetworkX, which is not installed: "
            "pip install evener[networkx]."
        ) from None
    return networkx
