"""The accesses of functors: field × end of the edge × read, write or atomic, inferred from source.

From them the engine derives which values parts exchange. Mistakes that would only show on several
devices are reported when the class is made.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from evener.device import atomic
from evener.errors import ProgramError
from evener.programs.fields import Field
from evener.programs.functors import Functor
from evener.programs.kinds import Use
from evener.programs.races import UNUSED, Touch, lost_update, use_of_old_value
from evener.programs.signatures import wrong_order

VERTICES = ("src", "dst", "v")
PER_VERTEX = ("id", "degree")  # attributes of s besides fields that are indexed by a vertex
SINGLE = ("superstep", "num_vertices", "changed")
OPERATIONS = {getattr(atomic, name): name for name in ("min", "max", "add", "cas", "exchange")}
MERGE_OF = {"min": "min", "max": "max", "add": "sum"}
ONLY_READ = ("where", "where of edges", "until", "gather", "combine", "reduce")  # roles


@dataclass(frozen=True)
class Access:
    """One access of a functor to a field."""

    field: str
    place: str  # src, dst, v, or other for a computed index
    kind: str  # read, write, or the name of an atomic
    line: int
    old: str = UNUSED  # what the return value of an atomic decides


@dataclass(frozen=True)
class Accesses:
    """All accesses of a functor."""

    fields: frozenset[Access]
    offered: frozenset[str]  # those of weight, id, degree, superstep, num_vertices, changed
    singles: frozenset[str]  # parameters and scalars


def infer(
    program: str, functor: Functor, use: Use, fields: dict[str, Field], singles: set[str]
) -> Accesses:
    """Infer the accesses of a functor; ProgramError if it cannot be analysed or is a mistake."""
    return _Reader(program, functor, use, fields, singles).read()


class _Reader(ast.NodeVisitor):
    def __init__(
        self, program: str, functor: Functor, use: Use, fields: dict[str, Field], singles: set[str]
    ):
        self.program, self.functor, self.use = program, functor, use
        self.fields, self.singles = fields, singles
        self.found: set[Access] = set()
        self.offered: set[str] = set()
        self.read_singles: set[str] = set()

    def fail(self, what: str, node: ast.AST | None = None) -> NoReturn:
        line = self.functor.line + (getattr(node, "lineno", 1) - 1 if node is not None else 0)
        raise ProgramError(f"{self.program}.{self.functor.name}, line {line}: {what}.")

    def read(self) -> Accesses:
        self.definition = definition = self._definition()
        names = self.functor.parameters
        wrong = wrong_order(names, self.use)
        if wrong is not None:
            self.fail(wrong)
        self.places = dict(zip(names, self.use.arguments, strict=True))
        self.state = next((n for n, place in self.places.items() if place == "s"), None)
        self._add_aliases(definition)
        self.touches = list(self._find_touches(definition))
        for statement in definition.body:
            self.visit(statement)
        self._refuse_lost_updates()
        if self.use.returns and not _always_returns(definition.body):
            self.fail("may end without returning a value", definition)
        return Accesses(
            frozenset(self.found), frozenset(self.offered), frozenset(self.read_singles)
        )

    def _definition(self) -> ast.FunctionDef:
        try:
            source = textwrap.dedent(inspect.getsource(self.functor.function))
        except (OSError, TypeError):
            self.fail("its source cannot be found; define programs in a file or a notebook cell")
        definition = ast.parse(source).body[0]
        if not isinstance(definition, ast.FunctionDef):
            self.fail("is not a plain function")
        return definition

    def _add_aliases(self, definition: ast.FunctionDef) -> None:
        """Let names that are assigned once, from a vertex, stand for that vertex."""
        sources = {
            id(node.targets[0]): node.value
            for node in ast.walk(definition)
            if isinstance(node, ast.Assign) and len(node.targets) == 1
        }
        self.stands_for: dict[str, ast.expr] = {}  # the values of names that are assigned once
        assigned: dict[str, list[ast.expr | None]] = {}
        for node in ast.walk(definition):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                assigned.setdefault(node.id, []).append(sources.get(id(node)))
        for local, values in assigned.items():
            if local in self.places:
                self.fail(f"assigns to its argument {local}", definition)
            if len(values) == 1 and isinstance(values[0], ast.Name):
                place = self.places.get(values[0].id)
                if place in VERTICES:
                    self.places[local] = place
            if len(values) == 1 and values[0] is not None:
                self.stands_for[local] = values[0]

    def _find_touches(self, definition: ast.FunctionDef) -> Iterator[Touch]:
        """All expressions that read or write a field, with those that decide the value."""
        written: dict[int, tuple[ast.expr, ast.operator | None]] = {}
        for node in ast.walk(definition):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    written |= dict(_assigned(target, node.value))
            elif isinstance(node, ast.AugAssign):
                written[id(node.target)] = node.value, node.op
        for node in ast.walk(definition):
            operation = self._atomic(node.func) if isinstance(node, ast.Call) else None
            if operation is not None and len(node.args) >= 3:  # type: ignore[attr-defined]
                field, index, *values = node.args  # type: ignore[attr-defined]
                kind, operator = operation, None
            elif isinstance(node, ast.Subscript):
                field, index, operator, values = node.value, node.slice, None, []
                kind = "read" if isinstance(node.ctx, ast.Load) else "write"
                if kind == "write" and id(node) in written:
                    value, operator = written[id(node)]
                    values = [value]
            else:
                continue
            if self._is_state_attribute(field) and field.attr in self.fields:
                place = self._place(index)
                yield Touch(node, field.attr, place, kind, (index, *values), operator)

    def _place(self, index: ast.expr) -> str:
        """The vertex of the call that an index (or ``s.id`` of it) names; else the index's text."""
        index = _Expanded(self.stands_for).visit(copy.deepcopy(index))
        if (
            isinstance(index, ast.Subscript)
            and self._is_state_attribute(index.value)
            and index.value.attr == "id"  # type: ignore[attr-defined]
        ):
            index = index.slice
        place = self.places.get(index.id) if isinstance(index, ast.Name) else None
        return place if place in VERTICES else ast.unparse(index)

    def _refuse_lost_updates(self) -> None:
        for touch in self.touches:
            if touch.kind != "write" or touch.place == "v":
                continue
            elsewhere = {
                name for name, place in self.places.items()
                if place in ("src", "dst", "v", "edge", "total") and place != touch.place
            }  # fmt: skip
            field = self.fields[touch.field]
            merge = field.merge if field.follows is None else None
            instead = lost_update(self.definition, touch, self.touches, merge, elsewhere)
            if instead is not None:
                place = f"s.{touch.field}[{ast.unparse(touch.values[0])}]"
                self.fail(
                    f"writes {place} depending on its old value, and loses what others "
                    f"write there at the same time; use {instead}",
                    touch.node,
                )

    # ---- visitors -------------------------------------------------------------------------

    def visit_FunctionDef(self, node: Any) -> None:
        self.fail("defines a function inside", node)

    visit_AsyncFunctionDef = visit_Lambda = visit_ClassDef = visit_FunctionDef

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.visit_Call(node.value, is_used=False)
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call, is_used: bool = True) -> None:
        operation = self._atomic(node.func)
        if operation is None:
            self._refuse_random(node)
            self.generic_visit(node)
            return
        if len(node.args) < 3 or not self._is_state_attribute(node.args[0]):
            self.fail(f"atomic.{operation} takes a field of s, a vertex and a value", node)
        name = node.args[0].attr  # type: ignore[attr-defined]
        old = UNUSED
        if is_used:
            call = next(touch for touch in self.touches if touch.node is node)
            old = use_of_old_value(
                self.functor, self.definition, call, self.touches, self.fields
            )  # fmt: skip
        self._touch(name, node.args[1], operation, node, old)
        self._visit_index(node.args[1])
        for argument in node.args[2:]:
            self.visit(argument)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not self._is_state_attribute(node.value):
            self.generic_visit(node)
            return
        name = node.value.attr  # type: ignore[attr-defined]
        kind = "read" if isinstance(node.ctx, ast.Load) else "write"
        if name == "weight":
            self._touch_weight(node, kind)
            return
        if name in PER_VERTEX:
            if kind == "write":
                self.fail(f"writes to s.{name}", node)
            self.offered.add(name)
        else:
            self._touch(name, node.slice, kind, node)
        self._visit_index(node.slice)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript) and self._is_state_attribute(node.target.value):
            name = node.target.value.attr  # type: ignore[attr-defined]
            self._touch(name, node.target.slice, "read", node)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._is_state_attribute(node):
            self.generic_visit(node)
            return
        name = node.attr
        if not isinstance(node.ctx, ast.Load):
            self.fail(f"assigns to s.{name}", node)
        if name in self.singles:
            self.read_singles.add(name)
        elif name in SINGLE:
            self.offered.add(name)
        elif name in self.fields or name in ("weight", *PER_VERTEX):
            self.fail(f"s.{name} must be indexed", node)
        else:
            self._unknown(name, node)

    def visit_Name(self, node: ast.Name) -> None:
        place = self.places.get(node.id)
        if place == "s":
            self.fail(f"{node.id} can only be used as {node.id}.name", node)
        if place == "edge":
            self.fail(f"{node.id} can only be used as s.weight[{node.id}]", node)
        if place in VERTICES:
            self.fail(
                f"{node.id} is a position in the arrays of a device, which differs between "
                f"devices; the index of the vertex is s.id[{node.id}]",
                node,
            )

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if (
            isinstance(target, ast.Name)
            and self._is_vertex(node.value)
            and target.id in self.places
        ):
            return  # an alias
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        same = all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
        if not (same and all(map(self._is_vertex, [node.left, *node.comparators]))):
            self.generic_visit(node)

    # ---- interpretation -------------------------------------------------------------------

    def _is_vertex(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and self.places.get(node.id) in VERTICES

    def _visit_index(self, index: ast.expr) -> None:
        if not self._is_vertex(index):
            self.visit(index)

    def _is_state_attribute(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and self.state is not None
            and node.value.id == self.state
        )

    def _atomic(self, node: ast.expr) -> str | None:
        """The name of the atomic that an expression calls."""
        try:
            called = _resolve(node, self.functor.function)
        except (KeyError, AttributeError):
            return None
        try:
            return OPERATIONS.get(called)
        except TypeError:  # not hashable, so not an atomic
            return None

    def _refuse_random(self, node: ast.Call) -> None:
        """Refuse random generators with state: each thread and device would have its own."""
        part: ast.expr = node.func
        while True:
            try:
                owner = _resolve(part, self.functor.function)
            except (KeyError, AttributeError):
                owner = None
            if _is_random(owner) or _is_random(getattr(owner, "__self__", None)):
                self.fail(
                    f"draws from {ast.unparse(node.func)}, whose numbers depend on the threads and "
                    "devices of a run; draw them in start into a Field, or compute them from "
                    "s.id and a seed",
                    node,
                )
            if not isinstance(part, ast.Attribute):
                return
            part = part.value

    def _touch_weight(self, node: ast.Subscript, kind: str) -> None:
        index = node.slice
        edge = isinstance(index, ast.Name) and self.places.get(index.id) == "edge"
        if kind == "write" or not edge:
            self.fail("s.weight can only be read, at the edge of the call", node)
        self.offered.add("weight")

    def _touch(
        self, name: str, index: ast.expr, kind: str, node: ast.AST, old: str = UNUSED
    ) -> None:  # fmt: skip
        field = self.fields.get(name)
        if field is None:
            self._unknown(name, node)
        if isinstance(index, ast.Slice | ast.Tuple):
            self.fail(f"s.{name} takes one vertex at a time", node)
        place = self.places.get(index.id, "other") if isinstance(index, ast.Name) else "other"
        if place not in VERTICES:
            place = "other"
            if not field.replicated:
                self.fail(
                    f"s.{name} is indexed by something other than the vertices of the call; "
                    f"declare {name} with replicated=True",
                    node,
                )
        self._check_merge(name, field, place, kind, node)
        line = self.functor.line + getattr(node, "lineno", 1) - 1
        self.found.add(Access(name, place, kind, line, old))

    def _check_merge(self, name: str, field: Field, place: str, kind: str, node: ast.AST) -> None:
        if kind != "read" and self.use.role in ONLY_READ:
            self.fail(f"writes {name}, but a functor used as {self.use.role} may only read", node)
        if kind in MERGE_OF and field.merge is not None and MERGE_OF[kind] != field.merge:
            self.fail(f"atomic.{kind} on {name}, which merges by {field.merge!r}", node)
        far = place == "other" or (place == "dst" and self.use.role == "f") or place == "src"
        if kind != "read" and far and field.merge is None and field.follows is None:
            self.fail(
                f"writes {name} of a vertex that another device may own, but {name} has no merge",
                node,
            )
        if kind not in ("read", "add") and far and field.merge == "sum":
            self.fail(
                f"writes {name} of a vertex that another device may own; since {name} merges by "
                f"'sum', use atomic.add",
                node,
            )

    def _unknown(self, name: str, node: ast.AST) -> NoReturn:
        if name in self.singles or name in SINGLE:
            self.fail(f"s.{name} is one value for all vertices; write s.{name} without [ ]", node)
        known = ", ".join([*self.fields, *sorted(self.singles)]) or "nothing"
        self.fail(f"s.{name} is not declared; the program declares {known}", node)


class _Expanded(ast.NodeTransformer):
    """Replaces names by the values they stand for."""

    def __init__(self, stands_for: dict[str, ast.expr]):
        self.stands_for = stands_for

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name by its value, recursively but not within its own value."""
        value = self.stands_for.get(node.id)
        if value is None:
            return node
        others = {name: one for name, one in self.stands_for.items() if name != node.id}
        return _Expanded(others).visit(copy.deepcopy(value))


def _assigned(
    target: ast.expr, value: ast.expr
) -> Iterator[tuple[int, tuple[ast.expr, ast.operator | None]]]:
    """The value assigned to each part of a target; ``a, b = c, d`` is split."""
    both = (target, value)
    if all(isinstance(one, ast.Tuple | ast.List) for one in both):
        parts, values = target.elts, value.elts  # type: ignore[attr-defined]
        if len(parts) == len(values) and not any(isinstance(n, ast.Starred) for n in parts):
            for part, its in zip(parts, values, strict=True):
                yield from _assigned(part, its)
            return
    for node in ast.walk(target):
        yield id(node), (value, None)


def _resolve(node: ast.expr, function: Any) -> Any:
    """The object that a dotted name refers to in the scope of the function."""
    if isinstance(node, ast.Attribute):
        return getattr(_resolve(node.value, function), node.attr)
    if not isinstance(node, ast.Name):
        raise KeyError
    closure = inspect.getclosurevars(function)
    for scope in (closure.nonlocals, closure.globals, closure.builtins):
        if node.id in scope:
            return scope[node.id]
    raise KeyError


def _is_random(owner: Any) -> bool:
    """Whether this is a module of random numbers or one of their generators."""
    where = owner.__name__ if inspect.ismodule(owner) else type(owner).__module__
    return where == "random" or where.startswith("numpy.random")


def _always_returns(body: list[ast.stmt]) -> bool:
    """Whether every path through the statements ends in a return with a value."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return statement.value is not None
        if (
            isinstance(statement, ast.If)
            and statement.orelse
            and _always_returns(statement.body)
            and _always_returns(statement.orelse)
        ):
            return True
        if (
            isinstance(statement, ast.While)
            and isinstance(statement.test, ast.Constant)
            and statement.test.value
            and not any(isinstance(node, ast.Break) for node in ast.walk(statement))
        ):
            return True
        if isinstance(statement, ast.Raise):
            return True
    return False
