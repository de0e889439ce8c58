"""The trace of a run: a row for each superstep, as a table or for the viewers of Chrome traces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evener.graph.files.atomic_file import replacing
from evener.operators.shared.trace import CALLS, CYCLES, MEMBERS, PULLED, STEP

if TYPE_CHECKING:
    import polars

MOST_ROWS = 1 << 14  # of a compiled kernel, whose table has a fixed size


class Trace(Sequence[dict[str, Any]]):
    """A row for each superstep: frontier, edges visited, direction, seconds.

    Rows of a device set have more columns, see `rows_of_parts`. Stages outside a `repeat` have no
    row, and a fused loop in the order of `nearest` has a single one, so there may be fewer rows
    than ``stats["supersteps"]``. Of a long run, compiled devices keep the first 16,384 rows;
    `Result.explain` then says so.

    Examples
    --------
    >>> from evener.engine.results.trace import Trace
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
        """The rows, built when first read: there may be thousands of dictionaries."""
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

    def beside(self, alone: Trace) -> Trace:
        """The trace with redundant work: edges over those that one device visited.

        Parts may visit more, because ghosts may be stale.

        Examples
        --------
        >>> from evener import bfs, generate
        >>> graph = generate.grid(4, 4)
        >>> parts, alone = (bfs(graph, 0, device=name) for name in ("cpu:1+cpu:1", "cpu"))
        >>> [row["redundant_work"] for row in parts.trace.beside(alone.trace)][:3]
        [1.0, 1.0, 1.0]
        """
        edges = [row["edges"] for row in alone.rows] + [0] * len(self)
        rows = [
            {**row, "redundant_work": row["edges"] / one if one else None}
            for row, one in zip(self.rows, edges, strict=False)
        ]
        return Trace(self.program, self.device, rows)

    def to_frame(self) -> polars.DataFrame:
        """A row for each superstep, in the order in which they ran.

        Examples
        --------
        >>> import evener as ev
        >>> trace = ev.bfs(ev.generate.star(4), 1, device="python").trace
        >>> trace.to_frame().select("superstep", "frontier", "edges").rows()
        [(0, 1, 1), (1, 1, 2), (2, 2, 0)]
        """
        import polars

        schema: dict[str, Any] = {
            "superstep": polars.Int64, "frontier": polars.Int64, "edges": polars.Int64,
            "direction": polars.String, "seconds": polars.Float64,
        }  # fmt: skip
        if not self.rows:
            return polars.DataFrame(schema=schema)
        for name in ("useful_share", "redundant_work"):  # None where nothing was sent
            if name in self.rows[0]:
                schema[name] = polars.Float64
        return polars.DataFrame(self.rows, infer_schema_length=None, schema_overrides=schema)

    def to_chrome(self, path: str | Path) -> None:
        """Write JSON that chrome://tracing and Perfetto open: a bar for each superstep.

        A device set has a lane for each device, with a bar of computation and one of communication,
        which includes waiting. Supersteps are drawn one after the other, without the time between
        them.

        Examples
        --------
        >>> import json
        >>> import evener as ev
        >>> trace = ev.bfs(ev.generate.path(3), 0, device="python").trace
        >>> trace.to_chrome(tmp_path / "trace.json")
        >>> events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        >>> [event["name"] for event in events if event["ph"] == "X"]
        ['superstep 0', 'superstep 1', 'superstep 2']
        """
        devices = self.device.split("+")
        if not self.rows or len(self.rows[0].get("compute_seconds", ())) != len(devices):
            devices = [self.device]
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": self.program}},
            *(
                {"name": "thread_name", "ph": "M", "pid": 0, "tid": p, "args": {"name": name}}
                for p, name in enumerate(devices)
            ),
        ]
        now = 0.0
        for row in self.rows:
            events += _bars(row, now) if len(devices) > 1 else _bar(row, now)
            place = {"pid": 0, "tid": 0, "ts": now, "ph": "C"}
            events.append({"name": "frontier", "args": {"vertices": row["frontier"]}, **place})
            if "bytes" in row:
                sent = {"useful": row["useful_bytes"], "sent": row["bytes"]}
                events.append({"name": "bytes", "args": sent, **place})
            now += row["seconds"] * 1e6
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, default=_plain)
        with replacing(Path(path)) as file:
            file.write(text.encode())


def rows_of(table: np.ndarray, seconds: float) -> list[dict[str, Any]]:
    """A row for each superstep of one device, whose kernel took ``seconds``.

    The table has the words of `evener.operators.shared.trace`, followed by calls.
    """
    unit = seconds / max(1, int(table[:, CYCLES].sum()))
    calls = table[:, CALLS:].sum(axis=1)
    return [
        {
            "superstep": int(row[STEP]), "frontier": int(row[MEMBERS]), "edges": int(count),
            "direction": "pull" if row[PULLED] else "push", "seconds": float(row[CYCLES]) * unit,
        }
        for row, count in zip(table, calls, strict=True)
    ]  # fmt: skip


class PartRows(NamedTuple):
    """The trace that a kernel wrote for one part."""

    table: np.ndarray  # as in `rows_of`
    # Cycles of communication, waiting included, and bytes received: all, those of changed values,
    # and those that the policy ``all`` would have sent.
    communication: np.ndarray
    unit: float  # seconds of a cycle


def rows_of_parts(parts: list[PartRows]) -> list[dict[str, Any]]:
    """A row for each superstep of a device set: sums, and lists with an entry per device.

    The useful share is that of changed values in what the policy ``all`` would have sent.
    """
    calls = [part.table[:, CALLS:].sum(axis=1) for part in parts]
    rows = []
    for i in range(min(len(part.table) for part in parts)):
        first = parts[0].table[i]
        spent = [float(part.table[i, CYCLES]) * part.unit for part in parts]
        # Clocks are read one after the other, so communication may seem longer than the superstep.
        communicated = [
            min(seconds, max(0.0, float(part.communication[i, 0])) * part.unit)
            for seconds, part in zip(spent, parts, strict=True)
        ]
        frontier = [int(part.table[i, MEMBERS]) for part in parts]
        edges = [int(one[i]) for one in calls]
        rows.append({
            "superstep": int(first[STEP]),
            "frontier": sum(frontier),
            "edges": sum(edges),
            "direction": "pull" if first[PULLED] else "push",
            "seconds": max(spent),
            "compute_seconds": [a - b for a, b in zip(spent, communicated, strict=True)],
            "communication_seconds": communicated,
            "device_frontier": frontier,
            "device_edges": edges,
            **bytes_of(np.array([part.communication[i, 1:] for part in parts])),
        })  # fmt: skip
    return rows


def bytes_of(traffic: np.ndarray) -> dict[str, Any]:
    """The columns of a row about bytes received by each device; see `rows_of_parts`.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.results.trace import bytes_of
    >>> row = bytes_of(np.array([[12, 8, 80], [0, 0, 0]]))
    >>> row["bytes"], row["useful_share"], row["device_useful_share"]
    (12, 0.1, [0.1, None])
    """
    sent, useful, whole = (int(count) for count in traffic.sum(axis=0))
    return {
        "bytes": sent,
        "useful_bytes": useful,
        "bytes_of_all": whole,
        "useful_share": share_of(useful, whole),
        "device_bytes": traffic[:, 0].tolist(),
        "device_useful_share": [share_of(int(row[1]), int(row[2])) for row in traffic],
    }


def share_of(useful: int, whole: int) -> float | None:
    """A share, or None if the whole is 0."""
    return useful / whole if whole else None


def _bar(row: dict[str, Any], now: float) -> list[dict[str, Any]]:
    """A superstep of one device, or of parts that take turns."""
    shown = {name: value for name, value in row.items() if name != "seconds"}
    place = {"pid": 0, "tid": 0, "ts": now, "dur": row["seconds"] * 1e6}
    return [{"name": f"superstep {row['superstep']}", "ph": "X", "args": shown, **place}]


def _bars(row: dict[str, Any], now: float) -> list[dict[str, Any]]:
    """A superstep of a device set."""
    events = []
    whole = ("frontier", "edges", "direction", "useful_share", "redundant_work")
    for p, (computed, communicated) in enumerate(
        zip(row["compute_seconds"], row["communication_seconds"], strict=True)
    ):
        shown = {name: row[name] for name in whole if name in row}
        own = {
            name.removeprefix("device_"): values[p]
            for name, values in row.items()
            if name.startswith("device_")
        }
        place = {"pid": 0, "tid": p, "ph": "X", "cat": "superstep"}
        name = f"superstep {row['superstep']}"
        computes = {"dur": computed * 1e6, "args": {"device": own, "all": shown}}
        talks = {"dur": communicated * 1e6, "args": {"device": own}}
        events.append({"name": name, "ts": now, **computes, **place})
        begins = now + computed * 1e6
        events.append({"name": "communication", "ts": begins, **talks, **place})
    return events


def _plain(value: Any) -> Any:
    """A NumPy number as a Python number, for JSON."""
    return value.item()
