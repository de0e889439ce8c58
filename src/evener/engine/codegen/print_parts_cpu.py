"""Kernels for the parts of a graph on a CPU: the same stages, with exchanges between them.

Every thread of every part runs the same text on the arrays of its part. All parts agree on what
decides branches: sizes of frontiers, scalars, ``changed``, buckets and directions.
"""

from __future__ import annotations

from typing import Any

from evener.device import compiled
from evener.engine.codegen import plan
from evener.engine.codegen.exchange_functions import Texts
from evener.engine.codegen.passes import Shape, plan_of
from evener.engine.codegen.print_cpu import PROLOGUE, CpuPrinter
from evener.engine.codegen.print_exchange import MEMBERS, ExchangePrinter
from evener.engine.codegen.printer import Kernel
from evener.engine.codegen.rewrite import globalized, without_atomics
from evener.engine.job import Job
from evener.operators.cpu import advance_parts, exchange, members, nearest_parts
from evener.operators.shared import buckets, direction, edge_frontier

_EXCHANGE = ("deliver", "unite", "watch_shared", "remember_parts", "remember_edges_parts")
_ADVANCE = ("push_parts", "pull_parts", "push_more")


def lower_parts_cpu(
    job: Job, way: str, state: Any, measure: Any, hub: bool = False, single: bool = False,
    known: plan.KernelPlan | None = None,
) -> Kernel:  # fmt: skip
    """The kernel of parts; DeviceError if only the interpreter runs the program.

    ``measure`` computes the bytes of a message (`evener.operators.shared.policies`). With a ``hub``
    other machines have parts too; ``known`` is their plan. ``single`` parts have one thread each,
    which needs no atomics.
    """
    made = known or plan_of(job, way, Shape(over_parts=True, hub=hub))
    return CpuPartsPrinter(job, made, state, measure, single).print()


class CpuPartsPrinter(ExchangePrinter, CpuPrinter):
    """Prints for the threads of all parts."""

    def __init__(
        self, job: Job, kernel_plan: plan.KernelPlan, state: Any, measure: Any, single: bool
    ):
        super().__init__(job, kernel_plan, state)
        self.prepare_exchanges(measure)
        if single:
            self.names.update({f"f_{name}": self.unshared(name) for name in self.d.functors})
        self.names.update({name: getattr(exchange, name) for name in _EXCHANGE})
        self.names.update({name: getattr(members, name) for name in MEMBERS})
        self.names.update({name: getattr(advance_parts, name) for name in _ADVANCE})
        self.names.update(
            arcs_of=direction.arcs_of, goes_pull_parts=direction.goes_pull_parts,
            targets_parts=edge_frontier.targets,
        )  # fmt: skip
        self.names["nearest_parts"] = nearest_parts.nearest_parts
        self.names.update(nearest_waiting=buckets.nearest_waiting, take=buckets.take)

    def unshared(self, name: str) -> Any:
        """A functor without atomics, unless it writes fields that other parts may write too."""
        writes = {
            a.field
            for (functor, _), found in self.d.accesses.items() if functor == name
            for a in found.fields if a.kind != "read"
        }  # fmt: skip
        if any(self.d.fields[field].replicated for field in writes):
            return self.names[f"f_{name}"]
        function = globalized(self.d, name, self.plan.far_is_global)
        return compiled(without_atomics(function), allocates=False)

    def prologue(self) -> tuple[str, ...]:
        """Lines that name the arguments of a kernel and set its variables."""
        return (
            *PROLOGUE,
            *self.world_lines(),
            "ghost_team = Team(thread, threads, sync, between.buffers[thread])",
            "box = between.box",
        )

    def note(self) -> None:
        """Write the row of a superstep, and report progress."""
        super().note()
        self.put("show(sync, thread, row + fused, members, calls)")

    def outcome(self) -> str:
        """The expression that a kernel returns: why it stopped, 0 if it did not."""
        self.put("if thread == 0: rows[0, 0] = cycles() - began")
        return "why_stop(world, 1 - turn)" if self.plan.hub else "world.sync[STOP]"

    def spread_arguments(self, texts: Texts, names: tuple[str, ...], values: str, olds: str) -> str:
        """The arguments of `spread`; only with a hub values may be missing."""
        return f"{self.function(texts.give(names, self.plan.hub))}, {values}"

    def deliver_arguments(self, stale: plan.Stale) -> str:
        """The arguments of `deliver`: one function for emitted ghosts, one for all ghosts."""
        merge_if = self.function(self.texts_of(stale.names).merge_if(*stale))
        merge, rest = self.merge_arguments(stale).split(", ", 1)
        return f"{merge}, {merge_if}, {rest}"

    # ---- stages ---------------------------------------------------------------------------

    def print_watch(self, node: plan.Watch) -> None:
        """Parts share one copy of replicated fields: only changes are counted."""
        names = node.names
        texts = Texts(self.d, names, names, set())
        self.communicate(
            f"watch_shared(team, world, {self.function(texts.differ())}, "
            f"{self.function(texts.keep())}, {self.values(names)}, {self.united(names)}, "
            f"num_vertices, {self.width(names)})"
        )

    def print_push(self, node: plan.Push) -> None:
        """Along the out-edges of this part's frontier."""
        stage = node.stage
        self.put(
            f"made = push_parts(team, ghost_team, out, f_{stage.functor}, {self.where(stage)}, s, "
            f"{self.source(stage)}, {self.next}, box, marks, stamp, {node.boxes})"
        )

    def print_pull(self, node: plan.Pull) -> None:
        """Along the in-edges of this part's vertices."""
        stage = node.stage
        self.put(
            f"made = pull_parts(team, into, alone_{stage.functor}, {self.where(stage)}, t, "
            f"{self.source(stage)}, present, {self.next})"
        )

    def targets_call(self) -> str:
        """The call that makes the current frontier from one of edges, each ``dst`` at its owner."""
        return "targets_parts(team, out, edge_current, current, marks, stamp)"

    def gather_all(self, node: plan.Gather, into: str, weight: str, functors: str) -> None:
        """As on one device; swaps the arrays of all parts too."""
        super().gather_all(node, into, weight, functors)
        for name in node.seen:
            self.put(f"all_{name} = common.copies.{name} if moved_{name} else common.fields.{name}")
        for stage in node.fused:
            self.agree(stage.into.name, stage.op)

    # ---- loops ----------------------------------------------------------------------------

    def new_box(self) -> None:
        """Empty the box, and take a new stamp for marks."""
        self.stamp()
        self.put("empty(team, box)")

    def new_following(self) -> None:
        """Empty the next frontier and the box, and take a new stamp for marks."""
        self.new_box()
        self.put(f"empty(team, {self.next})")

    def push_more(self, node: plan.RunAhead) -> None:
        """Push from the current frontier to the next one and the box."""
        self.put(
            f"made = push_more(team, ghost_team, out, f_{node.advance.functor}, always, s, "
            f"current, {self.next}, box, marks, stamp, True)"
        )
        self.count_calls()

    def empty_current(self) -> None:
        """Empty the current frontier for vertices that arrive, before all parts meet."""
        self.put("empty(team, current)")

    def stop_test(self, node: plan.AnyLoop | None = None) -> str:
        """The test whether to stop; all parts meet first, unless they have just met."""
        if self.plan.hub and node is not None:
            return "why_stop(world, 1 - turn) != 0"
        if self.plan.hub:
            self.put("turn = 1 - turn")
            return "ask_stop(team, world, 1 - turn)"
        return "meet(world)" if node is None else "world.sync[STOP] != 0"

    def remember(self, node: plan.Loop) -> None:
        """Record the frontier; without room all parts stop."""
        if self.plan.has_edges:
            self.put("if on_edges:")
            self.put(
                "    recorded = remember_edges_parts(team, world, edge_current, kept, recorded)"
            )
            self.put("else:")
            self.put("    recorded = remember_parts(team, world, current, kept, recorded)")
        else:
            self.put("recorded = remember_parts(team, world, current, kept, recorded)")

    def print_fused_buckets(self, node: plan.FusedBuckets) -> None:
        """An ordered loop as one operator."""
        assert node.stale is not None
        stage, outer = node.advance, self.open(node)
        self.put(f"s = {self.state('weight_out')}")
        self.put("members, clock = current.info[SIZE], cycles()")
        self.put(
            f"rounds, made, stamp, turn, heard = nearest_parts(team, ghost_team, world, out, "
            f"f_{stage.functor}, {self.where(stage)}, s, {self.order(node)}, current, "
            "ordered.words, ordered.bucket, pool_of(ordered.pools, thread), box, marks, stamp, "
            f"turn, {self.merge_arguments(node.stale)})"
        )
        self.put("visited, talked = visited + made, talked + heard")
        self.put("if rounds > 0:")
        self.note_fused("made")
        self.close(node, outer)

    def take_bucket(self, node: plan.Buckets, mine: str, later: str, order: str) -> None:
        """Make the nearest bucket of all parts the frontier; end the loop if no vertex waits."""
        room, buckets = f"waiting[{node.room}]", f"buckets_{node.number}"
        self.total(f"{mine}.info[SIZE]")
        self.put("if total == 0: break")
        self.put(f"stopped = {self.stop_test(node)}")
        self.put("if stopped: break")
        self.put(f"near = nearest_waiting(team, {mine}, {buckets}, {room}.scratch)")
        self.communicate("near = least(team, world, turn, near)", "turn = 1 - turn")
        self.put(f"take(team, {mine}, {later}, current, {order}, near)")
        self.put(f"{mine}, {later} = {later}, {mine}")
        self.total("current.info[SIZE]")
        self.put("if total == 0: continue")
