"""The kernel of the device ``cpu``: one thread leads and calls helpers for large stages.

The text is that of `evener.engine.codegen.print_cpu`, with one change: a *crew* that the leader
musters calls each operator that threads can share (`evener.device.crew`). The text has two halves.
Helpers run the first: they wait for a call, restore the variables that the operator takes, and call
it as well. The leader runs the second, the loop itself.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from evener.device import crew, sync
from evener.engine.codegen import plan
from evener.engine.codegen.passes import Shape, plan_of
from evener.engine.codegen.print_cpu import CpuPrinter, buffered
from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job
from evener.operators.cpu import frontier, nearest

_CALL = re.compile(r"^(?P<to>[^()]* = )?(?P<name>\w+)\(team, (?P<args>.*)\)$")
_SAVE = "@save"

# Variables that a helper makes again, by the line that made them; the leader saves all others.
_REMADE = re.compile(r"^(s|t|u|inverse|replayed|buckets_\d+)$")
_FRONTS = ("current", "following", "x", "y")
_EDGE_FRONTS = ("edge_current", "edge_following", "edge_x", "edge_y")
_FLAGS = ("changed", "on_edges")
_NUMBERS = ("stamp", "left", "before", "recorded", "first", "last", "bucket")


def lower_cpu(job: Job, direction: str, state: Any) -> Kernel:
    """The kernel of a job; DeviceError if only the interpreter runs it."""
    return CpuLedPrinter(job, plan_of(job, direction, Shape()), state).print()


@dataclass
class _Section:
    """One call of an operator that helpers can join."""

    place: int
    lines: list[str]  # those that make the states that the operator takes, and the call
    counts: bool  # whether the operator returns how many functor calls it made

    def reads(self) -> set[str]:
        """The names that the lines read and do not make."""
        names: set[str] = set()
        made: set[str] = set()
        for line in self.lines:
            tree = ast.parse(line)
            found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
            names |= {n.id for n in found if isinstance(n.ctx, ast.Load)} - made
            made |= {n.id for n in found if isinstance(n.ctx, ast.Store)}
        return names


class CpuLedPrinter(CpuPrinter):
    """Prints for a leader and its helpers."""

    def __init__(self, job: Job, kernel_plan: plan.KernelPlan, state: Any):
        super().__init__(job, kernel_plan, state)
        self.sections: list[_Section] = []
        self.last_made: dict[str, str] = {}  # by variable, the last line that made it
        self.slots: dict[str, int] = {}  # by variable, the word in which the leader saves it
        self.names.update(
            worth=crew.worth, muster=crew.muster, dismiss=crew.dismiss, join_call=crew.join,
            leave=crew.leave, end=crew.end, GRAIN=sync.GRAIN, CANCEL=sync.CANCEL, load=sync.load,
            arcs_of=frontier.arcs_of, arcs_to_advance=frontier.arcs_to_advance,
            one_of=frontier.one_of, spread=nearest.spread,
            relax=nearest.relax, nearest_bucket=nearest.nearest_bucket,
            waiting_in=nearest.waiting_in, NONE=nearest.NONE, FULL=nearest.FULL,
        )  # fmt: skip

    def prologue(self) -> tuple[str, ...]:
        """Lines that name the arguments of a kernel and set its variables."""
        # Alone, the leader is a team of one.
        alone = "team = Team(thread, 1, sync, buffers[thread])"
        more = (alone, "most, hands = max(2, threads) * sync[GRAIN], 1", "saved = sync[SAVED:]")
        self.names["SAVED"] = sync.SAVED
        return (*super().prologue(), *more)

    # ---- lines ----------------------------------------------------------------------------

    def put(self, *lines: str) -> None:
        """Add lines; remembers how variables are made, and lets a ``return`` end the team."""
        for line in lines:
            made, _, _ = line.partition(" = ")
            if _REMADE.match(made) or made.startswith(("mine_", "later_")):
                self.last_made[made] = line
            super().put(line.replace("return ", "return end(sync, ") + ")" * ("return " in line))

    def operate(self, call: str, work: str) -> None:
        """Call an operator with a crew of as many threads as the work is worth."""
        found = _CALL.match(call)
        assert found is not None
        to = found["to"] or ""
        call = f"{to}{found['name']}(crew, {found['args']})"
        made = [self.last_made[one] for one in _remade(call) if one in self.last_made]
        made += [self.last_made[one] for line in made for one in _remade(line.partition(" = ")[2])]
        section = _Section(len(self.sections) + 1, [*dict.fromkeys(made), call], "made" in to)
        self.sections.append(section)
        dismiss = "made += dismiss(sync, hands)" if section.counts else "dismiss(sync, hands)"
        super().put(
            f"work = {work}",
            "hands = worth(sync, threads, work)",
            "if hands > 1:",
            f"    {_SAVE}{section.place}",
            f"    hands = muster(sync, {section.place}, hands, work)",
            "crew = Team(0, hands, sync, buffers[0])",
            call,
            f"if hands > 1: {dismiss}",
        )

    def stop_test(self, node: plan.AnyLoop | None = None) -> str:
        """The test whether to stop."""
        return "load(sync, CANCEL) != 0"

    def replay_in_place(self) -> None:
        """Let stages read the record itself."""
        self.put(f"first, last = kept.bounds[{self.step}], kept.bounds[{self.step} + 1]")
        self.put("replayed = Frontier(kept.queue[first:last], spare_bits, replay_info)")
        self.put("replay_info[SIZE], replay_info[FORM], replay_info[EDGES] = last - first, 0, 0")

    def note(self) -> None:
        """Write the row of a superstep, and report progress."""
        super().note()
        self.put("show(sync, 0, row + fused, members, calls)")

    def print_fused_buckets(self, node: plan.FusedBuckets) -> None:
        """An ordered loop whose buckets may fuse."""
        stage, order = node.advance, node.stage.order
        assert order is not None
        field = f"field_{order.field.name}"
        outer = self.open(node)
        self.put(f"s = {self.state('weight_out')}")
        self.put("members, clock, rounds, total = current.info[SIZE], cycles(), 0, 0")
        self.put(f"inverse = 1.0 / {self.number_of(order.delta)}")
        spread = f"spread(team, current, {field}, inverse, ordered.words, ordered.pools)"
        self.operate(spread, "current.info[SIZE]")
        with self.within("while ordered.words[FULL] == 0 and load(sync, CANCEL) == 0:"):
            self.put("bucket = nearest_bucket(ordered.pools, ordered.words)")
            self.put("if bucket == NONE: break")
            self.put("near = waiting_in(ordered.pools, bucket, most)")
            self.operate(
                f"made = relax(team, out, f_{stage.functor}, {self.where(stage)}, s, {field}, "
                "inverse, bucket, ordered.words, ordered.bucket, ordered.pools)",
                "near * (1 + num_arcs // num_vertices)",
            )
            self.put("total, rounds = total + made, rounds + 1")
            self.put("show(sync, 0, row + fused + rounds, near, made)")
        self.put("if ordered.words[FULL] != 0: return True")
        self.put("empty(team, current)")
        self.put("visited += total")
        self.put("if rounds > 0:")
        self.note_fused("total")
        self.close(node, outer)

    # ---- helpers --------------------------------------------------------------------------

    def before_stages(self) -> list[str]:
        """The half of the text that helpers run; adds to the other half what the leader saves."""
        lines = ["if thread > 0:", "    front_1, front_2, front_3 = current, following, spare"]
        lines += ["    while True:", "        place, hand, hands = join_call(sync)"]
        lines += ["        if place == 0: return False"]
        lines += ["        crew, made = Team(hand, hands, sync, buffers[hand]), 0"]
        saves = {}
        for section in self.sections:
            saves[section.place], restores = self.passed_on(section)
            head = "if" if section.place == 1 else "elif"
            lines.append(f"        {head} place == {section.place}:")
            lines += [" " * 12 + line for line in (*restores, *section.lines)]
        lines.append("        leave(sync, made)")
        for i, line in enumerate(self.lines):
            blank, mark, place = line.partition(_SAVE)
            if mark:
                self.lines[i] = "\n".join(blank + one for one in saves[int(place)] or ["pass"])
        return lines if self.sections else ["if thread > 0: return False"]

    def passed_on(self, section: _Section) -> tuple[list[str], list[str]]:
        """Lines with which the leader saves what a section reads, and helpers restore it."""
        saves, restores = [], []
        for name in sorted(section.reads()):
            save, restore = self.variable(name)
            saves += save
            restores += restore
        return list(dict.fromkeys(saves)), list(dict.fromkeys(restores))

    def variable(self, name: str) -> tuple[list[str], list[str]]:
        """Lines that save and restore a variable; none if helpers have it."""
        kind, _, rest = name.partition("_")
        if name in _FRONTS:
            return self.front(name, ["front_1", "front_2", "front_3"])
        if name in _EDGE_FRONTS:
            rooms = [buffered(room, "hand") for room in ("current", "following", "spare")]
            return self.front(name, rooms)
        if kind in ("mine", "later"):
            return self.waiting(f"mine_{rest}", f"later_{rest}")
        if kind == "scalar":
            return [f"partial_{rest}[-1] = {name}"], [f"{name} = partial_{rest}[-1]"]
        if kind in ("field", "copy") and rest in self.plan.copied:
            return self.copied(rest)
        if name in _FLAGS or kind == "moved":
            return [f"{self.slot(name)} = {name}"], [f"{name} = {self.slot(name)} != 0"]
        if name in _NUMBERS or kind == "step":
            return [f"{self.slot(name)} = {name}"], [f"{name} = {self.slot(name)}"]
        return [], []

    def front(self, name: str, rooms: list[str]) -> tuple[list[str], list[str]]:
        """Save a frontier as its number."""
        word = self.slot(name)
        return [f"{word} = {name}.info[NUMBER]"], [f"{name} = one_of({word}, {', '.join(rooms)})"]

    def waiting(self, mine: str, later: str) -> tuple[list[str], list[str]]:
        """Save two frontiers that are swapped, as the number of the first."""
        word = self.slot(mine)
        remade = [self.last_made[mine], self.last_made[later]]
        turned = f"if {word} == 2: {mine}, {later} = {later}, {mine}"
        return [f"{word} = {mine}.info[NUMBER]"], [*remade, turned]

    def copied(self, field: str) -> tuple[list[str], list[str]]:
        """Save whether a field and its second copy are swapped."""
        word, pair = self.slot(f"moved_{field}"), f"field_{field}, copy_{field}"
        one, other = f"fields.{field}", f"copies.{field}"
        turned = f"if {word}: {pair} = {other}, {one}"
        return [f"{word} = moved_{field}"], [f"{pair} = {one}, {other}", turned]

    def slot(self, name: str) -> str:
        """The word in which a variable is saved."""
        number = self.slots.setdefault(name, len(self.slots))
        assert number < sync.SAVED_WORDS
        return f"saved[{number}]"


def _remade(text: str) -> list[str]:
    """The variables of a text that helpers make again."""
    found = [node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    return sorted({name for name in found if _REMADE.match(name)})
