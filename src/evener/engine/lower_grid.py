"""The kernel of a program for the grid of threads of a GPU.

The same writer as for the CPU (`evener.engine.lower`), with operators that divide their work among
warps and need one barrier a stage. The whole loop stays in the kernel.
"""

from __future__ import annotations

from typing import Any, NoReturn

from evener.device import warp
from evener.device.states import Identity
from evener.engine import fusion
from evener.engine.job import Job, field_dtype
from evener.engine.lower import MODES, SIDES, Kernel, NotLoweredError, _Writer
from evener.operators import advance as cpu_advance
from evener.operators.grid import advance, frontier, gather, nearest, record, vertices
from evener.operators.schedules import SCHEDULES
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
    walk,
)

SIGNATURE = (
    "sync", "graph", "fields", "params", "fronts", "infos", "works", "marks", "pieces", "partials",
    "totals", "parts", "copies", "ordered", "record", "trace",
)  # fmt: skip


# How a kernel ends: recorded frontiers need more room; so many vertices were twice in a frontier
# that it must be tried again with exact culling. (1 is what the CPU's text returns.)
MORE_ROOM, TOO_MANY = 1, 2


def lower_grid(
    job: Job, direction: str, state: Any, schedule: str = "auto", exact: bool = False,
    relabels: bool = False,
) -> Kernel:  # fmt: skip
    """Write the kernel of a job; DeviceError for what only the interpreter runs.

    ``exact``: no vertex may be twice in a frontier, even where that would change nothing.
    ``relabels``: vertices have other places than their ids say, so there is a table of those.
    """
    return _GridWriter(job, direction, state, schedule, exact, relabels).write()


class _GridWriter(_Writer):
    signature: tuple[str, ...] = SIGNATURE

    def __init__(
        self, job: Job, direction: str, state: Any, schedule: str, exact: bool, relabels: bool
    ):
        super().__init__(job, direction, state)
        self.exact = exact
        if self.has_edges:
            self.refuse("has a frontier of edges")
        chosen = SCHEDULES["dynamic" if schedule == "auto" else schedule]
        self.names.update(
            cycles=warp.cycles, barrier=warp.barrier,
            new_team=frontier.new_team, begin=frontier.begin, fresh=frontier.fresh,
            is_stopped=frontier.is_stopped, visit=chosen.visit, totals_of=chosen.totals_of,
            advance=advance.advance, nearest=nearest.nearest, gather=gather.gather,
            filter_=vertices.filter, compute=vertices.compute, reduce=vertices.reduce,
            edges=vertices.edges, reduce_block=vertices.reduce_block,
            reduce_blocks=vertices.reduce_blocks, settle=record.settle,
            tell_whole=record.tell_whole, note=record.note, remember=record.remember,
            prepare_replay=record.prepare_replay, Kept=record.Kept, end=record.end,
            always=cpu_advance.always,
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
        at = len(self.lines)
        self.sequence(self.d.loop)
        copied = self.kernel.copied
        begin = [f"copy_{name} = copies[{i}]" for i, name in enumerate(copied)]
        begin += [f"moved_{name} = False" for name in copied]
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
            pool, count = ("infos[2]", "remade") if self.in_replay else ("infos[0]", "made")
            self.put(f"{count} += 1")
            self.put(f"{self.next} = fresh(team, {self.next}, {pool}, {count})")

    def sequence(self, stages: tuple[Stage, ...]) -> None:
        fused = 0
        for i, stage in enumerate(stages):
            if fused:  # a gather has done it already
                fused -= 1
                continue
            if isinstance(stage, Repeat):
                self.repeat(stage)
                continue
            if isinstance(stage, Backwards):
                self.backwards(stage)
                continue
            self.before(stage)
            if isinstance(stage, Advance):
                self.advance(stage)
            elif isinstance(stage, Filter):
                self.begin(makes=True)
                self.put(f"s = {self.state('weight_out')}")
                source = self.source(stage)
                self.put(f"filter_(team, f_{stage.functor}, s, {source}, {self.next})")
                self.swap()
            elif isinstance(stage, Compute):
                self.begin()
                self.put(f"s = {self.state('weight_out')}")
                self.put(f"compute(team, f_{stage.functor}, s, {self.source(stage)})")
            elif isinstance(stage, Gather):
                fused = self.gather(stage, stages[i + 1 :], keeps=self.keeps(stages, i))
            elif isinstance(stage, Edges):
                self.edges(stage)
            elif isinstance(stage, Reduce):
                self.begin()
                self.reduce(stage)
            self.after(stage)

    def advance(self, stage: Advance) -> None:
        where = "always" if stage.where is None else f"f_{stage.where}"
        mode = MODES[self.direction]
        if self.direction == "auto" and stage.where is None:
            mode = MODES["push"]
        source = self.source(stage)
        exact = self.exact or self.is_exact(stage)
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
        if not exact:
            self.put(f"if {self.next}.info[0] > len({self.next}.queue): return {TOO_MANY}")
        self.swap()

    def count_calls(self) -> None:
        self.put("calls += done")
        self.put("visited += done")

    def gather(self, stage: Gather, after: tuple[Stage, ...], keeps: bool) -> int:
        number = len(self.kernel.gathers)
        self.kernel.gathers.append(stage)
        own = stage.combine_is_functor
        combine = f"f_{stage.combine[1:]}" if own else f"combine_{stage.combine}"
        if stage.along == "both" and self.job.graph.directed:
            self.refuse("gathers along both directions")
        into, weight = SIDES["in" if stage.along == "both" else stage.along]
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
            f"done, own = gather(team, totals_of, {into}, {f}, {combine}, "
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
        self.begin()
        self.put(f"s = {self.state('weight_out')}")
        self.put(
            f"flag, done = edges(team, visit, out, f_{stage.functor}, {where}, s, {first}, {last}, "
            "everyone, pieces)"
        )
        self.count_calls()
        self.put("changed = changed or flag")

    # ---- loops ----------------------------------------------------------------------------

    def stop_test(self, stage: Repeat | None = None) -> str:
        return "is_stopped(team)"

    def fused(self, stage: Repeat) -> None:
        advance = stage.stages[0]
        assert isinstance(advance, Advance)
        assert stage.order is not None
        where = "always" if advance.where is None else f"f_{advance.where}"
        outer = self.open(stage)
        self.put(f"s = {self.state('weight_out')}")
        self.put("members, clock = current.info[0], cycles()")
        self.put(
            "team, current, following, made, stamp, rounds, done = nearest(team, visit, out, "
            f"f_{advance.functor}, {where}, s, {self.field(stage.order.field.name)}, 1.0 / "
            f"{self.limit(stage.order.delta)}, current, following, infos[0], made, marks, stamp, "
            "ordered[0], ordered[1], ordered[2], ordered[3], pieces)"
        )
        self.put("visited += done")
        self.put("if rounds > 0:")
        self.put("    note(team, trace, row, rounds, members, done, False, clock)")
        self.put("    row, fused = row + 1, fused + rounds - 1")
        self.close(stage, outer)

    def ordered(self, stage: Repeat) -> None:
        self.refuse("has an order in a loop that tells supersteps apart")

    def backwards(self, stage: Backwards) -> None:
        if any(isinstance(inner, Repeat | Backwards) for inner in walk(stage.stages)):
            self.refuse("has a loop within backwards")
        outer = self.open(stage)
        step, names = self.step, (self.current, self.next)
        self.put("x, y = following, spare")
        self.put("prepare_replay(team, infos[3], kept, recorded - 1)")
        self.put("barrier(sync)")
        self.put(f"for {step} in range(recorded - 1, -1, -1):")
        self.indent += 1
        self.put(f"stopped = {self.stop_test()}")
        self.put("if stopped: break")
        self.put(f"first, last = kept.bounds[{step}], kept.bounds[{step} + 1]")
        self.put(f"words = {step} % {frontier.TURNS} * {frontier.INFO_WORDS}")
        self.put(
            "replayed = Frontier(kept.queue[first:last], spare_bits, "
            f"infos[3][words:words + {frontier.INFO_WORDS}])"
        )
        self.put(f"prepare_replay(team, infos[3], kept, {step} - 1)")
        self.put("changed, calls, pulled, clock = False, 0, False, cycles()")
        self.put("members = last - first")
        self.current, self.next = "replayed", "x"
        self.in_replay = self.in_place = True
        self.sequence(stage.stages)
        self.in_replay = self.in_place = False
        self.note()
        self.indent -= 1
        self.current, self.next = names
        self.close(stage, outer)


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
    "kept = Kept(record[0], record[1])",
    "members, clock, fused = 0, cycles(), 0",
    "changed, stopped, stamp, recorded, row, made, remade = False, False, 0, 0, 0, 0, 0",
    "left, before, calls, visited, pulled = num_arcs, 0, 0, 0, False",
)
