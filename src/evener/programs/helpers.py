"""``s.helper(v)``: a functor that calls another functor of its program.

>>> import evener as ev
>>> class Shares(ev.Program):
...     share = ev.Field("float64")
...     @ev.functor
...     def out(v, s):
...         return s.degree[v]
...     @ev.functor
...     def divide(v, s):
...         s.share[v] = 1 / s.out(v)
...     loop = ev.stages.compute(divide)
>>> class SafeShares(Shares):
...     @ev.functor
...     def out(v, s):
...         return max(s.degree[v], 1)
>>> ev.run(SafeShares, ev.Graph.from_edges([0, 0], [1, 2]), device="python").share.tolist()
[0.5, 1.0, 1.0]

Like the functors of stages, a helper is found by name on the class that runs, so a subclass may
override it. Its body is one ``return`` of an expression, and ``s`` is its last parameter. The
expression is inlined when the class is made, so that devices and the inference of accesses see one
functor without calls. Globals of a helper in another module have their values of that time.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from evener.errors import ProgramError
from evener.programs.fields import HIDDEN
from evener.programs.functors import Functor
from evener.programs.stages import walk
from evener.programs.texts import Rewriter, definition_of, source_of, with_text

if TYPE_CHECKING:
    from evener.programs.program import Declaration


def with_helpers(d: Declaration) -> Declaration:
    """Inline helpers into the functors that call them; the same declaration if there are none."""
    functors = dict(d.functors)
    used = set()
    helpers: set[str] = set()
    for stage in walk(d.loop):
        for use in stage.uses():
            functor = d.functors.get(use.name)
            used.add(use.name)
            if functor is None or functor is not functors[use.name] or "s" not in use.arguments:
                continue
            # Reading source takes time; names of helpers also occur in the bytecode.
            if d.functors.keys() & {*functor.function.__code__.co_names}:
                functors[use.name] = _inlined(d, functor, use.arguments.index("s"), helpers)
    if not helpers:
        return d
    return replace(
        d, functors={name: f for name, f in functors.items() if name in used or name not in helpers}
    )


def _inlined(d: Declaration, functor: Functor, at: int, helpers: set[str]) -> Functor:
    try:
        source = source_of(functor)
    except (OSError, TypeError):
        return functor  # the inference of accesses reports this
    if len(functor.parameters) <= at:
        return functor
    rewriter = _Inlining(d, functor, source, functor.parameters[at])
    text = rewriter.whole(definition_of(source))
    helpers |= rewriter.found
    return with_text(functor, text, rewriter.names or None) if rewriter.found else functor


class _Inlining(Rewriter):
    """Replaces calls of helpers by their expressions."""

    def __init__(self, d: Declaration, functor: Functor, source: str, state: str):
        super().__init__(source)
        self.d, self.functor, self.state = d, functor, state
        self.found: set[str] = set()
        self.line = functor.line  # of the call that is being replaced
        self.names: dict[str, Any] = {}  # globals of helpers that the functor lacks

    def changed(self, node: ast.AST) -> str | None:
        """The expression of a helper if the node calls it."""
        if _helper_of(node, self.state) in self.d.functors:
            assert isinstance(node, ast.Call)
            self.line = self.functor.line + node.lineno - 1
            return f"({ast.unparse(self.expression(node, self.state, ()))})"
        return None

    def expression(self, call: ast.Call, state: str, within: tuple[str, ...]) -> ast.expr:
        """The expression of a call, with helpers that the helper calls inlined too."""
        name = _helper_of(call, state)
        assert name is not None
        if name in within:
            self.fail(f"s.{name} calls itself")
        helper = self.d.functors[name]
        *parameters, own_state = helper.parameters
        if len(call.args) != len(parameters) or call.keywords:
            signature = ", ".join(parameters)
            self.fail(f"s.{name} is called as {ast.unparse(call)}; it is s.{name}({signature})")
        if any(isinstance(part, ast.Call) for one in call.args for part in ast.walk(one)):
            self.fail(f"s.{name} is called with the result of a call; assign that to a name first")
        try:
            statements = definition_of(source_of(helper)).body
        except (OSError, TypeError):
            self.fail(f"the source of s.{name} cannot be found")
        (first, *more) = statements
        if more or not isinstance(first, ast.Return) or first.value is None:
            self.fail(f"s.{name} is called, so its body must be one return of an expression")
        self.found.add(name)
        arguments = dict(zip(parameters, call.args, strict=True))
        return _Expression(self, helper, arguments, own_state, (*within, name)).visit(first.value)

    def named(self, helper: Functor, name: str) -> str:
        """The functor's name for what a helper calls ``name``; the same if it means the same."""
        found = inspect.getclosurevars(helper.function)
        mine = inspect.getclosurevars(self.functor.function)
        local = {*self.functor.function.__code__.co_varnames}
        for scope in ("nonlocals", "globals"):
            values = getattr(found, scope)
            if name in values:
                same = helper.function.__globals__ is self.functor.function.__globals__
                known = scope == "globals" and same and name not in mine.nonlocals
                if scope == "nonlocals":
                    known = name in mine.nonlocals and mine.nonlocals[name] is values[name]
                if known and name not in local:
                    return name
                return self.new_name(helper, name, values[name])
        hidden = name in local or name in mine.nonlocals or name in mine.globals
        if hidden and hasattr(builtins, name):
            return self.new_name(helper, name, getattr(builtins, name))
        return name

    def new_name(self, helper: Functor, name: str, value: Any) -> str:
        """Make a global for a value that has no name in the functor."""
        new = f"{HIDDEN}{helper.name}_{name}"
        self.names[new] = value
        return new

    def fail(self, what: str) -> NoReturn:
        """Raise the error for a call that cannot be inlined, with its place."""
        raise ProgramError(f"{self.d.name}.{self.functor.name}, line {self.line}: {what}.")


class _Expression(ast.NodeTransformer):
    """Rewrites the expression of a helper with the arguments and names of its caller."""

    def __init__(
        self, inlining: _Inlining, helper: Functor, arguments: dict[str, ast.expr], state: str,
        within: tuple[str, ...],
    ):  # fmt: skip
        self.inlining, self.helper, self.arguments = inlining, helper, arguments
        self.state, self.within = state, within

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A call, or the expression of another helper."""
        if _helper_of(node, self.state) not in self.inlining.d.functors:
            return self.generic_visit(node)  # type: ignore[return-value]
        node.args = [self.visit(one) for one in node.args]
        node.func.value.id = self.inlining.state  # type: ignore[attr-defined]
        return self.inlining.expression(node, self.inlining.state, self.within)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The argument for a parameter, or the caller's name for a global."""
        if node.id in self.arguments:
            return copy.deepcopy(self.arguments[node.id])
        own = self.state == node.id
        name = self.inlining.state if own else self.inlining.named(self.helper, node.id)
        return ast.Name(name, node.ctx)


def _helper_of(node: ast.AST, state: str) -> str | None:
    """The name in a call ``s.name(…)``; None for other nodes."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == state
    ):
        return node.func.attr
    return None
