"""The texts of functors, and functions of a changed text.

Engines and `evener.programs.access` read what a functor does off its text, so a functor that was
changed must have a text too. It keeps the lines of the one it was made from: what is said of line
12 is found there.
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
    """The text of a functor, as far left as can be; OSError if it cannot be found."""
    return textwrap.dedent(inspect.getsource(functor.function))


def definition_of(source: str) -> ast.FunctionDef:
    """The definition in the text of a functor."""
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return definition


class Rewriter:
    """Changes expressions and statements of a text where they stand, line by line.

    A subclass says in `changed` what becomes of a node; `text` gives a node with all changes in it.
    """

    def __init__(self, source: str):
        self.source = source.encode()  # positions are counted in bytes
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def changed(self, node: ast.AST) -> str | None:
        """The new text of a node; None where it stays, but for what is in it."""
        raise NotImplementedError

    def text(self, node: Any) -> str:
        """The text of a node, with all that changes in it."""
        new = self.changed(node)
        if new is None:
            return self.inside(node)
        first, last = self._span(node)
        lost = self.source[first:last].count(b"\n") - new.count("\n")
        return new if lost <= 0 else f"({new}{' ' + chr(10) * lost})"

    def whole(self, definition: ast.FunctionDef) -> str:
        """The text of a function, with all that changes in its body."""
        at, pieces = 0, []
        for statement in definition.body:
            first, last = self._span(statement)
            pieces += [self.source[at:first].decode(), self.text(statement)]
            at = last
        return "".join([*pieces, self.source[at:].decode()])

    def inside(self, node: Any) -> str:
        """The text of a node as it is, but for the nodes in it."""
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
    """The nodes right below one that have a place in the text; contexts and operators have none."""
    found: list[Any] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            continue
        found += [child] if hasattr(child, "lineno") else _placed_children(child)
    return found


def functor_of(text: str) -> Functor:
    """A functor of a text that was made up."""
    file = f"<evener functor {hash(text) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, file, "exec"), scope)
    return Functor(scope[definition_of(text).name])


def with_text(functor: Functor, text: str, names: dict[str, Any] | None = None) -> Functor:
    """A functor of another text, with the globals and the closure of the old one.

    ``names`` are globals that the text has besides.
    """
    old = functor.function
    free = old.__code__.co_freevars
    definition = definition_of(text)
    # As many lines as the decorators had stand before the definition.
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
    made = scope["outer"](*[None] * len(free))
    cells = dict(zip(free, old.__closure__ or (), strict=True))
    function = types.FunctionType(
        made.__code__, {**old.__globals__, **names} if names else old.__globals__, old.__name__,
        old.__defaults__, tuple(cells[name] for name in made.__code__.co_freevars),
    )  # fmt: skip
    function.__module__, function.__qualname__ = old.__module__, old.__qualname__
    found = Functor(function)
    found.line, found.file = definition.lineno, functor.file  # its text has no decorators
    return found
