"""The device ``python``: programs as plain Python over NumPy arrays, call by call.

It is the reference for every other device and the debugger: ``breakpoint()`` works in a functor.
`Loop` has the control flow; the stages are in `evener.engine.reference.stages`. The same loop
drives one device or the parts of a device set.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from evener import progress
from evener.engine.job import Job, field_dtype
from evener.engine.reference.numbers import widened, widened_all, wrapped
from evener.engine.reference.stages import (
    COMBINE,
    Adjacency,
    Frontier,
    Outcome,
    Part,
    State,
    bucket,
    run_stage,
)
from evener.programs.fields import neutral
from evener.programs.stages import Advance, Backwards, Gather, Repeat, Stage

Frontiers = list[Frontier]  # one for each part


def interpret(job: Job, direction: str = "auto") -> None:
    """Run a job, changing its fields in place.

    ``direction`` is ``"push"``, ``"pull"`` or ``"auto"``, which pushes. Advances that emit edges
    are always pushed.

    Examples
    --------
    >>> from evener.engine.reference.loop import interpret
    >>> from evener.engine.job import set_up
    >>> from evener.graph.csr import Graph
    >>> from evener.algorithms.bfs import BFS
    >>> job = set_up(BFS, Graph.from_edges([0, 1], [1, 2]), {"source": 0})
    >>> interpret(job)
    >>> job.fields["depth"].tolist()
    [0, 1, 2]
    """
    # 1 / 0 is inf and integers wrap around, as in compiled code.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        Loop(job, OneDevice(job, direction)).run()


class OneDevice:
    """The whole graph as one part."""

    def __init__(self, job: Job, direction: str):
        graph = job.graph
        state = State(
            **widened_all(job.fields), **widened_all(job.params),
            id=np.arange(graph.num_vertices), degree=widened(graph.degrees),
            num_vertices=np.int64(graph.num_vertices),
        )  # fmt: skip
        transposes: list[Adjacency] = []

        def into() -> Adjacency:
            if not transposes:
                transposes.append(out if not graph.directed else Adjacency.of(graph.transpose()))
            return transposes[0]

        out = Adjacency.of(graph)
        vertices = list(range(graph.num_vertices))
        self.parts = [Part(job.declaration, state, vertices, out, into, graph.directed)]
        self.direction = direction

    def start(self, frontier: np.ndarray | None) -> Frontiers:
        """The first frontier, as returned by the program's ``start``."""
        return [self.parts[0].vertices if frontier is None else frontier.tolist()]

    def pulls(self, stage: Stage) -> bool:
        """Whether a stage runs along the in-edges."""
        return isinstance(stage, Gather) or (
            isinstance(stage, Advance) and stage.emit == "vertices" and self.direction == "pull"
        )

    def run(self, stage: Stage, frontiers: Frontiers) -> list[Outcome]:
        """Run one stage on every part."""
        return [run_stage(self.parts[0], stage, frontiers[0], self.pulls(stage))]

    def targets(self, frontiers: Frontiers) -> Frontiers:
        """The set of ``dst`` of a frontier of edges."""
        return [sorted({dst for _, dst, _ in frontiers[0]})]

    def open_row(self, row: dict[str, Any], frontiers: Frontiers) -> dict[str, Any]:
        """A row of the trace; one device adds nothing to it."""
        return row

    def note(self, row: dict[str, Any], seconds: float, outcomes: list[Outcome]) -> None:
        """Add what a stage did on each part: nothing, as one part has the sums."""

    def close_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row of a superstep that has ended."""
        return row

    def finish(self) -> None:
        """Collect the results: nothing, as they are in place."""


class Loop:
    """The control flow of a program, for one device or for several in step."""

    def __init__(self, job: Job, machine: Any):
        self.job, self.machine = job, machine
        self.recorded: list[tuple[int, Frontiers]] = []
        self.rows: list[dict[str, Any]] = [{"edges": 0, "seconds": 0.0}]  # innermost superstep last
        self.set(superstep=0, changed=False)
        self.dtypes = {
            name: field_dtype(scalar.dtype, job.graph)
            for name, scalar in job.declaration.scalars.items()
        }
        for name, scalar in job.declaration.scalars.items():
            self.set_scalar(name, neutral(scalar.merge, self.dtypes[name]))

    def run(self) -> None:
        """Run the whole loop and collect fields, scalars and stats."""
        self.job.stats.update(supersteps=0, edges=0)
        self.sequence(self.job.declaration.loop, self.machine.start(self.job.frontier))
        self.machine.finish()

    def set(self, **values: Any) -> None:
        """Set values of ``s`` on all parts."""
        for part in self.machine.parts:
            part.s.__dict__.update(values)

    def set_scalar(self, name: str, value: Any) -> None:
        """Set a scalar, in its own dtype."""
        self.job.scalars[name] = wrapped(value, self.dtypes[name])
        self.set(**{name: widened(self.job.scalars[name])})

    # ---- stages ---------------------------------------------------------------------------

    def sequence(self, stages: tuple[Stage, ...], frontiers: Frontiers) -> Frontiers:
        """Run stages one after the other, each on the frontier of the one before."""
        for stage in stages:
            if isinstance(stage, Repeat):
                nested = self.nearest if stage.order is not None else self.repeat
                frontiers = nested(stage, frontiers)
            elif isinstance(stage, Backwards):
                self.backwards(stage)
            else:
                frontiers = self.stage(stage, frontiers)
        return frontiers

    def stage(self, stage: Stage, frontiers: Frontiers) -> Frontiers:
        """Run one stage that is not a loop."""
        sources = [part.vertices for part in self.machine.parts] if stage.over_all else frontiers
        if isinstance(stage, Advance) and any(f and isinstance(f[0], tuple) for f in sources):
            sources = self.machine.targets(sources)
        began = time.perf_counter()
        outcomes = self.machine.run(stage, sources)
        row, seconds = self.rows[-1], time.perf_counter() - began
        self.machine.note(row, seconds, outcomes)
        row["seconds"] += seconds
        row["edges"] += sum(outcome.calls for outcome in outcomes)
        self.job.stats["edges"] += sum(outcome.calls for outcome in outcomes)
        if isinstance(stage, Advance | Gather):
            row["direction"] = "pull" if self.machine.pulls(stage) else "push"
        if stage.sets_changed and any(outcome.changed for outcome in outcomes):
            self.set(changed=True)
        if stage.into is not None:
            self.reduced(stage, [o.value for o in outcomes if o.value is not None])
        has_made = outcomes[0].frontier is not None
        return [outcome.frontier for outcome in outcomes] if has_made else frontiers

    def reduced(self, stage: Any, values: list[Any]) -> None:
        """Reduce the values of the parts; without any it is the neutral value."""
        name = stage.into.name
        total = neutral(stage.op, self.dtypes[name])
        for value in values:
            total = COMBINE[stage.op](total, value)
        self.set_scalar(name, total)

    # ---- loops ----------------------------------------------------------------------------

    def repeat(self, stage: Repeat, frontiers: Frontiers) -> Frontiers:
        """Repeat until the frontier is empty, ``until`` holds, or the limit is reached."""
        control = _Control(self, stage)
        while control.goes_on(frontiers):
            control.begin(frontiers)
            frontiers = self.sequence(stage.stages, frontiers)
            control.end()
        control.restore()
        return frontiers

    def nearest(self, stage: Repeat, frontiers: Frontiers) -> Frontiers:
        """Advance from the nearest bucket first; the frontier left over is handed on."""
        assert stage.order is not None
        delta = self.job.value_of(stage.order.delta)
        parts = self.machine.parts
        field, control = stage.order.field.name, _Control(self, stage)
        waiting: list[dict[Any, float]] = [{} for _ in parts]  # a vertex and its bucket

        def join(emitted: Frontiers) -> None:
            for part, mine, new in zip(parts, waiting, emitted, strict=True):
                values = getattr(part.s, field)
                mine.update((v, bucket(values[v], delta)) for v in new)

        join(frontiers)
        while control.goes_on([list(mine) for mine in waiting]):
            # All devices work on the globally nearest bucket. A vertex whose value fell without
            # being emitted again was settled in an earlier bucket.
            current = min(number for mine in waiting for number in mine.values())
            chosen = []
            for part, mine in zip(parts, waiting, strict=True):
                values = getattr(part.s, field)
                members = sorted(v for v in mine if mine[v] == current)
                chosen.append([v for v in members if bucket(values[v], delta) >= current])
                for v in members:
                    del mine[v]
            if any(chosen):
                control.begin(chosen)
                join(self.sequence(stage.stages, chosen))
                control.end()
        control.restore()
        return [sorted(mine) for mine in waiting]

    def backwards(self, stage: Backwards) -> None:
        """Replay the recorded frontiers, from the last superstep to the first."""
        outer = _visible(self)
        for superstep, frontiers in reversed(self.recorded):
            self.set(superstep=superstep, changed=False)
            self.open_row(superstep, frontiers)
            self.sequence(stage.stages, frontiers)
            self.close_row()
        self.set(**outer)

    # ---- the trace ------------------------------------------------------------------------

    def open_row(self, superstep: int, frontiers: Frontiers) -> None:
        """Begin a superstep of the trace; its row excludes the loops inside it."""
        stats, frontier = self.job.stats, sum(map(len, frontiers))
        progress.report_supersteps(stats["supersteps"], frontier, stats["edges"])
        row = {
            "superstep": superstep, "frontier": frontier, "edges": 0, "direction": None,
            "seconds": 0.0,
        }  # fmt: skip
        self.rows.append(self.machine.open_row(row, frontiers))

    def close_row(self) -> None:
        """End a superstep of the trace."""
        self.job.trace.append(self.machine.close_row(self.rows.pop()))
        self.job.stats["supersteps"] += 1


class _Control:
    """Whether one repeat goes on: its superstep count, its limit, its ``until``."""

    def __init__(self, loop: Loop, stage: Repeat):
        self.loop, self.stage = loop, stage
        self.outer = _visible(loop)
        self.superstep, self.done = 0, loop.job.graph.num_vertices == 0
        self.limit = loop.job.value_of(stage.max_supersteps)
        if stage.record:
            loop.recorded = []
        loop.set(superstep=0, changed=False)

    def goes_on(self, frontiers: Frontiers) -> bool:
        """Whether to run another superstep on this frontier."""
        if self.done or (self.limit is not None and self.superstep >= self.limit):
            return False
        has_made = self.superstep > 0 and self.stage.makes_frontier
        return any(frontiers) or not (has_made or self.stage.takes_frontier)

    def begin(self, frontiers: Frontiers) -> None:
        self.loop.set(superstep=self.superstep, changed=False)
        if self.stage.record:
            self.loop.recorded.append((self.superstep, frontiers))
        self.loop.open_row(self.superstep, frontiers)

    def end(self) -> None:
        self.loop.close_row()
        self.superstep += 1
        self.loop.set(superstep=self.superstep)
        if self.stage.until is not None:
            part = self.loop.machine.parts[0]  # scalars are equal on all
            self.done = bool(part.call(self.stage.until)(part.s))

    def restore(self) -> None:
        """Restore the superstep count of the enclosing repeat."""
        self.loop.set(**self.outer)


def _visible(loop: Loop) -> dict[str, Any]:
    s = loop.machine.parts[0].s
    return {"superstep": s.superstep, "changed": s.changed}
