"""Places where the kernel of a GPU may return for more room, and resume.

If a superstep to be recorded does not fit, the kernel saves its variables and returns. The host
makes room, leaves the rest as it is, and launches the kernel again. That skips what comes before
the place: ``resuming`` is the number of the place until the kernel reaches it, then 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from evener.engine.codegen import plan
from evener.engine.codegen.printer import Printer
from evener.operators.gpu.frontier import INFO_WORDS, TURNS

MORE_ROOM = 1  # returned by a kernel that did not finish; see `evener.operators.gpu.trace.end`
SAVED_WORDS = 256  # room for all variables that a kernel saves

_NUMBERS = ("row", "recorded", "made", "remade", "stamp", "left", "before", "fused", "members")
_FLAGS = ("pulled", "changed")


class ResumePrinter(Printer):
    """Prints the lines that save the variables of a kernel and restore them."""

    @contextmanager
    def guarded(self, guard: plan.Guard) -> Iterator[None]:
        """Skip a stage if the kernel resumes at a place that is not in it."""
        condition = "resuming == 0"
        if guard.first <= guard.last:
            condition += f" or {guard.first} <= resuming <= {guard.last}"
        with self.within(f"if {condition}:"):
            yield

    def swap(self) -> None:
        """Make the next frontier the current one."""
        super().swap()
        if self.plan.places and not self.in_replay:
            self.put("side = not side")

    def swap_edges(self) -> None:
        """Make the next frontier of edges the current one."""
        super().swap_edges()
        if self.plan.places and not self.in_replay:
            self.put("edge_side = not edge_side")

    def remember(self, node: plan.Loop) -> None:
        """Record the frontier for `backwards`, at a place to return from and to resume at."""
        call = "remember(team, current, kept, recorded, trace)"
        with self.within(f"if resuming == 0 or resuming == {node.place}:"):
            self.put("resuming = 0")
            if self.plan.has_edges:
                self.put("if on_edges:")
                self.put(f"    enough = {call.replace('(team, ', '_edges(team, edge_')}")
                self.put("else:", f"    enough = {call}")
            else:
                self.put(f"enough = {call}")
            with self.within("if enough < 0:"):
                self.put("barrier(sync)")  # all have read the partials of the last reduction
                for name in self.d.scalars:
                    self.put(f"if team.thread == 0: partial_{name}[0] = scalar_{name}")
                self.save(node.place)
                self.put(f"return {MORE_ROOM}")
            self.put("recorded = enough")

    def saved(self) -> tuple[list[str], list[str], list[str]]:
        """The variables that are saved: numbers, flags, and sums over the threads."""
        numbers = [*_NUMBERS, *(f"waits_{i}" for i in range(self.plan.orders))]
        flags = [*_FLAGS, "side", *(f"moved_{name}" for name in self.plan.copied)]
        sums = ["visited"]
        if self.plan.has_edges:
            numbers += ["edge_made", "edge_remade"]
            flags += ["on_edges", "edge_side"]
        for number in self.plan.saved:
            numbers += [f"step_{number}", f"members_{number}"]
            flags += [f"changed_{number}", f"pulled_{number}"]
            sums += [f"calls_{number}"]
        flags += [f"turned_{node.number}" for node in self.saved_buckets()]
        assert 1 + len(numbers) + len(flags) + len(sums) <= SAVED_WORDS
        return numbers, flags, sums

    def saved_buckets(self) -> list[plan.Buckets]:
        """Ordered loops around a place."""
        buckets = [node for node in self.plan.nodes() if isinstance(node, plan.Buckets)]
        return [node for node in buckets if node.has_place]

    def save(self, place: int) -> None:
        """Save all variables."""
        numbers, flags, sums = self.saved()
        # One by one: the compiler turns a loop over a tuple of them into a choice in each round.
        self.put("if team.thread == 0:", f"    saves[0] = {place}")
        for i, name in enumerate((*numbers, *flags), 1):
            self.put(f"    saves[{i}] = np.int64({name})")
        for i, name in enumerate(sums, 1 + len(numbers) + len(flags)):
            self.put(f"save_sum(team, saves, {i}, np.int64({name}))")

    def restore(self) -> list[str]:
        """Lines that restore what was saved, if the kernel resumes."""
        numbers, flags, sums = self.saved()
        at = dict(zip([*numbers, *flags, *sums], range(1, SAVED_WORDS), strict=False))
        known = {*_NUMBERS, *_FLAGS, "visited", "on_edges", "edge_made", "edge_remade"}

        def unknown(names: list[str]) -> list[str]:
            return [
                name for name in names
                if name not in known and not name.startswith(("moved_", "waits_"))
            ]  # fmt: skip

        lines = [f"{name} = 0" for name in unknown([*numbers, *sums])]
        lines += [f"{name} = False" for name in unknown(flags)]
        lines += [f"spent_{number} = cycles() - clock" for number in self.plan.saved]
        lines += ["resuming = saves[0]", "if resuming != 0:"]
        lines += [f"    {name} = saves[{at[name]}]" for name in numbers]
        lines += [f"    {name} = saves[{at[name]}] != 0" for name in flags]
        lines += [f"    {name} = saves[{at[name]}] if team.thread == 0 else 0" for name in sums]
        lines += [f"    {line}" for line in self.restore_frontiers()]
        for name in self.plan.copied:
            exchange = f"field_{name}, copy_{name} = copy_{name}, field_{name}"
            lines.append(f"    if moved_{name}: {exchange}")
        lines += [f"    scalar_{name} = partial_{name}[0]" for name in self.d.scalars]
        return [*lines, "    begin_again(team, saves)"]

    def restore_frontiers(self) -> list[str]:
        """Lines that restore the frontiers that the kernel had when it returned."""

        def words(pool: str, count: str) -> str:
            first = f"{count} % {TURNS} * {INFO_WORDS}"
            return f"{pool}[{first}:{first} + {INFO_WORDS}]"

        lines = [
            "if side: current, following = following, current",
            f"current = Frontier(current.queue, current.bits, {words('infos.made', 'made')})",
        ]
        if self.plan.has_edges:
            info = words("edge_fronts.made", "edge_made")
            lines += [
                "if edge_side: edge_current, edge_following = edge_following, edge_current",
                f"edge_current = EdgeFrontier(edge_current.src, edge_current.edge, {info})",
            ]
        for node in self.saved_buckets():
            room = f"waiting[{node.room}]"
            info = words(f"{room}.words", f"waits_{node.room}")
            mine, later = f"mine_{node.number}", f"later_{node.number}"
            one, other = (
                f"Frontier({room}.{name}.queue, spare_bits, {info})" for name in ("mine", "later")
            )
            lines += [
                f"{mine}, {later} = {one}, {other}",
                f"if turned_{node.number}: {mine}, {later} = {later}, {mine}",
            ]
        return lines
