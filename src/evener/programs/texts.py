"""The source of functors, and functors with changed source.

The engine and `evener.programs.access` analyse the source of functors, so a changed functor must
have source too. It keeps the line numbers of the original, so that messages name the right line.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import types
from typing import Any

from evener.programs.functors import Functor


def source_of(functor: Functor) -> str:
    """The dedented source of a functor; OSError if it cannot be found."""
    return textwrap.dedent(inspect.getsource(functor.function))


def definition_of(source: str) -> ast.FunctionDef:
    """The function definition in the source of a functor."""
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return definition


class Rewriter:
    """Replaces expressions and statements of a source in place, keeping its lines.

    A subclass returns the new text of a node in `changed`; `text` returns a node with all changes.
    """

    def __init__(self, source: str):
        self.source = source.encode()  # positions of nodes count bytes
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def changed(self, node: ast.AST) -> str | None:
        """The new text of a node; None if only nodes within it may change."""
        raise NotImplementedError

    def text(self, node: Any) -> str:
        """The text of a node with all changes."""
        new = self.changed(node)
        if new is None:
            return self.inside(node)
        first, last = self._span(node)
        lost = self.source[first:last].count(b"\n") - new.count("\n")
        return new if lost <= 0 else f"({new}{' ' + chr(10) * lost})"

    def whole(self, definition: ast.FunctionDef) -> str:
        """The text of a function with all changes in its body."""
        at, pieces = 0, []
        for statement in definition.body:
            first, last = self._span(statement)
            pieces += [self.source[at:first].decode(), self.text(statement)]
            at = last
        return "".join([*pieces, self.source[at:].decode()])

    def inside(self, node: Any) -> str:
        """The text of a node with changes in the nodes within it."""
        at, last = self._span(node)
        pieces = []
        for child in sorted(_placed_children(node), key=lambda one: self._span(one)[0]):
            first, end = self._span(child)
            pieces += [self.source[at:first].decode(), self.text(child)]
            at = end
        return "".join([*pieces, self.source[at:last].decode()])

    def _span(self, node: Any) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )


def _placed_children(node: ast.AST) -> list[Any]:
    """The nearest nodes below one that have a position; contexts and operators have none."""
    found: list[Any] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            continue
        found += [child] if hasattr(child, "lineno") else _placed_children(child)
    return found


def functor_of(text: str) -> Functor:
    """Make a functor from generated source."""
    file = f"<evener functor {hash(text) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, file, "exec"), scope)
    return Functor(scope[definition_of(text).name])


def with_text(functor: Functor, text: str, names: dict[str, Any] | None = None) -> Functor:
    """Make a functor with other source, and the globals and the closure of the old one.

    ``names`` are additional globals.
    """
    old = functor.function
    free = old.__code__.co_freevars
    definition = definition_of(text)
    # The line numbers of the original, whose decorators come before the definition.
    ast.increment_lineno(definition, functor.line - 1)
    definition.decorator_list = []
    outer = ast.FunctionDef(
        "outer", ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, []),
        [definition, ast.Return(ast.Name(definition.name, ast.Load()))], [], None,
    )  # fmt: skip
    module = ast.fix_missing_locations(ast.Module([outer], []))
    file = f"<{old.__module__}.{old.__qualname__} {hash((text, functor.line)) & 0xFFFFFFFF:08x}>"
    lines = ["\n"] * (functor.line - 1) + text.splitlines(keepends=True)
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    scope: dict[str, Any] = {}
    exec(compile(module, file, "exec"), scope)
    compiled = scope["outer"](*[None] * len(free))
    cells = dict(zip(free, old.__closure__ or (), strict=True))
    function = types.FunctionType(
        compiled.__code__, {**old.__globals__, **names} if names else old.__globals__, old.__name__,
        old.__defaults__, tuple(cells[name] for name in compiled.__code__.co_freevars),
    )  # fmt: skip
    function.__module__, function.__qualname__ = old.__module__, old.__qualname__
    new = Functor(function)
    new.line, new.file = definition.lineno, functor.file  # the source has no decorators
    return new
