"""Others' extensions of Numba: what it compiles instead of a function, method or attribute.

`numba.extending.overload` and the like change the meaning of unchanged code. The extensions of
Numba and Evener are covered by a version or a text in every key of compiled code; all others are
looked up here, by the names under which code reaches them.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, NamedTuple

ANYWHERE = ""  # for what code reaches without a name: operators, conversions
_MAKERS = (type, types.FunctionType)
_OURS = ("numba", "numba_cuda", "evener")


class Extension(NamedTuple):
    """One extension, and the function that makes it if one alone does."""

    template: Any
    maker: Any


def known_extensions() -> dict[Any, list[Extension]]:
    """Extensions by the name of what they extend, for functions also by `id`."""
    templates = sys.modules.get("numba.core.typing.templates")
    if templates is None:
        return {}
    registry = templates.builtin_registry
    return _collect(len(registry.globals), len(registry.attributes))


@functools.lru_cache(maxsize=1)
def _collect(_globals: int, _attributes: int) -> dict[Any, list[Extension]]:
    """All extensions, cached until more are registered, because every run asks."""
    registry = sys.modules["numba.core.typing.templates"].builtin_registry
    extensions: dict[Any, list[Extension]] = {}
    for target, kind in registry.globals:
        for template in getattr(kind, "templates", ()):
            if _is_foreign(template):
                name = getattr(target, "__name__", ANYWHERE)
                is_named = not isinstance(target, type) and _library(target) != "_operator"
                for key in (id(target), name if is_named else ANYWHERE):
                    extensions.setdefault(key, []).append(_extension(template))
    for template in registry.attributes:
        if _is_foreign(template):
            key = getattr(template, "_attr", None) or ANYWHERE
            extensions.setdefault(key, []).append(_extension(template))
    return extensions


def _extension(template: Any) -> Extension:
    return Extension(template, getattr(template, "_overload_func", None))


def _is_foreign(template: Any) -> bool:
    kind = template if isinstance(template, type) else type(template)
    makers: list[Any] = [base for base in kind.__mro__ if _library(base) not in ("abc", "builtins")]
    makers += [getattr(template, "_overload_func", None)]
    generic = vars(kind).get("generic")  # `type_callable` wraps it around a function
    makers += [cell.cell_contents for cell in getattr(generic, "__closure__", None) or ()]
    return any(_library(maker) not in _OURS for maker in makers if isinstance(maker, _MAKERS))


def _library(value: Any) -> str:
    """The library of a class or a function, also of one made from text."""
    scope = getattr(value, "__globals__", {})
    module = getattr(value, "__module__", None) or scope.get("__name__")
    return str(module).partition(".")[0]
