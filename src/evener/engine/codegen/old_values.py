"""Refuses programs on device sets that depend on old values which no part knows.

Each part updates its own copy of a ghost, or of a replicated field, so what an atomic returns there
is the old value of that copy. It may decide whether the vertex joins the frontier, and fields that
follow: those are merged afterwards. Anything else that it decided would differ from one device.
"""

from __future__ import annotations

from evener.errors import ProgramError
from evener.programs.access import Access
from evener.programs.program import Declaration
from evener.programs.races import BEATEN, FRONTIER, MORE, UNUSED, WON
from evener.programs.stages import Advance, Stage

_TRUSTED = {"min": (FRONTIER, WON), "max": (FRONTIER, WON), "cas": (WON,)}


def require_known(
    d: Declaration, stage: Stage, functor: str, access: Access, far: str | None
) -> None:
    """Refuse a functor that depends on an old value which its part cannot know."""
    replicated = d.fields[access.field].replicated
    if access.old == UNUSED or not (access.place == far or replicated):
        return
    what = (
        f"{d.name}.{functor}, line {access.line}: uses what atomic.{access.kind} returns for "
        f"{access.field} of a vertex that another device may own"
    )
    if access.kind == "add":
        raise ProgramError(
            f"{what}, and that device adds to it at the same time; read the sum in a later stage, "
            "or use one device."
        )
    if access.old in _TRUSTED.get(access.kind, ()) and not _by_edge(stage):
        return
    if replicated and access.old == FRONTIER and access.kind == "cas":
        return  # it decides only the field itself, whose copies are merged
    if access.old == BEATEN:
        raise ProgramError(
            f"{what}, but each device sees only its own updates; return True where this call "
            "improved the value, not where another one did, or use one device."
        )
    if access.kind in ("min", "max") and access.old == MORE:
        raise ProgramError(
            f"{what}, but each device sees only its own updates; let it decide only what the "
            f"functor returns and fields with follows={access.field}, or use one device."
        )
    raise ProgramError(
        f"{what}, but each device sees only its own updates; use one device, or atomic.min or "
        "atomic.max with fields that follow."
    )


def _by_edge(stage: Stage) -> bool:
    """Whether a stage keeps edges by what a functor returns: each part would keep its own."""
    if isinstance(stage, Advance):
        return stage.emit == "edges"
    return stage.on_edges
