"""From the plan of a kernel to its text: what printers for CPUs and for GPUs have in common.

The kernel holds the whole loop, nested loops included: a stage is the call of an operator with the
program's functors as arguments, which the compiler then inlines. Threads run the text in step: the
values that decide branches (sizes of frontiers, scalars, counters) are the same for all of them,
because they are read after a barrier or computed equally.

The method that prints a node has its name: ``print_loop`` prints a `Loop`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from evener.device import compiled
from evener.device.python_calls import needs_python
from evener.device.sync import STOP, show
from evener.engine.codegen import fusion, plan
from evener.engine.codegen.functors import location_of
from evener.engine.codegen.passes import NotLoweredError
from evener.engine.codegen.rewrite import without_atomics
from evener.engine.job import Job, field_dtype
from evener.operators.shared import buckets, edge_frontier, record, vertices
from evener.operators.shared import frontier as shared
from evener.programs import kinds
from evener.programs.fields import Param, neutral

MODES = {"push": shared.PUSH, "pull": shared.PULL, "auto": shared.AUTO}
SIDES = {"in": ("into", "weight_in"), "out": ("out", "weight_out"), "both": ("both", "weight_both")}

# Variables of a superstep for its row of the trace, besides the clock. A loop saves those of the
# superstep around it: it has its own rows, and its time counts only there.
ROW = ("members", "calls", "pulled")


@dataclass
class Kernel:
    """The text of a kernel, what its names stand for, and the plan that it was printed from."""

    plan: plan.KernelPlan
    text: str
    names: dict[str, Any]
    helpers: dict[str, str]  # the texts of small functions that it calls, by name
    totals: tuple[np.dtype, ...] = ()  # of each gather; see `functors.name_totals`


class Printer(ABC):
    """Prints the nodes of a plan in their order."""

    signature: tuple[str, ...]

    def __init__(self, job: Job, kernel_plan: plan.KernelPlan, state: Any):
        self.job, self.d, self.plan = job, job.declaration, kernel_plan
        self.lines: list[str] = []
        self.indent = 1
        self.step = "0"
        self.current, self.next = "current", "following"
        self.in_replay = self.in_place = False
        self.helpers: dict[str, str] = {}
        self.names: dict[str, Any] = {
            "np": np, "State": state, "STOP": STOP, "show": show, "always": shared.always,
            "SIZE": shared.SIZE,
            "Frontier": shared.Frontier,
            "filter_": vertices.filter, "compute": vertices.compute,
            "filter_edges": edge_frontier.filter_edges,
            "compute_edges": edge_frontier.compute_edges, "targets": edge_frontier.targets,
            "remember": record.remember, "recall": record.recall,
            "remember_edges": record.remember_edges, "recall_edges": record.recall_edges,
            "join": buckets.join, "pick": buckets.pick, "hand_on": buckets.hand_on,
        }  # fmt: skip
        for name, functor in self.d.functors.items():
            needs = needs_python(functor.function)
            if needs is not None:
                raise NotLoweredError(
                    f"{location_of(self.d, functor, needs.line)}{needs.what}, which only "
                    "device='python' does."
                )
            self.names[f"f_{name}"] = compiled(functor.function, allocates=False)
            self.names[f"alone_{name}"] = self.alone(name)
        self.names.update({f"combine_{name}": f for name, f in vertices.COMBINATIONS.items()})
        for name, scalar in self.d.scalars.items():
            dtype = field_dtype(scalar.dtype, job.graph)
            self.names[f"neutral_{name}"] = dtype.type(neutral(scalar.merge, dtype))

    def alone(self, name: str) -> Any:
        """The functor for a pull: one thread has all edges into ``dst``, so it needs no atomics."""
        function = self.d.functors[name].function
        found = self.d.accesses.get((name, "f"))
        if found is None or any(a.kind != "read" and a.place != "dst" for a in found.fields):
            return self.names[f"f_{name}"]
        return compiled(without_atomics(function), allocates=False)

    # ---- text -----------------------------------------------------------------------------

    @abstractmethod
    def print(self) -> Kernel:
        """Print the plan; returns the kernel."""

    def put(self, *lines: str) -> None:
        """Add lines to the kernel."""
        for line in lines:
            self.lines.append("    " * self.indent + line)

    def operate(self, call: str, work: str) -> None:
        """Call an operator; ``work`` is its amount of work, in arcs or similar pieces."""
        self.put(call)

    @contextmanager
    def within(self, head: str) -> Iterator[None]:
        """Indent lines below a ``head`` that ends in a colon."""
        self.put(head)
        self.indent += 1
        yield
        self.indent -= 1

    def emit(self, nodes: tuple[plan.Node, ...]) -> None:
        """Print nodes."""
        for node in nodes:
            getattr(self, f"print_{_snake(type(node).__name__)}")(node)

    def print_step(self, node: plan.Step) -> None:
        """A stage, which a kernel that resumes may skip."""
        with nullcontext() if node.guard is None else self.guarded(node.guard):
            self.emit(node.nodes)

    def guarded(self, guard: plan.Guard) -> AbstractContextManager[None]:
        """Put a stage that may be skipped under a condition."""
        raise AssertionError("this kernel never resumes")

    def skipped_over(self, node: plan.Loop) -> AbstractContextManager[None]:
        """Put the head of a loop under a condition if a kernel may resume within the loop."""
        return self.guarded(plan.Guard()) if node.skips_head else nullcontext()

    # ---- expressions ----------------------------------------------------------------------

    def state(self, weight: str, written: tuple[str, ...] = ()) -> str:
        """The text of a state, with the second copies of fields that are being ``written``."""
        parts = [f"copy_{f}" if f in written else f"field_{f}" for f in self.d.fields]
        parts += [f"params.{name}" for name in self.d.params]
        parts += [f"scalar_{name}" for name in self.d.scalars]
        parts += [weight, "ids", "degree", f"np.int64({self.step})", "num_vertices", "changed"]
        return f"State({', '.join(parts)})"

    def number_of(self, given: Any) -> str:
        """The text of an option of a stage: a number or a parameter."""
        if isinstance(given, Param):
            return f"params.{given.name}"
        return str(given)

    def size(self) -> str:
        """The size of the frontier, of vertices or of edges."""
        if self.plan.has_edges:
            return "(edge_current.info[SIZE] if on_edges else current.info[SIZE])"
        return "current.info[SIZE]"

    def source(self, stage: kinds.Stage) -> str:
        """The frontier that a stage takes."""
        return "everyone" if stage.over_all else self.current

    def where(self, stage: kinds.Advance | kinds.Edges) -> str:
        """The functor that selects vertices for a stage."""
        return "always" if stage.where is None else f"f_{stage.where}"

    def order(self, node: plan.FusedBuckets) -> str:
        """The field that orders a loop, and the inverse of the width of its buckets."""
        assert node.stage.order is not None
        order = node.stage.order
        return f"field_{order.field.name}, 1.0 / {self.number_of(order.delta)}"

    def gathering(self, stage: kinds.Gather) -> str:
        """The functor of a gather, in a form that takes ``dst``."""
        if stage.sees_dst:
            return f"f_{stage.functor}"
        self.names[f"w_{stage.functor}"] = fusion.taking_dst(self.names[f"f_{stage.functor}"])
        return f"w_{stage.functor}"

    def add_helpers(self, node: plan.Gather) -> tuple[str, ...]:
        """Name the functions that a gather calls; returns the scalars of its fused reductions."""
        scalars = tuple(other.into.name for other in node.fused)
        dtypes = [self.names[f"neutral_{name}"].dtype.type for name in scalars]
        seen = node.seen if node.copies else ()
        texts = fusion.helpers(node.number, seen, node.fused)
        self.names.update(fusion.compile_helpers(texts, dtypes, self.names))
        self.helpers.update(texts)
        return scalars

    # ---- what differs between devices -----------------------------------------------------

    def begin(self, makes: str = "") -> None:
        """Begin a stage; empties the frontier that it ``makes``."""
        return

    @abstractmethod
    def stamp(self) -> None:
        """Take a new stamp: marks with an older one are invalid."""

    @abstractmethod
    def targets_call(self) -> str:
        """The call that makes the current frontier from one of edges."""

    @abstractmethod
    def edges_call(self, stage: kinds.Advance) -> str:
        """The call that emits edges."""

    @abstractmethod
    def stop_test(self, node: plan.AnyLoop | None = None) -> str:
        """The test whether to stop, at the head of a superstep: the same for all threads.

        With a ``node`` threads may have met in the lines before; without one they have not.
        """

    @abstractmethod
    def remember(self, node: plan.Loop) -> None:
        """Record the frontier for `backwards`."""

    @abstractmethod
    def replay_in_place(self) -> None:
        """Let stages read the record itself; none of them writes to the frontier that it takes."""

    @abstractmethod
    def replay_copy(self) -> None:
        """Copy the recorded frontier, for stages that overwrite it: in a loop, or on edges."""

    def before_replay(self, node: plan.Replay) -> None:
        """Prepare a loop over recorded frontiers."""
        return

    def after_record(self) -> None:
        """Finish a loop that records."""
        return

    # ---- stages ---------------------------------------------------------------------------

    def count_calls(self) -> None:
        """Add to the calls of this superstep and of the run, since some stages are in no loop."""
        self.put("calls += made", "visited += made")

    def count(self, call: str, work: str) -> None:
        """Call an operator that returns the calls of its functor."""
        self.operate(f"made = {call}", work)
        self.count_calls()

    def swap(self) -> None:
        """Make the next frontier the current one."""
        if self.in_place:  # straight-line text: the printer swaps names, the text does not
            spare = {"x", "y"} - {self.next}
            self.current, self.next = self.next, spare.pop()
        else:
            self.put("current, following = following, current")
        if self.plan.has_edges:
            self.put("on_edges = False")

    def swap_edges(self) -> None:
        """Make the next frontier of edges the current one."""
        self.put("edge_current, edge_following = edge_following, edge_current")
        self.put("on_edges = True")

    def print_advance(self, node: plan.Advance) -> None:
        """A push or a pull, after what it needs before."""
        last = 0
        while isinstance(node.nodes[last], plan.Targets):
            last += 1
        self.emit(node.nodes[:last])
        if any(isinstance(inner, plan.EmitEdges) for inner in node.nodes):
            self.emit(node.nodes[last:])
            return
        self.begin(makes=self.next)
        self.put(f"s = {self.state('weight_out')}", f"t = {self.state('weight_in')}")
        self.stamp()
        self.emit(node.nodes[last:])
        self.swap()

    def print_targets(self, node: plan.Targets) -> None:
        """From a frontier of edges to the set of their ``dst``."""
        with self.within("if on_edges:"):
            self.begin(makes="current")
            self.stamp()
            self.operate(self.targets_call(), "edge_current.info[SIZE]")
            self.emit(node.nodes)

    def print_emit_edges(self, node: plan.EmitEdges) -> None:
        """From vertices to edges."""
        self.begin(makes="edge_following")
        self.put(f"s = {self.state('weight_out')}")
        self.count(self.edges_call(node.stage), f"arcs_of(out, {self.source(node.stage)}, most)")
        self.swap_edges()

    def print_filter(self, node: plan.Filter) -> None:
        """A frontier of the members that pass."""
        functor, state = f"f_{node.stage.functor}", self.state("weight_out")
        if node.stage.on_edges:
            self.begin(makes="edge_following")
            self.put(f"s = {state}")
            call = f"filter_edges(team, out, {functor}, s, edge_current, edge_following)"
            self.count(call, "edge_current.info[SIZE]")
            self.swap_edges()
            return
        self.begin(makes=self.next)
        source = self.source(node.stage)
        self.put(f"s = {state}")
        self.operate(f"filter_(team, {functor}, s, {source}, {self.next})", f"{source}.info[SIZE]")
        self.swap()

    def print_compute(self, node: plan.Compute) -> None:
        """A functor called for each member of a frontier."""
        functor = f"f_{node.stage.functor}"
        self.begin()
        self.put(f"s = {self.state('weight_out')}")
        if node.stage.on_edges:
            call = f"compute_edges(team, out, {functor}, s, edge_current)"
            self.count(call, "edge_current.info[SIZE]")
        else:
            source = self.source(node.stage)
            self.operate(f"compute(team, {functor}, s, {source})", f"{source}.info[SIZE]")

    def print_reduce(self, node: plan.Reduce) -> None:
        """A scalar reduced from what a functor returns."""
        stage, name = node.stage, node.stage.into.name
        source = self.source(stage)
        self.begin()
        self.put(f"s = {self.state('weight_out')}")
        self.operate(
            f"scalar_{name} = reduce(team, f_{stage.functor}, combine_{stage.op}, "
            f"neutral_{name}, s, {source}, partial_{name})",
            f"{source}.info[SIZE]",
        )

    def swap_copies(self, node: plan.Gather) -> None:
        """Swap fields with their second copies, which a gather has written."""
        for name in node.seen if node.copies else ():
            self.put(f"field_{name}, copy_{name} = copy_{name}, field_{name}")
            self.put(f"moved_{name} = not moved_{name}")

    # ---- loops ----------------------------------------------------------------------------

    def print_loop(self, node: plan.Loop) -> None:
        """Supersteps until the frontier is empty, ``until`` holds, or the limit is reached."""
        with self.skipped_over(node):
            outer = self.open(node)
        with self.within("while True:"):
            with self.skipped_over(node):
                self.break_at_limit(node)
                self.break_if_empty(node)
                self.put(f"stopped = {self.stop_test(node)}")
                self.put("if stopped: break")
            self.superstep(node)
            self.break_on_until(node)
        self.close(node, outer)

    def open(self, node: plan.AnyLoop) -> str:
        """Begin a loop; returns the name of the superstep count of the loop around it."""
        number = node.number
        outer, self.step = self.step, f"step_{number}"
        self.put(f"{self.step} = 0")
        self.put(f"changed_{number}, changed = changed, False")
        self.put(f"{', '.join(f'{name}_{number}' for name in ROW)} = {', '.join(ROW)}")
        self.put(f"spent_{number} = cycles() - clock")
        self.put("left, before = num_arcs, 0")
        if isinstance(node.stage, kinds.Repeat) and node.stage.record:
            self.put("recorded = 0")
        return outer

    def close(self, node: plan.AnyLoop, outer: str) -> None:
        """End a loop."""
        number = node.number
        self.put(f"changed = changed_{number}")
        self.put(f"{', '.join(ROW)} = {', '.join(f'{name}_{number}' for name in ROW)}")
        self.put(f"clock = cycles() - spent_{number}")
        if isinstance(node.stage, kinds.Repeat) and node.stage.record:
            self.after_record()
        self.step = outer

    def break_if_empty(self, node: plan.Loop) -> None:
        """End before a superstep on an empty frontier, if a stage takes it or has made it."""
        if node.stage.takes_frontier:
            self.put(f"if {self.size()} == 0: break")
        elif node.stage.makes_frontier:
            self.put(f"if {self.step} > 0 and {self.size()} == 0: break")

    def break_at_limit(self, node: plan.Loop) -> None:
        """End before a superstep beyond the limit."""
        if node.stage.max_supersteps is not None:
            self.put(f"if {self.step} >= {self.number_of(node.stage.max_supersteps)}: break")

    def break_on_until(self, node: plan.Loop) -> None:
        """End after a superstep if ``until`` holds."""
        if node.stage.until is not None:
            self.put(f"if f_{node.stage.until}({self.state('weight_out')}): break")

    def superstep(self, node: plan.Loop) -> None:
        """One superstep, and its row of the trace."""
        with self.skipped_over(node):
            self.put("changed = False")
            self.put(f"members, calls, pulled, clock = {self.size()}, 0, False, cycles()")
        if node.records:
            self.remember(node)
        self.emit(node.body)
        self.note()
        self.put(f"{self.step} += 1")
        self.put("if stopped: break")

    def note(self) -> None:
        """Write the row of a superstep."""
        self.put(f"note(team, trace, row, {self.step}, members, calls, pulled, clock)")
        self.put("row += 1")

    def note_fused(self, calls: str) -> None:
        """Write the row of an ordered loop that is fused, if it did anything."""
        self.put(f"    note(team, trace, row, rounds - 1, members, {calls}, False, clock)")
        self.put("    row, fused = row + 1, fused + rounds - 1")

    # ---- backwards ------------------------------------------------------------------------

    def print_replay(self, node: plan.Replay) -> None:
        """The recorded frontiers, from the last to the first."""
        outer = self.open(node)
        step = self.step
        names = self.current, self.next
        if node.in_place:
            self.put("x, y = following, spare")
        else:
            self.put("x, y = current, following")
            if self.plan.has_edges:
                self.put("edge_x, edge_y, on_x = edge_current, edge_following, on_edges")
        self.before_replay(node)
        with self.within(f"for {step} in range(recorded - 1, -1, -1):"):
            if node.in_place:
                self.replay_in_place()
            else:
                self.replay_copy()
            self.put(f"stopped = {self.stop_test()}")
            self.put("if stopped: break")
            self.put("changed, calls, pulled, clock = False, 0, False, cycles()")
            self.put(f"members = kept.bounds[{step} + 1] - kept.bounds[{step}]")
            if node.in_place:
                self.current, self.next = "replayed", "x"
            self.in_replay, self.in_place = True, node.in_place
            self.emit(node.body)
            self.in_replay = self.in_place = False
            self.note()
        self.current, self.next = names
        if not node.in_place:
            self.put("current, following = x, y")
            if self.plan.has_edges:
                self.put("edge_current, edge_following, on_edges = edge_x, edge_y, on_x")
        self.close(node, outer)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
