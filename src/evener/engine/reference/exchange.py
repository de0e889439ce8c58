"""What parts tell each other before and after a stage, derived from what its functors touch.

Which end of an edge is *far*, so that it may be a ghost, follows from the direction: ``dst`` of a
push, ``src`` of a pull. Before a stage, owners **broadcast** the fields that it touches there.
After it, what changed at ghosts is **reduced** into the owners by the fields' merges:

* a field without followers: ``min``, ``max``, ``sum``, or for ``any`` the value that arrived;
* a leader and its followers travel together. A strictly better leader replaces the owner's and
  resets the followers; with an equal one the followers merge; with a worse one they do not count.

A ``sum`` travels as what was added. At a ghost that a stage adds to without reading, the slot
starts at 0, so that nothing is lost to rounding; otherwise it starts at the value broadcast, which
is taken off again.

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
    """The local number of a vertex: arithmetic turns it into a plain number, an index does not."""


class Replicated:
    """A field of full length: a vertex of the call is found by its global index."""

    def __init__(self, values: Any, globals: list[int]):
        self.values, self.globals = values, globals

    def _at(self, index: Any) -> Any:
        return self.globals[index] if isinstance(index, Local) else index

    def __getitem__(self, index: Any) -> Any:
        return self.values[self._at(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[self._at(index)] = value


def differ(one: Any, other: Any) -> Any:
    """Whether values differ: what is no number is as it was if it was none before."""
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
        self.values = 0  # how many travelled
        # Bytes that came to each part: in the form that the policy chose, of news alone, of all.
        self.traffic = np.zeros((len(holdings), 3), np.int64)

    # ---- the exchanges --------------------------------------------------------------------

    def before(self, told: plan.Exchange) -> list[Fields]:
        """Broadcast to the ghosts; returns what all slots held when the stage began."""
        for name in told.broadcast:
            for holding in self.holdings:
                values, news = holding.fields[name], []
                for v in range(holding.owned, len(holding.globals)):
                    index = holding.globals[v]
                    owner = self.holdings[self.part_of[index]]
                    value = owner.fields[name][self.local_of[index]]
                    if differ(values[v], value):  # the others need not travel
                        news.append(index)
                    values[v] = value
                self.values += len(news)
                self._count(True, holding, news, values.itemsize)
        for name in told.zeroed:
            for holding in self.holdings:
                holding.fields[name][holding.owned :] = 0
        slots = {*told.broadcast, *told.zeroed}
        for groups in (told.ghosts, told.replicated):
            slots.update(name for leader, rest in groups for name in (leader, *rest))
        return [{name: h.fields[name].copy() for name in slots} for h in self.holdings]

    def after(self, told: plan.Exchange, before: list[Fields]) -> None:
        """Reduce what the stage wrote to ghosts into the owners, and merge replicated fields."""
        # All messages leave before one arrives: owners merge into fields that ghosts do not show.
        messages = []
        for holding, old in zip(self.holdings, before, strict=True):
            for leader, followers in told.ghosts:
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
        for leader, followers in told.replicated:
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
        """What one vertex sends: values, of a sum what was added, of the unchanged nothing."""
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

        The first change of an element replaces it, because a part may also have raised a minimum
        on purpose; the changes of others merge into that.
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
