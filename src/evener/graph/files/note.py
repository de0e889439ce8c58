"""A note that Evener writes to files whose format cannot express all properties of a graph.

It is a comment, ``# evener: {…}``, that other programs skip. Reading it restores what an edge list
does not hold: direction, isolated vertices, the first label and the dtype of the weights. In a
file without a note the rules of the format apply.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from evener.graph.arguments import WEIGHT_DTYPES
from evener.graph.csr import Graph
from evener.graph.files.source import Source

_MARK = b"evener: "
_DTYPES = {np.dtype(dtype).name: np.dtype(dtype) for dtype in WEIGHT_DTYPES}


class Note(NamedTuple):
    """The content of a note; ``num_vertices`` is None if the labels are not a range."""

    directed: bool
    num_vertices: int | None
    first: int
    weights: np.dtype | None

    @classmethod
    def of(cls, graph: Graph) -> Note:
        """The note for a graph that is to be written."""
        labels = graph._labels
        return cls(
            directed=graph.directed,
            num_vertices=labels.size if labels.is_range else None,
            first=labels.start,
            weights=None if graph._weights is None else graph._weights.dtype,
        )

    def line(self, comment: bytes) -> bytes:
        """The note as a comment line."""
        return comment + b" " + _MARK + self.json().encode() + b"\n"

    def json(self) -> str:
        """The note as JSON."""
        weights = None if self.weights is None else self.weights.name
        return json.dumps({**self._asdict(), "weights": weights})

    @classmethod
    def find(cls, source: Source, comment: bytes) -> Note | None:
        """The note in the first or last line of a file, or None."""
        data = source.data
        tail_start = max(0, len(data) - 512)
        lines = (
            (1, data[:512].tobytes().split(b"\n", 1)[0]),
            (None, data[tail_start:].tobytes().rstrip(b"\r\n").rsplit(b"\n", 1)[-1]),
        )
        for number, line in lines:
            if line.startswith(comment + b" " + _MARK):
                content = line[len(comment) + 1 + len(_MARK) :]
                return cls.parse(content, source, number)
        return None

    @classmethod
    def parse(cls, content: bytes | str, source: Source, line: int | None = None) -> Note:
        """Parse the JSON of a note; GraphFormatError if it is damaged."""
        try:
            fields = json.loads(content)
            note = cls(
                directed=_typed(fields["directed"], bool),
                num_vertices=_optional(fields["num_vertices"], int),
                first=_typed(fields["first"], int),
                weights=None if fields["weights"] is None else _DTYPES[fields["weights"]],
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            source.fail(
                "Evener's note is damaged; remove that comment to read the file without it", line
            )
        if not (0 <= (note.num_vertices or 0) < 1 << 62 and abs(note.first) < 1 << 62):
            source.fail("Evener's note has numbers out of range; remove that comment", line)
        return note


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _optional(value: Any, kind: type) -> Any:
    return None if value is None else _typed(value, kind)
