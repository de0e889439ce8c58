"""Which exchanges the stages of a program need on compiled parts.

`evener.engine.partitioned_exchange` derives from the access sets what is broadcast before a stage
and reduced after it. Here it is made cheap without changing what comes out:

* A field that no functor writes was right at all ghosts from the beginning.
* A ghost may be *stale* where a push lowers a ``min`` (or raises a ``max``), says so by returning
  True, and looks at nothing else there: a value that is no better than the owner's is dropped by
  the merge, and only owners that change join the frontier. Then nothing is broadcast, and exactly
  the emitted ghosts have changed. Stages that write such a field otherwise refresh the ghosts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evener.engine.exchange_text import BETTER
from evener.engine.partitioned_exchange import Exchange, Plan
from evener.programs.program import Declaration
from evener.programs.races import says_whether_it_changed
from evener.programs.stages import Advance, Gather, Stage, walk


class Stale(NamedTuple):
    """A field whose ghosts may be stale in one stage, and those written along with it."""

    leader: str
    followers: tuple[str, ...]


class Needs:
    """The exchanges of each stage of a program."""

    def __init__(self, d: Declaration):
        self.d = d
        self.exchange = Exchange(d, [], np.empty(0), np.empty(0))
        accesses = [a for found in d.accesses.values() for a in found.fields]
        self.written = {a.field for a in accesses if a.kind != "read"}
        # Plain writes may make a value worse, those of atomics that are its merge may not.
        self.raised = {a.field for a in accesses if a.kind not in ("read", d.fields[a.field].merge)}
        self.stale_of = {
            stage: found
            for stage in walk(d.loop)
            if isinstance(stage, Advance) and (found := self._stale(stage)) is not None
        }
        self.stale = {found.leader for found in self.stale_of.values()}

    @property
    def may_share(self) -> bool:
        """Whether parts in one memory may work on one copy of the replicated fields.

        They then see what the others write within a stage, as the threads of one device do. Only
        totals of a gather must not see what is applied, which each part knows only of itself.
        """
        return not any(
            isinstance(stage, Gather) and self.exchange.plan(stage, pull=True).replicated
            for stage in walk(self.d.loop)
        )

    def plan(self, stage: Stage, pull: bool) -> Plan:
        """What is exchanged before and after a stage."""
        plan = self.exchange.plan(stage, pull)
        broadcast = tuple(name for name in plan.broadcast if name in self.written)
        return replace(plan, broadcast=broadcast)

    def refreshed(self, stage: Stage) -> list[str]:
        """Fields that a stage may have made worse, so that their ghosts must follow."""
        found = {
            a.field
            for accesses in self.d.touched(stage)
            for a in accesses.fields
            if a.field in self.stale and a.kind not in ("read", self.d.fields[a.field].merge)
        }
        return sorted(found)

    def _stale(self, stage: Advance) -> Stale | None:
        plan = self.exchange.plan(stage, pull=False)
        if stage.emit != "vertices" or len(plan.ghosts) != 1 or plan.zeroed:
            return None
        ((leader, followers),) = plan.ghosts.items()
        merge = self.d.fields[leader].merge
        if merge not in BETTER or self.d.fields[leader].replicated:
            return None
        seen = {
            (a.field, a.kind)
            for a in self.d.accesses[stage.functor, "f"].fields
            if a.place == "dst" and a.field in self.written
            and not self.d.fields[a.field].replicated
        }  # fmt: skip
        if seen != {(leader, merge), *((name, "write") for name in followers)}:
            return None
        if stage.where is not None and any(
            a.field != leader and a.field in self.written
            for a in self.d.accesses[stage.where, "where"].fields
        ):
            return None
        lowers = says_whether_it_changed(self.d.functors[stage.functor], leader, merge)
        return Stale(leader, followers) if lowers else None
