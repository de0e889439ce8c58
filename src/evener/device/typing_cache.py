"""What Numba found out about calls of built-in functions, remembered while a kernel is compiled.

For every ``a + b`` and every ``a[i]`` Numba asks all that could be meant, some twenty templates for
an addition, and asks again for the same types in the next line. The answer follows from the types.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

_found: dict[Any, Any] = {}  # by context, function, types of arguments and options
_RESOLVE = "_resolve_user_function_type"
_contexts: list[Any] = []  # that remember at present
_uncollected: list[bool] = []  # one for each who turned garbage collection off


def nothing() -> None:
    """No options that the answers could depend on."""


@contextlib.contextmanager
def remembering(context: Any, types: Any, options: Callable[[], Any] = nothing) -> Iterator[None]:
    """Let a typing context of Numba, for CPU or GPU, remember what calls return to this thread.

    ``types`` is Numba's module of types. Most answers do not depend on which number is written out
    in a call, and are remembered for all numbers.
    """
    if _RESOLVE in vars(context):  # compiling leads to more compiling, or another thread does it
        yield
        return
    resolve, lookup = getattr(context, _RESOLVE), context._lookup_global
    mine = threading.get_ident()

    def resolve_once(function: Any, args: Any, kws: Any, literals: Any = None) -> Any:
        kind = lookup(function) or function
        if kws or not isinstance(kind, types.Function) or threading.get_ident() != mine:
            return resolve(function, args, kws, literals)
        given = tuple(args)
        if not any(template.prefer_literal for template in kind.templates):
            given = tuple(
                types.unliteral(one) if isinstance(one, types.Literal) else one for one in args
            )
        # More templates for a function make it another one, hence its identity and not its name.
        key = (id(context), id(kind), given, options())
        known = _found.get(key)
        if known is not None:
            return known[0]
        signature = resolve(function, args, kws, literals)
        if signature is not None and (
            given == tuple(args) or not any(isinstance(a, types.Literal) for a in signature.args)
        ):
            _found[key] = (signature, kind)  # which keeps it alive
        return signature

    setattr(context, _RESOLVE, resolve_once)
    _contexts.append(context)
    try:
        yield
    finally:
        vars(context).pop(_RESOLVE, None)
        with contextlib.suppress(ValueError):  # in the child of a fork
            _contexts.remove(context)


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """The compiler makes many objects and few cycles; to look for those takes a tenth longer."""
    was_on = gc.isenabled()
    gc.disable()
    if was_on:
        _uncollected.append(True)
    try:
        yield
    finally:
        if was_on:
            gc.enable()
            del _uncollected[:1]


def _after_fork_in_child() -> None:
    """What other threads would undo when they have compiled: they are not in the child."""
    while _contexts:
        vars(_contexts.pop()).pop(_RESOLVE, None)
    if _uncollected:
        _uncollected.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
