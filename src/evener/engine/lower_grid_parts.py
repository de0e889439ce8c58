"""The kernel of a program for one of several parts on a GPU, each part a grid of its own."""

from __future__ import annotations

from typing import Any, NoReturn

from evener.device import warp
from evener.engine import fusion
from evener.engine.job import Job
from evener.engine.lower import NotLoweredError
from evener.engine.lower_exchange import EXTRA, PLACE, Exchanges, PartsKernel
from evener.engine.lower_grid import _PROLOGUE, SIGNATURE, _GridWriter
from evener.engine.lower_resume import MORE_ROOM
from evener.operators.grid import apart, exchange, frontier, nearest_apart
from evener.programs.stages import Advance, Backwards, Gather, Repeat, Stage, walk

_EXCHANGE = (
    "World", "share_of", "meet", "census", "census_of_arcs", "why_stop", "ask_stop", "least",
    "agree", "broadcast", "mark_members", "spread", "collect", "deliver", "unite", "next_stamp",
    "remember_apart", "note_links", "FULL",
)  # fmt: skip
_ADVANCE = ("arcs_of", "goes_pull_apart", "push_apart", "pull_apart")

BLOCKS = len(PLACE)  # of all parts together: one more word of a part's place
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


class _GridPartsWriter(Exchanges, _GridWriter):
    signature = (*SIGNATURE, *EXTRA)
    bits = 32

    def __init__(
        self, job: Job, direction: str, state: Any, schedule: str, measure: Any, hub: bool
    ):
        super().__init__(job, direction, state, schedule, relabels=True)
        self.plan_exchanges(job, measure, hub)
        self.all_places = 0  # a run whose record is full starts again: no part returns alone
        if self.has_edges:
            self.refuse("has a frontier of edges")
        self.names.update(
            hub_shake=exchange.shake_hands if hub else exchange.stay_here,
            hub_share=exchange.numbers_of, hub_has=frontier.has_bit,
            hub_set=exchange.join, hub_boxed=exchange.box_size, hub_set_boxed=exchange.set_box_size,
        )  # fmt: skip
        self.names.update({name: getattr(exchange, name) for name in _EXCHANGE})
        self.names.update({name: getattr(apart, name) for name in _ADVANCE})
        self.names["nearest_apart"] = nearest_apart.nearest_apart
        self.names["block"] = warp.block

    def prologue(self) -> tuple[str, ...]:
        """What the names in a kernel stand for."""
        place = {name: f"links[0][{i}]" for i, name in enumerate(PLACE)}
        link = {name: f"links[{i}]" for i, name in enumerate(LINKS)}
        world = [place["part"], place["parts"], place["threads"], place["first"]]
        world += [f"share_of({place['first']}, block(), links[0][{BLOCKS}])"]
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
        self.begin(makes=True)
        self.put(f"s = {self.state('weight_out')}")
        self.put(f"t = {self.state('weight_in')}")
        self.put("stamp = next_stamp(team, world, stamp)")
        self.push_or_pull(stage, where, self.source(stage))
        self.count_calls()
        self.swap()

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
        if stage.along == "both" and self.job.graph.directed:
            self.refuse("gathers along both directions")
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

    # ---- loops ----------------------------------------------------------------------------

    def refuse(self, what: str) -> NoReturn:
        """Leave a program to other devices."""
        raise NotLoweredError(
            f"{self.d.name} {what}, which this version does not run on parts of a GPU; use one "
            "device, or parts of the CPU."
        )

    def ordered(self, stage: Repeat) -> None:
        """An ordered loop with a superstep for each bucket."""
        self.refuse("has an order in a loop that tells supersteps apart")

    def backwards(self, stage: Backwards) -> None:
        """A loop over the recorded frontiers."""
        if any(isinstance(inner, Repeat | Backwards) for inner in walk(stage.stages)):
            self.refuse("has a loop within backwards")
        super().backwards(stage)

    def stop_test(self, stage: Repeat | None = None) -> str:
        """A census says it; where none was just made, there is one more."""
        if stage is not None:
            return "why_stop(world, 1 - turn) != 0"
        self.put("turn = 1 - turn")
        return "ask_stop(team, world, 1 - turn)"

    def remember(self) -> None:
        """Keep the frontier, or stop everywhere."""
        self.put("recorded = remember_apart(team, world, current, kept, recorded, trace)")

    def fused(self, stage: Repeat) -> None:
        """An ordered loop as one operator."""
        advance = stage.stages[0]
        assert isinstance(advance, Advance)
        assert stage.order is not None
        where = "always" if advance.where is None else f"f_{advance.where}"
        outer = self.open(stage)
        self.put(f"s = {self.state('weight_out')}")
        self.put("members, clock = current.info[0], cycles()")
        self.put(
            "team, current, following, made, stamp, turn, rounds, done, heard = nearest_apart("
            f"team, world, visit, out, f_{advance.functor}, {where}, s, "
            f"{self.field(stage.order.field.name)}, 1.0 / {self.limit(stage.order.delta)}, "
            "current, following, infos[0], made, marks, stamp, turn, ordered[0], ordered[1], "
            f"ordered[2], ordered[3], pieces, {self.emitted(self.needs.stale_of[advance])})"
        )
        self.put("visited, talked = visited + done, talked + heard")
        self.put("if rounds > 0:")
        self.put("    note_links(team, world, rows, row, talked)")
        self.put("    note(team, trace, row, rounds, members, done, False, clock)")
        self.put("    row, fused = row + 1, fused + rounds - 1")
        self.close(stage, outer)
