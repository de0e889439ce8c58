"""Loops that go on with their own frontier while those of other machines are under way.

A loop of one push whose order does not matter (`RunsAhead.may_run_ahead`) has one handshake a
superstep: with it travel the box of emitted ghosts and what the end of the loop is decided by, how
much waits in frontiers and boxes. Who has told the others, and finds that theirs have not come,
pushes from its own frontier meanwhile (the sub-queue), and then from the vertices that arrived;
else both are one frontier (the full queue). Nobody gets further ahead than that.

    pack the box, raise the flag ── theirs are there ──────────────► unpack, deliver, push
                                 └─ they are late ─► push own, wait, unpack, deliver, push those

Marks say who is in which frontier. What is pushed ahead marks those that it emits; whoever arrives
with this mark waits in the next frontier anyway, and whoever arrives without it loses the mark that
delivering gave it, because it may be emitted again.
"""

from __future__ import annotations

from abc import abstractmethod

from evener.engine.codegen.exchange import Exchanges
from evener.engine.codegen.merges import Texts
from evener.programs.stages import Advance, Repeat


class RunsAhead(Exchanges):
    """A writer of kernels over parts, with loops that run ahead."""

    def may_run_ahead(self, stage: Repeat) -> bool:
        """Whether a frontier may be pushed before what the others tell has come.

        It is then pushed from values that may still get better, and pushed again when they do. So
        nothing may tell supersteps apart or be recorded, and the one thing that is written must be
        such that a worse value is dropped, as where ghosts may be stale. Followers, and a ``where``
        that asks who is done, are only right while all of a frontier are equally good.
        """
        only = stage.stages[0]
        if not self.hub or not self.is_fused(stage) or not isinstance(only, Advance):
            return False
        written = [a for found in self.d.touched(only) for a in found.fields if a.kind != "read"]
        pushes = self.direction != "pull" and only.where is None and not only.over_all
        return pushes and len(written) == 1 and written[0].place == "dst"

    def repeat(self, stage: Repeat) -> None:
        """A loop, which runs ahead if it may."""
        if self.may_run_ahead(stage):
            self.run_ahead(stage)
        else:
            super().repeat(stage)

    def run_ahead(self, stage: Repeat) -> None:
        """The loop, as the head of this file shows it: the inner one is gone through twice if
        others are late."""
        advance = stage.stages[0]
        assert isinstance(advance, Advance)
        stale = self.needs.stale_of[advance]
        told = (stale.leader,)
        texts = Texts(self.d, [*told], [], set())
        pack, unpack = self.function(texts.pack(told)), self.function(texts.unpack(told))
        given = f"({self.arrays([*told])}0), {self.boxes(told)}"
        outer = self.open(stage)
        self.put(f"s = {self.state('weight_out')}")
        self.new_box()
        self.put("while True:")
        self.indent += 1
        self.put("members, calls, pulled, clock = 0, 0, False, cycles()")
        self.fail_for_tests()
        self.talk(
            f"pack_box(team, world, {pack}, {given}, stamp, half)",
            "boxed = hub_boxed(world, world.part, stamp)",
            "late = tell(team, world, turn, current.info[0], boxed)",
        )
        self.put("arrived, told = not late, stamp")
        self.put("while True:")
        self.indent += 1
        self.put("if arrived:")
        self.indent += 1
        self.talk("alone = listen(team, world, turn)")
        self.put("stopped = alone or why_stop(world, turn) != 0")
        self.put("ended = stopped or sum_of(world, turn, 0) == 0")
        self.put("if ended: break")
        self.talk(
            f"unpack_box(team, world, {unpack}, {given}, world.words, "
            "turn * world.parts * APART + 1, told, half)",
            f"deliver(team, world, {self.delivered(stale)}, told, current)",
        )
        self.put("if late: forget(team, marks, current)")
        self.indent -= 1
        self.put("if not (arrived and late):")
        self.indent += 1
        self.new_following()
        self.indent -= 1
        self.put("members += current.info[0]")
        self.push_more(advance)
        self.put("if arrived: break")
        self.empty_current()
        self.put("arrived, told = True, stamp")
        self.indent -= 1
        self.put("turn, half = 1 - turn, 1 - half")
        self.put("if ended: break")
        self.swap()
        self.note()
        self.put(f"{self.step} += 1")
        self.indent -= 1
        self.close(stage, outer)

    @abstractmethod
    def new_box(self) -> None:
        """An empty box, and its mark."""

    @abstractmethod
    def new_following(self) -> None:
        """An empty frontier and box to push to, and their mark."""

    @abstractmethod
    def push_more(self, stage: Advance) -> None:
        """Push from the current frontier to those."""

    @abstractmethod
    def empty_current(self) -> None:
        """An empty frontier for those that arrive, before all parts meet."""
