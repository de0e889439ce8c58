"""Which stages a kernel may run in one pass, and the small functions that join them."""

from __future__ import annotations

import functools
from typing import Any

from evener.device import compiled
from evener.programs.program import Declaration
from evener.programs.stages import Gather, Reduce, Stage


def taking_dst(f: Any) -> Any:
    """A functor with ``dst`` among its arguments, made from the functor of a gather without."""

    def adapted(src, dst, edge, s):
        return f(src, edge, s)

    return compiled(adapted, allocates=False)


def seen_by_others(d: Declaration, stage: Gather) -> tuple[str, ...]:
    """Fields that the applies of a gather write and that the totals of other vertices read."""
    read = {
        a.field
        for a in d.accesses[stage.functor, "gather"].fields
        if a.place != "dst" or d.fields[a.field].replicated  # an apply may write it anywhere
    }
    written = {a.field for a in d.accesses[stage.apply, "apply"].fields if a.kind != "read"}
    return tuple(name for name in d.fields if name in read & written)


def reductions(d: Declaration, stages: tuple[Stage, ...]) -> list[Reduce]:
    """The first of these stages, if they are reductions that a gather can compute on the way.

    Each goes over all vertices, and reads only its own vertex and no scalar of an earlier one.
    """
    found: list[Reduce] = []
    for stage in stages:
        if not isinstance(stage, Reduce) or not stage.over_all:
            break
        accesses = d.accesses[stage.functor, "reduce"]
        made = {other.into.name for other in found}
        if accesses.singles & made or any(a.place != "v" for a in accesses.fields):
            break
        found.append(stage)
    return found


def helpers(number: int, seen: tuple[str, ...], fused: tuple[Reduce, ...]) -> dict[str, str]:
    """The texts of ``keep``, ``reduce`` and ``store``, functions of a gather over all vertices."""
    keeps = "".join(f"    u.{name}[v] = t.{name}[v]\n" for name in seen)
    sums = "".join(
        f"type_{i}(combine_{stage.op}(own[{i}], f_{stage.functor}(v, u))), "
        for i, stage in enumerate(fused)
    )
    stores = "".join(f"    partials[{i}][chunk] = own[{i}]\n" for i in range(len(fused)))
    return {
        f"keep_{number}": f"def keep(v, t, u):\n{keeps or '    pass'}",
        f"reduce_{number}": f"def reduce(v, u, own):\n    return ({sums}own[{len(fused)}],)",
        f"store_{number}": f"def store(partials, chunk, own):\n{stores or '    pass'}",
    }


def compile_helpers(
    texts: dict[str, str], dtypes: list[Any], names: dict[str, Any]
) -> dict[str, Any]:
    """Compile the functions of texts; they call functions of a kernel by their ``names``."""
    scope = {**names, "__name__": __name__, **{f"type_{i}": t for i, t in enumerate(dtypes)}}
    made = {}
    for name, text in texts.items():
        plain = name.rpartition("_")[0]
        exec(_code(plain, text), scope)
        made[name] = compiled(scope[plain], allocates=False)
    return made


@functools.lru_cache(maxsize=256)
def _code(name: str, text: str) -> Any:
    return compile(text, f"<evener {name}>", "exec")
