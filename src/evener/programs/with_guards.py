"""Programs with checks: the same source, with guards at operations that may fail.

Guards (`evener.programs.guards`) check computed indices, divisors, integer addition, subtraction,
multiplication, shifts and negation, and values stored in fields. They are part of the functors, so
every device that runs programs can run checked ones. ``combine`` and ``until`` have no guards,
because they have no vertex at which a fault could be recorded. Functions that functors call, and
the sums of ``gather`` and ``reduce``, are not guarded either.
"""

from __future__ import annotations

import ast
import inspect
import math
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evener.programs import guards
from evener.programs.access import VERTICES, Access, Accesses
from evener.programs.fields import COPY, HIDDEN, Field
from evener.programs.functors import Functor
from evener.programs.kinds import Use
from evener.programs.program import Declaration, Program
from evener.programs.stages import walk
from evener.programs.texts import Rewriter, definition_of, source_of, with_text

FAULTS = f"{HIDDEN}faults"  # the field that records faults
_NAMES = {f"evener_guard_{guard.python.__name__}": guard for guard in guards.GUARDS}
_UNGUARDED = ("combine", "until")  # roles
_ARITHMETIC = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.LShift: "shift",
               ast.Pow: "power"}  # fmt: skip
_DIVISION = {ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
_DIVIDING = (
    divmod, np.divide, np.floor_divide, np.mod, np.fmod, np.divmod, math.fmod, math.remainder,
)  # fmt: skip
_MOST_PLACES = 1 << 18


@dataclass(frozen=True)
class Place:
    """The place of a guard in a program, and the fault that it reports."""

    functor: str
    line: int
    what: str
    along_edge: bool


def with_guards(
    program: type[Program], dtype_of: Callable[[Field], np.dtype]
) -> tuple[type[Program], list[Place]]:
    """Add guards to a program; returns it and their places. A run records faults in `FAULTS`.

    ``dtype_of`` returns the dtype of a field on the graph.
    """
    d = program.declaration
    places: list[Place] = []
    functors = dict(d.functors)
    for name, use in _uses(d).items():
        if use.role not in _UNGUARDED:
            functors[name] = _Guarding(d, functors[name], use, dtype_of, places).guarded()
    fields = {**d.fields, FAULTS: _faults_field()}
    guarded = replace(d, fields=fields, functors=functors, accesses=dict(d.accesses))
    for stage in walk(d.loop):
        for use in stage.uses():
            if functors[use.name] is not d.functors[use.name]:
                key = use.name, use.role
                guarded.accesses[key] = _with_faults(d.accesses[key], use, d.functors[use.name])
    derived: Any = types.new_class(program.__name__, (program,), {"abstract": True})
    derived.declaration = guarded
    return derived, places


def _with_faults(found: Accesses, use: Use, functor: Functor) -> Accesses:
    """The accesses of a functor with guards; any role may write faults, since none reads them."""
    fault = Access(FAULTS, _fault_vertex(use), "max", functor.line)
    offered = found.offered | {"id", "num_vertices"}
    return replace(found, fields=found.fields | {fault}, offered=offered)


def _fault_vertex(use: Use) -> str:
    """The vertex at which faults are recorded; in an advance, the one whose values parts merge."""
    return next(place for place in ("dst", "v", "src") if place in use.arguments)


def _faults_field() -> Field:
    field = Field(np.int64, fill=0, merge="max")
    field.name = FAULTS
    return field


def _uses(d: Declaration) -> dict[str, Use]:
    return {use.name: use for stage in walk(d.loop) for use in stage.uses()}


def describe_faults(
    places: list[Place], faults: np.ndarray, label: Callable[[int], Any]
) -> str | None:
    """A sentence about the faults of a run; None if there were none."""
    at = np.flatnonzero(faults)
    if not len(at):
        return None
    # The greatest number belongs to the first place in the source.
    v = int(at[np.argmax(faults[at] >> guards.OTHER_BITS)])
    number, other = divmod(int(faults[v]), 1 << guards.OTHER_BITS)
    place = places[_MOST_PLACES - number - 1]
    where = f"vertex {label(v)!r}"
    if place.along_edge:
        where = f"the edge from {label(other)!r} to {label(v)!r}"
    more = f" (and faults at {len(at) - 1:,} more vertices)" if len(at) > 1 else ""
    return f"{place.functor}, line {place.line}: {place.what} at {where}{more}."


def _is_within(index: ast.expr, length: int) -> bool:
    """Whether an index is a constant within bounds; a mixed tuple needs a constant index."""
    try:
        value = ast.literal_eval(index)
    except ValueError:
        return False
    return isinstance(value, int) and -length <= value < length


def _assigned_once(definition: ast.FunctionDef) -> dict[str, ast.expr]:
    """The values of local names that are assigned in one place, each by itself."""
    values: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            values.setdefault(node.id, []).append(None)
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            name = getattr(node.targets[0], "id", None)
            if name is not None and len(values[name]) == 1:
                values[name] = [node.value]
    return {name: found[0] for name, found in values.items() if found[0] is not None}


class _Guarding(Rewriter):
    """Adds guards to one functor."""

    def __init__(
        self, d: Declaration, functor: Functor, use: Use,
        dtype_of: Callable[[Field], np.dtype], places: list[Place],
    ):  # fmt: skip
        super().__init__(source_of(functor))
        self.d, self.functor, self.use, self.dtype_of = d, functor, use, dtype_of
        self.places = places
        named = {place: name for name, place in zip(functor.parameters, use.arguments, strict=True)}
        self.state = named["s"]
        at = _fault_vertex(use)
        self.at, self.other = named[at], named.get("src", named[at])
        self.along_edge = "src" in named and "dst" in named
        self.vertices = {named[place] for place in VERTICES if place in named}

    def guarded(self) -> Functor:
        """The functor with its guards."""
        definition = definition_of(self.source.decode())
        for node in ast.walk(definition):
            if isinstance(node, ast.Assign) and getattr(node.value, "id", None) in self.vertices:
                self.vertices |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        self.stands_for = _assigned_once(definition)
        before, text = len(self.places), self.whole(definition)
        if len(self.places) == before:
            return self.functor
        return with_text(self.functor, text, _NAMES)

    def guard(self, name: str, node: Any, what: str, *arguments: str) -> str:
        """A call of a guard."""
        line = self.functor.line + node.lineno - 1
        place = f"{self.d.name}.{self.functor.name}"
        self.places.append(Place(place, line, what, self.along_edge))
        number = f"{_MOST_PLACES - len(self.places)}"  # the first place has the greatest number
        passed = (
            f"{self.state}.{FAULTS}", self.at, number, f"{self.state}.id[{self.other}]", *arguments,
        )  # fmt: skip
        return f"evener_guard_{name}({', '.join(passed)})"

    # ---- guarded nodes --------------------------------------------------------------------

    def changed(self, node: ast.AST) -> str | None:
        """The text of a node with its guard."""
        method = getattr(self, f"_{type(node).__name__}", None)
        return None if method is None else method(node)

    def _BinOp(self, node: ast.BinOp) -> str | None:
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
            return None
        return self._operation(node, node.op, self.text(node.left), node.right)

    def _operation(self, node: Any, op: ast.operator, left: str, right: ast.expr) -> str | None:
        """A guarded operation; None if it needs no guard."""
        name = _ARITHMETIC.get(type(op))
        if name is not None:
            return self.guard(
                name, node, "a number overflows", f"({left})", f"({self.text(right)})"
            )
        sign = _DIVISION.get(type(op))
        if sign is None or (isinstance(right, ast.Constant) and right.value):
            return None
        by = self.guard("divisor", node, "a division by 0", f"({self.text(right)})")
        return f"(({left}) {sign} {by})"

    def _Subscript(self, node: ast.Subscript) -> str | None:
        field = self._field(node.value)
        if field is not None:
            return f"{self.text(node.value)}[{self._index(field, node.slice)}]"
        shape = self._shape(node.value)
        if not shape:
            return None
        what = f"{ast.unparse(node.value)} is indexed out of range"
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        inside = [
            self.text(one) if isinstance(one, ast.Slice) or _is_within(one, length)
            else self.guard("entry", node, what, f"({self.text(one)})", str(length))
            for one, length in zip(indices, shape, strict=False)
        ]  # fmt: skip
        if len(inside) < len(indices):
            return None  # too many indices, which is an error on every device
        return f"{self.text(node.value)}[{', '.join(inside)}]"

    def _Call(self, node: ast.Call) -> str | None:
        field = self._field(node.args[0]) if node.args else None
        if field is None or len(node.args) < 3:
            return self._conversion(node)
        values = [self._stored(field, value) for value in node.args[2:]]
        index = self._index(field, node.args[1])
        arguments = ", ".join([self.text(node.args[0]), index, *values])
        call = f"{self.text(node.func)}({arguments})"
        dtype = self.dtype_of(self.d.fields[field])
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name != "add" or not (dtype.kind == "i" or dtype == np.uint32):
            return call
        limits = np.iinfo(dtype)
        more = values[0], call, str(limits.min), str(limits.max)
        return self.guard("added", node, f"the sum in {field} overflows {dtype}", *more)

    def _UnaryOp(self, node: ast.UnaryOp) -> str | None:
        if not isinstance(node.op, ast.USub) or isinstance(node.operand, ast.Constant):
            return None
        return self.guard("negate", node, "a number overflows", f"({self.text(node.operand)})")

    def _conversion(self, node: ast.Call) -> str | None:
        """A numeric function that may fail: a division, ``abs(x)``, ``int(x)``."""
        found = self._around(node.func)
        divides = len(node.args) == 2 and not node.keywords
        if divides and any(found is one for one in _DIVIDING):
            what, by = "a division by 0", f"({self.text(node.args[1])})"
            divisor = self.guard("divisor", node, what, by)
            return f"{self.text(node.func)}({self.text(node.args[0])}, {divisor})"
        if len(node.args) == 1 and (found is abs or found is np.abs):
            value = f"({self.text(node.args[0])})"
            return self.guard("magnitude", node, "a number overflows", value)
        if len(node.args) != 1 or not (found is int or found is np.int64):
            return None  # narrower ones are often meant to truncate
        limits = np.iinfo(np.int64)
        what = "a value that does not fit int64 is converted to an integer"
        arguments = f"({self.text(node.args[0])})", str(limits.min), str(limits.max)
        return f"{self.text(node.func)}({self.guard('whole', node, what, *arguments)})"

    def _Assign(self, node: ast.Assign) -> str | None:
        target = node.targets[0]
        field = self._field(target.value) if isinstance(target, ast.Subscript) else None
        if field is None or len(node.targets) > 1:
            return None
        return f"{self.text(target)} = {self._stored(field, node.value)}"

    def _AugAssign(self, node: ast.AugAssign) -> str | None:
        target = self.text(node.target)
        found = self._operation(node, node.op, target, node.value)
        if found is None:
            return None
        target_value = getattr(node.target, "value", None)
        field = self._field(target_value) if isinstance(node.target, ast.Subscript) else None
        return f"{target} = {found if field is None else self._fitting(field, node, found)}"

    def _Return(self, node: ast.Return) -> str | None:
        if self.use.role not in ("gather", "reduce") or node.value is None:
            return None
        what = "a NaN is returned"
        return f"return {self.guard('number', node, what, f'({self.text(node.value)})')}"

    # ---- parts of nodes -------------------------------------------------------------------

    def _field(self, node: Any) -> str | None:
        """The field that an expression names."""
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == self.state
            and node.attr in self.d.fields
        ):
            return node.attr
        return None

    def _index(self, field: str, node: ast.expr) -> str:
        if isinstance(node, ast.Name) and node.id in self.vertices:
            return node.id
        what = f"s.{field.replace(COPY, 'before.')} is indexed out of range"
        return self.guard("index", node, what, f"({self.text(node)})", f"{self.state}.num_vertices")

    def _shape(self, node: ast.expr, names: tuple[str, ...] = ()) -> tuple[int, ...]:
        """The lengths of an array or tuple that is a global or in the closure; () for others.

        An indexed array has the remaining lengths. A local name may stand for an array; ``names``
        are the local names already followed.
        """
        if isinstance(node, ast.Subscript):
            taken = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            cut = any(isinstance(one, ast.Slice) for one in taken)
            return () if cut else self._shape(node.value, names)[len(taken) :]
        if not isinstance(node, ast.Name):
            return ()
        if node.id in self.stands_for and node.id not in names:
            return self._shape(self.stands_for[node.id], (*names, node.id))
        value = self._around(node)
        if isinstance(value, tuple):
            return (len(value),)
        return value.shape if isinstance(value, np.ndarray) else ()

    def _around(self, node: ast.expr) -> Any:
        """The object that a name refers to outside the functor; None for other expressions."""
        if isinstance(node, ast.Attribute):
            return getattr(self._around(node.value), node.attr, None)
        around = inspect.getclosurevars(self.functor.function)
        known: dict[str, Any] = {**around.builtins, **around.globals, **around.nonlocals}
        return known.get(node.id) if isinstance(node, ast.Name) else None

    def _stored(self, field: str, node: ast.expr) -> str:
        """The guarded text of a value that is stored in a field."""
        return self._fitting(field, node, f"({self.text(node)})")

    def _fitting(self, field: str, node: Any, text: str) -> str:
        dtype = self.dtype_of(self.d.fields[field])
        if dtype.kind == "b":
            return text
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            what = f"a value that does not fit {dtype} is stored in {field}"
            return self.guard("whole", node, what, text, str(limits.min), str(limits.max))
        what = f"a NaN is stored in {field}"
        if dtype.itemsize == 8:
            return self.guard("number", node, what, text)
        what = f"a NaN, or a value too large for {dtype}, is stored in {field}"
        return self.guard("single", node, what, text, repr(float(np.finfo(dtype).max)))
