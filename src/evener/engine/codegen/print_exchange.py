"""The text of exchanges between parts: calls of operators that each device has, with one meaning.

A printer of kernels over parts has `ExchangePrinter` among its bases, before the printer of its
device. The small functions that copy and merge (`evener.engine.codegen.exchange_functions`) are
one text for all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from evener.device import compiled
from evener.engine.codegen import plan
from evener.engine.codegen.arguments import HubArrays, Links, Place
from evener.engine.codegen.exchange_functions import Texts, made
from evener.engine.codegen.printer import MODES, Printer
from evener.engine.codegen.rewrite import globalized
from evener.operators import spmd
from evener.operators.shared import between_machines, exchange, handshake, world

_WORLD = (
    "agree", "sum_of", "why_stop", "census", "census_of_arcs", "ask_stop", "least", "note_links",
)  # fmt: skip
_EXCHANGE = ("broadcast", "collect")
_TALK = ("tell", "listen", "forget")
MEMBERS = ("mark_members", "spread", "carry_members")  # of a device's module `members`
_CARRY = (
    "carry_owned", "clear_far", "carry_ghosts", "carry_box", "carry_copies", "pack_box",
    "unpack_box",
)  # fmt: skip


class ExchangePrinter(Printer):
    """Prints exchanges, and loops that all parts end together."""

    def prepare_exchanges(self, measure: Any) -> None:
        """Name what exchanges take; ``measure`` tells the bytes of a message."""
        self.names["Hub"] = between_machines.Hub
        self.names.update({name: getattr(between_machines, name) for name in _CARRY})
        self.names.update({name: getattr(world, name) for name in _WORLD})
        self.names.update({name: getattr(exchange, name) for name in _EXCHANGE})
        self.names.update({name: getattr(handshake, name) for name in _TALK})
        self.names.update(
            World=world.World, meet=spmd.meet, box_size=spmd.box_size,
            hub_shake=handshake.shake_hands if self.plan.hub else handshake.stay_here,
        )  # fmt: skip
        self.names["PART_WORDS"] = between_machines.PART_WORDS
        self.dtypes = {name: array.dtype for name, array in self.job.fields.items()}
        self.functions: dict[str, str] = {}  # names by text
        self.names["measure"] = measure
        for name, functor in self.d.functors.items():
            function = globalized(self.d, name, self.plan.far_is_global)
            if function is not functor.function:
                found = compiled(function, allocates=False)
                self.names[f"f_{name}"] = self.names[f"alone_{name}"] = found

    def world_lines(self) -> tuple[str, ...]:
        """What a thread knows of the other parts, and of the other machines."""
        known = {
            **{name: f"place.{name}" for name in Place._fields},
            **{name: f"common.links.{name}" for name in Links._fields},
        }
        of_hub = {
            **known, **{name: f"common.hub.{name}" for name in HubArrays._fields},
            "shake": "hub_shake",
        }  # fmt: skip
        there = ", ".join(of_hub[name] for name in between_machines.Hub._fields)
        known |= {"measure": "measure", "hub": f"Hub({there})"}
        return (
            "place, common = between.place, between.common",
            f"world = World({', '.join(known[name] for name in world.World._fields)})",
            "num_vertices, num_arcs = place.num_vertices, place.num_arcs",
            "present, rows = between.present, between.rows",
            "left, turn, half, talked, total, began = num_arcs, 0, 0, 0, 0, clock",
            *(f"all_{name} = common.fields.{name}" for name in self.d.fields),
        )

    # ---- expressions ----------------------------------------------------------------------

    def function(self, text: str) -> str:
        """The name of a function for an exchange; the same text is compiled once."""
        if text not in self.functions:
            kind, rest = text.removeprefix("def ").split("(", 1)
            name = f"{kind}_{len(self.functions) + 1}"
            self.functions[text] = name
            self.names[name] = made(text)
            self.helpers[name] = f"def {name}({rest}"
        return self.functions[text]

    def texts(self, told: plan.Exchange) -> Texts:
        """The writer of functions for an exchange."""
        return Texts(self.d, told.names, told.shadowed, set(told.zeroed))

    def texts_of(self, names: list[str]) -> Texts:
        """The writer of functions for fields whose old values do not matter."""
        return Texts(self.d, names, [], set())

    def values(self, names: Iterable[str]) -> str:
        """The arrays of all parts, as a tuple."""
        return _tuple(f"all_{name}" for name in names)

    def olds(self, names: Iterable[str]) -> str:
        """What ghosts held before, as a tuple."""
        return _tuple(f"common.olds.{name}" for name in names)

    def united(self, names: Iterable[str]) -> str:
        """What replicated fields held before, as a tuple."""
        return _tuple(f"common.united.{name}" for name in names)

    def boxes(self, names: Iterable[str]) -> str:
        """The boxes of some fields in the hub, as a tuple."""
        return _tuple(f"common.boxes.{name}" for name in names)

    def far_copies(self, names: Iterable[str]) -> str:
        """The copies of replicated fields in the hub, as a tuple."""
        return _tuple(f"common.far_copies.{name}" for name in names)

    def width(self, names: Iterable[str]) -> int:
        """Bytes of a message about one vertex."""
        return sum(self.dtypes[name].itemsize for name in names)

    def emitted(self, stale: plan.Stale) -> str:
        """How emitted ghosts are merged: function, arrays, bytes of one."""
        merge = self.function(self.texts_of(stale.names).merge_emitted(*stale))
        return f"{merge}, {self.values(stale.names)}, {self.width(stale.names)}"

    # ---- what devices do in their own way -------------------------------------------------

    @abstractmethod
    def given_to_members(self, texts: Texts, names: tuple[str, ...], values: str, olds: str) -> str:
        """How ghosts of members get the values of their owners: functions and arrays."""

    @abstractmethod
    def delivered(self, stale: plan.Stale) -> str:
        """How emitted ghosts are merged by a stage that is no order: functions, arrays, bytes."""

    @abstractmethod
    def new_box(self) -> None:
        """An empty box, and its mark."""

    @abstractmethod
    def new_following(self) -> None:
        """An empty frontier and box to push to, and their mark."""

    @abstractmethod
    def push_more(self, node: plan.RunAhead) -> None:
        """Push from the current frontier to those."""

    @abstractmethod
    def empty_current(self) -> None:
        """An empty frontier for those that arrive, before all parts meet."""

    # ---- exchanges ------------------------------------------------------------------------

    def talk(self, *lines: str) -> None:
        """Lines whose time is that of communication."""
        self.put("heard = cycles()", *lines, "talked += cycles() - heard")

    def carry(self, call: str) -> None:
        """Bring something to other machines by way of the half of the hub that is free."""
        self.talk(f"{call}, half)", "half = 1 - half")

    def print_meet(self, node: plan.Meet) -> None:
        """All threads of all parts."""
        self.talk("meet(world)")

    def print_broadcast(self, node: plan.Broadcast) -> None:
        """Ghosts take the values of their owners."""
        told, texts = node.exchange, self.texts(node.exchange)
        names, values, olds = told.broadcast, self.values(told.names), self.olds(texts.shadowed)
        if self.plan.hub and names:
            shadow = self.function(texts.shadow(names))
            pack, arrive = self.function(texts.pack(names)), self.function(texts.arrive(names))
            self.carry(
                f"carry_owned(team, world, {pack}, {arrive}, {shadow}, {values}, "
                f"{self.boxes(names)}, {olds}"
            )
        copy = self.function(texts.copy(names))
        if self.plan.hub and not names:
            self.talk(f"clear_far(team, world, {copy}, {values}, {olds})")
        self.talk(f"broadcast(team, world, {copy}, {values}, {olds}, {self.width(names)})")

    def print_spread(self, node: plan.Spread) -> None:
        """Ghosts that are members take the values of their owners."""
        told, texts = node.exchange, self.texts(node.exchange)
        names, values, olds = told.broadcast, self.values(told.names), self.olds(texts.shadowed)
        self.talk(f"mark_members(team, world, {self.source(node.stage)}, present)")
        if self.plan.hub:
            pack, arrive = self.function(texts.pack(names)), self.function(texts.arrive(names))
            self.carry(
                f"carry_members(team, world, present, {pack}, {arrive}, {values}, "
                f"{self.boxes(names)}, {olds}"
            )
        given = self.given_to_members(texts, names, values, olds)
        self.talk(f"spread(team, world, present, {given}, {self.width(names)})")

    def print_collect(self, node: plan.Collect) -> None:
        """Bring what a stage wrote to ghosts, and those that it emitted, home."""
        told, texts = node.exchange, self.texts(node.exchange)
        values, olds = self.values(told.names), self.olds(texts.shadowed)
        changed = self.function(texts.is_changed(dict(told.ghosts)))
        merge = self.function(texts.merge(dict(told.ghosts), self.dtypes))
        if self.plan.hub:
            pack = self.function(texts.pack(told.merged))
            unpack = self.function(texts.unpack(told.merged))
            self.carry(
                f"carry_ghosts(team, world, {pack}, {unpack}, {values}, "
                f"{self.boxes(told.merged)}, {node.emits}, stamp"
            )
        self.talk(
            f"collect(team, world, {changed}, {merge}, {values}, {olds}, "
            f"{self.width(told.merged)}, {node.emits}, stamp, {node.into or self.next})"
        )

    def print_deliver(self, node: plan.Deliver) -> None:
        """Bring emitted ghosts home, where those join the frontier that improve."""
        names = node.stale.names
        if self.plan.hub:
            texts = self.texts_of(names)
            pack, unpack = self.function(texts.pack(names)), self.function(texts.unpack(names))
            self.carry(
                f"carry_box(team, world, {pack}, {unpack}, {self.values(names)}, "
                f"{self.boxes(names)}, stamp"
            )
        self.talk(f"deliver(team, world, {self.delivered(node.stale)}, stamp, {self.next})")

    def print_unite(self, node: plan.Unite) -> None:
        """Bring the copies of replicated fields to one value."""
        names = node.names
        texts = Texts(self.d, names, names, set())
        differ = self.function(texts.differ())
        merge = self.function(texts.unite(node.followers, self.dtypes))
        if self.plan.hub:
            pack, unpack = self.function(texts.pack(names)), self.function(texts.unpack(names))
            self.carry(
                f"carry_copies(team, world, {pack}, {unpack}, {self.values(names)}, "
                f"{self.far_copies(names)}, num_vertices"
            )
        self.talk(
            f"unite(team, world, {differ}, {merge}, {self.values(names)}, {self.united(names)}, "
            f"num_vertices, {self.width(names)})"
        )

    def print_agree(self, node: plan.Agree) -> None:
        """Combine a scalar over all parts."""
        self.agree(node.scalar, node.op)

    def agree(self, name: str, op: str) -> None:
        """Combine a scalar over all parts."""
        self.talk(
            f"scalar_{name} = agree(team, world, turn, combine_{op}, neutral_{name}, "
            f"scalar_{name}, common.agreed.{name}, common.far_agreed.{name})",
            "turn = 1 - turn",
        )

    def print_agree_on_changed(self, node: plan.AgreeOnChanged) -> None:
        """``changed`` is that of all parts."""
        self.talk("changed = census(team, world, turn, changed) > 0", "turn = 1 - turn")

    # ---- stages ---------------------------------------------------------------------------

    def print_choose(self, node: plan.Choose) -> None:
        """Whichever all parts decide on."""
        if node.mode == "auto":
            source, mode = self.source(node.stage), MODES["auto"]
            self.put(f"arcs = arcs_of(team, out, {source}, {mode})")
            self.talk(
                f"size, arcs = census_of_arcs(team, world, turn, {source}.info[SIZE], arcs)",
                "turn = 1 - turn",
            )
            self.put(
                f"pulled = goes_pull_parts({source}, {mode}, size, arcs, left, before, "
                "num_vertices)"
            )
            self.put("left, before = left - arcs, size")
            with self.within("if pulled:"):
                self.emit(node.pull)
            with self.within("else:"):
                self.emit(node.push)
        else:
            self.put(f"pulled = {node.mode == 'pull'}")
            self.emit(node.pull or node.push)
        self.count_calls()

    # ---- loops ----------------------------------------------------------------------------

    def total(self, size: str) -> None:
        """Add up a size over all parts."""
        self.talk(f"total = census(team, world, turn, {size})", "turn = 1 - turn")

    def ask_frontier(self, node: plan.Loop) -> None:
        """End when the frontiers of all parts are empty."""
        self.total(self.size())
        if node.stage.takes_frontier:
            self.put("if total == 0: break")
        elif node.stage.makes_frontier:
            self.put(f"if {self.step} > 0 and total == 0: break")

    def ask_until(self, node: plan.Loop) -> None:
        """Machines agree, since their arithmetic may differ in the last bit."""
        if not self.plan.hub or node.stage.until is None:
            super().ask_until(node)
            return
        asked = f"f_{node.stage.until}({self.state('weight_out')})"
        self.talk(f"over = census(team, world, turn, {asked}) > 0", "turn = 1 - turn")
        self.put("if over: break")

    def note(self) -> None:
        """The row of a superstep, with what was told."""
        self.put("note_links(team, world, rows, row, talked)")
        super().note()

    def note_fused(self, calls: str) -> None:
        """Write the row of an ordered loop, with what was told."""
        self.put("    note_links(team, world, rows, row, talked)")
        super().note_fused(calls)

    def print_run_ahead(self, node: plan.RunAhead) -> None:
        """A loop that goes on with its own frontier while what others tell is under way.

        With one handshake a superstep travels the box of emitted ghosts, and what the end of the
        loop is decided by: how much waits in frontiers and boxes. Who has told the others, and
        finds that theirs have not come, pushes from its own frontier meanwhile (the sub-queue), and
        then from the vertices that arrived; else both are one frontier (the full queue). Nobody
        gets further ahead than that: the inner loop is gone through twice if others are late.

            pack the box, raise the flag ── theirs are there ──────────────► unpack, deliver, push
                                         └─ they are late ─► push own, wait, unpack, deliver, push

        Marks say who is in which frontier. What is pushed ahead marks those that it emits; whoever
        arrives with this mark waits in the next frontier anyway, and whoever arrives without it
        loses the mark that delivering gave it, because it may be emitted again.
        """
        assert node.stale is not None
        told, outer = [node.stale.leader], self.open(node)
        texts = self.texts_of(told)
        pack, unpack = self.function(texts.pack(told)), self.function(texts.unpack(told))
        given = f"{self.values(told)}, {self.boxes(told)}"
        self.put(f"s = {self.state('weight_out')}")
        self.new_box()
        with self.within("while True:"):
            self.put("members, calls, pulled, clock = 0, 0, False, cycles()")
            self.talk(
                f"pack_box(team, world, {pack}, {given}, stamp, half)",
                "boxed = box_size(world, world.part, stamp)",
                "late = tell(team, world, turn, current.info[SIZE], boxed)",
            )
            self.put("arrived, told = not late, stamp")
            with self.within("while True:"):
                with self.within("if arrived:"):
                    self.receive(node.stale, unpack, given)
                with self.within("if not (arrived and late):"):
                    self.new_following()
                self.put("members += current.info[SIZE]")
                self.push_more(node)
                self.put("if arrived: break")
                self.empty_current()
                self.put("arrived, told = True, stamp")
            self.put("turn, half = 1 - turn, 1 - half")
            self.put("if ended: break")
            self.swap()
            self.note()
            self.put(f"{self.step} += 1")
        self.close(node, outer)

    def receive(self, stale: plan.Stale, unpack: str, given: str) -> None:
        """What the other machines have told, and whether the loop ends."""
        self.talk("alone = listen(team, world, turn)")
        self.put("stopped = alone or why_stop(world, turn) != 0")
        self.put("ended = stopped or sum_of(world, turn, 0) == 0")
        self.put("if ended: break")
        self.talk(
            f"unpack_box(team, world, {unpack}, {given}, world.words, "
            "turn * world.parts * PART_WORDS + 1, told, half)",
            f"deliver(team, world, {self.delivered(stale)}, told, current)",
        )
        self.put("if late: forget(team, marks, current)")


def _tuple(names: Iterable[str]) -> str:
    """A tuple, which is not empty where there are no names."""
    return "(" + "".join(f"{name}, " for name in names) + "0)"
