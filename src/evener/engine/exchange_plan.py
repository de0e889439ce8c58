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

import ast
import functools
import inspect
import textwrap
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from evener.engine.exchange_text import BETTER
from evener.engine.partitioned_exchange import Exchange, Plan
from evener.programs.functors import Functor
from evener.programs.program import Declaration
from evener.programs.stages import Advance, Gather, Stage, walk

ATOMICS = ("min", "max", "add", "cas", "exchange")
RETURNS = {"min": ast.Gt, "max": ast.Lt}  # how the old value compares if the call changed it


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


@functools.lru_cache(maxsize=256)
def says_whether_it_changed(functor: Functor, field: str, merge: str) -> bool:
    """Whether a functor returns True exactly if its one atomic on a field changed the value.

    It may be written ``return atomic.min(s.f, dst, x) > x``, or with ``if`` and ``return True``, in
    which case followers are written inside the ``if``, or by way of a name for the old value.
    """
    definition = ast.parse(textwrap.dedent(inspect.getsource(functor.function))).body[0]
    nodes: list[Any] = list(ast.walk(definition))
    calls = [node for node in nodes if _is_atomic(node, merge, field)]
    if len(calls) != 1 or any(isinstance(node, ast.For | ast.While) for node in nodes):
        return False
    call: Any = calls[0]
    stored = [node.id for node in nodes if _is_name(node, ast.Store)]
    value = [getattr(node, "id", "") for node in ast.walk(call.args[2]) if _is_name(node, ast.Load)]
    old = [
        getattr(node.targets[0], "id", "") for node in nodes
        if isinstance(node, ast.Assign) and node.value is call and _is_name(node.targets[0])
    ]  # fmt: skip
    if any(stored.count(name) > 1 for name in (*value, *old)):
        return False

    def tells(test: Any) -> bool:
        return (
            isinstance(test, ast.Compare)
            and len(test.ops) == 1
            and isinstance(test.ops[0], RETURNS[merge])
            and (test.left is call or getattr(test.left, "id", None) in old)
            and ast.dump(test.comparators[0]) == ast.dump(call.args[2])
        )

    asked = sum(map(tells, nodes))
    if asked == 0 or asked < sum(_is_name(node, ast.Load) and node.id in old for node in nodes):
        return False  # the old value is used in another way too
    inside: set[int] = set()  # what runs only if the value changed
    for node in nodes:
        if isinstance(node, ast.If) and tells(node.test):
            last = node.body[-1]
            if not (isinstance(last, ast.Return) and _is(last.value, True)):
                return False
            inside |= {id(inner) for statement in node.body for inner in ast.walk(statement)}
    for node in nodes:
        if isinstance(node, ast.Return):
            wanted = _is(node.value, True) if id(node) in inside else (
                tells(node.value) or _is(node.value, False)
            )  # fmt: skip
            if not wanted:
                return False
        writes = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        if writes and id(node) not in inside:
            return False
        if id(node) in inside and any(_is_atomic(node, name) for name in ATOMICS):
            return False
    return True


def _is_atomic(node: Any, name: str, field: str | None = None) -> bool:
    """Whether a call is this atomic, on this field of the state."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        and len(node.args) >= 3
        and isinstance(node.args[0], ast.Attribute)
        and field in (None, node.args[0].attr)
    )


def _is_name(node: Any, context: Any = (ast.Load, ast.Store)) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, context)


def _is(node: ast.AST | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
