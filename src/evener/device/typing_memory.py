"""What Numba found out about calls of built-in functions, remembered while a kernel is compiled.

For every ``a + b`` and every ``a[i]`` Numba asks all that could be meant, some twenty templates for
an addition, and asks again for the same types in the next line. The answer follows from the types.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_found: dict[Any, Any] = {}  # by context, function and types of arguments; all are kept alive


@contextlib.contextmanager
def remembering(context: Any, function_type: type) -> Iterator[None]:
    """Let a typing context of Numba, for CPU or GPU, remember what calls return."""
    if "_resolve_user_function_type" in vars(context):  # compiling leads to more compiling
        yield
        return
    resolve = context._resolve_user_function_type
    lookup = context._lookup_global

    def resolve_once(function: Any, args: Any, kws: Any, literals: Any = None) -> Any:
        kind = lookup(function) or function
        if kws or not isinstance(kind, function_type):
            return resolve(function, args, kws, literals)
        # More templates for a function make it another one, hence its identity and not its name.
        key = (id(context), id(kind), tuple(args))
        known = _found.get(key)
        if known is None:
            signature = resolve(function, args, kws, literals)
            if signature is None:
                return None
            known = _found[key] = (signature, kind)
        return known[0]

    context._resolve_user_function_type = resolve_once
    try:
        yield
    finally:
        del context._resolve_user_function_type
