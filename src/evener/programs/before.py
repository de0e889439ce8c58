"""``s.before.f``: a field as it was when the superstep began.

Writes are seen at once, by other calls of the same superstep too. A program that must not see them
reads the field through ``s.before``. Such a field gets a copy, a field of its own, and the
superstep of every loop that reads it begins by making that copy: a pass over all vertices. So no
device need know of it.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from evener.errors import ProgramError
from evener.programs.fields import COPY, HIDDEN, Field
from evener.programs.functors import Functor
from evener.programs.kinds import Backwards, Compute, Repeat, Stage
from evener.programs.stages import walk
from evener.programs.texts import Rewriter, definition_of, functor_of, source_of, with_text

if TYPE_CHECKING:
    from evener.programs.program import Declaration


def with_copies(d: Declaration) -> Declaration:
    """A declaration with all that ``s.before`` asks for; the same one if nothing does."""
    states: dict[str, str] = {}  # what each functor calls s
    for stage in walk(d.loop):
        for use in stage.uses():
            functor = d.functors.get(use.name)
            if functor is not None and "s" in use.arguments:
                names = dict(zip(use.arguments, functor.parameters, strict=False))
                states[use.name] = names.get("s", "s")
    read: dict[str, frozenset[str]] = {}
    functors = dict(d.functors)
    for name, state in states.items():
        found = _reading(d, functors[name], state)
        if found is not None:
            functors[name], read[name] = found
    if not read:
        return d
    fields = {
        **d.fields,
        **{COPY + name: _copy(d, name) for name in frozenset().union(*read.values())},
    }
    made = replace(d, fields=fields, functors=functors)
    return replace(made, loop=_Copying(made, read).sequence(d.loop, is_superstep=False))


def _reading(d: Declaration, functor: Functor, state: str) -> tuple[Functor, frozenset[str]] | None:
    """A functor that reads the copies, and of which fields; None if it asks for none."""
    try:
        source = source_of(functor)
    except (OSError, TypeError):
        return None  # what reads its accesses says so
    if f"{state}.before" not in source:
        return None
    rewriter = _Reads(d, functor, source, state)
    text = rewriter.whole(definition_of(source))
    return (with_text(functor, text), frozenset(rewriter.found)) if rewriter.found else None


class _Reads(Rewriter):
    """Writes ``s.evener_before_f`` for ``s.before.f``."""

    def __init__(self, d: Declaration, functor: Functor, source: str, state: str):
        super().__init__(source)
        self.d, self.functor, self.state = d, functor, state
        self.found: set[str] = set()

    def changed(self, node: ast.AST) -> str | None:
        """The text of a field as it was, and a refusal to write there."""
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            name = self._field(node.value)
            if name is not None:
                self._fail(node, f"writes s.before.{name}, which is only read; write s.{name}")
        name = self._field(node)
        if name is None:
            return None
        if name not in self.d.fields:
            known = ", ".join(self.d.fields) or "none"
            self._fail(node, f"s.before.{name} is no field; the program has {known}")
        self.found.add(name)
        return f"{self.state}.{COPY}{name}"

    def _field(self, node: ast.AST) -> str | None:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "before"
            and isinstance(node.value.value, ast.Name)
            and node.value.value.id == self.state
        ):
            return node.attr
        return None

    def _fail(self, node: ast.AST, what: str) -> None:
        line = self.functor.line + getattr(node, "lineno", 1) - 1
        raise ProgramError(f"{self.d.name}.{self.functor.name}, line {line}: {what}.")


def _copy(d: Declaration, name: str) -> Field:
    """The field that holds a copy; only the owner of a vertex writes it."""
    field = Field(d.fields[name].dtype, fill=0, replicated=d.fields[name].replicated)
    field.name = COPY + name
    return field


class _Copying:
    """Puts the making of copies into the loops of a program."""

    def __init__(self, d: Declaration, read: dict[str, frozenset[str]]):
        self.d, self.read = d, read

    def sequence(self, stages: tuple[Stage, ...], *, is_superstep: bool) -> tuple[Stage, ...]:
        """The stages, with copies at the beginning of a superstep, or right before their use."""
        made: list[Stage] = []
        needed: set[str] = set()
        for stage in stages:
            if isinstance(stage, Repeat):
                if stage.order is not None and self._asked([*stage.stages]):
                    raise ProgramError(
                        f"{self.d.name}: s.before cannot be read in a repeat with order=, whose "
                        "supersteps depend on the device."
                    )
                inner = self.sequence(stage.stages, is_superstep=True)
                made.append(replace(stage, stages=inner))
            elif isinstance(stage, Backwards):
                inner = self.sequence(stage.stages, is_superstep=True)
                made.append(replace(stage, stages=inner))
            else:
                asked = self._asked([stage])
                if asked and not is_superstep:
                    made.append(self._keep(asked))
                needed |= asked
                made.append(stage)
        return (self._keep(needed), *made) if needed and is_superstep else tuple(made)

    def _asked(self, stages: list[Stage]) -> set[str]:
        asked: set[str] = set()
        for stage in walk(tuple(stages)):
            for use in stage.uses():
                asked |= self.read.get(use.name, frozenset())
        return asked

    def _keep(self, fields: set[str]) -> Compute:
        """A stage that copies fields."""
        names = sorted(fields)
        name = "_".join([f"{HIDDEN}keep", *names])
        lines = [f"    s.{COPY}{one}[v] = s.{one}[v]\n" for one in names]
        self.d.functors[name] = functor_of(f"def {name}(v, s):\n{''.join(lines)}")
        return Compute(True, name)
