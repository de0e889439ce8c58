"""The loops of a kernel: repeat, the order of `nearest`, and going backwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from evener.programs.fields import Param
from evener.programs.program import Declaration
from evener.programs.stages import Advance, Backwards, Repeat, Stage, walk

# What a superstep keeps for its row of the trace, beside the clock. A loop inside it has rows of
# its own, which have the time that it took.
ROW = ("members", "calls", "pulled")


class Loops(ABC):
    """The part of a writer that writes loops; `codegen.stages` writes the stages in them."""

    d: Declaration
    step: str
    current: str
    next: str
    indent: int
    in_replay: bool
    has_edges: bool
    replays: bool
    loops = 0
    orders = 0

    @abstractmethod
    def put(self, line: str) -> None:
        """Add a line to the kernel."""

    @abstractmethod
    def state(self, weight: str) -> str:
        """The text of a state."""

    @abstractmethod
    def field(self, name: str) -> str:
        """The text of a field's array."""

    @abstractmethod
    def sequence(self, stages: tuple[Stage, ...]) -> None:
        """Write stages one after the other."""

    @abstractmethod
    def refuse(self, what: str) -> NoReturn:
        """Leave a program to the interpreter."""

    def limit(self, given: Any) -> str:
        """A number that a stage was given, or the parameter that it names."""
        if isinstance(given, Param):
            return f"params[{list(self.d.params).index(given.name)}]"
        return str(given)

    def size(self) -> str:
        """The size of the frontier, of vertices or of edges."""
        if self.has_edges:
            return "(edge_current.info[0] if on_edges else current.info[0])"
        return "current.info[0]"

    def guarded(self, stage: Stage) -> AbstractContextManager[None]:
        """What stands around a stage: nothing, where a kernel always begins at its beginning."""
        return nullcontext()

    def skipped_over(self) -> AbstractContextManager[None]:
        """What stands around the head of a loop that holds a place where a kernel may begin."""
        return nullcontext()

    # ---- repeat ---------------------------------------------------------------------------

    def repeat(self, stage: Repeat) -> None:
        """Write a loop that ends when its frontier is empty, by ``until`` or at a limit."""
        if stage.record and self.in_replay:
            self.refuse("records within backwards")
        if stage.order is not None and self.is_fused(stage):
            self.fused(stage)
            return
        with self.skipped_over():
            outer = self.open(stage)
        if stage.order is not None:
            self.ordered(stage)
        else:
            self.put("while True:")
            self.indent += 1
            with self.skipped_over():
                self.ask_limit(stage)
                self.ask_frontier(stage)
                self.put(f"stopped = {self.stop_test(stage)}")
                self.put("if stopped: break")
            self.superstep(stage)
            self.ask_until(stage)
            self.indent -= 1
        self.close(stage, outer)

    def stop_test(self, stage: Repeat | None = None) -> str:
        """How threads learn, at the head of a superstep, of a wish to stop."""
        if stage and not all(isinstance(inner, Repeat | Backwards) for inner in stage.stages):
            return "sync[STOP] != 0"  # the stage before ended with a barrier, which left it behind
        return "barrier(sync, threads)"

    def open(self, stage: Repeat | Backwards) -> str:
        """What stands before a loop; returns the count of the loop around it."""
        self.loops += 1
        outer, self.step = self.step, f"step_{self.loops}"
        self.put(f"{self.step} = 0")
        self.put(f"changed_{self.loops}, changed = changed, False")
        self.put(f"{', '.join(f'{name}_{self.loops}' for name in ROW)} = {', '.join(ROW)}")
        self.put(f"spent_{self.loops} = cycles() - clock")
        self.put("left, before = num_arcs, 0")
        if isinstance(stage, Repeat) and stage.record:
            self.put("recorded = 0")
        return outer

    def close(self, stage: Repeat | Backwards, outer: str) -> None:
        """What stands behind a loop."""
        number = self.step.removeprefix("step_")
        self.put(f"changed = changed_{number}")
        self.put(f"{', '.join(ROW)} = {', '.join(f'{name}_{number}' for name in ROW)}")
        self.put(f"clock = cycles() - spent_{number}")
        if isinstance(stage, Repeat) and stage.record:
            self.after_record()
        self.step = outer

    def ask_frontier(self, stage: Repeat) -> None:
        """End before a superstep without a frontier, if a stage takes it or has made it."""
        if stage.takes_frontier:
            self.put(f"if {self.size()} == 0: break")
        elif stage.makes_frontier:
            self.put(f"if {self.step} > 0 and {self.size()} == 0: break")

    def ask_limit(self, stage: Repeat) -> None:
        """End before a superstep beyond the limit."""
        if stage.max_supersteps is not None:
            self.put(f"if {self.step} >= {self.limit(stage.max_supersteps)}: break")

    def ask_until(self, stage: Repeat) -> None:
        """End after a superstep if the program says so."""
        if stage.until is not None:
            self.put(f"if f_{stage.until}({self.state('weight_out')}): break")

    def superstep(self, stage: Repeat) -> None:
        """One superstep, and its row of the trace."""
        with self.skipped_over():
            self.put("changed = False")
            self.put(f"members, calls, pulled, clock = {self.size()}, 0, False, cycles()")
        if stage.record and self.replays:
            self.remember()
        self.sequence(stage.stages)
        self.note()
        self.put(f"{self.step} += 1")
        self.put("if stopped: break")

    def remember(self) -> None:
        """Keep the frontier for `backwards`."""
        if self.has_edges:
            self.put("if on_edges:")
            self.put("    recorded = remember_edges(team, edge_current, kept, recorded)")
            self.put("else:")
            self.put("    recorded = remember(team, current, kept, recorded)")
        else:
            self.put("recorded = remember(team, current, kept, recorded)")
        self.put("if recorded < 0: break")

    def after_record(self) -> None:
        """What stands behind a loop that records."""
        self.put("if recorded < 0: return True")

    def note(self) -> None:
        """Write the row of a superstep."""
        self.put(f"note(team, trace, row, {self.step}, members, calls, pulled, clock)")
        self.put("row += 1")

    # ---- nearest --------------------------------------------------------------------------

    def is_fused(self, stage: Repeat) -> bool:
        """Whether nothing in an ordered loop tells supersteps apart, so that buckets may fuse."""
        only = stage.stages[0]
        if len(stage.stages) > 1 or not isinstance(only, Advance) or self.has_edges:
            return False
        told = {name for found in self.d.touched(only) for name in found.offered}
        bounded = stage.until is not None or stage.max_supersteps is not None or stage.record
        return not (bounded or told & {"superstep", "changed"})

    @abstractmethod
    def fused(self, stage: Repeat) -> None:
        """An ordered loop whose buckets may fuse, as one operator or a few."""

    def ordered(self, stage: Repeat) -> None:
        """An ordered loop with a superstep for each bucket."""
        assert stage.order is not None
        room, self.orders = f"waiting[{self.orders}]", self.orders + 1
        number = self.loops
        mine, later, buckets = f"mine_{number}", f"later_{number}", f"buckets_{number}"
        order = f"{buckets}, {self.field(stage.order.field.name)}, {self.limit(stage.order.delta)}"
        self.put(f"{mine} = Frontier({room}[0], no_bits, {room}[1])")
        self.put(f"{later} = Frontier({room}[2], no_bits, {room}[3])")
        self.put(f"{buckets} = {room}[4]")
        self.put(f"empty(team, {mine})")
        self.put(f"join(team, current, {mine}, {order})")
        self.put("while True:")
        self.indent += 1
        self.ask_limit(stage)
        self.put(f"if {mine}.info[0] == 0: break")
        self.put(f"stopped = {self.stop_test()}")
        self.put("if stopped: break")
        self.put(f"pick(team, {mine}, {later}, current, {order}, {room}[5])")
        self.put(f"{mine}, {later} = {later}, {mine}")
        self.put("if current.info[0] == 0: continue")
        self.superstep(stage)
        self.put(f"join(team, current, {mine}, {order})")
        self.ask_until(stage)
        self.indent -= 1
        self.put(f"hand_on(team, {mine}, {buckets}, current)")

    # ---- backwards ------------------------------------------------------------------------

    def backwards(self, stage: Backwards) -> None:
        """Write a loop over the recorded frontiers, from the last to the first."""
        if self.in_replay:
            self.refuse("goes backwards within backwards")
        simple = not self.has_edges and not any(isinstance(s, Repeat) for s in walk(stage.stages))
        outer = self.open(stage)
        step = self.step
        names = self.current, self.next
        if simple:
            self.put("x, y = following, spare")
        else:
            self.put("x, y = current, following")
            if self.has_edges:
                self.put("edge_x, edge_y, on_x = edge_current, edge_following, on_edges")
        self.before_replay(simple)
        self.put(f"for {step} in range(recorded - 1, -1, -1):")
        self.indent += 1
        if simple:
            self.replay_in_place()
        else:
            self.replay_copy()
        self.put(f"stopped = {self.stop_test()}")
        self.put("if stopped: break")
        self.put("changed, calls, pulled, clock = False, 0, False, cycles()")
        self.put(f"members = kept.bounds[{step} + 1] - kept.bounds[{step}]")
        if simple:
            self.current, self.next = "replayed", "x"
        self.in_replay, self.in_place = True, simple
        self.sequence(stage.stages)
        self.in_replay = self.in_place = False
        self.note()
        self.indent -= 1
        self.current, self.next = names
        if not simple:
            self.put("current, following = x, y")
            if self.has_edges:
                self.put("edge_current, edge_following, on_edges = edge_x, edge_y, on_x")
        self.close(stage, outer)

    in_place = False

    @abstractmethod
    def before_replay(self, in_place: bool) -> None:
        """What stands before a loop over recorded frontiers."""

    def replay_in_place(self) -> None:
        """Stages read the record itself; none of them writes to the frontier that it takes."""
        self.put(f"first, last = kept.bounds[{self.step}], kept.bounds[{self.step} + 1]")
        self.put("replayed = Frontier(kept.queue[first:last], spare_bits, replay_info)")
        self.put("barrier(sync, threads)")
        self.put("if thread == 0:")
        self.put("    replay_info[0], replay_info[8], replay_info[16] = last - first, 0, 0")

    def replay_copy(self) -> None:
        """Stages run in a loop, or on edges, and change frontiers: they get a copy."""
        self.put("current, following = y, spare")
        if self.has_edges:
            self.put("edge_current, edge_following = edge_y, edge_spare")
            self.put(f"on_edges = kept.on_edges[{self.step}] != 0")
            self.put("if on_edges:")
            self.put(f"    recall_edges(team, kept, {self.step}, edge_current)")
            self.put("else:")
            self.put(f"    recall(team, kept, {self.step}, current)")
        else:
            self.put(f"recall(team, kept, {self.step}, current)")
