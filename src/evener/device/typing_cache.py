"""A cache of the types that Numba infers for calls of built-in functions, while it compiles.

For every ``a + b`` and every ``a[i]`` Numba tries all templates, some twenty for an addition, and
again for the same types in the next line. The result follows from the types.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

_known: dict[Any, Any] = {}  # by context, function, types of arguments and options
_RESOLVE = "_resolve_user_function_type"
_contexts: list[Any] = []  # that use the cache now
_uncollected: list[bool] = []  # one per block that turned garbage collection off


def nothing() -> None:
    """No options that results could depend on."""


@contextlib.contextmanager
def remembering(context: Any, types: Any, options: Callable[[], Any] = nothing) -> Iterator[None]:
    """Let a typing context of Numba, for CPU or GPU, cache results for this thread.

    ``types`` is Numba's module of types. Most results do not depend on the value of a literal in a
    call, and are cached for all numbers.
    """
    if _RESOLVE in vars(context):  # nested compilation, or another thread compiles
        yield
        return
    resolve, lookup = getattr(context, _RESOLVE), context._lookup_global
    mine = threading.get_ident()

    def resolve_once(function: Any, args: Any, kws: Any, literals: Any = None) -> Any:
        kind = lookup(function) or function
        if kws or not isinstance(kind, types.Function) or threading.get_ident() != mine:
            return resolve(function, args, kws, literals)
        plain = tuple(args)
        if not any(template.prefer_literal for template in kind.templates):
            plain = tuple(
                types.unliteral(one) if isinstance(one, types.Literal) else one for one in args
            )
        # More templates for a function make another ``kind``, hence its identity, not its name.
        key = (id(context), id(kind), plain, options())
        known = _known.get(key)
        if known is not None:
            return known[0]
        signature = resolve(function, args, kws, literals)
        if signature is not None and (
            plain == tuple(args) or not any(isinstance(a, types.Literal) for a in signature.args)
        ):
            _known[key] = (signature, kind)  # keeps ``kind`` alive
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
    """Compilers make many objects and few cycles: collecting those takes a tenth longer."""
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
    """Undo what other threads undo after compiling: they do not exist in the child."""
    while _contexts:
        vars(_contexts.pop()).pop(_RESOLVE, None)
    if _uncollected:
        _uncollected.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
