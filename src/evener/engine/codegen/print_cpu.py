"""Kernels for threads of a CPU: what those for one device, parts and single stages share."""

from __future__ import annotations

from typing import Any

from evener.device.sync import barrier, cycles
from evener.engine.codegen import plan
from evener.engine.codegen.arguments import CpuArguments, GraphArrays
from evener.engine.codegen.printer import MODES, SIDES, Kernel, Printer
from evener.engine.job import Job
from evener.operators.cpu import advance, edge_frontier, frontier, gather, nearest, trace, vertices
from evener.programs import kinds

SIGNATURE = ("thread", "threads", "sync", *CpuArguments._fields)


class CpuPrinter(Printer):
    """Prints for threads that run the text in step."""

    signature: tuple[str, ...] = SIGNATURE

    def __init__(self, job: Job, kernel_plan: plan.KernelPlan, state: Any):
        super().__init__(job, kernel_plan, state)
        self.names.update({
            "barrier": barrier, "cycles": cycles, "note": trace.note,
            "tell_whole": trace.tell_whole,
            "Team": frontier.Team, "empty": frontier.empty,
            "NUMBER": frontier.NUMBER, "FORM": frontier.FORM, "EDGES": frontier.EDGES,
            "advance": advance.advance, "fill_all": advance.fill_all,
            "next_stamp": advance.next_stamp, "pool_of": nearest.pool_of,
            "reduce": vertices.reduce, "edges": vertices.edges,
            "gather": gather.gather, "gather_at_once": gather.gather_at_once,
            "gather_all": gather.gather_all, "sum_up": gather.sum_up, "settle": gather.settle,
            "BufferedEdges": edge_frontier.BufferedEdges,
            "advance_edges": edge_frontier.advance_edges,
        })  # fmt: skip

    def print(self) -> Kernel:
        """The kernel: names of arguments, the loop, and what the host reads afterwards."""
        self.put(*self.prologue())
        for name in self.d.scalars:
            self.put(f"scalar_{name} = neutral_{name}", f"partial_{name} = partials.{name}")
        if self.plan.has_edges:
            self.put(*EDGE_PROLOGUE)
        copied = self.plan.copied
        self.put(*(f"field_{name} = fields.{name}" for name in self.d.fields))
        self.put(*(f"copy_{name} = copies.{name}" for name in copied))
        self.put(*(f"moved_{name} = False" for name in copied))
        at = len(self.lines)
        self.emit(self.plan.body)
        for name in copied:
            call = f"settle(team, fields.{name}, field_{name}, moved_{name})"
            self.operate(call, f"num_vertices if moved_{name} else 0")
        self.put(*(f"partial_{name}[8 * thread] = scalar_{name}" for name in self.d.scalars))
        self.put("tell_whole(team, trace, visited, fused)")
        self.put(f"return {self.outcome()}")
        self.lines[at:at] = ["    " + line for line in self.before_stages()]
        return self.kernel()

    def kernel(self) -> Kernel:
        """The kernel of the lines that were printed."""
        head = f"def worker({', '.join(self.signature)}):\n"
        text = head + "\n".join(self.lines) + "\n"
        return Kernel(self.plan, text, self.names, self.helpers)

    def prologue(self) -> tuple[str, ...]:
        """Lines that name the arguments of a kernel and set its variables."""
        return PROLOGUE

    def before_stages(self) -> list[str]:
        """Lines between the prologue and the stages, made after all others."""
        return []

    def outcome(self) -> str:
        """The expression that a kernel returns at its end."""
        return "False"

    # ---- what differs between devices -----------------------------------------------------

    def stamp(self) -> None:
        """Take a new stamp: marks with an older one are invalid."""
        self.put("stamp = next_stamp(team, marks, stamp)")

    def targets_call(self) -> str:
        """The call that makes the current frontier from one of edges."""
        return "targets(team, out, edge_current, current, marks, stamp)"

    def edges_call(self, stage: kinds.Advance) -> str:
        """The call that emits edges."""
        return (
            f"advance_edges(team, out, f_{stage.functor}, {self.where(stage)}, s, "
            f"{self.source(stage)}, edge_following)"
        )

    def stop_test(self, node: plan.AnyLoop | None = None) -> str:
        """The test whether to stop; a kernel of one stage has none."""
        raise AssertionError("a kernel of one stage has no loop")

    def remember(self, node: plan.Loop) -> None:
        """Record the frontier for `backwards`."""
        call = "recorded = remember(team, current, kept, recorded)"
        if self.plan.has_edges:
            with self.within("if on_edges:"):
                edges = "recorded = remember_edges(team, edge_current, kept, recorded)"
                self.operate(edges, "edge_current.info[SIZE]")
            with self.within("else:"):
                self.operate(call, "current.info[SIZE]")
        else:
            self.operate(call, "current.info[SIZE]")
        self.put("if recorded < 0: break")

    def after_record(self) -> None:
        """End the run if the record is full; the host repeats it with more room."""
        self.put("if recorded < 0: return True")

    def replay_in_place(self) -> None:
        """Let stages read the record itself."""
        self.put(f"first, last = kept.bounds[{self.step}], kept.bounds[{self.step} + 1]")
        self.put("replayed = Frontier(kept.queue[first:last], spare_bits, replay_info)")
        self.put("barrier(sync, threads)")
        self.put("if thread == 0:")
        self.put(
            "    replay_info[SIZE], replay_info[FORM], replay_info[EDGES] = last - first, 0, 0"
        )

    def replay_copy(self) -> None:
        """Copy the recorded frontier."""
        step = self.step
        call, work = (
            f"recall(team, kept, {step}, current)",
            f"kept.bounds[{step} + 1] - kept.bounds[{step}]",
        )
        self.put("current, following = y, spare")
        if self.plan.has_edges:
            self.put("edge_current, edge_following = edge_y, edge_spare")
            self.put(f"on_edges = kept.on_edges[{step}] != 0")
            with self.within("if on_edges:"):
                self.operate(f"recall_edges(team, kept, {step}, edge_current)", work)
            with self.within("else:"):
                self.operate(call, work)
        else:
            self.operate(call, work)

    # ---- stages ---------------------------------------------------------------------------

    def print_push_or_pull(self, node: plan.PushOrPull) -> None:
        """One operator, which chooses the direction."""
        stage, source, mode = node.stage, self.source(node.stage), MODES[node.mode]
        self.put(f"size = {source}.info[SIZE]")
        self.operate(
            f"pulled, made, arcs = advance(team, out, into, f_{stage.functor}, "
            f"alone_{stage.functor}, {self.where(stage)}, s, t, {source}, {self.next}, marks, "
            f"stamp, {node.exact}, {mode}, left, before)",
            f"arcs_to_advance(out, {source}, {mode}, most)",
        )
        self.count_calls()
        self.put("left, before = left - arcs, size")
        if stage.over_all:
            self.put("fill_all(team, everyone, num_vertices, num_arcs)")

    def print_gather(self, node: plan.Gather) -> None:
        """Totals, and the functor that applies them."""
        stage, number = node.stage, node.number
        combine, start = f"combine_{stage.combine}", f"neutral_of_{number}"
        if stage.combine_is_functor:
            combine, start = f"f_{stage.combine[1:]}", "None"
        (into, weight), source = SIDES[stage.along], self.source(stage)
        functors = f"{self.gathering(stage)}, {combine}, f_{stage.apply}, {start}"
        self.put(f"t = {self.state(weight)}")
        if node.all_at_once:
            self.gather_all(node, into, weight, functors)
        elif node.at_once:
            self.operate(
                f"made = gather_at_once(team, {into}, {functors}, t, {source}, {self.next}, "
                f"{node.keeps})",
                f"arcs_of({into}, {source}, most)",
            )
        else:
            self.operate(
                f"made = gather(team, {into}, {functors}, t, {source}, {self.next}, "
                f"totals[{number}], {node.keeps})",
                f"arcs_of({into}, {source}, most)",
            )
        self.count_calls()
        self.put("pulled = True")
        self.swap()

    def gather_all(self, node: plan.Gather, into: str, weight: str, functors: str) -> None:
        """A gather over all vertices in one pass, with reductions on the way."""
        number, scalars = node.number, self.add_helpers(node)
        neutrals = "".join(f"neutral_{name}, " for name in scalars)
        arrays = "".join(f"sums.{name}, " for name in scalars)
        self.put(f"u = {self.state(weight, node.seen)}")
        self.operate(
            f"made = gather_all(team, {into}, {functors}, t, u, keep_{number}, reduce_{number}, "
            f"store_{number}, ({neutrals}0,), ({arrays}0,), {self.next}, {node.keeps})",
            f"num_vertices + len({into}.indices)",
        )
        self.swap_copies(node)
        for stage in node.fused:
            name = stage.into.name
            self.put(f"scalar_{name} = sum_up(combine_{stage.op}, neutral_{name}, sums.{name})")

    def print_edges(self, node: plan.Edges) -> None:
        """A functor called for edges of all vertices."""
        stage = node.stage
        first, last = stage.neighbours or (0, None)
        last = (1 << 62) if last is None else last
        self.put(f"s = {self.state('weight_out')}")
        self.operate(
            f"flag, made = edges(team, out, f_{stage.functor}, {self.where(stage)}, s, {first}, "
            f"{last}, flags)",
            f"num_vertices * min(1 + num_arcs // num_vertices, 1 + {last} - {first})",
        )
        self.count_calls()
        self.put("changed = changed or flag")

    # ---- loops ----------------------------------------------------------------------------

    def print_buckets(self, node: plan.Buckets) -> None:
        """An ordered loop with a superstep for each bucket."""
        outer = self.open(node)
        room, number = f"waiting[{node.room}]", node.number
        mine, later, buckets = f"mine_{number}", f"later_{number}", f"buckets_{number}"
        assert node.stage.order is not None
        field, delta = node.stage.order.field.name, self.number_of(node.stage.order.delta)
        order = f"{buckets}, field_{field}, {delta}"
        self.put(f"{mine} = {room}.mine", f"{later} = {room}.later", f"{buckets} = {room}.near")
        self.put(f"empty(team, {mine})")
        self.operate(f"join(team, current, {mine}, {order})", "current.info[SIZE]")
        with self.within("while True:"):
            self.break_at_limit(node)
            self.take_bucket(node, mine, later, order)
            self.superstep(node)
            self.operate(f"join(team, current, {mine}, {order})", "current.info[SIZE]")
            self.break_on_until(node)
        self.operate(f"hand_on(team, {mine}, {buckets}, current)", f"{mine}.info[SIZE]")
        self.close(node, outer)

    def take_bucket(self, node: plan.Buckets, mine: str, later: str, order: str) -> None:
        """Make the nearest bucket the frontier; end the loop if no vertex waits."""
        self.put(f"if {mine}.info[SIZE] == 0: break")
        self.put(f"stopped = {self.stop_test()}")
        self.put("if stopped: break")
        pick = f"pick(team, {mine}, {later}, current, {order}, waiting[{node.room}].scratch)"
        self.operate(pick, f"{mine}.info[SIZE]")
        self.put(f"{mine}, {later} = {later}, {mine}")
        self.put("if current.info[SIZE] == 0: continue")


GRAPH = tuple(f"{name} = graph.{name}" for name in GraphArrays._fields)
PROLOGUE = (
    "team = Team(thread, threads, sync, buffers[thread])",
    *GRAPH,
    "num_vertices, num_arcs = len(out.indptr) - 1, len(out.indices)",
    "current, following, everyone = fronts.current, fronts.following, fronts.everyone",
    "spare, spare_bits, replay_info = fronts.spare, fronts.replay_bits, fronts.replay_info",
    "changed, stopped, stamp, recorded, row = False, False, 0, 0, 0",
    "left, before, calls, visited, pulled = num_arcs, 0, 0, 0, False",
    "members, clock, fused = 0, cycles(), 0",
)


def buffered(name: str, thread: str) -> str:
    """The text of a frontier of edges with the buffer of a thread."""
    front = f"edge_fronts.{name}"
    return f"BufferedEdges({front}.src, {front}.edge, {front}.info, edge_fronts.buffers[{thread}])"


EDGE_PROLOGUE = (
    *(f"edge_{name} = {buffered(name, 'thread')}" for name in ("current", "following", "spare")),
    "on_edges = False",
)
