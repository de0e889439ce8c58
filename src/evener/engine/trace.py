"""The trace of a run: a row for each superstep, as a table or for the viewers of Chrome traces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evener.graph.files.target import replacing

if TYPE_CHECKING:
    import polars


class Trace(Sequence[dict[str, Any]]):
    """What happened in each superstep: frontier, edges visited, direction, seconds.

    Examples
    --------
    >>> from evener.engine.trace import Trace
    >>> row = {"superstep": 0, "frontier": 1, "edges": 3, "direction": "push", "seconds": 0.5}
    >>> trace = Trace("BFS", "python", [row])
    >>> trace.to_frame().columns
    ['superstep', 'frontier', 'edges', 'direction', 'seconds']
    >>> trace.to_chrome(tmp_path / "trace.json")
    """

    def __init__(
        self,
        program: str,
        device: str,
        rows: list[dict[str, Any]] | Callable[[], list[dict[str, Any]]],
    ):
        self.program, self.device, self._rows = program, device, rows

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows; thousands of dictionaries are made only when somebody looks."""
        if callable(self._rows):
            self._rows = self._rows()
        return self._rows

    def __reduce__(self) -> Any:
        return Trace, (self.program, self.device, self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __repr__(self) -> str:
        seconds = sum(row["seconds"] for row in self.rows)
        return f"Trace({self.program} on {self.device}: {len(self)} supersteps, {seconds:.3g} s)"

    def to_frame(self) -> polars.DataFrame:
        """A row for each superstep, in the order in which they ran."""
        import polars

        schema = {
            "superstep": polars.Int64, "frontier": polars.Int64, "edges": polars.Int64,
            "direction": polars.String, "seconds": polars.Float64,
        }  # fmt: skip
        if not self.rows:
            return polars.DataFrame(schema=schema)
        return polars.DataFrame(self.rows, infer_schema_length=None, schema_overrides=schema)

    def to_chrome(self, path: str | Path) -> None:
        """Write JSON that chrome://tracing and Perfetto open: a bar for each superstep.

        Supersteps are drawn one after the other; what passed between them is left out.
        """
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": self.program}},
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": self.device}},
        ]
        now = 0.0
        for row in self.rows:
            microseconds = row["seconds"] * 1e6
            place = {"pid": 0, "tid": 0, "ts": now}
            shown = {name: value for name, value in row.items() if name != "seconds"}
            name = f"superstep {row['superstep']}"
            events.append({"name": name, "ph": "X", "dur": microseconds, "args": shown, **place})
            counts = {"vertices": row["frontier"]}
            events.append({"name": "frontier", "ph": "C", "args": counts, **place})
            now += microseconds
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, default=_plain)
        with replacing(Path(path)) as file:
            file.write(text.encode())


def _plain(value: Any) -> Any:
    """A NumPy number as one that JSON knows."""
    return value.item()
