"""The kernel of a program for the parts of a graph: the same stages, with exchanges between them.

Every thread of every part runs the same text on the arrays of its part. Whatever decides where
threads go is agreed on by all parts: sizes of frontiers, scalars, ``changed``, buckets, directions.
"""

from __future__ import annotations

from typing import Any

from evener.device import compiled
from evener.engine.exchange_plan import Needs, Stale
from evener.engine.exchange_text import Texts, made
from evener.engine.globalize import globalized
from evener.engine.job import Job
from evener.engine.lower import _PROLOGUE, MODES, SIGNATURE, Kernel, _Writer
from evener.engine.partitioned_exchange import Plan
from evener.operators import advance as advance_module
from evener.operators import advance_apart, buckets, exchange, nearest_apart
from evener.programs.stages import Advance, Edges, Gather, Reduce, Repeat, Stage

_EXCHANGE = (
    "World", "meet", "census", "census_of_arcs", "least", "agree", "broadcast", "spread",
    "collect", "deliver", "unite", "remember_apart", "remember_edges_apart", "note_links",
)  # fmt: skip
_ADVANCE = ("arcs_of", "goes_pull_apart", "push_apart", "pull_apart", "targets_apart")

PLACE = ("part", "parts", "threads", "first", "num_vertices", "num_arcs", "policy")
LINKS = (
    "place", "sync", "words", "bases", "owned", "ghosts", "home", "marks", "box", "boxed", "bits",
    "words_from", "counts", "tally", "traffic", "buffers", "rows",
)  # fmt: skip


def lower_parts(
    job: Job, direction: str, state: Any, measure: Any, fault: tuple[int, int] | None = None
) -> PartsKernel:
    """Write the kernel; ``fault`` has a part give up at a superstep, for tests.

    ``measure`` tells the bytes of a message, see `evener.operators.policies`.
    """
    writer = _PartsWriter(job, direction, state, fault)
    writer.names["measure"] = measure
    writer.write()
    kernel = writer.kernel
    kernel.orders, kernel.has_edges = writer.orders, writer.has_edges
    return kernel


class PartsKernel(Kernel):
    """A kernel, and the fields of which the old values at ghosts, or everywhere, are kept."""

    shadowed: list[str]
    united: list[str]
    fuses: bool = False  # whether there are buckets that are fused


class _PartsWriter(_Writer):
    signature = (*SIGNATURE, "links", "alls", "all_copies", "olds", "united", "agreed")
    kernel: PartsKernel

    def __init__(self, job: Job, direction: str, state: Any, fault: tuple[int, int] | None):
        super().__init__(job, direction, state)
        self.kernel = PartsKernel("", {})
        self.kernel.shadowed, self.kernel.united = [], []
        self.fault = fault
        self.needs = Needs(self.d)
        self.dtypes = {name: array.dtype for name, array in job.fields.items()}
        self.made = 0
        self.names.update({name: getattr(exchange, name) for name in _EXCHANGE})
        self.names.update({name: getattr(advance_apart, name) for name in _ADVANCE})
        self.names["nearest_apart"] = nearest_apart.nearest_apart
        self.names.update(nearest_waiting=buckets.nearest_waiting, take=buckets.take)
        for name, functor in self.d.functors.items():
            function = globalized(self.d, name)
            if function is not functor.function:
                found = compiled(function, allocates=False)
                self.names[f"f_{name}"] = self.names[f"alone_{name}"] = found

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
            f"world = World({', '.join(world)}, {place['policy']}, measure)",
            f"ghost_team = Team(thread, threads, sync, {link['buffers']}[thread])",
            f"num_vertices, num_arcs = {place['num_vertices']}, {place['num_arcs']}",
            f"box = Frontier({box}, no_bits, world.boxed[world.part])",
            f"present = world.bits[{bounds}]",
            f"rows = {link['rows']}",
            "left, turn, talked, total, began = num_arcs, 0, 0, 0, clock",
            *(f"all_{name} = alls[{i}]" for i, name in enumerate(self.d.fields)),
        )

    def outcome(self) -> str:
        """Why it stopped, if it did."""
        self.put("if thread == 0: rows[0, 0] = cycles() - began")
        return "world.sync[STOP]"

    # ---- exchanges ------------------------------------------------------------------------

    def function(self, text: str) -> str:
        """The name of a function for an exchange."""
        self.made += 1
        name = f"{text[len('def ') : text.index('(')]}_{self.made}"
        self.names[name] = made(text)
        return name

    def talk(self, *lines: str) -> None:
        """Lines whose time is that of communication."""
        self.put("heard = cycles()")
        for line in lines:
            self.put(line)
        self.put("talked += cycles() - heard")

    def texts(self, plan: Plan, names: list[str]) -> Texts:
        """The writer of functions for a stage."""
        kept = [name for leader in plan.ghosts.items() for name in (leader[0], *leader[1])]
        shadowed = [name for name in kept if name not in plan.zeroed]
        for name in shadowed:
            if name not in self.kernel.shadowed:
                self.kernel.shadowed.append(name)
        return Texts(self.d, names, shadowed, set(plan.zeroed))

    def arrays(self, names: list[str]) -> str:
        """The arrays of all parts, in a tuple that goes on."""
        return "".join(f"all_{name}, " for name in names)

    def shadows(self, names: list[str]) -> str:
        """What ghosts held before, in a tuple that goes on."""
        return "".join(f"olds[{self.kernel.shadowed.index(name)}], " for name in names)

    def width(self, names: Any) -> int:
        """Bytes of a message about one vertex."""
        return sum(self.dtypes[name].itemsize for name in names)

    def names_of(self, plan: Plan) -> list[str]:
        """The fields of a plan."""
        grouped = [name for group in plan.ghosts.items() for name in (group[0], *group[1])]
        return sorted({*plan.broadcast, *plan.zeroed, *grouped})

    def broadcast(self, plan: Plan, *, members: str | None = None) -> None:
        """Give ghosts their owners' values; only those in a frontier if it is given."""
        names = self.names_of(plan)
        if not names and members is None:
            return
        texts = self.texts(plan, names)
        copy = self.function(texts.copy(plan.broadcast))
        values, olds = f"({self.arrays(names)}0)", f"({self.shadows(texts.shadowed)}0)"
        width = self.width(plan.broadcast)
        if members is None:
            self.talk(f"broadcast(team, world, {copy}, {values}, {olds}, {width})")
        else:
            self.talk(f"spread(team, world, {members}, present, {copy}, {values}, {olds}, {width})")

    def collect(self, plan: Plan, *, emits: bool) -> None:
        """Bring what a stage wrote to ghosts, and with ``emits`` those it emitted, home."""
        if not plan.ghosts and not emits:
            return
        names = self.names_of(plan)
        texts = self.texts(plan, names)
        changed = self.function(texts.is_changed(plan.ghosts))
        merge = self.function(texts.merge(plan.ghosts, self.dtypes))
        width = self.width({n for group in plan.ghosts.items() for n in (group[0], *group[1])})
        self.talk(
            f"collect(team, world, {changed}, {merge}, ({self.arrays(names)}0), "
            f"({self.shadows(texts.shadowed)}0), {width}, {emits}, stamp, {self.next})"
        )

    def refresh(self, names: list[str]) -> None:
        """Give ghosts that may be stale the values that owners have made worse."""
        if names:
            self.broadcast(Plan(tuple(names), (), {}, {}))

    def unite(self, plan: Plan) -> None:
        """Bring the copies of replicated fields to one value."""
        for leader, followers in plan.replicated.items():
            names = [leader, *followers]
            for name in names:
                if name not in self.kernel.united:
                    self.kernel.united.append(name)
            texts = Texts(self.d, names, names, set())
            differ = self.function(texts.differ())
            merge = self.function(texts.unite(followers, self.dtypes))
            olds = "".join(f"united[{self.kernel.united.index(name)}], " for name in names)
            self.talk(
                f"unite(team, world, {differ}, {merge}, ({self.arrays(names)}0), ({olds}0), "
                f"num_vertices, {self.width(names)})"
            )

    def agree(self, name: str, op: str) -> None:
        """Combine a scalar over all parts."""
        at = list(self.d.scalars).index(name)
        self.talk(
            f"scalar_{name} = agree(team, world, turn, combine_{op}, neutral_{name}, "
            f"scalar_{name}, agreed[{at}])",
            "turn = 1 - turn",
        )

    # ---- stages ---------------------------------------------------------------------------

    def before(self, stage: Stage) -> None:
        """What owners tell ghosts before a stage."""
        if not isinstance(stage, Advance):
            self.broadcast(self.needs.plan(stage, isinstance(stage, Gather)))

    def after(self, stage: Stage) -> None:
        """What the others must know of a stage."""
        plan = self.needs.plan(stage, isinstance(stage, Gather))
        if not isinstance(stage, Advance):
            self.collect(plan, emits=False)
        self.unite(plan)
        self.refresh(self.needs.refreshed(stage))

    def is_exact(self, stage: Advance) -> bool:
        """Ghosts are merged one by one, so none may be twice in a box."""
        return True

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
        mode = MODES[self.direction]
        if self.direction == "auto" and stage.where is None:
            mode = advance_module.PUSH
        if mode == advance_module.AUTO:
            self.put(f"arcs = arcs_of(team, out, {source}, {mode})")
            self.talk(
                f"size, arcs = census_of_arcs(team, world, turn, {source}.info[0], arcs)",
                "turn = 1 - turn",
            )
            self.put(
                f"pulled = goes_pull_apart({source}, {mode}, size, arcs, left, before, "
                "num_vertices)"
            )
            self.put("left, before = left - arcs, size")
            self.put("if pulled:")
            self.indent += 1
            self.pull(stage, where, source)
            self.indent -= 1
            self.put("else:")
            self.indent += 1
            self.push(stage, where, source)
            self.indent -= 1
        elif mode == advance_module.PULL:
            self.put("pulled = True")
            self.pull(stage, where, source)
        else:
            self.put("pulled = False")
            self.push(stage, where, source)
        self.count_calls()
        self.swap()

    def push(self, stage: Advance, where: str, source: str) -> None:
        """Along the out-edges of this part's frontier."""
        stale = self.needs.stale_of.get(stage)
        plan = self.needs.plan(stage, pull=False)
        if stale is None:
            self.broadcast(plan)
        self.put(
            f"made = push_apart(team, ghost_team, out, f_{stage.functor}, {where}, s, {source}, "
            f"{self.next}, box, marks, stamp, {stale is not None})"
        )
        if stale is None:
            self.collect(plan, emits=True)
            return
        self.talk(f"deliver(team, world, {self.emitted(stale)}, stamp, {self.next})")

    def pull(self, stage: Advance, where: str, source: str) -> None:
        """To this part's vertices along their in-edges."""
        plan = self.needs.plan(stage, pull=True)
        if plan.ghosts:
            self.broadcast(plan)
            self.broadcast(Plan((), (), {}, {}), members=source)
        else:
            self.broadcast(plan, members=source)
        self.put(
            f"made = pull_apart(team, into, alone_{stage.functor}, {where}, t, {source}, present, "
            f"{self.next})"
        )
        self.collect(plan, emits=False)

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

    def edges(self, stage: Edges) -> None:
        """``changed`` is that of all parts."""
        super().edges(stage)
        self.talk("changed = census(team, world, turn, changed) > 0", "turn = 1 - turn")

    def reduce(self, stage: Reduce) -> None:
        """A scalar is that of all parts."""
        super().reduce(stage)
        self.agree(stage.into.name, stage.op)

    # ---- loops ----------------------------------------------------------------------------

    def stop_test(self, stage: Repeat | None = None) -> str:
        """All parts meet before; where they have just met they know already."""
        return "meet(world)" if stage is None else "world.sync[STOP] != 0"

    def ask_frontier(self, stage: Repeat) -> None:
        """End when the frontiers of all parts are empty."""
        self.total(self.size())
        if stage.takes_frontier:
            self.put("if total == 0: break")
        elif stage.makes_frontier:
            self.put(f"if {self.step} > 0 and total == 0: break")

    def total(self, size: str) -> None:
        """Add up a size over all parts."""
        self.talk(f"total = census(team, world, turn, {size})", "turn = 1 - turn")

    def superstep(self, stage: Repeat) -> None:
        """One superstep, with a fault where a test wants one."""
        if self.fault is not None:
            part, at = self.fault
            self.put(f"if world.part == {part} and {self.step} == {at}: return -1")
        super().superstep(stage)

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

    def note(self) -> None:
        """The row of a superstep, with what was told."""
        self.put("note_links(team, world, rows, row, talked)")
        super().note()

    def is_fused(self, stage: Repeat) -> bool:
        """Whether parts may fuse buckets: then only emitted ghosts have anything to tell."""
        only = stage.stages[0]
        told = self.needs.stale_of.get(only) if isinstance(only, Advance) else None
        if told is None or self.needs.plan(only, pull=False).replicated:
            return False
        return super().is_fused(stage)

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
        self.put("    note(team, trace, row, rounds, members, made, False, clock)")
        self.put("    row, fused = row + 1, fused + rounds - 1")
        self.close(stage, outer)

    def emitted(self, stale: Stale) -> str:
        """How emitted ghosts are merged: function, arrays, bytes of one."""
        names = [stale.leader, *stale.followers]
        merge = self.function(Texts(self.d, names, [], set()).merge_emitted(*stale))
        return f"{merge}, ({self.arrays(names)}0), {self.width(names)}"

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
        self.put("stopped = world.sync[STOP] != 0")
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
