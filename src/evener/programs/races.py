"""Mistakes that only show when several threads or devices update one vertex.

A plain write that depends on the value it replaces loses the updates of others. On a device set,
an atomic returns the value that *one* part knows of a vertex that another part owns.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, replace
from typing import Any

from evener.programs.dependence import Dependence
from evener.programs.fields import COPY, Field
from evener.programs.functors import Functor, cached_on_functor

ATOMICS = ("min", "max", "add", "cas", "exchange")
# How the returned old value compares with the offered (or expected) one if the call changed it.
RETURNS = {"min": ast.Gt, "max": ast.Lt, "cas": ast.Eq}

# What the old value returned by an atomic decides: UNUSED: nothing; WON: exactly whether the
# functor returns True; FRONTIER: what the functor returns, its own field and those that follow it;
# BEATEN: that it returns True if offers of others were better; MORE: anything else.
UNUSED, WON, FRONTIER, BEATEN, MORE = "unused", "won", "frontier", "beaten", "more"


@dataclass(frozen=True)
class Touch:
    """An expression that reads or writes a field."""

    node: ast.AST
    field: str
    place: str  # src, dst, v, or the text of another index
    kind: str  # read, write, or the name of an atomic
    values: tuple[ast.expr, ...]  # the index, and the values that are written
    operator: ast.operator | None = None  # in ``s.f[v] += x``


def use_of_old_value(
    functor: Functor,
    definition: ast.FunctionDef,
    call: Touch,
    touches: list[Touch],
    fields: dict[str, Field],
) -> str:
    """What the return value of an atomic decides: WON, FRONTIER, BEATEN or MORE."""
    found = Dependence(definition, lambda node: node is call.node)
    for touch in touches:
        if touch.kind == "read" or touch.node is call.node:
            continue
        by_value = any(map(found.of_value, touch.values))
        if not (by_value or found.of_running(touch.node)):
            continue
        if touch.field == call.field and touch.kind != "write":
            continue
        leader = fields[touch.field].follows
        follows = leader is not None and leader.name == call.field and touch.place == call.place
        if by_value or not follows:
            return MORE
    if call.kind in ("min", "max") and _says_others_came(definition, call, found):
        return BEATEN
    won = call.kind == "cas" and says_whether_it_changed(functor, call.field, "cas")
    return WON if won else FRONTIER


def _says_others_came(definition: ast.FunctionDef, call: Touch, found: Dependence) -> bool:
    """Whether True is returned if the old value is beyond some bound, which others may pass.

    For instance, ``return atomic.max(s.f, dst, x) > 5`` is true once another call has offered 6.
    """
    greater, less = (ast.Gt, ast.GtE), (ast.Lt, ast.LtE)
    beyond, before = (greater, less) if call.kind == "max" else (less, greater)
    for node in ast.walk(definition):
        test: Any = None
        if isinstance(node, ast.Return):
            test = node.value
        elif isinstance(node, ast.If):
            last = node.body[-1]
            test = node.test if isinstance(last, ast.Return) and _is(last.value, True) else None
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            continue
        left, right = found.of_value(test.left), found.of_value(test.comparators[0])
        if left and not right and isinstance(test.ops[0], beyond):
            return True
        if right and not left and isinstance(test.ops[0], before):
            return True
    return False


def lost_update(
    definition: ast.FunctionDef,
    write: Touch,
    touches: list[Touch],
    merge: str | None,
    elsewhere: set[str],
) -> str | None:
    """The atomic that should replace a plain write at a far end if it loses updates; else None.

    Updates are lost if the new value depends on the old one. With a merge by ``min`` or ``max``
    they are also lost if the old value is read and calls write different values, that is, values
    that depend on names in ``elsewhere``. Reading the old value as ``s.before`` is safe only if all
    calls write the same. After a successful exchange or cas no other thread writes to the vertex.
    """
    claims = {
        id(touch.node) for touch in touches
        if touch.kind in ("cas", "exchange") and touch.place == write.place
    }  # fmt: skip
    if _on_nodes(definition, claims).of_running(write.node):
        return None
    new = write.values[-1]
    old = _old_values(definition, write, touches)
    if write.operator is not None or old.of_value(new):
        return _instead(write, merge)
    by_edge = Dependence(definition, lambda node: getattr(node, "id", None) in elsewhere)
    if not by_edge.of_value(new):
        return None
    touches = [replace(touch, field=touch.field.removeprefix(COPY)) for touch in touches]
    old = _old_values(definition, write, touches)
    if old.of_value(new):
        return _instead(write, merge)
    is_read = any(
        touch.kind == "read" and (touch.field, touch.place) == (write.field, write.place)
        for touch in touches
    )
    if merge in ("min", "max") and is_read:
        return (
            f"atomic.{merge}(s.{write.field}, {ast.unparse(write.values[0])}, {ast.unparse(new)})"
        )
    if merge == "any" and _is_best(definition, write, old, by_edge):
        return _instead(write, merge)
    return None


def _on_nodes(definition: ast.FunctionDef, nodes: set[int]) -> Dependence:
    return Dependence(definition, lambda node: id(node) in nodes)


def _old_values(definition: ast.FunctionDef, write: Touch, touches: list[Touch]) -> Dependence:
    """Everything that depends on the value that a write replaces, also through other fields."""
    known = {(write.field, write.place)}
    while True:
        found = _on_nodes(
            definition,
            {
                id(touch.node) for touch in touches
                if touch.kind != "write" and (touch.field, touch.place) in known
            },
        )  # fmt: skip
        carried = {
            (touch.field, touch.place) for touch in touches
            if touch.kind == "write" and found.of_value(touch.values[-1])
        }  # fmt: skip
        if carried <= known:
            return found
        known |= carried


def _is_best(
    definition: ast.FunctionDef, write: Touch, old: Dependence, by_edge: Dependence
) -> bool:
    """Whether a write depends on an order comparison of the new value with the old one."""
    compared = {
        id(node) for node in ast.walk(definition)
        if isinstance(node, ast.Compare)
        and all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
        and old.of_value(node) and by_edge.of_value(node)
    }  # fmt: skip
    return _on_nodes(definition, compared).of_running(write.node)


def _instead(write: Touch, merge: str | None) -> str:
    """The atomic that does what a write intends."""
    at = f"s.{write.field}, {ast.unparse(write.values[0])}"
    value = ast.unparse(write.values[-1])
    if isinstance(write.operator, ast.Add | ast.Sub):
        minus = "-" if isinstance(write.operator, ast.Sub) else ""
        return f"atomic.add({at}, {minus}{value}), and merge='sum'"
    if merge in ("min", "max"):
        return f"atomic.{merge}({at}, …)"
    return "atomic.add, atomic.min or atomic.max, and the merge that goes with it"


@cached_on_functor
def says_whether_it_changed(functor: Functor, field: str, merge: str) -> bool:
    """Whether a functor returns True exactly if its one atomic on a field changed the value.

    Recognised forms are ``return atomic.min(s.f, dst, x) > x``, the same with ``if`` and
    ``return True`` (followers are then written inside the ``if``), and both with a name for the old
    value.
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
        return False  # the old value is also used in another way
    inside: set[int] = set()  # nodes that run only if the value changed
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
