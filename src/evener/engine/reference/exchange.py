"""What parts send each other before and after a stage, derived from accesses of its functors.

The end of an edge that is *far*, so that it may be a ghost, follows from the direction: ``dst`` of
a push, ``src`` of a pull. Before a stage, owners **broadcast** the fields that it accesses there.
After it, changes at ghosts are **reduced** into the owners by the merges of the fields:

* a field without followers: ``min``, ``max``, ``sum``, or for ``any`` the value that arrived;
* a leader and its followers are sent together. A strictly better leader replaces the owner's and
  resets the followers; with an equal one the followers merge; with a worse one they are dropped.

A ``sum`` is sent as the amount that was added. At a ghost that a stage adds to without reading it,
the slot starts at 0, so that nothing is lost to rounding; otherwise it starts at the broadcast
value, which is subtracted again.

Replicated fields are merged over all parts after every stage that writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evener.engine.codegen import plan
from evener.operators.shared.policies import Refined, require_form, size_of
from evener.programs.fields import neutral
from evener.programs.program import Declaration

Fields = dict[str, np.ndarray]


class Local(int):
    """The local number of a vertex: arithmetic makes it a plain number, indexing does not."""


class Replicated:
    """A field of full length, where a vertex of the call stands for its global index."""

    def __init__(self, values: Any, globals: list[int]):
        self.values, self.globals = values, globals

    def _at(self, index: Any) -> Any:
        return self.globals[index] if isinstance(index, Local) else index

    def __getitem__(self, index: Any) -> Any:
        return self.values[self._at(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[self._at(index)] = value


def differ(one: Any, other: Any) -> Any:
    """Whether values differ; NaN equals NaN."""
    return (one != other) & ((one == one) | (other == other))


@dataclass
class Holding:
    """The arrays of one part: owned vertices first, then ghosts."""

    globals: list[int]
    owned: int
    fields: Fields


class Exchange:
    """The links between all parts."""

    def __init__(
        self, d: Declaration, holdings: list[Holding], part_of: np.ndarray, local_of: np.ndarray,
        policy: Any = Refined,
    ):  # fmt: skip
        self.d, self.holdings, self.part_of, self.local_of = d, holdings, part_of, local_of
        self.policy = policy
        self.values = 0  # sent
        # Bytes received by each part: in the form of the policy, of news alone, of all values.
        self.traffic = np.zeros((len(holdings), 3), np.int64)

    # ---- the exchanges --------------------------------------------------------------------

    def before(self, exchange: plan.Exchange) -> list[Fields]:
        """Broadcast to the ghosts; returns what all slots hold when the stage begins."""
        for name in exchange.broadcast:
            for holding in self.holdings:
                values, news = holding.fields[name], []
                for v in range(holding.owned, len(holding.globals)):
                    index = holding.globals[v]
                    owner = self.holdings[self.part_of[index]]
                    value = owner.fields[name][self.local_of[index]]
                    if differ(values[v], value):  # the others need not be sent
                        news.append(index)
                    values[v] = value
                self.values += len(news)
                self._count(True, holding, news, values.itemsize)
        for name in exchange.zeroed:
            for holding in self.holdings:
                holding.fields[name][holding.owned :] = 0
        slots = {*exchange.broadcast, *exchange.zeroed}
        for groups in (exchange.ghosts, exchange.replicated):
            slots.update(name for leader, rest in groups for name in (leader, *rest))
        return [{name: h.fields[name].copy() for name in slots} for h in self.holdings]

    def after(self, exchange: plan.Exchange, before: list[Fields]) -> None:
        """Reduce what the stage wrote to ghosts into the owners; merge replicated fields."""
        # All messages are made before one is merged, as if parts sent at the same time.
        messages = []
        for holding, old in zip(self.holdings, before, strict=True):
            for leader, followers in exchange.ghosts:
                changed = self._changed(holding.fields, old, leader, followers)
                news = []
                for v in changed[changed >= holding.owned].tolist():
                    sent = self._message(holding.fields, old, v, leader, followers)
                    messages.append((holding.globals[v], leader, followers, sent))
                    news.append(holding.globals[v])
                width = sum(holding.fields[name].itemsize for name in (leader, *followers))
                self._count(False, holding, news, width)
        for index, leader, followers, sent in messages:
            owner = self.holdings[self.part_of[index]].fields
            self._receive(owner, self.local_of[index], leader, followers, sent)
        for leader, followers in exchange.replicated:
            self._merge_replicated(leader, followers, before)

    def _count(self, owners_tell: bool, holding: Holding, news: list[int], width: int) -> None:
        """Count the bytes of one exchange between the ghosts of a part and their owners."""
        k = len(self.holdings)
        me = next(p for p, one in enumerate(self.holdings) if one is holding)
        form_of = self.policy.broadcast if owners_tell else self.policy.reduce
        ghosts = np.bincount(self.part_of[holding.globals[holding.owned :]], minlength=k)
        changed = np.bincount(self.part_of[news], minlength=k)
        for q in np.flatnonzero(ghosts):
            link = int(changed[q]), int(ghosts[q]), self.holdings[q].owned, width
            form = form_of(*link)
            require_form(form)
            sent = size_of.python(form, *link, False)
            whole = (link[2] if owners_tell else link[1]) * width
            self.traffic[me if owners_tell else q] += sent, link[0] * width, whole

    def _changed(
        self, fields: Fields, old: Fields, leader: str, followers: tuple[str, ...]
    ) -> np.ndarray:
        differs = [differ(fields[name], old[name]) for name in (leader, *followers)]
        return np.flatnonzero(np.logical_or.reduce(differs))

    def _message(
        self, fields: Fields, old: Fields, v: int, leader: str, followers: tuple[str, ...]
    ) -> Fields:
        """The message of one vertex: changed values, for a sum the amount added."""
        sent, leads = {}, differ(fields[leader][v], old[leader][v])
        for name in (leader, *followers):
            value, start = fields[name][v], old[name][v]
            if self.d.fields[name].merge == "sum":
                sent[name] = value - start
            elif name == leader or differ(value, start) or leads:
                sent[name] = value
        self.values += len(sent)
        return sent

    def _receive(
        self, into: Fields, v: int, leader: str, followers: tuple[str, ...], sent: Fields
    ) -> None:
        """Merge a message into the slots of a vertex."""
        if not followers:
            into[leader][v] = self._merged(leader, into[leader][v], sent[leader])
            return
        mine = into[leader][v]
        best = self._merged(leader, mine, sent[leader])
        if best != mine:
            into[leader][v] = best
            for name in followers:
                declared = self.d.fields[name]
                if declared.merge is not None:
                    into[name][v] = neutral(declared.merge, into[name].dtype)
        elif sent[leader] != mine:
            return
        for name in followers:
            if name in sent:
                into[name][v] = self._merged(name, into[name][v], sent[name])

    def _merged(self, name: str, mine: Any, theirs: Any) -> Any:
        merge = self.d.fields[name].merge
        if merge == "min":
            return min(mine, theirs)
        if merge == "max":
            return max(mine, theirs)
        return mine + theirs if merge == "sum" else theirs

    def _merge_replicated(
        self, leader: str, followers: tuple[str, ...], before: list[Fields]
    ) -> None:
        """Bring all copies of a replicated field to one value.

        The first change of an element replaces it, because a part may also have raised a minimum on
        purpose; later changes are merged into that.
        """
        old = before[0]
        result = {name: old[name].copy() for name in (leader, *followers)}
        reached: set[int] = set()
        for holding in self.holdings:
            for v in self._changed(holding.fields, old, leader, followers).tolist():
                sent = self._message(holding.fields, old, v, leader, followers)
                if v in reached or followers or self.d.fields[leader].merge == "sum":
                    self._receive(result, v, leader, followers, sent)
                else:
                    result[leader][v] = sent[leader]
                    reached.add(v)
        for holding in self.holdings:
            for name, values in result.items():
                holding.fields[name][:] = values
