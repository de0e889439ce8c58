"""Kernels for parts on GPUs, with a grid for each part."""

from __future__ import annotations

from typing import Any

from evener.engine.codegen import plan
from evener.engine.codegen.exchange_functions import Texts
from evener.engine.codegen.passes import Shape, plan_of
from evener.engine.codegen.print_exchange import MEMBERS, ExchangePrinter
from evener.engine.codegen.print_gpu import POOLS, PROLOGUE, GpuPrinter
from evener.engine.codegen.print_resume import MORE_ROOM
from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job
from evener.operators.gpu import advance_parts as of_parts
from evener.operators.gpu import exchange, frontier, members, nearest_parts
from evener.operators.shared import buckets, direction
from evener.operators.shared.world import FULL

_EXCHANGE = ("deliver", "unite", "next_stamp", "remember_parts", "remember_edges_parts")
_ADVANCE = ("push_parts", "pull_parts", "targets_parts")


def lower_parts_gpu(
    job: Job, way: str, state: Any, schedule: str, measure: Any, hub: bool = False
) -> Kernel:
    """The kernel of a part; DeviceError if the program does not run on parts of a GPU.

    ``measure`` computes the bytes of a message. With a ``hub`` other machines have parts too.
    """
    made = plan_of(job, way, Shape(on_grid=True, over_parts=True, hub=hub))
    return GpuPartsPrinter(job, made, state, schedule, measure).print()


class GpuPartsPrinter(ExchangePrinter, GpuPrinter):
    """Prints for the grid of a part."""

    def __init__(
        self, job: Job, kernel_plan: plan.KernelPlan, state: Any, schedule: str, measure: Any
    ):
        super().__init__(job, kernel_plan, state, schedule, relabels=True)
        self.prepare_exchanges(measure)
        self.names.update(
            empty_now=frontier.empty_now, FULL=FULL,
            nearest_parts=nearest_parts.nearest_parts, nearest_waiting=buckets.nearest_waiting,
            take=buckets.take, arcs_of=direction.arcs_of,
            goes_pull_parts=direction.goes_pull_parts,
        )  # fmt: skip
        self.names.update({name: getattr(exchange, name) for name in _EXCHANGE})
        self.names.update({name: getattr(members, name) for name in MEMBERS})
        self.names.update({name: getattr(of_parts, name) for name in _ADVANCE})

    def prologue(self) -> tuple[str, ...]:
        """Lines that name the arguments of a kernel and set its variables."""
        return (*PROLOGUE, *self.world_lines())

    def outcome(self) -> str:
        """The expression that a kernel returns at its end."""
        self.put("if team.thread == 0: rows[0] = cycles() - began")
        return f"{MORE_ROOM} if why_stop(world, 1 - turn) == FULL else 0"

    # ---- what differs between devices -----------------------------------------------------

    def stamp(self) -> None:
        """Take a new stamp: marks with an older one are invalid."""
        self.put("stamp = next_stamp(team, world, stamp)")

    def targets_call(self) -> str:
        """The call that makes the current frontier from one of edges, each ``dst`` at its owner."""
        return "targets_parts(team, world, out, edge_current, current, marks, stamp)"

    def spread_arguments(self, texts: Texts, names: tuple[str, ...], values: str, olds: str) -> str:
        """The arguments of `spread`: two functions, so that reads for several ghosts overlap."""
        peek, place = self.function(texts.peek(names)), self.function(texts.place(names))
        return f"{peek}, {place}, {values}, {olds}"

    def deliver_arguments(self, stale: plan.Stale) -> str:
        """The arguments of `deliver`: two functions, for the same reason."""
        texts = self.texts_of(stale.names)
        look, improve = self.function(texts.look(*stale)), self.function(texts.improve(*stale))
        return f"{look}, {improve}, {self.merge_arguments(stale).partition(', ')[2]}"

    # ---- stages ---------------------------------------------------------------------------

    def print_push(self, node: plan.Push) -> None:
        """Along the out-edges of this part's frontier."""
        self.put(self.push_call(node.stage.functor, self.where(node.stage), node))

    def push_call(self, functor: str, where: str, node: plan.Push | None = None) -> str:
        """The call that pushes: from the frontier of a stage, without a node from the current."""
        source = "current" if node is None else self.source(node.stage)
        return (
            f"done = push_parts(team, world, visit, out, f_{functor}, {where}, s, {source}, "
            f"{self.next}, marks, stamp, {node is None or node.boxes}, pieces)"
        )

    def print_pull(self, node: plan.Pull) -> None:
        """Along the in-edges of this part's vertices."""
        stage = node.stage
        self.put(
            f"done = pull_parts(team, into, f_{stage.functor}, alone_{stage.functor}, "
            f"{self.where(stage)}, {stage.where is not None}, t, {self.source(stage)}, present, "
            f"{self.next})"
        )

    def print_gather(self, node: plan.Gather) -> None:
        """As on one device; swaps the arrays of all parts too."""
        super().print_gather(node)
        for name in node.seen if node.copies else ():
            self.put(f"all_{name} = common.copies.{name} if moved_{name} else common.fields.{name}")
        for other in node.fused:
            self.agree(other.into.name, other.op)

    # ---- loops ----------------------------------------------------------------------------

    def new_box(self) -> None:
        """Take a new stamp for marks, with which the box is empty."""
        self.stamp()

    def new_following(self) -> None:
        """Empty the next frontier and the box, and take a new stamp for marks."""
        self.new_box()
        self.renew(self.next)

    def push_more(self, node: plan.RunAhead) -> None:
        """Push from the current frontier to the next one and the box."""
        self.begin()
        self.put(self.push_call(node.advance.functor, "always"))
        self.count_calls()

    def empty_current(self) -> None:
        """Empty the current frontier for vertices that arrive, before all parts meet."""
        self.put("empty_now(team, current)")

    def break_if_none_wait(self, node: plan.Buckets, mine: str) -> None:
        """End an ordered loop if no vertex waits in any part."""
        self.total(f"{mine}.info[SIZE]")
        self.put("if total == 0: break")
        self.put(f"stopped = {self.stop_test(node)}")
        self.put("if stopped: break")

    def pick(self, mine: str, near: str, given: str) -> None:
        """Take the nearest bucket of all parts."""
        self.put(f"bucket = nearest_waiting(team, {mine}, {near}, works)")
        self.communicate("bucket = least(team, world, turn, bucket)", "turn = 1 - turn")
        self.put(f"take(team, {mine}, {given}, bucket)")

    def continue_if_settled(self) -> None:
        """Go on to the next bucket if all vertices of this one were settled in all parts."""
        self.total("current.info[SIZE]")
        self.put("if total == 0: continue")

    def stop_test(self, node: plan.AnyLoop | None = None) -> str:
        """The test whether to stop, by the last census; without a node there is a new one."""
        if node is not None:
            return "why_stop(world, 1 - turn) != 0"
        self.put("turn = 1 - turn")
        return "ask_stop(team, world, 1 - turn)"

    def remember(self, node: plan.Loop) -> None:
        """Record the frontier; without room all parts stop."""
        call = "remember_parts(team, world, current, kept, recorded, trace)"
        if not self.plan.has_edges:
            self.put(f"recorded = {call}")
            return
        self.put("if on_edges:")
        self.put(
            "    recorded = remember_edges_parts(team, world, edge_current, kept, recorded, trace)"
        )
        self.put("else:")
        self.put(f"    recorded = {call}")

    def print_fused_buckets(self, node: plan.FusedBuckets) -> None:
        """An ordered loop as one operator."""
        assert node.stale is not None
        stage, outer = node.advance, self.open(node)
        pool, count = POOLS[self.in_replay]
        self.put(f"s = {self.state('weight_out')}")
        self.put("members, clock = current.info[SIZE], cycles()")
        self.put(
            f"team, current, following, {count}, stamp, turn, rounds, done, heard = nearest_parts("
            f"team, world, visit, out, f_{stage.functor}, {self.where(stage)}, s, "
            f"{self.order(node)}, current, following, {pool}, {count}, marks, stamp, turn, "
            "ordered.words, ordered.far, ordered.farther, ordered.in_far, pieces, "
            f"{self.merge_arguments(node.stale)})"
        )
        self.put("visited, talked = visited + done, talked + heard")
        self.put("if rounds > 0:")
        self.note_fused("done")
        self.close(node, outer)
