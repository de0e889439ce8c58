"""What kernels over parts have in common: exchanges between the stages, as the text of calls.

The writer of a device's kernels (`codegen.stages`, `codegen.gpu`) writes the stages; `Exchanges`
comes before it among the bases of a class and adds what parts tell each other.
The operators that it names exist for each device with the same meaning.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any

from evener.device import compiled
from evener.engine.codegen.exchange_plan import Needs, Plan, Stale
from evener.engine.codegen.merges import Texts, made
from evener.engine.codegen.rewrite import globalized
from evener.engine.codegen.stages import MODES, Kernel, _Writer
from evener.engine.job import Job
from evener.operators import spmd
from evener.operators.shared import exchange as exchange_module
from evener.operators.shared import frontier as frontier_module
from evener.operators.shared import handshake
from evener.operators.shared import hub as hub_module
from evener.operators.shared import world as world_module
from evener.programs.stages import Advance, Edges, Gather, Reduce, Repeat, Stage

PLACE = (
    "part", "parts", "threads", "first", "num_vertices", "num_arcs", "policy", "machine",
    "machines", "total", "patience",
)  # fmt: skip
# Arrays of `evener.operators.shared.hub.Hub`.
HUB = (
    "machine_of", "ghosts", "shaken", "sizes", "flags", "words", "far_sizes", "box", "marks", "bits"
)  # fmt: skip
EXTRA = (
    "links", "alls", "all_copies", "olds", "united", "agreed", "hub", "boxes", "far_copies",
    "far_agreed",
)  # fmt: skip


_WORLD = (
    "agree", "sum_of", "why_stop", "census", "census_of_arcs", "ask_stop", "least", "note_links",
)  # fmt: skip
_EXCHANGE = ("broadcast", "collect")
_TALK = ("tell", "listen", "forget")
MEMBERS = ("mark_members", "spread", "carry_members")  # of a device's module `members`
_CARRY = (
    "carry_owned", "clear_far", "carry_ghosts", "carry_box", "carry_copies",
    "pack_box", "unpack_box",
)  # fmt: skip


class PartsKernel(Kernel):
    """A kernel, and the fields of which the old values at ghosts, or everywhere, are kept."""

    shadowed: list[str]
    united: list[str]
    carried: list[str]  # fields that travel to other machines, by ghosts
    shares: bool = False  # whether all parts have replicated fields in common
    fuses: bool = False  # whether there are buckets that are fused


class Exchanges(_Writer):
    """A writer of kernels over parts, but for what differs between devices."""

    kernel: PartsKernel
    fault: tuple[int, int] | None = None

    hub = False
    far_is_global = False  # whether neighbour lists hold global numbers

    def plan_exchanges(self, job: Job, measure: Any, hub: bool) -> None:
        """Find out what has to be exchanged; ``measure`` tells the bytes of a message.

        With a ``hub`` some parts are on other machines.
        """
        self.hub = hub
        self.kernel = PartsKernel("", {})
        self.kernel.shadowed, self.kernel.united, self.kernel.carried = [], [], []
        self.names["Hub"] = hub_module.Hub
        self.names.update({name: getattr(hub_module, name) for name in _CARRY})
        self.names.update({name: getattr(world_module, name) for name in _WORLD})
        self.names.update({name: getattr(exchange_module, name) for name in _EXCHANGE})
        self.names.update({name: getattr(handshake, name) for name in _TALK})
        self.names.update(
            World=world_module.World, meet=spmd.meet, hub_boxed=spmd.box_size,
            hub_shake=handshake.shake_hands if hub else handshake.stay_here,
        )  # fmt: skip
        self.names["APART"] = hub_module.APART
        self.needs = Needs(self.d)
        self.dtypes = {name: array.dtype for name, array in job.fields.items()}
        self.functions: dict[str, str] = {}  # names by text
        self.names["measure"] = measure
        for name, functor in self.d.functors.items():
            function = globalized(self.d, name, self.far_is_global)
            if function is not functor.function:
                found = compiled(function, allocates=False)
                self.names[f"f_{name}"] = self.names[f"alone_{name}"] = found

    def hub_text(self) -> str:
        """The text of what a thread knows of the other machines."""
        place = {name: f"links[0][{i}]" for i, name in enumerate(PLACE)}
        array = {name: f"hub[{i}]" for i, name in enumerate(HUB)}
        given = [
            place["machine"], place["machines"], array["machine_of"], array["ghosts"],
            place["total"], place["patience"], *(array[name] for name in HUB[2:]), "hub_shake",
        ]  # fmt: skip
        return f"Hub({', '.join(given)})"

    # ---- exchanges ------------------------------------------------------------------------

    def function(self, text: str) -> str:
        """The name of a function for an exchange; the same text is compiled once."""
        if text not in self.functions:
            name = f"{text[len('def ') : text.index('(')]}_{len(self.functions) + 1}"
            self.functions[text] = name
            self.names[name] = made(text)
        return self.functions[text]

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
        values, olds = f"({self.arrays(names)}0)", f"({self.shadows(texts.shadowed)}0)"
        width = self.width(plan.broadcast)
        if members is None:
            if self.hub and plan.broadcast:
                shadow = self.function(texts.shadow(plan.broadcast))
                self.carry_on("carry_owned", texts, plan, shadow, values, olds)
            copy = self.function(texts.copy(plan.broadcast))
            if self.hub and not plan.broadcast:
                self.talk(f"clear_far(team, world, {copy}, {values}, {olds})")
            self.talk(f"broadcast(team, world, {copy}, {values}, {olds}, {width})")
        else:
            self.talk(f"mark_members(team, world, {members}, present)")
            if self.hub:
                self.carry_on("carry_members", texts, plan, "", values, olds)
            given = self.given_to_members(texts, plan, values, olds)
            self.talk(f"spread(team, world, present, {given}, {width})")

    def given_to_members(self, texts: Texts, plan: Plan, values: str, olds: str) -> str:
        """How ghosts of members get the values of their owners: functions and arrays."""
        return f"{self.function(texts.copy(plan.broadcast))}, {values}, {olds}"

    def carry(
        self, operator: str, texts: Texts, names: Any, values: str, *more: str, far: str = "boxes"
    ) -> None:
        """Bring what is to be exchanged to the other machines' shadows of this one's parts."""
        pack, unpack = self.function(texts.pack(names)), self.function(texts.unpack(names))
        given = [pack, unpack, values, self.boxes(names, far), *more]
        self.talk(f"{operator}(team, world, {', '.join(given)}, half)", "half = 1 - half")

    def carry_on(
        self, operator: str, texts: Texts, plan: Plan, shadow: str, values: str, olds: str
    ) -> None:
        """Bring the values of owners right to the ghosts on other machines."""
        pack = self.function(texts.pack(plan.broadcast))
        arrive = self.function(texts.arrive(plan.broadcast))
        functions = [pack, arrive, shadow] if shadow else ["present", pack, arrive]
        given = [*functions, values, self.boxes(plan.broadcast), olds]
        self.talk(f"{operator}(team, world, {', '.join(given)}, half)", "half = 1 - half")

    def boxes(self, names: Any, far: str = "boxes") -> str:
        """The boxes of some fields in the hub, as a tuple."""
        known = self.kernel.carried if far == "boxes" else self.kernel.united
        known += [name for name in names if name not in known]
        return "(" + "".join(f"{far}[{known.index(name)}], " for name in names) + "0)"

    def collect(self, plan: Plan, *, emits: bool) -> None:
        """Bring what a stage wrote to ghosts, and with ``emits`` those it emitted, home."""
        if not plan.ghosts and not emits:
            return
        names = self.names_of(plan)
        texts = self.texts(plan, names)
        changed = self.function(texts.is_changed(plan.ghosts))
        merge = self.function(texts.merge(plan.ghosts, self.dtypes))
        grouped = {n for group in plan.ghosts.items() for n in (group[0], *group[1])}
        width = self.width(grouped)
        if self.hub:
            self.carry(
                "carry_ghosts", texts, sorted(grouped), f"({self.arrays(names)}0)", str(emits),
                "stamp",
            )  # fmt: skip
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
        if self.kernel.shares:
            if plan.replicated:
                self.talk("meet(world)")
            return
        for leader, followers in plan.replicated.items():
            names = [leader, *followers]
            for name in names:
                if name not in self.kernel.united:
                    self.kernel.united.append(name)
            texts = Texts(self.d, names, names, set())
            differ = self.function(texts.differ())
            merge = self.function(texts.unite(followers, self.dtypes))
            olds = "".join(f"united[{self.kernel.united.index(name)}], " for name in names)
            if self.hub:
                values = f"({self.arrays(names)}0)"
                self.carry("carry_copies", texts, names, values, "num_vertices", far="far_copies")
            self.talk(
                f"unite(team, world, {differ}, {merge}, ({self.arrays(names)}0), ({olds}0), "
                f"num_vertices, {self.width(names)})"
            )

    def agree(self, name: str, op: str) -> None:
        """Combine a scalar over all parts."""
        at = list(self.d.scalars).index(name)
        self.talk(
            f"scalar_{name} = agree(team, world, turn, combine_{op}, neutral_{name}, "
            f"scalar_{name}, agreed[{at}], far_agreed[{at}])",
            "turn = 1 - turn",
        )

    # ---- stages ---------------------------------------------------------------------------

    def before(self, stage: Stage) -> None:
        """What owners tell ghosts before a stage."""
        if self.kernel.shares and self.needs.plan(stage, isinstance(stage, Gather)).replicated:
            self.talk("meet(world)")  # others may still be reading what it writes
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

    @abstractmethod
    def push_call(self, stage: Advance, where: str, source: str, boxes: bool) -> str:
        """The call that pushes; with ``boxes`` emitted ghosts wait in a box."""

    @abstractmethod
    def pull_call(self, stage: Advance, where: str, source: str) -> str:
        """The call that pulls."""

    def push_or_pull(self, stage: Advance, where: str, source: str) -> None:
        """Whichever all parts decide on."""
        mode = MODES[self.direction]
        if self.direction == "auto" and stage.where is None:
            mode = frontier_module.PUSH
        if mode == frontier_module.AUTO:
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
        elif mode == frontier_module.PULL:
            self.put("pulled = True")
            self.pull(stage, where, source)
        else:
            self.put("pulled = False")
            self.push(stage, where, source)

    def push(self, stage: Advance, where: str, source: str) -> None:
        """Along the out-edges of this part's frontier."""
        stale = self.needs.stale_of.get(stage)
        plan = self.needs.plan(stage, pull=False)
        if stale is None:
            self.broadcast(plan)
        self.put(self.push_call(stage, where, source, stale is not None))
        if stale is None:
            self.collect(plan, emits=True)
            return
        if self.hub:
            names = [stale.leader, *stale.followers]
            texts = Texts(self.d, names, [], set())
            self.carry("carry_box", texts, names, f"({self.arrays(names)}0)", "stamp")
        self.talk(f"deliver(team, world, {self.delivered(stale)}, stamp, {self.next})")

    def pull(self, stage: Advance, where: str, source: str) -> None:
        """To this part's vertices along their in-edges."""
        plan = self.needs.plan(stage, pull=True)
        if plan.ghosts:
            self.broadcast(plan)
            self.broadcast(Plan((), (), {}, {}), members=source)
        else:
            self.broadcast(plan, members=source)
        self.put(self.pull_call(stage, where, source))
        self.collect(plan, emits=False)

    @abstractmethod
    def delivered(self, stale: Stale) -> str:
        """How emitted ghosts are merged by a stage that is no order: functions, arrays, bytes."""

    def emitted(self, stale: Stale) -> str:
        """How emitted ghosts are merged: function, arrays, bytes of one."""
        names = [stale.leader, *stale.followers]
        merge = self.function(Texts(self.d, names, [], set()).merge_emitted(*stale))
        return f"{merge}, ({self.arrays(names)}0), {self.width(names)}"

    def edges(self, stage: Edges) -> None:
        """``changed`` is that of all parts."""
        super().edges(stage)
        self.talk("changed = census(team, world, turn, changed) > 0", "turn = 1 - turn")

    def reduce(self, stage: Reduce) -> None:
        """A scalar is that of all parts."""
        super().reduce(stage)
        self.agree(stage.into.name, stage.op)

    # ---- loops ----------------------------------------------------------------------------

    def ask_frontier(self, stage: Repeat) -> None:
        """End when the frontiers of all parts are empty."""
        self.total(self.size())
        if stage.takes_frontier:
            self.put("if total == 0: break")
        elif stage.makes_frontier:
            self.put(f"if {self.step} > 0 and total == 0: break")

    def repeat(self, stage: Repeat) -> None:
        """A loop; machines that fuse buckets each in its own way do without their order."""
        if self.hub and stage.order is not None and self.is_fused(stage):
            stage = dataclasses.replace(stage, order=None)
        super().repeat(stage)

    def ask_until(self, stage: Repeat) -> None:
        """Machines agree, since their arithmetic may differ in the last bit."""
        if not self.hub or stage.until is None:
            super().ask_until(stage)
            return
        asked = f"f_{stage.until}({self.state('weight_out')})"
        self.talk(f"over = census(team, world, turn, {asked}) > 0", "turn = 1 - turn")
        self.put("if over: break")

    def total(self, size: str) -> None:
        """Add up a size over all parts."""
        self.talk(f"total = census(team, world, turn, {size})", "turn = 1 - turn")

    def superstep(self, stage: Repeat) -> None:
        """One superstep."""
        self.fail_for_tests()
        super().superstep(stage)

    def fail_for_tests(self) -> None:
        """Let a part give up at a superstep, where a test wants it."""
        if self.fault is not None:
            part, at = self.fault
            self.put(f"if world.part == {part} and {self.step} == {at}: return -1")

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
