"""What others tell Numba to compile instead of a function, a method or an attribute.

`numba.extending.overload` and its kin change what a text means that does not change itself. What
Numba and Evener extend comes with a version or a text that is in every key of compiled code; all
else is looked up here, by the names under which code reaches it.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, NamedTuple

ANYWHERE = ""  # the name of what code reaches without one: operators, conversions
_MAKERS = (type, types.FunctionType)
_OURS = ("numba", "numba_cuda", "evener")


class Extension(NamedTuple):
    """One thing that Numba was told: by which function, unless no function says it all."""

    template: Any
    maker: Any


def known_extensions() -> dict[Any, list[Extension]]:
    """Extensions by the name of what they extend, those of functions also by its `id`."""
    templates = sys.modules.get("numba.core.typing.templates")
    if templates is None:
        return {}
    registry = templates.builtin_registry
    return _found(len(registry.globals), len(registry.attributes))


@functools.lru_cache(maxsize=1)
def _found(_globals: int, _attributes: int) -> dict[Any, list[Extension]]:
    """All there are while so many are registered; looked for once, because every run asks."""
    registry = sys.modules["numba.core.typing.templates"].builtin_registry
    found: dict[Any, list[Extension]] = {}
    for target, kind in registry.globals:
        for template in getattr(kind, "templates", ()):
            if _is_foreign(template):
                name = getattr(target, "__name__", ANYWHERE)
                is_named = not isinstance(target, type) and _library(target) != "_operator"
                for key in (id(target), name if is_named else ANYWHERE):
                    found.setdefault(key, []).append(_extension(template))
    for template in registry.attributes:
        if _is_foreign(template):
            key = getattr(template, "_attr", None) or ANYWHERE
            found.setdefault(key, []).append(_extension(template))
    return found


def _extension(template: Any) -> Extension:
    return Extension(template, getattr(template, "_overload_func", None))


def _is_foreign(template: Any) -> bool:
    kind = template if isinstance(template, type) else type(template)
    makers: list[Any] = [base for base in kind.__mro__ if _library(base) not in ("abc", "builtins")]
    makers += [getattr(template, "_overload_func", None)]
    generic = vars(kind).get("generic")  # `type_callable` makes it, around the function it is given
    makers += [cell.cell_contents for cell in getattr(generic, "__closure__", None) or ()]
    return any(_library(maker) not in _OURS for maker in makers if isinstance(maker, _MAKERS))


def _library(value: Any) -> str:
    """The library of a function, also of one made from a text, or of a class."""
    scope = getattr(value, "__globals__", {})
    module = getattr(value, "__module__", None) or scope.get("__name__")
    return str(module).partition(".")[0]
