"""The kernel of a program for the grid of threads of a GPU.

The same writer as for the CPU (`evener.engine.codegen.stages`), with operators that divide their
work among warps and need one barrier a stage. The whole loop stays in the kernel.
"""

from __future__ import annotations

from typing import Any, NoReturn

from evener.device import warp
from evener.device.states import Identity
from evener.engine.codegen import fusion
from evener.engine.codegen.resume import Resumable
from evener.engine.codegen.stages import (
    MODES,
    SIDES,
    Kernel,
    NotLoweredError,
    _Writer,
)
from evener.engine.job import Job, field_dtype
from evener.operators.gpu import (
    advance,
    edge_frontier,
    frontier,
    gather,
    nearest,
    record,
    vertices,
)
from evener.operators.gpu.schedules import SCHEDULES
from evener.operators.gpu.schedules.dynamic import totals_by_functor
from evener.programs.fields import neutral
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
)

# What ``auto`` takes where no list can be long, since of each only so many neighbours are visited:
# nothing is claimed and nothing put off.
FOR_SLICES, SHORT_SLICE = "warp_segmentation", 8

SIGNATURE = (
    "sync", "graph", "fields", "params", "fronts", "infos", "works", "marks", "pieces", "partials",
    "totals", "parts", "copies", "ordered", "record", "edge_rooms", "waiting", "saves", "trace",
)  # fmt: skip
# The words of frontiers and how many were made: outside of replays, and within them.
POOLS = (("infos[0]", "made"), ("infos[2]", "remade"))
EDGE_POOLS = (("edge_rooms[3]", "edge_made"), ("edge_rooms[4]", "edge_remade"))


def lower_grid(
    job: Job, direction: str, state: Any, schedule: str = "auto", relabels: bool = False
) -> Kernel:  # fmt: skip
    """Write the kernel of a job; DeviceError for what only the interpreter runs.

    ``relabels``: vertices have other places than their ids say, so there is a table of those.
    """
    return _GridWriter(job, direction, state, schedule, relabels).write()


class _GridWriter(Resumable, _Writer):
    signature: tuple[str, ...] = SIGNATURE

    def __init__(self, job: Job, direction: str, state: Any, schedule: str, relabels: bool):
        super().__init__(job, direction, state)
        self.prepare()
        chosen = SCHEDULES["dynamic" if schedule == "auto" else schedule]
        slices = SCHEDULES[FOR_SLICES if schedule == "auto" else schedule]
        by_functor = totals_by_functor if schedule == "auto" else chosen.totals_of
        self.names.update(
            cycles=warp.cycles, barrier=warp.barrier,
            new_team=frontier.new_team, begin=frontier.begin, fresh=frontier.fresh,
            is_stopped=frontier.is_stopped, visit=chosen.visit, totals_of=chosen.totals_of,
            visit_slices=slices.visit, totals_by_functor=by_functor,
            advance=advance.advance, nearest=nearest.nearest, gather=gather.gather,
            reduce=vertices.reduce,
            edges=vertices.edges, reduce_block=vertices.reduce_block,
            reduce_blocks=vertices.reduce_blocks, settle=record.settle,
            tell_whole=record.tell_whole, note=record.note, end=record.end,
            prepare_replay=record.prepare_replay, remember=record.remember,
            remember_edges=record.remember_edges, save_sum=record.save_sum,
            begin_again=record.begin_again,
            EdgeFrontier=edge_frontier.EdgeFrontier,
            advance_edges=edge_frontier.advance_edges, fresh_edges=edge_frontier.fresh_edges,
        )  # fmt: skip
        if relabels:
            self.put("ids = graph[7]")
        else:
            self.names["ids"] = Identity()

    def write(self) -> Kernel:
        for line in self.prologue():
            self.put(line)
        self.lines += [f"    field_{name} = fields[{i}]" for i, name in enumerate(self.d.fields)]
        for i, name in enumerate(self.d.scalars):
            dtype = field_dtype(self.d.scalars[name].dtype, self.job.graph)
            self.names[f"neutral_{name}"] = dtype.type(neutral(self.d.scalars[name].merge, dtype))
            self.put(f"scalar_{name} = neutral_{name}")
            self.put(f"partial_{name} = partials[{i}]")
        if self.has_edges:
            for line in _EDGE_PROLOGUE:
                self.put(line)
        at = len(self.lines)
        self.sequence(self.d.loop)
        copied = self.kernel.copied
        begin = [f"copy_{name} = copies[{i}]" for i, name in enumerate(copied)]
        begin += [f"moved_{name} = False" for name in copied]
        begin += [f"waits_{i} = 0" for i in range(self.orders)]
        if self.kernel.has_both:
            begin += ["both, weight_both = Adjacency(graph[8], graph[9]), graph[10]"]
        begin += self.finish_places()
        self.lines[at:at] = ["    " + line for line in begin]
        for i, name in enumerate(self.d.fields):
            if name in copied:
                self.put(f"settle(team, fields[{i}], field_{name}, moved_{name})")
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
        self.kernel.text, self.kernel.names = text, self.names
        self.kernel.orders, self.kernel.has_edges = self.orders, self.has_edges
        return self.kernel

    def prologue(self) -> tuple[str, ...]:
        return _PROLOGUE

    def outcome(self) -> str:
        return "0"

    def refuse(self, what: str) -> NoReturn:
        raise NotLoweredError(f"{self.d.name} {what}, which this version does not run on a GPU.")

    # ---- stages ---------------------------------------------------------------------------

    def begin(self, makes: bool = False) -> None:
        """A new turn of the words that a stage counts in, and of those of the frontier it makes."""
        self.put("team = begin(team)")
        if makes:
            self.renew(self.next)

    def renew(self, name: str) -> None:
        """Give a frontier the next words of its pool, which are empty."""
        of_edges = name.startswith("edge")
        pool, count = (EDGE_POOLS if of_edges else POOLS)[self.in_replay]
        self.put(f"{count} += 1")
        self.put(f"{name} = fresh{'_edges' if of_edges else ''}(team, {name}, {pool}, {count})")

    def filter(self, stage: Filter) -> None:
        self.begin(makes=True)
        super().filter(stage)

    def compute(self, stage: Compute) -> None:
        self.begin()
        super().compute(stage)

    def reduce(self, stage: Reduce) -> None:
        self.begin()
        super().reduce(stage)

    def on_edges(self, stage: Filter | Compute) -> None:
        self.begin()
        if isinstance(stage, Filter):
            self.renew("edge_following")
        super().on_edges(stage)

    def count(self, called: str) -> None:
        self.put(f"done = {called}")
        self.count_calls()

    def advance(self, stage: Advance) -> None:
        where = "always" if stage.where is None else f"f_{stage.where}"
        mode = MODES[self.direction]
        if self.direction == "auto" and stage.where is None:
            mode = MODES["push"]
        source = self.source(stage)
        exact = self.is_exact(stage)
        self.kernel.is_inexact |= not exact
        if self.has_edges and not stage.over_all:
            self.put("if on_edges:")
            self.indent += 1
            self.begin()
            self.renew("current")
            self.put("stamp += 1")
            self.put("targets(team, out, edge_current, current, marks, stamp)")
            self.indent -= 1
        if stage.emit == "edges":
            self.begin()
            self.renew("edge_following")
            self.put(f"s = {self.state('weight_out')}")
            self.count(
                f"advance_edges(team, visit, out, f_{stage.functor}, {where}, s, {source}, "
                "edge_following, pieces)"
            )
            self.swap_edges()
            return
        self.begin(makes=True)
        self.put(f"s = {self.state('weight_out')}")
        self.put(f"t = {self.state('weight_in')}")
        self.put("stamp += 1")
        self.put(f"size = {source}.info[0]")
        self.put(
            f"pulled, done, arcs = advance(team, visit, out, into, f_{stage.functor}, "
            f"alone_{stage.functor}, {where}, {stage.where is not None}, s, t, {source}, "
            f"{self.next}, marks, stamp, {exact}, {mode}, left, before, pieces)"
        )
        self.count_calls()
        self.put("left, before = left - arcs, size")
        self.swap()

    def count_calls(self) -> None:
        self.put("calls += done")
        self.put("visited += done")

    def gather(self, stage: Gather, after: tuple[Stage, ...], keeps: bool) -> int:
        number = len(self.kernel.gathers)
        self.kernel.gathers.append(stage)
        own = stage.combine_is_functor
        combine = f"f_{stage.combine[1:]}" if own else f"combine_{stage.combine}"
        totals_of = "totals_by_functor" if own else "totals_of"
        along = stage.along
        if along == "both" and not self.job.graph.directed:
            along = "in"
        self.kernel.has_both |= along == "both"
        into, weight = SIDES[along]
        f = f"f_{stage.functor}"
        if not stage.sees_dst:
            self.names[f"w_{stage.functor}"] = fusion.without_dst(self.names[f])
            f = f"w_{stage.functor}"
        seen = () if stage.asynchronous else fusion.seen_by_others(self.d, stage)
        copies = stage.over_all and not any(self.d.fields[name].replicated for name in seen)
        at_once = copies or not seen
        fused = fusion.reductions(self.d, after) if copies else []
        second = seen if copies else ()
        self.kernel.copied += [name for name in second if name not in self.kernel.copied]
        if not at_once:
            self.kernel.totals.add(number)
        scalars = [other.into.name for other in fused]
        dtypes = [self.names[f"neutral_{name}"].dtype.type for name in scalars]
        self.names.update(fusion.helpers(number, second, fused, dtypes, self.names))
        neutrals = "".join(f"neutral_{name}, " for name in scalars)
        self.begin(makes=True)
        self.put(f"t = {self.state(weight)}")
        self.put(f"u = {self.state(weight, second)}")
        self.put(
            f"done, own = gather(team, {totals_of}, {into}, {f}, {combine}, "
            f"f_{stage.apply}, neutral_of_{number}, {own}, t, u, keep_{number}, reduce_{number}, "
            f"({neutrals}0,), {self.source(stage)}, {self.next}, totals[{number}], "
            f"parts[{number}], {at_once}, {keeps}, {len(fused) > 0}, pieces)"
        )
        for i, other in enumerate(fused):
            self.put(f"reduce_block(team, combine_{other.op}, own[{i}], partial_{scalars[i]})")
        if fused:
            self.put("barrier(sync)")
        for name in second:
            self.put(f"field_{name}, copy_{name} = copy_{name}, field_{name}")
            self.put(f"moved_{name} = not moved_{name}")
        for other, name in zip(fused, scalars, strict=True):
            self.put(
                f"scalar_{name} = reduce_blocks(team, combine_{other.op}, neutral_{name}, "
                f"partial_{name})"
            )
        self.count_calls()
        self.put("pulled = True")
        self.swap()
        return len(fused)

    def edges(self, stage: Edges) -> None:
        where = "always" if stage.where is None else f"f_{stage.where}"
        first, last = stage.neighbours or (0, None)
        last = (1 << 62) if last is None else last
        visit = "visit_slices" if last - first <= SHORT_SLICE else "visit"
        self.begin()
        self.put(f"s = {self.state('weight_out')}")
        self.put(
            f"flag, done = edges(team, {visit}, out, f_{stage.functor}, {where}, s, {first}, "
            f"{last}, everyone, pieces)"
        )
        self.count_calls()
        self.put("changed = changed or flag")

    # ---- loops ----------------------------------------------------------------------------

    def stop_test(self, stage: Repeat | None = None) -> str:
        if stage and all(isinstance(inner, Repeat | Backwards) for inner in stage.stages):
            self.begin()  # loops that may have nothing to do: without a barrier nobody would stop
            self.put("barrier(sync)")
        return "is_stopped(team)"

    def fused(self, stage: Repeat) -> None:
        advance = stage.stages[0]
        assert isinstance(advance, Advance)
        assert stage.order is not None
        where = "always" if advance.where is None else f"f_{advance.where}"
        pool, count = POOLS[self.in_replay]
        outer = self.open(stage)
        self.put(f"s = {self.state('weight_out')}")
        self.put("members, clock = current.info[0], cycles()")
        self.put(
            f"team, current, following, {count}, stamp, rounds, done = nearest(team, visit, out, "
            f"f_{advance.functor}, {where}, s, {self.field(stage.order.field.name)}, 1.0 / "
            f"{self.limit(stage.order.delta)}, current, following, {pool}, {count}, marks, stamp, "
            "ordered[0], ordered[1], ordered[2], ordered[3], pieces)"
        )
        self.put("visited += done")
        self.put("if rounds > 0:")
        self.put("    note(team, trace, row, rounds - 1, members, done, False, clock)")
        self.put("    row, fused = row + 1, fused + rounds - 1")
        if self.all_places and not self.in_replay:  # it is empty: any queue will do
            self.put("current = Frontier(fronts[0], fronts[1], current.info)")
            self.put("following = Frontier(fronts[2], fronts[3], following.info)")
            self.put("side = False")
        self.close(stage, outer)

    def ordered(self, stage: Repeat) -> None:
        assert stage.order is not None
        room, self.orders = f"waiting[{self.orders}]", self.orders + 1
        mine, later = f"mine_{self.loops}", f"later_{self.loops}"
        near = f"{room}[3]"
        order = f"{near}, {self.field(stage.order.field.name)}, {self.limit(stage.order.delta)}"

        def renew(name: str) -> None:
            self.put(f"waits_{room[8:-1]} += 1")
            self.put(f"{name} = fresh(team, {name}, {room}[2], waits_{room[8:-1]})")

        if self.places_in((stage,)) and self.replays:
            self.saved_orders[self.loops] = room
        turned = f"turned_{self.loops}"
        with self.skipped_over():
            self.begin()
            for i, name in enumerate((mine, later)):
                self.put(f"{name} = Frontier({room}[{i}], spare_bits, {room}[2])")
            self.put(f"{turned} = False")
            renew(mine)
            self.put(f"join(team, current, {mine}, {order})")
        self.put("while True:")
        self.indent += 1
        with self.skipped_over():
            self.ask_limit(stage)
            self.ask_waiting(stage, mine)
            self.begin(makes=True)
            renew(later)
            self.pick(mine, near, f"{later}, {self.next}, {order}")
            self.put(f"{mine}, {later}, {turned} = {later}, {mine}, not {turned}")
            self.swap()
            self.ask_picked()
        self.superstep(stage)
        self.begin()
        self.put(f"join(team, current, {mine}, {order})")
        self.ask_until(stage)
        self.indent -= 1
        self.begin(makes=True)
        self.put(f"hand_on(team, {mine}, {room}[3], {self.next})")
        self.swap()

    def ask_waiting(self, stage: Repeat, mine: str) -> None:
        """End an ordered loop where nothing waits."""
        self.put(f"if {mine}.info[0] == 0: break")
        self.put(f"stopped = {self.stop_test()}")
        self.put("if stopped: break")

    def pick(self, mine: str, near: str, given: str) -> None:
        """Take the nearest bucket."""
        self.put(f"pick(team, {mine}, {given}, works)")

    def ask_picked(self) -> None:
        """Take the next bucket where all of this one were settled before."""
        self.put("if current.info[0] == 0: continue")

    def before_replay(self, in_place: bool) -> None:
        if in_place:
            self.put("prepare_replay(team, infos[3], kept, recorded - 1)")
            self.put("barrier(sync)")

    def replay_in_place(self) -> None:
        step = self.step
        self.put(f"first, last = kept.bounds[{step}], kept.bounds[{step} + 1]")
        self.put(f"words = {step} % {frontier.TURNS} * {frontier.INFO_WORDS}")
        self.put(
            "replayed = Frontier(kept.queue[first:last], spare_bits, "
            f"infos[3][words:words + {frontier.INFO_WORDS}])"
        )
        self.put(f"prepare_replay(team, infos[3], kept, {step} - 1)")

    def replay_copy(self) -> None:
        self.in_replay = True
        self.begin()
        self.put("current, following = y, spare")
        if self.has_edges:
            self.put("edge_current, edge_following = edge_y, edge_spare")
            self.put(f"on_edges = kept.on_edges[{self.step}] != 0")
            self.put("if on_edges:")
            self.indent += 1
            self.renew("edge_current")
            self.put(f"recall_edges(team, kept, {self.step}, edge_current)")
            self.indent -= 1
            self.put("else:")
            self.indent += 1
        self.renew("current")
        self.put(f"recall(team, kept, {self.step}, current)")
        if self.has_edges:
            self.indent -= 1


_PROLOGUE = (
    "team = new_team(sync, works, graph[1])",
    "out = Adjacency(graph[0], graph[1])",
    "weight_out = graph[2]",
    "into = Adjacency(graph[3], graph[4])",
    "weight_in = graph[5]",
    "degree = graph[6]",
    "num_vertices, num_arcs = len(graph[0]) - 1, len(graph[1])",
    f"current = Frontier(fronts[0], fronts[1], infos[0][:{frontier.INFO_WORDS}])",
    f"following = Frontier(fronts[2], fronts[3], infos[0][:{frontier.INFO_WORDS}])",
    "everyone = Frontier(fronts[0], fronts[6], infos[1])",
    f"spare = Frontier(fronts[4], fronts[5], infos[2][:{frontier.INFO_WORDS}])",
    "spare_bits = fronts[6]",
    "kept = Record(record[0], record[1], record[2], record[3])",
    "members, clock, fused = 0, cycles(), 0",
    "changed, stopped, stamp, recorded, row, made, remade = False, False, 0, 0, 0, 0, 0",
    "left, before, calls, visited, pulled = num_arcs, 0, 0, 0, False",
)

_EDGE_PROLOGUE = (
    "a, b, c = edge_rooms[0], edge_rooms[1], edge_rooms[2]",
    "edge_current = EdgeFrontier(a[0], a[1], edge_rooms[3])",
    "edge_following = EdgeFrontier(b[0], b[1], edge_rooms[3])",
    "edge_spare = EdgeFrontier(c[0], c[1], edge_rooms[4])",
    "edge_made, edge_remade, on_edges = 0, 0, False",
)
