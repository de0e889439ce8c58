"""Kernels for the grid of a GPU.

Operators divide their work among warps and need one barrier per stage. The kernel runs the whole
loop and returns early only for more room (`evener.engine.codegen.print_resume`).
"""

from __future__ import annotations

from typing import Any

from evener.device import warp
from evener.device.tuples import Identity
from evener.engine.codegen import plan
from evener.engine.codegen.arguments import GpuArguments
from evener.engine.codegen.passes import Shape, plan_of
from evener.engine.codegen.print_resume import ResumePrinter
from evener.engine.codegen.printer import MODES, SIDES, Kernel
from evener.engine.job import Job
from evener.operators.gpu import (
    advance,
    edge_frontier,
    frontier,
    gather,
    nearest,
    record,
    resume,
    trace,
    vertices,
)
from evener.operators.gpu.frontier import INFO_WORDS, TURNS
from evener.operators.gpu.schedules import SCHEDULES
from evener.operators.gpu.schedules.dynamic import totals_by_functor
from evener.operators.shared.frontier import EdgeFrontier
from evener.programs import kinds

# The schedule that ``auto`` selects for slices of at most `SHORT_SLICE` neighbours: they are too
# short to be claimed or deferred.
FOR_SLICES, SHORT_SLICE = "warp_segmentation", 8

# The words of frontiers, and the count of frontiers made: outside replays, and within them.
POOLS = (("infos.made", "made"), ("infos.remade", "remade"))
EDGE_POOLS = (("edge_fronts.made", "edge_made"), ("edge_fronts.remade", "edge_remade"))


def lower_gpu(
    job: Job, direction: str, state: Any, schedule: str = "auto", relabels: bool = False
) -> Kernel:  # fmt: skip
    """The kernel of a job; DeviceError if the program does not run on a GPU.

    ``relabels``: vertices are not in the order of their ids, which a table holds.
    """
    made = plan_of(job, direction, Shape(on_grid=True))
    return GpuPrinter(job, made, state, schedule, relabels).print()


class GpuPrinter(ResumePrinter):
    """Prints for the threads of a grid."""

    signature = GpuArguments._fields

    def __init__(
        self, job: Job, kernel_plan: plan.KernelPlan, state: Any, schedule: str, relabels: bool
    ):
        super().__init__(job, kernel_plan, state)
        chosen = SCHEDULES["dynamic" if schedule == "auto" else schedule]
        slices = SCHEDULES[FOR_SLICES if schedule == "auto" else schedule]
        by_functor = totals_by_functor if schedule == "auto" else chosen.totals_of
        self.names.update(
            cycles=warp.cycles, barrier=warp.barrier,
            new_team=frontier.new_team, begin=frontier.begin, fresh=frontier.fresh,
            is_stopped=frontier.is_stopped, visit=chosen.visit, totals_of=chosen.totals_of,
            visit_slices=slices.visit, totals_by_functor=by_functor,
            advance=advance.advance, nearest=nearest.nearest, gather=gather.gather,
            reduce=vertices.reduce, edges=vertices.edges, reduce_block=vertices.reduce_block,
            reduce_blocks=vertices.reduce_blocks, settle=resume.settle,
            tell_whole=trace.tell_whole, note=trace.note, end=trace.end,
            prepare_replay=record.prepare_replay, remember=record.remember,
            remember_edges=record.remember_edges, save_sum=resume.save_sum,
            begin_again=resume.begin_again, EdgeFrontier=EdgeFrontier,
            advance_edges=edge_frontier.advance_edges, fresh_edges=edge_frontier.fresh_edges,
        )  # fmt: skip
        if relabels:
            self.put("ids = graph.ids")
        else:
            self.names["ids"] = Identity()

    # ---- the whole ------------------------------------------------------------------------

    def print(self) -> Kernel:
        """The kernel: names of arguments, the loop, and what the host reads afterwards."""
        self.put(*self.prologue())
        self.put(*(f"field_{name} = fields.{name}" for name in self.d.fields))
        for name in self.d.scalars:
            self.put(f"scalar_{name} = neutral_{name}", f"partial_{name} = partials.{name}")
        if self.plan.has_edges:
            self.put(*EDGE_PROLOGUE)
        copied = self.plan.copied
        self.put(*(f"copy_{name} = copies.{name}" for name in copied))
        self.put(*(f"moved_{name} = False" for name in copied))
        self.put(*(f"waits_{i} = 0" for i in range(self.plan.orders)))
        if self.plan.has_both:
            self.put("both, weight_both = graph.both, graph.weight_both")
        if self.plan.places:
            self.put(*self.restore())
        self.emit(self.plan.body)
        for name in copied:
            self.put(f"settle(team, fields.{name}, field_{name}, moved_{name})")
        for name in self.d.scalars:
            self.put(f"if team.thread == 0: partial_{name}[0] = scalar_{name}")
        self.put("tell_whole(team, trace, visited, fused)")
        self.put(f"return {self.outcome()}")
        given = ", ".join(self.signature)
        body = "\n".join(self.lines)
        text = (
            f"def worker({given}):\n{body}\n\n\n"
            f"def kernel({given}):\n    end(trace, worker({given}))\n"
        )
        return Kernel(self.plan, text, self.names, self.helpers)

    def prologue(self) -> tuple[str, ...]:
        """Lines that name the arguments of a kernel and set its variables."""
        return PROLOGUE

    def outcome(self) -> str:
        """The expression that a kernel returns at its end."""
        return "0"

    # ---- what differs between devices -----------------------------------------------------

    def begin(self, makes: str = "") -> None:
        """Begin a stage with empty words, for its counts and for the frontier that it ``makes``."""
        self.put("team = begin(team)")
        if makes:
            self.renew(makes)

    def renew(self, name: str) -> None:
        """Empty a frontier by giving it the next words of its pool."""
        of_edges = name.startswith("edge")
        pool, count = (EDGE_POOLS if of_edges else POOLS)[self.in_replay]
        self.put(f"{count} += 1")
        self.put(f"{name} = fresh{'_edges' if of_edges else ''}(team, {name}, {pool}, {count})")

    def stamp(self) -> None:
        """Take a new stamp: marks with an older one are invalid."""
        self.put("stamp += 1")

    def count_calls(self) -> None:
        """Add to the calls of this superstep and of the run, since some stages are in no loop."""
        self.put("calls += done", "visited += done")

    def count(self, call: str, work: str) -> None:
        """Call an operator that returns the calls of its functor."""
        self.operate(f"done = {call}", work)
        self.count_calls()

    def targets_call(self) -> str:
        """The call that makes the current frontier from one of edges."""
        return "targets(team, out, edge_current, current, marks, stamp)"

    def edges_call(self, stage: kinds.Advance) -> str:
        """The call that emits edges."""
        return (
            f"advance_edges(team, visit, out, f_{stage.functor}, {self.where(stage)}, s, "
            f"{self.source(stage)}, edge_following, pieces)"
        )

    def stop_test(self, node: plan.AnyLoop | None = None) -> str:
        """The test whether to stop."""
        if node is not None and node.only_loops:  # threads see the request only after a barrier
            self.begin()
            self.put("barrier(sync)")
        return "is_stopped(team)"

    # ---- stages ---------------------------------------------------------------------------

    def print_push_or_pull(self, node: plan.PushOrPull) -> None:
        """One operator, which chooses the direction."""
        stage, source = node.stage, self.source(node.stage)
        self.put(f"size = {source}.info[SIZE]")
        self.put(
            f"pulled, done, arcs = advance(team, visit, out, into, f_{stage.functor}, "
            f"alone_{stage.functor}, {self.where(stage)}, {stage.where is not None}, s, t, "
            f"{source}, {self.next}, marks, stamp, {node.exact}, {MODES[node.mode]}, left, before, "
            "pieces)"
        )
        self.count_calls()
        self.put("left, before = left - arcs, size")

    def print_gather(self, node: plan.Gather) -> None:
        """Totals, and the functor that applies them."""
        stage, number, own = node.stage, node.number, node.stage.combine_is_functor
        combine = f"f_{stage.combine[1:]}" if own else f"combine_{stage.combine}"
        totals_of = "totals_by_functor" if own else "totals_of"
        along = "in" if stage.along == "both" and not self.plan.directed else stage.along
        into, weight = SIDES[along]
        scalars = self.add_helpers(node)
        neutrals = "".join(f"neutral_{name}, " for name in scalars)
        self.begin(makes=self.next)
        self.put(f"t = {self.state(weight)}")
        self.put(f"u = {self.state(weight, node.seen if node.copies else ())}")
        self.put(
            f"done, own = gather(team, {totals_of}, {into}, {self.gathering(stage)}, {combine}, "
            f"f_{stage.apply}, neutral_of_{number}, {own}, t, u, keep_{number}, reduce_{number}, "
            f"({neutrals}0,), {self.source(stage)}, {self.next}, totals[{number}], "
            f"subtotals[{number}], {node.at_once}, {node.keeps}, {len(scalars) > 0}, pieces)"
        )
        for i, other in enumerate(node.fused):
            self.put(f"reduce_block(team, combine_{other.op}, own[{i}], partial_{scalars[i]})")
        if scalars:
            self.put("barrier(sync)")
        self.swap_copies(node)
        for other, name in zip(node.fused, scalars, strict=True):
            self.put(
                f"scalar_{name} = reduce_blocks(team, combine_{other.op}, neutral_{name}, "
                f"partial_{name})"
            )
        self.count_calls()
        self.put("pulled = True")
        self.swap()

    def print_edges(self, node: plan.Edges) -> None:
        """A functor called for edges of all vertices."""
        stage = node.stage
        first, last = stage.neighbours or (0, None)
        last = (1 << 62) if last is None else last
        visit = "visit_slices" if last - first <= SHORT_SLICE else "visit"
        self.begin()
        self.put(f"s = {self.state('weight_out')}")
        self.put(
            f"flag, done = edges(team, {visit}, out, f_{stage.functor}, {self.where(stage)}, s, "
            f"{first}, {last}, everyone, pieces)"
        )
        self.count_calls()
        self.put("changed = changed or flag")

    # ---- loops ----------------------------------------------------------------------------

    def print_fused_buckets(self, node: plan.FusedBuckets) -> None:
        """An ordered loop whose buckets may fuse."""
        stage, outer = node.advance, self.open(node)
        pool, count = POOLS[self.in_replay]
        self.put(f"s = {self.state('weight_out')}")
        self.put("members, clock = current.info[SIZE], cycles()")
        self.put(
            f"team, current, following, {count}, stamp, rounds, done = nearest(team, visit, out, "
            f"f_{stage.functor}, {self.where(stage)}, s, {self.order(node)}, current, following, "
            f"{pool}, {count}, marks, stamp, ordered.words, ordered.far, ordered.farther, "
            "ordered.in_far, pieces)"
        )
        self.put("visited += done")
        self.put("if rounds > 0:")
        self.note_fused("done")
        if self.plan.places and not self.in_replay:  # both are empty: any queue will do
            for name in ("current", "following"):
                self.put(f"{name} = Frontier(fronts.{name}.queue, fronts.{name}.bits, {name}.info)")
            self.put("side = False")
        self.close(node, outer)

    def print_buckets(self, node: plan.Buckets) -> None:
        """An ordered loop with a superstep for each bucket."""
        with self.skipped_over(node):
            outer = self.open(node)
        room, number = f"waiting[{node.room}]", node.number
        mine, later, turned = f"mine_{number}", f"later_{number}", f"turned_{number}"
        assert node.stage.order is not None
        field, delta = node.stage.order.field.name, self.number_of(node.stage.order.delta)
        order = f"{room}.near, field_{field}, {delta}"
        with self.skipped_over(node):
            self.begin()
            self.put(f"{mine}, {later}, {turned} = {room}.mine, {room}.later, False")
            self.renew_waiting(node, mine)
            self.put(f"join(team, current, {mine}, {order})")
        with self.within("while True:"):
            with self.skipped_over(node):
                self.break_at_limit(node)
                self.break_if_none_wait(node, mine)
                self.begin(makes=self.next)
                self.renew_waiting(node, later)
                self.pick(mine, f"{room}.near", f"{later}, {self.next}, {order}")
                self.put(f"{mine}, {later}, {turned} = {later}, {mine}, not {turned}")
                self.swap()
                self.continue_if_settled()
            self.superstep(node)
            self.begin()
            self.put(f"join(team, current, {mine}, {order})")
            self.break_on_until(node)
        self.begin(makes=self.next)
        self.put(f"hand_on(team, {mine}, {room}.near, {self.next})")
        self.swap()
        self.close(node, outer)

    def renew_waiting(self, node: plan.Buckets, name: str) -> None:
        """Empty a frontier of waiting vertices by giving it the next words of its pool."""
        self.put(f"waits_{node.room} += 1")
        self.put(f"{name} = fresh(team, {name}, waiting[{node.room}].words, waits_{node.room})")

    def break_if_none_wait(self, node: plan.Buckets, mine: str) -> None:
        """End an ordered loop if no vertex waits."""
        self.put(f"if {mine}.info[SIZE] == 0: break")
        self.put(f"stopped = {self.stop_test()}")
        self.put("if stopped: break")

    def pick(self, mine: str, near: str, given: str) -> None:
        """Take the nearest bucket."""
        self.put(f"pick(team, {mine}, {given}, works)")

    def continue_if_settled(self) -> None:
        """Go on to the next bucket if all vertices of this one were settled before."""
        self.put("if current.info[SIZE] == 0: continue")

    # ---- backwards ------------------------------------------------------------------------

    def before_replay(self, node: plan.Replay) -> None:
        """Prepare the words of the last recorded frontier."""
        if node.in_place:
            self.put("prepare_replay(team, infos.replayed, kept, recorded - 1)")
            self.put("barrier(sync)")

    def replay_in_place(self) -> None:
        """Let stages read the record itself."""
        step = self.step
        self.put(f"first, last = kept.bounds[{step}], kept.bounds[{step} + 1]")
        self.put(f"words = {step} % {TURNS} * {INFO_WORDS}")
        self.put(
            "replayed = Frontier(kept.queue[first:last], spare_bits, "
            f"infos.replayed[words:words + {INFO_WORDS}])"
        )
        self.put(f"prepare_replay(team, infos.replayed, kept, {step} - 1)")

    def replay_copy(self) -> None:
        """Copy the recorded frontier."""
        self.in_replay = True
        self.begin()
        self.put("current, following = y, spare")
        if not self.plan.has_edges:
            self.renew("current")
            self.put(f"recall(team, kept, {self.step}, current)")
            return
        self.put("edge_current, edge_following = edge_y, edge_spare")
        self.put(f"on_edges = kept.on_edges[{self.step}] != 0")
        with self.within("if on_edges:"):
            self.renew("edge_current")
            self.put(f"recall_edges(team, kept, {self.step}, edge_current)")
        with self.within("else:"):
            self.renew("current")
            self.put(f"recall(team, kept, {self.step}, current)")


_FRONTIERS = ("current", "following", "everyone", "spare")
PROLOGUE = (
    "team = new_team(sync, works, graph.out.indices)",
    "out, weight_out = graph.out, graph.weight_out",
    "into, weight_in = graph.into, graph.weight_in",
    "degree = graph.degree",
    "num_vertices, num_arcs = len(out.indptr) - 1, len(out.indices)",
    *(f"{name} = fronts.{name}" for name in _FRONTIERS),
    "spare_bits = everyone.bits",
    "members, clock, fused = 0, cycles(), 0",
    "changed, stopped, stamp, recorded, row, made, remade = False, False, 0, 0, 0, 0, 0",
    "left, before, calls, visited, pulled = num_arcs, 0, 0, 0, False",
)

EDGE_PROLOGUE = (
    *(f"edge_{name} = edge_fronts.{name}" for name in ("current", "following", "spare")),
    "edge_made, edge_remade, on_edges = 0, 0, False",
)
