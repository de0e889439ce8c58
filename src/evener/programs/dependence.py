"""Dependence analysis: which parts of a function depend on given nodes, by value or control flow.

The analysis is conservative: whatever may depend counts as dependent.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

_JUMPS = (ast.Return, ast.Break, ast.Continue, ast.Raise)


class Dependence:
    """Everything in a function that depends on the nodes for which ``is_source`` holds.

    Examples
    --------
    >>> import ast
    >>> from evener.programs.dependence import Dependence
    >>> text = "def f(x, y):\\n    if x > 0:\\n        y = 1\\n    return y"
    >>> definition = ast.parse(text).body[0]
    >>> found = Dependence(definition, lambda node: getattr(node, "id", "") == "x")
    >>> found.names
    {'y'}
    """

    def __init__(self, definition: ast.FunctionDef, is_source: Callable[[ast.AST], bool]):
        self.is_source = is_source
        self.names: set[str] = set()  # locals that depend on a source
        self.decided: set[int] = set()  # ids of nodes that run depending on a source
        self.loops: set[int] = set()  # ids of loops in which a source may break or continue
        before = None
        while before != (before := (len(self.names), len(self.decided), len(self.loops))):
            self._statements(definition.body, False)

    def of_value(self, expression: ast.AST | None) -> bool:
        """Whether the value of an expression depends on a source."""
        return expression is not None and any(
            self.is_source(node)
            or (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and node.id in self.names
            )
            for node in ast.walk(expression)
        )

    def of_running(self, node: ast.AST) -> bool:
        """Whether a source decides if a node runs."""
        return id(node) in self.decided

    def _statements(self, body: list[ast.stmt], depends: bool) -> bool:
        """Analyse statements; returns whether the code after them depends too."""
        for statement in body:
            if depends:
                self._decide([statement])
            depends = self._statement(statement, depends) or depends
        return depends

    def _statement(self, statement: ast.stmt, depends: bool) -> bool:
        """Analyse one statement; returns whether it decides if the code after it runs."""
        self._expressions(statement)
        if isinstance(statement, _JUMPS):
            return depends
        if isinstance(statement, ast.For):
            if self.of_value(statement.iter):
                self._taint([statement.target])
                depends = True
            return self._loop(statement, depends)
        if isinstance(statement, ast.While):
            return self._loop(statement, depends or self.of_value(statement.test))
        if isinstance(statement, ast.If):
            depends = depends or self.of_value(statement.test)
            one = self._branch(statement.body, depends)
            other = self._branch(statement.orelse, depends)
            return one or other
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if self.of_value(statement.value):
                self._taint(targets)
        after = False
        for _, inner in ast.iter_fields(statement):  # with, try, match: their bodies
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                after = self._branch(inner, depends) or after
        return after

    def _branch(self, body: list[ast.stmt], depends: bool) -> bool:
        """Analyse a conditional block; returns whether it decides if the code after it runs."""
        jumps = depends and any(isinstance(n, _JUMPS) for s in body for n in ast.walk(s))
        if depends:
            self._decide(body)
        behind = self._statements(body, depends)
        return jumps or (behind and not depends)

    def _loop(self, statement: ast.For | ast.While, depends: bool) -> bool:
        depends = depends or id(statement) in self.loops
        leaves = self._branch(statement.body, depends)
        if leaves:
            self.loops.add(id(statement))
        after = self._branch(statement.orelse, leaves)
        returns = any(isinstance(node, ast.Return | ast.Raise) for node in ast.walk(statement))
        return (leaves and returns) or after

    def _expressions(self, statement: ast.stmt) -> None:
        """Analyse conditional parts of expressions, and ``:=``."""
        for node in ast.walk(statement):
            if isinstance(node, ast.BoolOp):
                self._follow(node.values, 1)
            elif isinstance(node, ast.Compare):  # a < b < c evaluates c only if a < b
                self._follow([node.left, *node.comparators], 2)
            elif isinstance(node, ast.IfExp) and self.of_value(node.test):
                self._decide([node.body, node.orelse])
            elif isinstance(node, ast.NamedExpr) and self.of_value(node.value):
                self.names.add(node.target.id)

    def _follow(self, values: list[ast.expr], first: int) -> None:
        """Mark values from index ``first`` on that are evaluated depending on earlier ones."""
        for i in range(first, len(values)):
            if any(map(self.of_value, values[:i])):
                self._decide([values[i]])

    def _decide(self, nodes: Iterable[ast.AST]) -> None:
        """Mark nodes that run depending on a source, and the names that they assign."""
        for outer in nodes:
            for node in ast.walk(outer):
                self.decided.add(id(node))
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self.names.add(node.id)

    def _taint(self, targets: Iterable[ast.AST]) -> None:
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self.names.add(node.id)
