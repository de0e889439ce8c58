"""Functors for parts: a replicated field is indexed by the global index of a vertex of the call."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from typing import Any

from evener.programs.access import VERTICES
from evener.programs.program import Declaration
from evener.programs.stages import walk


def globalized(d: Declaration, name: str) -> Any:
    """The function of a functor with ``s.f[v]`` as ``s.f[s.id[v]]`` for every replicated f."""
    function = d.functors[name].function
    replicated = {field for field, declared in d.fields.items() if declared.replicated}
    uses = [use for stage in walk(d.loop) for use in stage.uses() if use.name == name]
    touches = any(
        access.field in replicated and access.place in VERTICES
        for use in uses
        for access in d.accesses[name, use.role].fields
    )
    if not touches:
        return function
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    places = dict(zip(d.functors[name].parameters, uses[0].arguments, strict=True))
    state = next(parameter for parameter, place in places.items() if place == "s")
    vertices = {parameter for parameter, place in places.items() if place in VERTICES}
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign) and getattr(node.value, "id", None) in vertices:
            vertices |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    rewritten = _Rewriter(state, vertices, replicated).visit(tree)
    ast.increment_lineno(rewritten, d.functors[name].line - 1)
    return _compiled_like(function, definition)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, state: str, vertices: set[str], replicated: set[str]):
        self.state, self.vertices, self.replicated = state, vertices, replicated

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if self._is_replicated(node.value):
            node.slice = self._index(node.slice)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if len(node.args) > 1 and self._is_replicated(node.args[0]):
            node.args[1] = self._index(node.args[1])
        return node

    def _is_replicated(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == self.state
            and node.attr in self.replicated
        )

    def _index(self, index: ast.expr) -> ast.expr:
        if not (isinstance(index, ast.Name) and index.id in self.vertices):
            return index
        ids = ast.Attribute(ast.Name(self.state, ast.Load()), "id", ast.Load())
        found = ast.Subscript(ids, index, ast.Load())
        return ast.fix_missing_locations(ast.copy_location(found, index))


def _compiled_like(function: Any, definition: ast.FunctionDef) -> Any:
    """A function of this text, with the globals and the closure of another."""
    free = function.__code__.co_freevars
    outer = ast.FunctionDef(
        "outer", ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, []),
        [definition, ast.Return(ast.Name(definition.name, ast.Load()))], [], None,
    )  # fmt: skip
    module = ast.fix_missing_locations(ast.Module([outer], []))
    scope: dict[str, Any] = {}
    exec(compile(module, function.__code__.co_filename, "exec"), scope)
    made = scope["outer"](*[None] * len(free))
    cells = dict(zip(free, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in made.__code__.co_freevars)
    return types.FunctionType(
        made.__code__, function.__globals__, function.__name__, function.__defaults__, closure
    )
