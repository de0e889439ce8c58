"""The text of exchanges between parts: calls of operators that mean the same on every device.

A printer for parts inherits from `ExchangePrinter` and then from the printer of its device. The
small functions that copy and merge (`evener.engine.codegen.exchange_functions`) are the same text
for all devices.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from evener.device import compiled
from evener.engine.codegen import plan
from evener.engine.codegen.arguments import HubArrays, Links, Place
from evener.engine.codegen.exchange_functions import Texts, function_of
from evener.engine.codegen.printer import MODES, Printer
from evener.engine.codegen.rewrite import globalized
from evener.operators import spmd
from evener.operators.shared import between_machines, exchange, handshake, world

_WORLD = (
    "agree", "sum_of", "why_stop", "census", "census_of_arcs", "ask_stop", "least", "note_links",
)  # fmt: skip
_EXCHANGE = ("broadcast", "collect")
_HANDSHAKE = ("tell", "listen", "forget")
MEMBERS = ("mark_members", "spread", "carry_members")  # of a device's module `members`
_CARRY = (
    "carry_owned", "clear_far", "carry_ghosts", "carry_box", "carry_copies", "pack_box",
    "unpack_box",
)  # fmt: skip


class ExchangePrinter(Printer):
    """Prints exchanges, and loops that end for all parts together."""

    def prepare_exchanges(self, measure: Any) -> None:
        """Name what exchanges call; ``measure`` computes the bytes of a message."""
        self.names["Hub"] = between_machines.Hub
        self.names.update({name: getattr(between_machines, name) for name in _CARRY})
        self.names.update({name: getattr(world, name) for name in _WORLD})
        self.names.update({name: getattr(exchange, name) for name in _EXCHANGE})
        self.names.update({name: getattr(handshake, name) for name in _HANDSHAKE})
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
        """Lines that name what a thread knows of the other parts and of the other machines."""
        known = {
            **{name: f"place.{name}" for name in Place._fields},
            **{name: f"common.links.{name}" for name in Links._fields},
        }
        of_hub = {
            **known, **{name: f"common.hub.{name}" for name in HubArrays._fields},
            "shake": "hub_shake",
        }  # fmt: skip
        hub = ", ".join(of_hub[name] for name in between_machines.Hub._fields)
        known |= {"measure": "measure", "hub": f"Hub({hub})"}
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
            self.names[name] = function_of(text)
            self.helpers[name] = f"def {name}({rest}"
        return self.functions[text]

    def texts(self, exchanged: plan.Exchange) -> Texts:
        """The writer of functions for an exchange."""
        return Texts(self.d, exchanged.names, exchanged.shadowed, set(exchanged.zeroed))

    def texts_of(self, names: list[str]) -> Texts:
        """The writer of functions for fields whose old values are not needed."""
        return Texts(self.d, names, [], set())

    def values(self, names: Iterable[str]) -> str:
        """The arrays of all parts, as a tuple."""
        return _tuple(f"all_{name}" for name in names)

    def olds(self, names: Iterable[str]) -> str:
        """The values of ghosts before a stage, as a tuple."""
        return _tuple(f"common.olds.{name}" for name in names)

    def united(self, names: Iterable[str]) -> str:
        """The values of replicated fields before a stage, as a tuple."""
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

    def merge_arguments(self, stale: plan.Stale) -> str:
        """The arguments that merge emitted ghosts: function, arrays, bytes per ghost."""
        merge = self.function(self.texts_of(stale.names).merge_emitted(*stale))
        return f"{merge}, {self.values(stale.names)}, {self.width(stale.names)}"

    # ---- what differs between devices -----------------------------------------------------

    @abstractmethod
    def spread_arguments(self, texts: Texts, names: tuple[str, ...], values: str, olds: str) -> str:
        """The arguments of `spread` that copy values of owners to ghosts: functions and arrays."""

    @abstractmethod
    def deliver_arguments(self, stale: plan.Stale) -> str:
        """The arguments of `deliver` that merge ghosts: functions, arrays, bytes per ghost."""

    @abstractmethod
    def new_box(self) -> None:
        """Empty the box, and take a new stamp for marks."""

    @abstractmethod
    def new_following(self) -> None:
        """Empty the next frontier and the box, and take a new stamp for marks."""

    @abstractmethod
    def push_more(self, node: plan.RunAhead) -> None:
        """Push from the current frontier to the next one and the box."""

    @abstractmethod
    def empty_current(self) -> None:
        """Empty the current frontier for vertices that arrive, before all parts meet."""

    # ---- exchanges ------------------------------------------------------------------------

    def communicate(self, *lines: str) -> None:
        """Add lines whose time counts as communication."""
        self.put("heard = cycles()", *lines, "talked += cycles() - heard")

    def carry(self, call: str) -> None:
        """Carry something to other machines through the free half of the hub."""
        self.communicate(f"{call}, half)", "half = 1 - half")

    def print_meet(self, node: plan.Meet) -> None:
        """All threads of all parts meet at a barrier."""
        self.communicate("meet(world)")

    def print_broadcast(self, node: plan.Broadcast) -> None:
        """Ghosts take the values of their owners."""
        exchanged, texts = node.exchange, self.texts(node.exchange)
        names, values = exchanged.broadcast, self.values(exchanged.names)
        olds = self.olds(texts.shadowed)
        if self.plan.hub and names:
            shadow = self.function(texts.shadow(names))
            pack, arrive = self.function(texts.pack(names)), self.function(texts.arrive(names))
            self.carry(
                f"carry_owned(team, world, {pack}, {arrive}, {shadow}, {values}, "
                f"{self.boxes(names)}, {olds}"
            )
        copy = self.function(texts.copy(names))
        if self.plan.hub and not names:
            self.communicate(f"clear_far(team, world, {copy}, {values}, {olds})")
        self.communicate(f"broadcast(team, world, {copy}, {values}, {olds}, {self.width(names)})")

    def print_spread(self, node: plan.Spread) -> None:
        """Ghosts of members become members too, and take the values of their owners."""
        exchanged, texts = node.exchange, self.texts(node.exchange)
        names, values = exchanged.broadcast, self.values(exchanged.names)
        olds = self.olds(texts.shadowed)
        self.communicate(f"mark_members(team, world, {self.source(node.stage)}, present)")
        if self.plan.hub:
            pack, arrive = self.function(texts.pack(names)), self.function(texts.arrive(names))
            self.carry(
                f"carry_members(team, world, present, {pack}, {arrive}, {values}, "
                f"{self.boxes(names)}, {olds}"
            )
        given = self.spread_arguments(texts, names, values, olds)
        self.communicate(f"spread(team, world, present, {given}, {self.width(names)})")

    def print_collect(self, node: plan.Collect) -> None:
        """Owners merge writes to their ghosts; those of emitted ghosts may join the frontier."""
        exchanged, texts = node.exchange, self.texts(node.exchange)
        values, olds = self.values(exchanged.names), self.olds(texts.shadowed)
        changed = self.function(texts.is_changed(dict(exchanged.ghosts)))
        merge = self.function(texts.merge(dict(exchanged.ghosts), self.dtypes))
        names = exchanged.merged
        if self.plan.hub:
            pack, unpack = self.function(texts.pack(names)), self.function(texts.unpack(names))
            self.carry(
                f"carry_ghosts(team, world, {pack}, {unpack}, {values}, "
                f"{self.boxes(names)}, {node.emits}, stamp"
            )
        self.communicate(
            f"collect(team, world, {changed}, {merge}, {values}, {olds}, "
            f"{self.width(names)}, {node.emits}, stamp, {node.into or self.next})"
        )

    def print_deliver(self, node: plan.Deliver) -> None:
        """Owners merge the values of emitted ghosts; those that improve join the frontier."""
        names = node.stale.names
        if self.plan.hub:
            texts = self.texts_of(names)
            pack, unpack = self.function(texts.pack(names)), self.function(texts.unpack(names))
            self.carry(
                f"carry_box(team, world, {pack}, {unpack}, {self.values(names)}, "
                f"{self.boxes(names)}, stamp"
            )
        self.communicate(
            f"deliver(team, world, {self.deliver_arguments(node.stale)}, stamp, {self.next})"
        )

    def print_unite(self, node: plan.Unite) -> None:
        """All copies of replicated fields get one value."""
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
        self.communicate(
            f"unite(team, world, {differ}, {merge}, {self.values(names)}, {self.united(names)}, "
            f"num_vertices, {self.width(names)})"
        )

    def print_agree(self, node: plan.Agree) -> None:
        """Combine a scalar over all parts."""
        self.agree(node.scalar, node.op)

    def agree(self, name: str, op: str) -> None:
        """Combine a scalar over all parts."""
        self.communicate(
            f"scalar_{name} = agree(team, world, turn, combine_{op}, neutral_{name}, "
            f"scalar_{name}, common.agreed.{name}, common.far_agreed.{name})",
            "turn = 1 - turn",
        )

    def print_agree_on_changed(self, node: plan.AgreeOnChanged) -> None:
        """``changed`` is combined over all parts."""
        self.communicate("changed = census(team, world, turn, changed) > 0", "turn = 1 - turn")

    # ---- stages ---------------------------------------------------------------------------

    def print_choose(self, node: plan.Choose) -> None:
        """A push or a pull, as all parts decide together."""
        if node.mode == "auto":
            source, mode = self.source(node.stage), MODES["auto"]
            self.put(f"arcs = arcs_of(team, out, {source}, {mode})")
            self.communicate(
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
        self.communicate(f"total = census(team, world, turn, {size})", "turn = 1 - turn")

    def break_if_empty(self, node: plan.Loop) -> None:
        """End when the frontiers of all parts are empty."""
        self.total(self.size())
        if node.stage.takes_frontier:
            self.put("if total == 0: break")
        elif node.stage.makes_frontier:
            self.put(f"if {self.step} > 0 and total == 0: break")

    def break_on_until(self, node: plan.Loop) -> None:
        """End after a superstep; machines agree on it, as they may round differently."""
        if not self.plan.hub or node.stage.until is None:
            super().break_on_until(node)
            return
        until = f"f_{node.stage.until}({self.state('weight_out')})"
        self.communicate(f"over = census(team, world, turn, {until}) > 0", "turn = 1 - turn")
        self.put("if over: break")

    def note(self) -> None:
        """Write the row of a superstep, with its communication."""
        self.put("note_links(team, world, rows, row, talked)")
        super().note()

    def note_fused(self, calls: str) -> None:
        """Write the row of an ordered loop, with its communication."""
        self.put("    note_links(team, world, rows, row, talked)")
        super().note_fused(calls)

    def print_run_ahead(self, node: plan.RunAhead) -> None:
        """A loop in which a machine pushes from its own frontier while boxes of others are late.

        Each superstep has one handshake. It carries the box of emitted ghosts, and the number of
        vertices that wait in frontiers and boxes, which decides whether the loop ends. If the other
        boxes are late, a machine pushes from its own frontier first (the sub-queue), and then from
        the vertices that arrived; otherwise from both as one frontier (the full queue). No machine
        gets further ahead than that: the inner loop runs twice if others are late.

            pack the box, raise the flag ── boxes are there ───────────────► unpack, deliver, push
                                         └─ they are late ─► push own, wait, unpack, deliver, push

        Marks say which frontier a vertex is in. A push ahead marks the vertices that it emits. A
        vertex that arrives with this mark is in the next frontier anyway. One that arrives without
        it loses the mark that `deliver` gave it, because it may be emitted again.
        """
        assert node.stale is not None
        names, outer = [node.stale.leader], self.open(node)
        texts = self.texts_of(names)
        pack, unpack = self.function(texts.pack(names)), self.function(texts.unpack(names))
        given = f"{self.values(names)}, {self.boxes(names)}"
        self.put(f"s = {self.state('weight_out')}")
        self.new_box()
        with self.within("while True:"):
            self.put("members, calls, pulled, clock = 0, 0, False, cycles()")
            self.communicate(
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
        """Unpack and deliver the boxes of other machines; ends the loop if nothing waits."""
        self.communicate("alone = listen(team, world, turn)")
        self.put("stopped = alone or why_stop(world, turn) != 0")
        self.put("ended = stopped or sum_of(world, turn, 0) == 0")
        self.put("if ended: break")
        self.communicate(
            f"unpack_box(team, world, {unpack}, {given}, world.words, "
            "turn * world.parts * PART_WORDS + 1, told, half)",
            f"deliver(team, world, {self.deliver_arguments(stale)}, told, current)",
        )
        self.put("if late: forget(team, marks, current)")


def _tuple(names: Iterable[str]) -> str:
    """A tuple of these names, never empty."""
    return "(" + "".join(f"{name}, " for name in names) + "0)"
