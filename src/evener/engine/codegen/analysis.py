"""Which exchanges the stages of a program need on compiled parts.

`evener.engine.reference.exchange` says what is broadcast before a stage and reduced after it. Two
rules save exchanges without changing results:

* A field that no functor writes is correct at all ghosts from the start.
* A ghost may be *stale* where a push lowers a ``min`` (or raises a ``max``), returns True exactly
  if it did, and reads nothing else there: the merge drops a value that is no better than the
  owner's, and only owners that change join the frontier. Then nothing is broadcast, and exactly
  the emitted ghosts have changed. Stages that write such a field in other ways refresh the ghosts.
"""

from __future__ import annotations

from evener.engine.codegen.exchange_functions import BETTER
from evener.engine.codegen.old_values import require_known
from evener.engine.codegen.plan import Exchange, Stale
from evener.programs.program import Declaration
from evener.programs.races import says_whether_it_changed
from evener.programs.stages import Advance, Edges, Gather, Stage, walk


def exchanges_of(d: Declaration, stage: Stage, pull: bool) -> Exchange:
    """Derive the exchanges of a stage from the accesses of its functors."""
    far = _far_end(stage, pull)
    touched: dict[str, set[str]] = {}  # kinds of access at the far end, by field
    replicated: set[str] = set()  # replicated fields that are written
    for use in stage.uses():
        for access in d.accesses[use.name, use.role].fields:
            require_known(d, stage, use.name, access, far)
            if d.fields[access.field].replicated:
                if access.kind != "read":
                    replicated.add(access.field)
            elif access.place == far:
                touched.setdefault(access.field, set()).add(access.kind)
    zeroed = {
        name
        for name, kinds in touched.items()
        if kinds == {"add"} and d.fields[name].merge == "sum"
    }
    written = {name for name, kinds in touched.items() if kinds != {"read"}}
    ghosts = _groups(d, written)
    # Followers are sent with their leader, so ghosts need the leader too.
    broadcast = (touched.keys() | {leader for leader, _ in ghosts}) - zeroed
    return Exchange(tuple(sorted(broadcast)), tuple(sorted(zeroed)), ghosts, _groups(d, replicated))


def _groups(d: Declaration, written: set[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    groups: dict[str, list[str]] = {}
    for name in sorted(written):
        leader = d.fields[name].follows
        groups.setdefault(name if leader is None else leader.name, [])
        if leader is not None:
            groups[leader.name].append(name)
    return tuple((leader, tuple(followers)) for leader, followers in groups.items())


def _far_end(stage: Stage, pull: bool) -> str | None:
    """The end of an edge that may be a ghost; None for a stage that sees no edges."""
    if pull:
        return "src"
    if stage.on_edges or isinstance(stage, Advance | Edges):
        return "dst"
    return None


def pulls(d: Declaration, direction: str) -> bool:
    """Whether a stage may run along in-edges, so that the transpose is needed."""
    return any(
        (isinstance(stage, Gather) and stage.along != "out")
        or (
            isinstance(stage, Advance)
            and (direction == "pull" or (direction == "auto" and stage.where is not None))
        )
        for stage in walk(d.loop)
    )


class Needs:
    """The exchanges of each stage of a program."""

    def __init__(self, d: Declaration):
        self.d = d
        accesses = [a for found in d.accesses.values() for a in found.fields]
        self.written = {a.field for a in accesses if a.kind != "read"}
        self.stale_of = {
            stage: found
            for stage in walk(d.loop)
            if isinstance(stage, Advance) and (found := self._stale(stage)) is not None
        }
        self.stale = {found.leader for found in self.stale_of.values()}

    @property
    def may_share(self) -> bool:
        """Whether parts that share memory may work on one copy of the replicated fields.

        They then see each other's writes within a stage, as threads of one device do. A gather
        that writes such a field rules this out: its totals must not see values that are applied,
        and a part can hold back only its own.
        """
        return not any(
            isinstance(stage, Gather) and exchanges_of(self.d, stage, pull=True).replicated
            for stage in walk(self.d.loop)
        )

    def exchange(self, stage: Stage, pull: bool) -> Exchange:
        """What is exchanged before and after a stage."""
        found = exchanges_of(self.d, stage, pull)
        broadcast = tuple(name for name in found.broadcast if name in self.written)
        return found._replace(broadcast=broadcast)

    def refreshed(self, stage: Stage) -> list[str]:
        """Fields with stale ghosts that need new values: a stage may have made the field worse."""
        # A plain write may make a value worse; an atomic that is the merge of the field does not.
        found = {
            a.field
            for accesses in self.d.touched(stage)
            for a in accesses.fields
            if a.field in self.stale and a.kind not in ("read", self.d.fields[a.field].merge)
        }
        return sorted(found)

    def _stale(self, stage: Advance) -> Stale | None:
        found = exchanges_of(self.d, stage, pull=False)
        if stage.emit != "vertices" or len(found.ghosts) != 1 or found.zeroed:
            return None
        ((leader, followers),) = found.ghosts
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
        emits_changed = says_whether_it_changed(self.d.functors[stage.functor], leader, merge)
        return Stale(leader, followers) if emits_changed else None
