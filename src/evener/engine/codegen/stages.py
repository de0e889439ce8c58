"""From a program's stages to the text of one kernel, which every thread of a team runs.

The kernel holds the whole loop, repeats within repeats included: a stage becomes a call of an
operator with the program's functors as arguments, which the compiler then inlines. Threads walk
through the text in step; what decides where they go (sizes of frontiers, scalars, counters) is
the same for all of them, because it is read after a barrier or computed alike.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from evener.device import atomic, compiled, serial
from evener.device.callbacks import needs_python
from evener.device.sync import STOP, barrier, cycles, show
from evener.engine.codegen import fusion
from evener.engine.codegen.functors import place_of
from evener.engine.codegen.loops import Loops
from evener.engine.job import Job, field_dtype
from evener.errors import DeviceError
from evener.operators.cpu import advance as advance_module
from evener.operators.cpu import edge_frontier as edge_module
from evener.operators.cpu import frontier as frontier_module
from evener.operators.cpu import gather as gather_module
from evener.operators.cpu import nearest as nearest_module
from evener.operators.cpu import vertices as vertices_module
from evener.operators.shared import buckets as buckets_module
from evener.operators.shared import edge_frontier as shared_edges
from evener.operators.shared import frontier as shared
from evener.operators.shared import record as record_module
from evener.operators.shared import vertices as shared_vertices
from evener.programs.fields import neutral
from evener.programs.program import Declaration
from evener.programs.stages import (
    Advance,
    Backwards,
    Compute,
    Edges,
    Filter,
    Gather,
    Reduce,
    Repeat,
    Stage,
    walk,
)

MODES = {"push": shared.PUSH, "pull": shared.PULL, "auto": shared.AUTO}
SIDES = {"in": ("into", "weight_in"), "out": ("out", "weight_out"), "both": ("both", "weight_both")}
IDEMPOTENT = ("min", "max", "any")

SIGNATURE = (
    "thread", "threads", "sync", "graph", "fields", "params", "fronts", "marks", "buffers",
    "partials", "totals", "copies", "sums", "ordered", "record", "edge_rooms", "waiting", "trace",
)  # fmt: skip
EDGE_OPERATORS = ("filter_edges", "compute_edges", "targets")
RECORD_OPERATORS = ("Record", "remember", "remember_edges", "recall", "recall_edges")


class NotLoweredError(DeviceError):
    """A program has something that only the interpreter runs in this version."""


@dataclass
class Kernel:
    """The text of a kernel, and what its names stand for."""

    text: str
    names: dict[str, Any]
    gathers: list[Gather] = field(default_factory=list)
    totals: set[int] = field(default_factory=set)  # gathers that store totals
    copied: list[str] = field(default_factory=list)  # fields that have a second copy
    summed: list[str] = field(default_factory=list)  # scalars that are reduced by chunk
    orders: int = 0  # loops in the order of buckets that are not fused
    has_edges: bool = False  # whether there are frontiers of edges
    has_both: bool = False  # whether a gather goes along both directions of a directed graph
    is_inexact: bool = False  # whether a vertex may be twice in a frontier


def pulls(d: Declaration, direction: str) -> bool:
    """Whether a stage may run along in-edges, so that the transpose is needed."""
    return any(
        (isinstance(stage, Gather) and stage.along != "out")
        or (
            isinstance(stage, Advance)
            and (direction == "pull" or (direction == "auto" and stage.where is not None))
        )
        for stage in walk(d.loop)
    )


def without_atomics(function: Any) -> Any:
    """A function with plain updates, for a thread that has what it writes to itself."""
    swapped = {k: serial if v is atomic else v for k, v in function.__globals__.items()}
    return types.FunctionType(
        function.__code__, swapped, function.__name__, function.__defaults__, function.__closure__
    )


class _Writer(Loops):
    signature: tuple[str, ...] = SIGNATURE

    def __init__(self, job: Job, direction: str, state: Any):
        self.job, self.d, self.direction = job, job.declaration, direction
        self.lines: list[str] = []
        self.indent = 1
        self.step = "0"
        self.replays = any(isinstance(stage, Backwards) for stage in walk(self.d.loop))
        self.has_edges = any(
            isinstance(stage, Advance) and stage.emit == "edges" for stage in walk(self.d.loop)
        )
        self.current, self.next = "current", "following"
        self.in_replay = False
        self.kernel = Kernel("", {})
        self.names: dict[str, Any] = {
            "np": np, "State": state, "barrier": barrier, "STOP": STOP, "cycles": cycles,
            "show": show,
            "always": shared.always,
            "Team": frontier_module.Team, "Frontier": shared.Frontier,
            "Adjacency": frontier_module.Adjacency,
            "advance": advance_module.advance, "fill_all": advance_module.fill_all,
            "Pool": nearest_module.Pool,
            "filter_": shared_vertices.filter, "compute": shared_vertices.compute,
            "gather": gather_module.gather, "gather_at_once": gather_module.gather_at_once,
            "gather_all": gather_module.gather_all, "sum_up": gather_module.sum_up,
            "settle": gather_module.settle, "reduce": vertices_module.reduce,
            "edges": vertices_module.edges, "next_stamp": advance_module.next_stamp, "note": note,
            **{name: getattr(edge_module, name) for name in ("EdgeFrontier", "advance_edges")},
            **{name: getattr(shared_edges, name) for name in EDGE_OPERATORS},
            **{name: getattr(record_module, name) for name in RECORD_OPERATORS},
            "join": buckets_module.join, "pick": buckets_module.pick,
            "hand_on": buckets_module.hand_on, "empty": frontier_module.empty,
        }  # fmt: skip
        for name, functor in self.d.functors.items():
            needs = needs_python(functor.function)
            if needs is not None:
                raise NotLoweredError(
                    f"{place_of(self.d, functor, needs.line)}{needs.what}, which only "
                    "device='python' does."
                )
            self.names[f"f_{name}"] = compiled(functor.function, allocates=False)
            self.names[f"alone_{name}"] = self.alone(name)
        for name, combination in shared_vertices.COMBINATIONS.items():
            self.names[f"combine_{name}"] = combination

    def alone(self, name: str) -> Any:
        """The functor for a pull: one thread has all edges into ``dst``, so it needs no atomics."""
        function = self.d.functors[name].function
        found = self.d.accesses.get((name, "f"))
        if found is None or any(a.kind != "read" and a.place != "dst" for a in found.fields):
            return self.names[f"f_{name}"]
        return compiled(without_atomics(function), allocates=False)

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def write(self) -> Kernel:
        for line in self.prologue():
            self.put(line)
        for i, name in enumerate(self.d.scalars):
            dtype = field_dtype(self.d.scalars[name].dtype, self.job.graph)
            value = neutral(self.d.scalars[name].merge, dtype)
            self.names[f"neutral_{name}"] = dtype.type(value)
            self.put(f"scalar_{name} = neutral_{name}")
            self.put(f"partial_{name} = partials[{i + 1}]")
        if self.has_edges:
            for line in _EDGE_PROLOGUE:
                self.put(line)
        at = len(self.lines)
        self.sequence(self.d.loop)
        copied = self.kernel.copied
        for i, name in enumerate(self.d.fields):
            if name in copied:
                self.put(f"settle(team, fields[{i}], field_{name}, moved_{name})")
        for name in self.d.scalars:
            self.put(f"partial_{name}[8 * thread] = scalar_{name}")
        self.put("trace[0, 5 + thread] = visited")
        self.put("if thread == 0: trace[0, 1] = fused")
        self.put(f"return {self.outcome()}")
        begin = [f"field_{name} = fields[{i}]" for i, name in enumerate(self.d.fields)]
        begin += [f"copy_{name} = copies[{i}]" for i, name in enumerate(copied)]
        begin += [f"moved_{name} = False" for name in copied]
        begin += self.after_prologue()
        self.lines[at:at] = ["    " + line for line in begin]
        text = f"def worker({', '.join(self.signature)}):\n" + "\n".join(self.lines) + "\n"
        self.kernel.text, self.kernel.names = text, self.names
        return self.kernel

    def prologue(self) -> tuple[str, ...]:
        """What the names in a kernel stand for."""
        return _PROLOGUE

    def after_prologue(self) -> list[str]:
        """What stands between the names and the loop; asked for when all else is written."""
        return []

    def outcome(self) -> str:
        """What a kernel returns at its end."""
        return "False"

    def before(self, stage: Stage) -> None:
        """What stands before a stage that is no loop."""

    def after(self, stage: Stage) -> None:
        """What stands behind a stage that is no loop."""

    def before_replay(self, in_place: bool) -> None:
        """What stands before a loop over recorded frontiers: nothing."""

    # ---- the state ------------------------------------------------------------------------

    def state(self, weight: str, written: tuple[str, ...] = ()) -> str:
        """The text of a state; fields that are being ``written`` are their second copies."""
        parts = [f"copy_{f}" if f in written else f"field_{f}" for f in self.d.fields]
        parts += [f"params[{i}]" for i in range(len(self.d.params))]
        parts += [f"scalar_{name}" for name in self.d.scalars]
        parts += [weight, "ids", "degree", f"np.int64({self.step})", "num_vertices", "changed"]
        return f"State({', '.join(parts)})"

    def count_calls(self) -> None:
        """Add to the calls of this superstep, and of the whole run: some stages are in no loop."""
        self.put("calls += made")
        self.put("visited += made")

    def field(self, name: str) -> str:
        return f"field_{name}"

    def source(self, stage: Stage) -> str:
        return "everyone" if stage.over_all else self.current

    def swap(self) -> None:
        if self.in_place:  # straight-line text: names change, not what they stand for
            spare = {"x", "y"} - {self.next}
            self.current, self.next = self.next, spare.pop()
        else:
            self.put("current, following = following, current")
        if self.has_edges:
            self.put("on_edges = False")

    def swap_edges(self) -> None:
        self.put("edge_current, edge_following = edge_following, edge_current")
        self.put("on_edges = True")

    # ---- stages ---------------------------------------------------------------------------

    def sequence(self, stages: tuple[Stage, ...]) -> None:
        fused = 0
        for i, stage in enumerate(stages):
            if fused:  # a gather has done it already
                fused -= 1
                continue
            with self.guarded(stage):
                if isinstance(stage, Repeat):
                    self.repeat(stage)
                    continue
                if isinstance(stage, Backwards):
                    self.backwards(stage)
                    continue
                self.before(stage)
                if isinstance(stage, Advance):
                    self.advance(stage)
                elif isinstance(stage, Filter | Compute) and stage.on_edges:
                    self.on_edges(stage)
                elif isinstance(stage, Filter):
                    self.filter(stage)
                elif isinstance(stage, Compute):
                    self.compute(stage)
                elif isinstance(stage, Gather):
                    fused = self.gather(stage, stages[i + 1 :], keeps=self.keeps(stages, i))
                elif isinstance(stage, Edges):
                    self.edges(stage)
                elif isinstance(stage, Reduce):
                    self.reduce(stage)
                self.after(stage)

    def refuse(self, what: str) -> NoReturn:
        raise NotLoweredError(
            f"{self.d.name} {what}, which this version runs only on device='python'."
        )

    def filter(self, stage: Filter) -> None:
        self.put(f"s = {self.state('weight_out')}")
        self.put(f"filter_(team, f_{stage.functor}, s, {self.source(stage)}, {self.next})")
        self.swap()

    def compute(self, stage: Compute) -> None:
        self.put(f"s = {self.state('weight_out')}")
        self.put(f"compute(team, f_{stage.functor}, s, {self.source(stage)})")

    def on_edges(self, stage: Filter | Compute) -> None:
        """A filter or compute on a frontier of edges."""
        self.put(f"s = {self.state('weight_out')}")
        if isinstance(stage, Filter):
            self.count(
                f"filter_edges(team, out, f_{stage.functor}, s, edge_current, edge_following)"
            )
            self.swap_edges()
        else:
            self.count(f"compute_edges(team, out, f_{stage.functor}, s, edge_current)")

    def count(self, called: str) -> None:
        """Call an operator that returns the calls of its functor."""
        self.put(f"made = {called}")
        self.count_calls()

    def keeps(self, stages: tuple[Stage, ...], at: int) -> bool:
        """Whether the frontier that a stage makes is ever taken, or only counted."""
        if self.in_place:
            return at + 1 < len(stages)
        return any(
            not stage.over_all and not isinstance(stage, Repeat | Backwards | Edges)
            for stage in walk(self.d.loop)
        )

    def advance(self, stage: Advance) -> None:
        where = "always" if stage.where is None else f"f_{stage.where}"
        mode = MODES[self.direction]
        if self.direction == "auto" and stage.where is None:
            mode = shared.PUSH
        source = self.source(stage)
        self.put(f"s = {self.state('weight_out')}")
        self.put(f"t = {self.state('weight_in')}")
        if self.has_edges and not stage.over_all:
            self.put("if on_edges:")
            self.put("    stamp = next_stamp(team, marks, stamp)")
            self.put("    targets(team, out, edge_current, current, marks, stamp)")
        if stage.emit == "edges":
            self.count(
                f"advance_edges(team, out, f_{stage.functor}, {where}, s, {source}, edge_following)"
            )
            self.swap_edges()
            return
        self.put("stamp = next_stamp(team, marks, stamp)")
        self.put(f"size = {source}.info[0]")
        self.put(
            f"pulled, made, arcs = advance(team, out, into, f_{stage.functor}, "
            f"alone_{stage.functor}, {where}, s, t, {source}, {self.next}, marks, stamp, "
            f"{self.is_exact(stage)}, {mode}, left, before)"
        )
        self.count_calls()
        self.put("left, before = left - arcs, size")
        if stage.over_all:
            self.put("fill_all(team, everyone, num_vertices, num_arcs)")
        self.swap()

    def is_exact(self, stage: Advance) -> bool:
        """Whether a vertex must not be twice in the frontier that a stage makes.

        It may where nothing but advances whose writes are idempotent will take that frontier.
        """
        if self.has_edges:  # there is room for each edge once
            return True
        if stage.idempotent != "auto":
            return not stage.idempotent
        for other in walk(self.d.loop):
            if isinstance(other, Repeat) and other.record:
                return True
            if isinstance(other, Filter | Compute | Gather | Reduce) and not other.over_all:
                return True
            if isinstance(other, Advance):
                for accesses in self.d.touched(other):
                    for access in accesses.fields:
                        declared = self.d.fields[access.field]
                        follows = declared.follows is not None and declared.merge != "sum"
                        if access.kind != "read" and not (
                            declared.merge in IDEMPOTENT or (declared.merge is None and follows)
                        ):
                            return True
        return False

    def gather(self, stage: Gather, after: tuple[Stage, ...], keeps: bool) -> int:
        """Write a gather; returns how many of the stages ``after`` it are done with it."""
        number = len(self.kernel.gathers)
        self.kernel.gathers.append(stage)
        if stage.combine_is_functor:
            combine, start = f"f_{stage.combine[1:]}", "None"
        else:
            combine, start = f"combine_{stage.combine}", f"neutral_of_{number}"
        f = f"f_{stage.functor}"
        if not stage.sees_dst:
            self.names[f"w_{stage.functor}"] = fusion.without_dst(self.names[f])
            f = f"w_{stage.functor}"
        into, weight = SIDES[stage.along]
        functors = f"{f}, {combine}, f_{stage.apply}, {start}"
        seen = () if stage.asynchronous else fusion.seen_by_others(self.d, stage)
        self.put(f"t = {self.state(weight)}")
        fused: list[Reduce] = []
        if stage.over_all and not any(self.d.fields[name].replicated for name in seen):
            fused = fusion.reductions(self.d, after)
            self.gather_all(number, stage.along, functors, seen, fused, keeps)
        elif not seen:
            self.put(
                f"made = gather_at_once(team, {into}, {functors}, t, {self.source(stage)}, "
                f"{self.next}, {keeps})"
            )
        else:
            self.put(
                f"made = gather(team, {into}, {functors}, t, {self.source(stage)}, {self.next}, "
                f"totals[{number}], {keeps})"
            )
            self.kernel.totals.add(number)
        self.count_calls()
        self.put("pulled = True")
        self.swap()
        return len(fused)

    def gather_all(
        self, number: int, along: str, functors: str, seen: tuple[str, ...],
        fused: list[Reduce], keeps: bool,
    ) -> None:  # fmt: skip
        into, weight = SIDES[along]
        self.kernel.copied += [name for name in seen if name not in self.kernel.copied]
        scalars = [stage.into.name for stage in fused]
        first = len(self.kernel.summed)
        self.kernel.summed += scalars
        dtypes = [self.names[f"neutral_{name}"].dtype.type for name in scalars]
        self.names.update(fusion.helpers(number, seen, fused, dtypes, self.names))
        neutrals = "".join(f"neutral_{name}, " for name in scalars)
        arrays = "".join(f"sums[{first + i}], " for i in range(len(fused)))
        self.put(f"u = {self.state(weight, seen)}")
        self.put(
            f"made = gather_all(team, {into}, {functors}, t, u, keep_{number}, reduce_{number}, "
            f"store_{number}, ({neutrals}0,), ({arrays}0,), {self.next}, {keeps})"
        )
        for name in seen:
            self.put(f"field_{name}, copy_{name} = copy_{name}, field_{name}")
            self.put(f"moved_{name} = not moved_{name}")
        for i, stage in enumerate(fused):
            name = stage.into.name
            self.put(
                f"scalar_{name} = sum_up(combine_{stage.op}, neutral_{name}, sums[{first + i}])"
            )

    def edges(self, stage: Edges) -> None:
        where = "always" if stage.where is None else f"f_{stage.where}"
        first, last = stage.neighbours or (0, None)
        last = (1 << 62) if last is None else last
        self.put(f"s = {self.state('weight_out')}")
        self.put(
            f"flag, made = edges(team, out, f_{stage.functor}, {where}, s, {first}, {last}, "
            "partials[0])"
        )
        self.count_calls()
        self.put("changed = changed or flag")

    def reduce(self, stage: Reduce) -> None:
        name = stage.into.name
        self.put(f"s = {self.state('weight_out')}")
        self.put(
            f"scalar_{name} = reduce(team, f_{stage.functor}, combine_{stage.op}, "
            f"neutral_{name}, s, {self.source(stage)}, partial_{name})"
        )


_PROLOGUE = (
    "team = Team(thread, threads, sync, buffers[thread])",
    "out = Adjacency(graph[0], graph[1])",
    "weight_out = graph[2]",
    "into = Adjacency(graph[3], graph[4])",
    "weight_in = graph[5]",
    "degree = graph[6]",
    "num_vertices, num_arcs = len(graph[0]) - 1, len(graph[1])",
    "ids = graph[7]",
    "both = Adjacency(graph[8], graph[9])",
    "weight_both = graph[10]",
    "current = Frontier(fronts[0], fronts[1], fronts[2])",
    "following = Frontier(fronts[3], fronts[4], fronts[5])",
    "everyone = Frontier(fronts[0], fronts[6], fronts[7])",
    "spare = Frontier(fronts[8], fronts[9], fronts[10])",
    "spare_bits, replay_info, no_bits = fronts[11], fronts[12], fronts[11][:0]",
    "kept = Record(record[0], record[1], record[2], record[3])",
    "changed, stopped, stamp, recorded, row = False, False, 0, 0, 0",
    "left, before, calls, visited, pulled = num_arcs, 0, 0, 0, False",
    "members, clock, fused = 0, cycles(), 0",
)

_EDGE_PROLOGUE = (
    "a, b, c, mine = edge_rooms[0], edge_rooms[1], edge_rooms[2], edge_rooms[3][thread]",
    "edge_current = EdgeFrontier(a[0], a[1], a[2], mine)",
    "edge_following = EdgeFrontier(b[0], b[1], b[2], mine)",
    "edge_spare = EdgeFrontier(c[0], c[1], c[2], mine)",
    "on_edges = False",
)


@compiled(allocates=False)
def note(team, trace, row, step, members, calls, pulled, clock):
    """Write a row of the trace, if there is room: superstep, frontier, calls, pulled, cycles."""
    if row + 1 < len(trace):
        trace[row + 1, 5 + team.thread] = calls
        if team.thread == 0:
            trace[row + 1, 0] = step
            trace[row + 1, 1] = members
            trace[row + 1, 3] = pulled
            trace[row + 1, 4] = cycles() - clock
    if team.thread == 0:
        trace[0, 0] = row + 1
