"""``s.before.f``: the values of a field when the superstep began.

Writes are visible at once, also to other calls in the same superstep. A program that must not see
them reads the field through ``s.before``. Such a field gets a copy, which is another field, and
each superstep that reads it begins with a stage that makes the copy: a pass over all vertices. So
devices need no support for it.
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
    """Add the copies that ``s.before`` needs; returns the same declaration if none are needed."""
    states: dict[str, str] = {}  # each functor's name for s
    for stage in walk(d.loop):
        for use in stage.uses():
            functor = d.functors.get(use.name)
            if functor is not None and "s" in use.arguments:
                names = dict(zip(use.arguments, functor.parameters, strict=False))
                states[use.name] = names.get("s", "s")
    read: dict[str, frozenset[str]] = {}
    functors = dict(d.functors)
    for name, state in states.items():
        rewritten = _read_copies(d, functors[name], state)
        if rewritten is not None:
            functors[name], read[name] = rewritten
    if not read:
        return d
    fields = {
        **d.fields,
        **{COPY + name: _copy(d, name) for name in frozenset().union(*read.values())},
    }
    new = replace(d, fields=fields, functors=functors)
    return replace(new, loop=_Copying(new, read).sequence(d.loop, is_superstep=False))


def _read_copies(
    d: Declaration, functor: Functor, state: str
) -> tuple[Functor, frozenset[str]] | None:
    """Make a functor read copies; returns it and the fields copied, None if it reads none."""
    try:
        source = source_of(functor)
    except (OSError, TypeError):
        return None  # the inference of accesses reports this
    if f"{state}.before" not in source:
        return None
    rewriter = _Reads(d, functor, source, state)
    text = rewriter.whole(definition_of(source))
    return (with_text(functor, text), frozenset(rewriter.found)) if rewriter.found else None


class _Reads(Rewriter):
    """Replaces ``s.before.f`` by ``s.evener_before_f``."""

    def __init__(self, d: Declaration, functor: Functor, source: str, state: str):
        super().__init__(source)
        self.d, self.functor, self.state = d, functor, state
        self.found: set[str] = set()

    def changed(self, node: ast.AST) -> str | None:
        """The new text for ``s.before.f``; refuses to write to it."""
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            name = self._field(node.value)
            if name is not None:
                self._fail(node, f"writes s.before.{name}, which is read-only; write s.{name}")
        name = self._field(node)
        if name is None:
            return None
        if name not in self.d.fields:
            known = ", ".join(self.d.fields) or "none"
            self._fail(node, f"s.before.{name} is not a field; the program has {known}")
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
    """The field for a copy; only the owner of a vertex writes it."""
    field = Field(d.fields[name].dtype, fill=0, replicated=d.fields[name].replicated)
    field.name = COPY + name
    return field


class _Copying:
    """Adds the stages that make copies to the loops of a program."""

    def __init__(self, d: Declaration, read: dict[str, frozenset[str]]):
        self.d, self.read = d, read

    def sequence(self, stages: tuple[Stage, ...], *, is_superstep: bool) -> tuple[Stage, ...]:
        """Add copies at the beginning of a superstep or, outside of loops, before their use."""
        new: list[Stage] = []
        needed: set[str] = set()
        for stage in stages:
            if isinstance(stage, Repeat):
                if stage.order is not None and self._fields_read([*stage.stages]):
                    raise ProgramError(
                        f"{self.d.name}: s.before cannot be read in a repeat with order=, whose "
                        "supersteps depend on the device."
                    )
                inner = self.sequence(stage.stages, is_superstep=True)
                new.append(replace(stage, stages=inner))
            elif isinstance(stage, Backwards):
                inner = self.sequence(stage.stages, is_superstep=True)
                new.append(replace(stage, stages=inner))
            else:
                fields = self._fields_read([stage])
                if fields and not is_superstep:
                    new.append(self._copy_stage(fields))
                needed |= fields
                new.append(stage)
        return (self._copy_stage(needed), *new) if needed and is_superstep else tuple(new)

    def _fields_read(self, stages: list[Stage]) -> set[str]:
        """The fields that stages read through ``s.before``."""
        fields: set[str] = set()
        for stage in walk(tuple(stages)):
            for use in stage.uses():
                fields |= self.read.get(use.name, frozenset())
        return fields

    def _copy_stage(self, fields: set[str]) -> Compute:
        """A stage that copies fields."""
        names = sorted(fields)
        name = "_".join([f"{HIDDEN}keep", *names])
        lines = [f"    s.{COPY}{one}[v] = s.{one}[v]\n" for one in names]
        self.d.functors[name] = functor_of(f"def {name}(v, s):\n{''.join(lines)}")
        return Compute(True, name)
