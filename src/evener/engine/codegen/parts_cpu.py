"""The kernel of a program for the parts of a graph: the same stages, with exchanges between them.

Every thread of every part runs the same text on the arrays of its part. Whatever decides where
threads go is agreed on by all parts: sizes of frontiers, scalars, ``changed``, buckets, directions.
"""

from __future__ import annotations

from typing import Any

from evener.device import compiled
from evener.engine.codegen.exchange import EXTRA, MEMBERS, PLACE, PartsKernel
from evener.engine.codegen.exchange_plan import Plan, Stale
from evener.engine.codegen.merges import Texts
from evener.engine.codegen.rewrite import far_is_global, globalized
from evener.engine.codegen.run_ahead import RunsAhead
from evener.engine.codegen.stages import _PROLOGUE, SIGNATURE, without_atomics
from evener.engine.job import Job
from evener.operators.cpu import advance_apart, exchange, members, nearest_apart
from evener.operators.shared import buckets, edge_frontier
from evener.operators.shared import direction as rule
from evener.programs.stages import Advance, Gather, Reduce, Repeat, Stage

_EXCHANGE = (
    "deliver", "unite", "watch_shared", "remember_apart",
    "remember_edges_apart",
)  # fmt: skip
_ADVANCE = ("push_apart", "pull_apart", "push_more")

LINKS = (
    "place", "sync", "words", "bases", "owned", "ghosts", "home", "marks", "box", "boxed", "bits",
    "words_from", "counts", "tally", "traffic", "buffers", "rows",
)  # fmt: skip


def lower_parts(
    job: Job, direction: str, state: Any, measure: Any, fault: tuple[int, int] | None = None,
    hub: bool = False, single: bool = False,
) -> PartsKernel:  # fmt: skip
    """Write the kernel; ``fault`` has a part give up at a superstep, for tests.

    ``measure`` tells the bytes of a message, see `evener.operators.shared.policies`. With a ``hub``
    there are parts on other machines too. ``single`` parts have one thread each, which needs no
    atomics.
    """
    writer = _PartsWriter(job, direction, state, measure, fault, hub, single)
    writer.write()
    kernel = writer.kernel
    kernel.orders, kernel.has_edges = writer.orders, writer.has_edges
    return kernel


class _PartsWriter(RunsAhead):
    signature = (*SIGNATURE, *EXTRA)

    def __init__(
        self, job: Job, direction: str, state: Any, measure: Any, fault: tuple[int, int] | None,
        hub: bool, single: bool,
    ):  # fmt: skip
        super().__init__(job, direction, state)
        self.far_is_global = far_is_global(self.d) and not hub
        self.plan_exchanges(job, measure, hub)
        self.shares = self.needs.may_share and not hub
        if single:
            self.names.update({f"f_{name}": self.unshared(name) for name in self.d.functors})
        self.fault = fault
        self.names.update({name: getattr(exchange, name) for name in _EXCHANGE})
        self.names.update({name: getattr(members, name) for name in MEMBERS})
        self.names.update({name: getattr(advance_apart, name) for name in _ADVANCE})
        self.names.update(
            arcs_of=rule.arcs_of, goes_pull_apart=rule.goes_pull_apart,
            targets_apart=edge_frontier.targets,
        )  # fmt: skip
        self.names["nearest_apart"] = nearest_apart.nearest_apart
        self.names.update(nearest_waiting=buckets.nearest_waiting, take=buckets.take)

    def unshared(self, name: str) -> Any:
        """A functor without atomics, unless it writes to what other parts may be writing to."""
        writes = {
            a.field
            for (functor, _), found in self.d.accesses.items() if functor == name
            for a in found.fields if a.kind != "read"
        }  # fmt: skip
        if any(self.d.fields[field].replicated for field in writes):
            return self.names[f"f_{name}"]
        function = globalized(self.d, name, self.far_is_global)
        return compiled(without_atomics(function), allocates=False)

    def prologue(self) -> tuple[str, ...]:
        """What the names in a kernel stand for."""
        place = {name: f"links[0][{i}]" for i, name in enumerate(PLACE)}
        link = {name: f"links[{i}]" for i, name in enumerate(LINKS)}
        world = [place["part"], place["parts"], place["threads"], place["first"]]
        world += [link[name] for name in LINKS[1:-2]]
        bounds = f"{link['words_from']}[world.part]:{link['words_from']}[world.part + 1]"
        box = "world.box[world.ghosts[world.part, 0]:world.ghosts[world.part, -1]]"
        return (
            *_PROLOGUE,
            f"world = World({', '.join(world)}, {place['policy']}, measure, {self.hub_text()})",
            f"ghost_team = Team(thread, threads, sync, {link['buffers']}[thread])",
            f"num_vertices, num_arcs = {place['num_vertices']}, {place['num_arcs']}",
            f"box = Frontier({box}, no_bits, world.boxed[world.part])",
            f"present = world.bits[{bounds}]",
            f"rows = {link['rows']}",
            "left, turn, half, talked, total, began = num_arcs, 0, 0, 0, 0, clock",
            *(f"all_{name} = alls[{i}]" for i, name in enumerate(self.d.fields)),
        )

    def note(self) -> None:
        """The row of a superstep, and a word of it for whoever waits."""
        super().note()
        self.put("show(sync, thread, row + fused, members, calls)")

    def outcome(self) -> str:
        """Why it stopped, if it did."""
        self.put("if thread == 0: rows[0, 0] = cycles() - began")
        return "why_stop(world, 1 - turn)" if self.hub else "world.sync[STOP]"

    def given_to_members(self, texts: Texts, plan: Plan, values: str, olds: str) -> str:
        """As the operator takes it; only of parts elsewhere values may be missing."""
        return f"{self.function(texts.give(plan.broadcast, self.hub))}, {values}"

    def delivered(self, stale: Stale) -> str:
        """How emitted ghosts are merged, one by one or without branches."""
        names = [stale.leader, *stale.followers]
        always = self.function(Texts(self.d, names, [], set()).merge_if(*stale))
        merge, rest = self.emitted(stale).split(", ", 1)
        return f"{merge}, {always}, {rest}"

    # ---- replicated fields ----------------------------------------------------------------

    def before(self, stage: Stage) -> None:
        """Nobody reads a shared field any more when the first begins to write to it."""
        if self.shares and self.needs.plan(stage, isinstance(stage, Gather)).replicated:
            self.talk("meet(world)")
        super().before(stage)

    def unite(self, plan: Plan) -> None:
        """Parts in one memory share one copy: there is nothing to unite, only to count."""
        if not self.shares:
            super().unite(plan)
            return
        for leader, followers in plan.replicated.items():
            names = [leader, *followers]
            self.kernel.united += [name for name in names if name not in self.kernel.united]
            texts = Texts(self.d, names, names, set())
            olds = "".join(f"united[{self.kernel.united.index(name)}], " for name in names)
            self.talk(
                f"watch_shared(team, world, {self.function(texts.differ())}, "
                f"{self.function(texts.keep())}, ({self.arrays(names)}0), ({olds}0), "
                f"num_vertices, {self.width(names)})"
            )

    # ---- stages ---------------------------------------------------------------------------

    def advance(self, stage: Advance) -> None:
        """Push or pull, whichever all parts decide on."""
        where = "always" if stage.where is None else f"f_{stage.where}"
        source = self.source(stage)
        if self.has_edges and not stage.over_all:
            self.targets()
        self.put(f"s = {self.state('weight_out')}")
        if stage.emit == "edges":
            plan = self.needs.plan(stage, pull=False)
            self.broadcast(plan)
            self.count(
                f"advance_edges(team, out, f_{stage.functor}, {where}, s, {source}, edge_following)"
            )
            self.collect(plan, emits=False)
            self.swap_edges()
            return
        self.put(f"t = {self.state('weight_in')}")
        self.put("stamp = next_stamp(team, marks, stamp)")
        self.push_or_pull(stage, where, source)
        self.count_calls()
        self.swap()

    def push_call(self, stage: Advance, where: str, source: str, boxes: bool) -> str:
        """The call that pushes."""
        return (
            f"made = push_apart(team, ghost_team, out, f_{stage.functor}, {where}, s, {source}, "
            f"{self.next}, box, marks, stamp, {boxes})"
        )

    def pull_call(self, stage: Advance, where: str, source: str) -> str:
        """The call that pulls."""
        return (
            f"made = pull_apart(team, into, alone_{stage.functor}, {where}, t, {source}, present, "
            f"{self.next})"
        )

    def targets(self) -> None:
        """From a frontier of edges to the set of their ``dst``, each at its owner."""
        self.put("if on_edges:")
        self.indent += 1
        self.put("stamp = next_stamp(team, marks, stamp)")
        self.put("targets_apart(team, out, edge_current, current, marks, stamp)")
        following, self.next = self.next, "current"
        self.collect(Plan((), (), {}, {}), emits=True)
        self.next = following
        self.indent -= 1

    def gather(self, stage: Gather, after: tuple[Stage, ...], keeps: bool) -> int:
        """As on one device; what it writes to replicated fields waits for the others."""
        waits = bool(self.needs.plan(stage, pull=True).replicated)
        return super().gather(stage, () if waits else after, keeps)

    def gather_all(
        self, number: int, along: str, functors: str, seen: tuple[str, ...],
        fused: list[Reduce], keeps: bool,
    ) -> None:  # fmt: skip
        """As on one device; the arrays of all parts are swapped alike."""
        super().gather_all(number, along, functors, seen, fused, keeps)
        for name in seen:
            i, j = self.kernel.copied.index(name), list(self.d.fields).index(name)
            self.put(f"all_{name} = all_copies[{i}] if moved_{name} else alls[{j}]")
        for stage in fused:
            self.agree(stage.into.name, stage.op)

    # ---- loops ----------------------------------------------------------------------------

    def new_box(self) -> None:
        """An empty box, and its mark."""
        self.put("stamp = next_stamp(team, marks, stamp)")
        self.put("empty(team, box)")

    def new_following(self) -> None:
        """An empty frontier and box to push to, and their mark."""
        self.new_box()
        self.put(f"empty(team, {self.next})")

    def push_more(self, stage: Advance) -> None:
        """Push from the current frontier to those."""
        self.count(
            f"push_more(team, ghost_team, out, f_{stage.functor}, always, s, current, {self.next}, "
            "box, marks, stamp, True)"
        )

    def empty_current(self) -> None:
        """An empty frontier for those that arrive, before all parts meet."""
        self.put("empty(team, current)")

    def stop_test(self, stage: Repeat | None = None) -> str:
        """All parts meet before; where they have just met they know already."""
        if self.hub and stage is not None:
            return "why_stop(world, 1 - turn) != 0"
        if self.hub:
            self.put("turn = 1 - turn")
            return "ask_stop(team, world, 1 - turn)"
        return "meet(world)" if stage is None else "world.sync[STOP] != 0"

    def remember(self) -> None:
        """Keep the frontier, or stop everywhere."""
        if self.has_edges:
            self.put("if on_edges:")
            self.put(
                "    recorded = remember_edges_apart(team, world, edge_current, kept, recorded)"
            )
            self.put("else:")
            self.put("    recorded = remember_apart(team, world, current, kept, recorded)")
        else:
            self.put("recorded = remember_apart(team, world, current, kept, recorded)")

    def fused(self, stage: Repeat) -> None:
        """An ordered loop as one operator."""
        advance = stage.stages[0]
        assert isinstance(advance, Advance)
        assert stage.order is not None
        self.kernel.fuses = True
        where = "always" if advance.where is None else f"f_{advance.where}"
        outer = self.open(stage)
        self.put(f"s = {self.state('weight_out')}")
        self.put("members, clock = current.info[0], cycles()")
        self.put(
            f"rounds, made, stamp, turn, heard = nearest_apart(team, ghost_team, world, out, "
            f"f_{advance.functor}, {where}, s, {self.field(stage.order.field.name)}, "
            f"1.0 / {self.limit(stage.order.delta)}, current, ordered[0], ordered[1], "
            "Pool(ordered[2][thread], ordered[3][thread], ordered[4][thread], "
            "ordered[5][thread], ordered[6][thread]), box, marks, stamp, turn, "
            f"{self.emitted(self.needs.stale_of[advance])})"
        )
        self.put("visited, talked = visited + made, talked + heard")
        self.put("if rounds > 0:")
        self.put("    note_links(team, world, rows, row, talked)")
        self.put("    note(team, trace, row, rounds - 1, members, made, False, clock)")
        self.put("    row, fused = row + 1, fused + rounds - 1")
        self.close(stage, outer)

    def ordered(self, stage: Repeat) -> None:
        """A superstep for each bucket, the nearest of all parts."""
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
        self.total(f"{mine}.info[0]")
        self.put("if total == 0: break")
        self.put(f"stopped = {self.stop_test(stage)}")
        self.put("if stopped: break")
        self.put(f"near = nearest_waiting(team, {mine}, {buckets}, {room}[5])")
        self.talk("near = least(team, world, turn, near)", "turn = 1 - turn")
        self.put(f"take(team, {mine}, {later}, current, {order}, near)")
        self.put(f"{mine}, {later} = {later}, {mine}")
        self.total("current.info[0]")
        self.put("if total == 0: continue")
        self.superstep(stage)
        self.put(f"join(team, current, {mine}, {order})")
        self.ask_until(stage)
        self.indent -= 1
        self.put(f"hand_on(team, {mine}, {buckets}, current)")
