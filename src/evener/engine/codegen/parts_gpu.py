"""The kernel of a program for one of several parts on a GPU, each part a grid of its own."""

from __future__ import annotations

from typing import Any, NoReturn

from evener.engine.codegen import fusion
from evener.engine.codegen.exchange import EXTRA, MEMBERS, PLACE, PartsKernel
from evener.engine.codegen.exchange_plan import Plan, Stale
from evener.engine.codegen.gpu import _PROLOGUE, POOLS, SIGNATURE, _GridWriter
from evener.engine.codegen.merges import Texts
from evener.engine.codegen.resume import MORE_ROOM
from evener.engine.codegen.run_ahead import RunsAhead
from evener.engine.codegen.stages import NotLoweredError
from evener.engine.job import Job
from evener.operators.gpu import advance_apart as apart
from evener.operators.gpu import exchange, frontier, members, nearest_apart
from evener.operators.shared import buckets
from evener.operators.shared import direction as rule
from evener.operators.shared.world import FULL
from evener.programs.stages import Advance, Gather, Repeat, Stage, walk

_EXCHANGE = (
    "deliver", "unite", "next_stamp", "remember_apart",
    "remember_edges_apart",
)  # fmt: skip
_ADVANCE = ("push_apart", "pull_apart", "targets_apart")

LINKS = (
    "place", "sync", "words", "bases", "owned", "ghosts", "home", "marks", "box", "boxed", "bits",
    "words_from", "counts", "tally", "traffic", "present", "rows",
)  # fmt: skip


def lower_grid_parts(
    job: Job, direction: str, state: Any, schedule: str, measure: Any, hub: bool = False
) -> PartsKernel:
    """Write the kernel of a part; DeviceError for what does not run on parts of a GPU.

    With a ``hub`` there are parts on other machines too.
    """
    writer = _GridPartsWriter(job, direction, state, schedule, measure, hub)
    writer.write()
    return writer.kernel


class _GridPartsWriter(RunsAhead, _GridWriter):
    signature = (*SIGNATURE, *EXTRA)

    def __init__(
        self, job: Job, direction: str, state: Any, schedule: str, measure: Any, hub: bool
    ):
        super().__init__(job, direction, state, schedule, relabels=True)
        self.plan_exchanges(job, measure, hub)
        self.kernel.shares = not hub and not any(map(self.is_in_two_steps, walk(self.d.loop)))
        self.all_places = 0  # a run whose record is full starts again: no part returns alone
        self.names.update({name: getattr(exchange, name) for name in _EXCHANGE})
        self.names.update({name: getattr(members, name) for name in MEMBERS})
        self.names.update({name: getattr(apart, name) for name in _ADVANCE})
        self.names.update(empty_now=frontier.empty_now, FULL=FULL)
        self.names["nearest_apart"] = nearest_apart.nearest_apart
        self.names.update(nearest_waiting=buckets.nearest_waiting, take=buckets.take)
        self.names.update(arcs_of=rule.arcs_of, goes_pull_apart=rule.goes_pull_apart)

    def prologue(self) -> tuple[str, ...]:
        """What the names in a kernel stand for."""
        place = {name: f"links[0][{i}]" for i, name in enumerate(PLACE)}
        link = {name: f"links[{i}]" for i, name in enumerate(LINKS)}
        world = [place["part"], place["parts"], place["threads"], place["first"]]
        world += [link[name] for name in LINKS[1:-2]]
        return (
            *_PROLOGUE,
            f"world = World({', '.join(world)}, {place['policy']}, measure, {self.hub_text()})",
            f"num_vertices, num_arcs = {place['num_vertices']}, {place['num_arcs']}",
            f"present, rows = {link['present']}, {link['rows']}",
            "left, turn, half, talked, total, began = num_arcs, 0, 0, 0, 0, clock",
            *(f"all_{name} = alls[{i}]" for i, name in enumerate(self.d.fields)),
        )

    def outcome(self) -> str:
        """How it ended."""
        self.put("if team.thread == 0: rows[0] = cycles() - began")
        return f"{MORE_ROOM} if why_stop(world, 1 - turn) == FULL else 0"

    # ---- stages ---------------------------------------------------------------------------

    def advance(self, stage: Advance) -> None:
        """Push or pull, whichever all parts decide on."""
        where = "always" if stage.where is None else f"f_{stage.where}"
        if self.has_edges and not stage.over_all:
            self.targets()
        if stage.emit == "edges":
            self.advance_edges(stage, where)
            return
        self.begin(makes=True)
        self.put(f"s = {self.state('weight_out')}")
        self.put(f"t = {self.state('weight_in')}")
        self.put("stamp = next_stamp(team, world, stamp)")
        self.push_or_pull(stage, where, self.source(stage))
        self.count_calls()
        self.swap()

    def targets(self) -> None:
        """From a frontier of edges to the set of their ``dst``, each at its owner."""
        self.put("if on_edges:")
        self.indent += 1
        self.begin()
        self.renew("current")
        self.put("stamp = next_stamp(team, world, stamp)")
        self.put("targets_apart(team, world, out, edge_current, current, marks, stamp)")
        following, self.next = self.next, "current"
        self.collect(Plan((), (), {}, {}), emits=True)
        self.next = following
        self.indent -= 1

    def advance_edges(self, stage: Advance, where: str) -> None:
        """From vertices to their edges, which stay in the part."""
        plan = self.needs.plan(stage, pull=False)
        self.broadcast(plan)
        self.begin()
        self.renew("edge_following")
        self.put(f"s = {self.state('weight_out')}")
        self.count(
            f"advance_edges(team, visit, out, f_{stage.functor}, {where}, s, "
            f"{self.source(stage)}, edge_following, pieces)"
        )
        self.collect(plan, emits=False)
        self.swap_edges()

    def push_call(self, stage: Advance, where: str, source: str, boxes: bool) -> str:
        """The call that pushes."""
        return (
            f"done = push_apart(team, world, visit, out, f_{stage.functor}, {where}, s, {source}, "
            f"{self.next}, marks, stamp, {boxes}, pieces)"
        )

    def pull_call(self, stage: Advance, where: str, source: str) -> str:
        """The call that pulls."""
        return (
            f"done = pull_apart(team, into, f_{stage.functor}, alone_{stage.functor}, {where}, "
            f"{stage.where is not None}, t, {source}, present, {self.next})"
        )

    def gather(self, stage: Gather, after: tuple[Stage, ...], keeps: bool) -> int:
        """As on one device; what it writes to replicated fields waits for the others."""
        waits = bool(self.needs.plan(stage, pull=True).replicated)
        fused = super().gather(stage, () if waits else after, keeps)
        seen = () if stage.asynchronous else fusion.seen_by_others(self.d, stage)
        if stage.over_all and not any(self.d.fields[name].replicated for name in seen):
            for name in seen:
                i, j = self.kernel.copied.index(name), list(self.d.fields).index(name)
                self.put(f"all_{name} = all_copies[{i}] if moved_{name} else alls[{j}]")
        for other in fusion.reductions(self.d, after)[:fused]:
            self.agree(other.into.name, other.op)
        return fused

    def given_to_members(self, texts: Texts, plan: Plan, values: str, olds: str) -> str:
        """Two functions, so that the values of several are under way."""
        peek = self.function(texts.peek(plan.broadcast))
        place = self.function(texts.place(plan.broadcast))
        return f"{peek}, {place}, {values}, {olds}"

    def delivered(self, stale: Stale) -> str:
        """Two functions, likewise."""
        texts = Texts(self.d, [stale.leader, *stale.followers], [], set())
        look, improve = self.function(texts.look(*stale)), self.function(texts.improve(*stale))
        return f"{look}, {improve}, {self.emitted(stale).partition(', ')[2]}"

    def is_in_two_steps(self, stage: Stage) -> bool:
        """Whether a stage first reads replicated fields and then writes them.

        The grid of each part has a barrier in between, so parts cannot have them in common.
        """
        return isinstance(stage, Gather) and bool(self.needs.plan(stage, pull=True).replicated)

    # ---- loops ----------------------------------------------------------------------------

    def refuse(self, what: str) -> NoReturn:
        """Leave a program to other devices."""
        raise NotLoweredError(
            f"{self.d.name} {what}, which this version does not run on parts of a GPU; use one "
            "device, or parts of the CPU."
        )

    def new_box(self) -> None:
        """An empty box, and its mark."""
        self.put("stamp = next_stamp(team, world, stamp)")

    def new_following(self) -> None:
        """An empty frontier and box to push to, and their mark."""
        self.new_box()
        self.renew(self.next)

    def push_more(self, stage: Advance) -> None:
        """Push from the current frontier to those."""
        self.begin()
        self.put(self.push_call(stage, "always", "current", boxes=True))
        self.count_calls()

    def empty_current(self) -> None:
        """An empty frontier for those that arrive, before all parts meet."""
        self.put("empty_now(team, current)")

    def ask_waiting(self, stage: Repeat, mine: str) -> None:
        """End an ordered loop where nothing waits in any part."""
        self.total(f"{mine}.info[0]")
        self.put("if total == 0: break")
        self.put(f"stopped = {self.stop_test(stage)}")
        self.put("if stopped: break")

    def pick(self, mine: str, near: str, given: str) -> None:
        """Take the nearest bucket of all parts."""
        self.put(f"bucket = nearest_waiting(team, {mine}, {near}, works)")
        self.talk("bucket = least(team, world, turn, bucket)", "turn = 1 - turn")
        self.put(f"take(team, {mine}, {given}, bucket)")

    def ask_picked(self) -> None:
        """Take the next bucket where all parts have settled theirs before."""
        self.total("current.info[0]")
        self.put("if total == 0: continue")

    def stop_test(self, stage: Repeat | None = None) -> str:
        """A census says it; where none was just made, there is one more."""
        if stage is not None:
            return "why_stop(world, 1 - turn) != 0"
        self.put("turn = 1 - turn")
        return "ask_stop(team, world, 1 - turn)"

    def remember(self) -> None:
        """Keep the frontier, or stop everywhere."""
        call = "remember_apart(team, world, current, kept, recorded, trace)"
        if not self.has_edges:
            self.put(f"recorded = {call}")
            return
        self.put("if on_edges:")
        self.put(
            "    recorded = remember_edges_apart(team, world, edge_current, kept, recorded, trace)"
        )
        self.put("else:")
        self.put(f"    recorded = {call}")

    def fused(self, stage: Repeat) -> None:
        """An ordered loop as one operator."""
        advance = stage.stages[0]
        assert isinstance(advance, Advance)
        assert stage.order is not None
        where = "always" if advance.where is None else f"f_{advance.where}"
        pool, count = POOLS[self.in_replay]
        outer = self.open(stage)
        self.put(f"s = {self.state('weight_out')}")
        self.put("members, clock = current.info[0], cycles()")
        self.put(
            f"team, current, following, {count}, stamp, turn, rounds, done, heard = nearest_apart("
            f"team, world, visit, out, f_{advance.functor}, {where}, s, "
            f"{self.field(stage.order.field.name)}, 1.0 / {self.limit(stage.order.delta)}, "
            f"current, following, {pool}, {count}, marks, stamp, turn, ordered[0], ordered[1], "
            f"ordered[2], ordered[3], pieces, {self.emitted(self.needs.stale_of[advance])})"
        )
        self.put("visited, talked = visited + done, talked + heard")
        self.put("if rounds > 0:")
        self.put("    note_links(team, world, rows, row, talked)")
        self.put("    note(team, trace, row, rounds - 1, members, done, False, clock)")
        self.put("    row, fused = row + 1, fused + rounds - 1")
        self.close(stage, outer)
