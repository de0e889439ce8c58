"""Kernels that may return in the middle of a loop, for more room, and begin again where they were.

A superstep that is to be recorded and does not fit is such a place. There the kernel writes down
all that its variables hold and returns; the host makes room, keeps all else, and launches it again.
It then skips what comes before the place: `resuming` is the number of the place until it is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from evener.engine.codegen.loops import Loops
from evener.operators.gpu.frontier import INFO_WORDS, TURNS
from evener.programs.stages import Backwards, Repeat, Stage, walk

MORE_ROOM = 1  # how a kernel ends that did not finish; see `evener.operators.gpu.record.end`
SAVED_WORDS = 256  # room for all that a kernel writes down

_NUMBERS = ("row", "recorded", "made", "remade", "stamp", "left", "before", "fused", "members")
_FLAGS = ("pulled", "changed")
_SAVE = "@save"


class Resumable(Loops):
    """The part of a writer that lets a kernel begin again; see `evener.engine.codegen.gpu`."""

    kernel: Any
    lines: list[str]
    places = 0  # written so far

    def prepare(self) -> None:
        """Find out how many places there will be, before anything is written."""
        self.all_places = self.places_in(self.d.loop) if self.replays else 0
        self.skipping = False
        self.around: list[int] = []  # numbers of the loops around what is being written
        self.saved: list[int] = []  # numbers of the loops around some place
        self.saved_orders: dict[int, str] = {}  # ordered ones of them, and what they wait in

    def places_in(self, stages: tuple[Stage, ...]) -> int:
        """How many places are in stages."""
        return sum(isinstance(stage, Repeat) and stage.record for stage in walk(stages))

    # ---- skipping -------------------------------------------------------------------------

    @contextmanager
    def guarded(self, stage: Stage) -> Iterator[None]:
        """Skip a stage on the way to a place that is not in it."""
        within = self.places_in((stage,))
        if self.skipping or self.places == self.all_places or within == self.all_places:
            yield
            return
        condition = "resuming == 0"
        if within:
            condition += f" or {self.places + 1} <= resuming <= {self.places + within}"
        self.put(f"if {condition}:")
        self.indent += 1
        self.skipping = not within
        yield
        self.skipping = False
        self.indent -= 1

    def skipped_over(self) -> AbstractContextManager[None]:
        """Skip the head of a loop on the way to a place that is in it."""
        if self.skipping or self.places == self.all_places:
            return nullcontext()
        return self._if_not_resuming()

    @contextmanager
    def _if_not_resuming(self) -> Iterator[None]:
        self.put("if resuming == 0:")
        self.indent += 1
        yield
        self.indent -= 1

    def open(self, stage: Repeat | Backwards) -> str:
        """What stands before a loop."""
        outer = super().open(stage)
        self.around.append(self.loops)
        return outer

    def close(self, stage: Repeat | Backwards, outer: str) -> None:
        """What stands behind a loop."""
        self.around.pop()
        super().close(stage, outer)

    # ---- places ---------------------------------------------------------------------------

    def remember(self) -> None:
        """Keep the frontier for `backwards`: a place to return from, and to begin again at."""
        self.places += 1
        self.saved += [number for number in self.around if number not in self.saved]
        self.put(f"if resuming == 0 or resuming == {self.places}:")
        self.indent += 1
        self.put("resuming = 0")
        call = "remember(team, current, kept, recorded, trace)"
        if self.has_edges:
            self.put("if on_edges:")
            self.put(f"    enough = {call.replace('(team, ', '_edges(team, edge_')}")
            self.put("else:")
            self.put(f"    enough = {call}")
        else:
            self.put(f"enough = {call}")
        self.put("if enough < 0:")
        self.put("    barrier(sync)")  # all have read what blocks left for a reduction
        for name in self.d.scalars:
            self.put(f"    if team.thread == 0: partial_{name}[0] = scalar_{name}")
        self.put(f"    {_SAVE}{self.places}")
        self.put(f"    return {MORE_ROOM}")
        self.put("recorded = enough")
        self.indent -= 1

    def after_record(self) -> None:
        """Nothing: a loop without room for its record has returned."""

    def swap(self) -> None:
        """The frontier that was made is the current one."""
        super().swap()  # type: ignore[misc]
        if self.all_places and not self.in_replay:
            self.put("side = not side")

    def swap_edges(self) -> None:
        """The frontier of edges that was made is the current one."""
        super().swap_edges()  # type: ignore[misc]
        if self.all_places and not self.in_replay:
            self.put("edge_side = not edge_side")

    # ---- variables ------------------------------------------------------------------------

    def finish_places(self) -> list[str]:
        """Write what saves the variables at each place; returns the lines that restore them."""
        if not self.all_places:
            return []
        numbers = [*_NUMBERS, *(f"waits_{i}" for i in range(self.orders))]
        flags = [*_FLAGS, "side", *(f"moved_{name}" for name in self.kernel.copied)]
        sums = ["visited"]
        if self.has_edges:
            numbers += ["edge_made", "edge_remade"]
            flags += ["on_edges", "edge_side"]
        for number in self.saved:
            numbers += [f"step_{number}", f"members_{number}"]
            flags += [f"changed_{number}", f"pulled_{number}"]
            sums += [f"calls_{number}"]
        flags += [f"turned_{number}" for number in self.saved_orders]
        common = [*numbers, *flags]
        assert 1 + len(common) + len(sums) <= SAVED_WORDS
        told = [f"    saves[{i}] = np.int64({name})" for i, name in enumerate(common, 1)]
        added = [
            f"save_sum(team, saves, {i}, np.int64({name}))"
            for i, name in enumerate(sums, 1 + len(common))
        ]
        for i, line in enumerate(self.lines):
            blank, mark, place = line.partition(_SAVE)
            if mark:
                # One by one: to the compiler a tuple of them is a choice among them in each round.
                lines = ["if team.thread == 0:", f"    saves[0] = {place}", *told, *added]
                self.lines[i] = "\n".join(blank + line for line in lines)
        return self._begin_again(numbers, flags, sums)

    def _begin_again(self, numbers: list[str], flags: list[str], sums: list[str]) -> list[str]:
        at = dict(zip([*numbers, *flags, *sums], range(1, SAVED_WORDS), strict=False))
        known = {*_NUMBERS, *_FLAGS, "visited", "on_edges", "edge_made", "edge_remade"}
        lines = [f"{name} = 0" for name in (*numbers, *sums) if self._is_new(name, known)]
        lines += [f"{name} = False" for name in flags if self._is_new(name, known)]
        lines += [f"spent_{number} = cycles() - clock" for number in self.saved]
        lines += ["resuming = saves[0]", "if resuming != 0:"]
        lines += [f"    {name} = saves[{at[name]}]" for name in numbers]
        lines += [f"    {name} = saves[{at[name]}] != 0" for name in flags]
        lines += [f"    {name} = saves[{at[name]}] if team.thread == 0 else 0" for name in sums]
        lines += self._frontiers()
        for name in self.kernel.copied:
            exchange = f"field_{name}, copy_{name} = copy_{name}, field_{name}"
            lines.append(f"    if moved_{name}: {exchange}")
        lines += [f"    scalar_{name} = partial_{name}[0]" for name in self.d.scalars]
        lines.append("    begin_again(team, saves)")
        return lines

    def _is_new(self, name: str, known: set[str]) -> bool:
        return name not in known and not name.startswith(("moved_", "waits_"))

    def _frontiers(self) -> list[str]:
        def words(pool: str, count: str) -> str:
            first = f"{count} % {TURNS} * {INFO_WORDS}"
            return f"{pool}[{first}:{first} + {INFO_WORDS}]"

        lines = [
            "    if side: current, following = following, current",
            f"    current = Frontier(current.queue, current.bits, {words('infos[0]', 'made')})",
        ]
        if self.has_edges:
            info = words("edge_rooms[3]", "edge_made")
            lines += [
                "    if edge_side: edge_current, edge_following = edge_following, edge_current",
                f"    edge_current = EdgeFrontier(edge_current.src, edge_current.edge, {info})",
            ]
        for number, room in self.saved_orders.items():
            info = words(f"{room}[2]", f"waits_{room[8:-1]}")
            mine, later = f"mine_{number}", f"later_{number}"
            lines += [
                f"    {mine} = Frontier({room}[0], spare_bits, {info})",
                f"    {later} = Frontier({room}[1], spare_bits, {info})",
                f"    if turned_{number}:",
                f"        {mine} = Frontier({room}[1], spare_bits, {info})",
                f"        {later} = Frontier({room}[0], spare_bits, {info})",
            ]
        return lines
