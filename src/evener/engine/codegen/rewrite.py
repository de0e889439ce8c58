"""Functors rewritten for parts: they index replicated fields by global numbers.

If a program accesses only replicated fields at the far end of an edge, neighbour lists may hold
global numbers: then there are no ghosts, and no number has to be looked up in a table.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Collection
from typing import Any

import numpy as np

from evener.device import atomic, serial
from evener.programs.access import VERTICES
from evener.programs.program import Declaration
from evener.programs.stages import Advance, Backwards, Edges, Gather, walk

_WHOLE = "_whole_number"


def far_is_global(d: Declaration) -> bool:
    """Whether the stages of a program need no more than the global number of an edge's ``dst``."""
    stages = list(walk(d.loop))
    if any(
        isinstance(stage, Advance | Gather | Backwards) or getattr(stage, "on_edges", False)
        for stage in stages
    ):
        return False
    seen = [stage.functor for stage in stages if isinstance(stage, Edges)]
    return bool(seen) and all(_needs_only_number(d, name) for name in seen)


def _needs_only_number(d: Declaration, name: str) -> bool:
    """Whether a functor of edges uses ``dst`` only in ``s.id[dst]`` and in replicated fields."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(d.functors[name].function))).body[0]
    _, dst, _, state = d.functors[name].parameters
    whole = {field for field, declared in d.fields.items() if declared.replicated}
    rewriter = _Rewriter(state, set(), whole | {"id"})
    by_number = 0
    for node in ast.walk(definition):
        if isinstance(node, ast.Subscript) and rewriter.is_replicated(node.value):
            by_number += getattr(node.slice, "id", None) == dst
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            by_number += rewriter.is_replicated(node.args[0]) and getattr(
                node.args[1], "id", None
            ) == dst  # fmt: skip
    used = [node for node in ast.walk(definition) if isinstance(node, ast.Name) and node.id == dst]
    return len(used) == by_number


def globalized(d: Declaration, name: str, far_is_global: bool = False) -> Any:
    """The function of a functor, with ``s.f[v]`` as ``s.f[s.id[v]]`` for every replicated f.

    With ``far_is_global`` the ``dst`` of an edge is a global number already.
    """
    function = d.functors[name].function
    replicated = {field for field, declared in d.fields.items() if declared.replicated}
    uses = [use for stage in walk(d.loop) for use in stage.uses() if use.name == name]
    touches = any(
        access.field in replicated and access.place in VERTICES
        for use in uses
        for access in d.accesses[name, use.role].fields
    )
    far = far_is_global and any("dst" in use.arguments for use in uses)
    if not touches and not far:
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
    known = {p for p, place in places.items() if far_is_global and place == "dst"}
    rewritten = _Rewriter(state, vertices - known, replicated, known).visit(tree)
    ast.increment_lineno(rewritten, d.functors[name].line - 1)
    return _compiled_like(function, definition)


def without_atomics(function: Any) -> Any:
    """A function with plain updates, for a thread that alone writes to its vertices."""
    swapped = {k: serial if v is atomic else v for k, v in function.__globals__.items()}
    return types.FunctionType(
        function.__code__, swapped, function.__name__, function.__defaults__, function.__closure__
    )


class _Rewriter(ast.NodeTransformer):
    def __init__(
        self, state: str, vertices: set[str], replicated: set[str], known: Collection[str] = ()
    ):
        self.state, self.vertices, self.replicated = state, vertices, replicated
        self.known = known  # vertices that are global numbers

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if self.is_replicated(node.value):
            node.slice = self._index(node.slice)
        elif getattr(node.slice, "id", None) in self.known:  # s.id[dst]
            whole = ast.Call(ast.Name(_WHOLE, ast.Load()), [node.slice], [])
            return ast.fix_missing_locations(ast.copy_location(whole, node))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if len(node.args) > 1 and self.is_replicated(node.args[0]):
            node.args[1] = self._index(node.args[1])
        return node

    def is_replicated(self, node: ast.AST) -> bool:
        """Whether an expression is a replicated field of the state."""
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
    """A function of this definition, with the globals and the closure of another function."""
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
    names = function.__globals__
    if _WHOLE in made.__code__.co_names:
        names = {**names, _WHOLE: np.int64}  # as `evener.device.tuples.Identity` gives it
    return types.FunctionType(
        made.__code__, names, function.__name__, function.__defaults__, closure
    )
