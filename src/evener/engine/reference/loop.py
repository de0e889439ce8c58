"""The device ``python``: programs as plain Python over NumPy arrays, one call after the other.

It is the reference for every other device and the debugger: ``breakpoint()`` works in a functor.
`Loop` says what runs when and over which frontier; the stages themselves are in
`evener.engine.reference.stages`. The same loop drives one device or the parts of a device set.
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
    # 1 / 0 is inf and whole numbers wrap round, as in compiled code.
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
        turned: list[Adjacency] = []

        def into() -> Adjacency:
            if not turned:
                turned.append(out if not graph.directed else Adjacency.of(graph.transpose()))
            return turned[0]

        out = Adjacency.of(graph)
        vertices = list(range(graph.num_vertices))
        self.parts = [Part(job.declaration, state, vertices, out, into, graph.directed)]
        self.direction = direction

    def start(self, frontier: np.ndarray | None) -> Frontiers:
        """The first frontier, as ``start`` of the program gave it."""
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
        """A row of the trace, which says all there is to say of one device."""
        return row

    def note(self, row: dict[str, Any], seconds: float, outcomes: list[Outcome]) -> None:
        """Add what a stage did on each part; one part has the sums."""

    def close_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row when its superstep has ended."""
        return row

    def finish(self) -> None:
        """Bring the results home; here they are already."""


class Loop:
    """The control flow of a program: the same for one device and for many in step."""

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
        """Run the whole loop and bring fields, scalars and stats home."""
        self.job.stats.update(supersteps=0, edges=0)
        self.sequence(self.job.declaration.loop, self.machine.start(self.job.frontier))
        self.machine.finish()

    def set(self, **values: Any) -> None:
        """Let functors on all parts see new values."""
        for part in self.machine.parts:
            part.s.__dict__.update(values)

    def set_scalar(self, name: str, value: Any) -> None:
        """Give a scalar its value, in its own type."""
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
        """Run one stage that is no loop."""
        taken = [part.vertices for part in self.machine.parts] if stage.over_all else frontiers
        if isinstance(stage, Advance) and any(f and isinstance(f[0], tuple) for f in taken):
            taken = self.machine.targets(taken)
        began = time.perf_counter()
        outcomes = self.machine.run(stage, taken)
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
        made = outcomes[0].frontier is not None
        return [outcome.frontier for outcome in outcomes] if made else frontiers

    def reduced(self, stage: Any, values: list[Any]) -> None:
        """Reduce what the parts found; with no vertices at all it is the neutral value."""
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
        """Advance from the nearest bucket first; what was not reached is handed on."""
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
            # All devices work on the nearest bucket of all. A vertex whose value fell without
            # its being emitted again was settled in an earlier bucket.
            current = min(number for mine in waiting for number in mine.values())
            chosen = []
            for part, mine in zip(parts, waiting, strict=True):
                values = getattr(part.s, field)
                taken = sorted(v for v in mine if mine[v] == current)
                chosen.append([v for v in taken if bucket(values[v], delta) >= current])
                for v in taken:
                    del mine[v]
            if any(chosen):
                control.begin(chosen)
                join(self.sequence(stage.stages, chosen))
                control.end()
        control.restore()
        return [sorted(mine) for mine in waiting]

    def backwards(self, stage: Backwards) -> None:
        """Replay what was recorded, from the last superstep to the first."""
        outer = _visible(self)
        for superstep, frontiers in reversed(self.recorded):
            self.set(superstep=superstep, changed=False)
            self.open_row(superstep, frontiers)
            self.sequence(stage.stages, frontiers)
            self.close_row()
        self.set(**outer)

    # ---- the trace ------------------------------------------------------------------------

    def open_row(self, superstep: int, frontiers: Frontiers) -> None:
        """Begin a superstep of the trace; its row leaves out what loops inside it count."""
        stats, frontier = self.job.stats, sum(map(len, frontiers))
        progress.tell_supersteps(stats["supersteps"], frontier, stats["edges"])
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
    """Whether one repeat goes on: its count of supersteps, its limit, its ``until``."""

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
        made = self.superstep > 0 and self.stage.makes_frontier
        return any(frontiers) or not (made or self.stage.takes_frontier)

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
            part = self.loop.machine.parts[0]  # scalars are the same on all
            self.done = bool(part.call(self.stage.until)(part.s))

    def restore(self) -> None:
        """Let the repeat around this one have its own count again."""
        self.loop.set(**self.outer)


def _visible(loop: Loop) -> dict[str, Any]:
    s = loop.machine.parts[0].s
    return {"superstep": s.superstep, "changed": s.changed}
