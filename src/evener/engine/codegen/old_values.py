"""What a device set cannot answer: old values at vertices that several parts update at once.

Each part updates its own copy of a vertex that another part owns, a ghost, or of a replicated
field. What an atomic returns there is what that part has seen. It may decide whether the vertex
joins the frontier, and fields that follow: those are merged afterwards. Whatever else it decides
would differ from one device.
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
    """Refuse what depends on more than one part can know when it happens."""
    replicated = d.fields[access.field].replicated
    if access.old == UNUSED or not (access.place == far or replicated):
        return
    what = (
        f"{d.name}.{functor}, line {access.line}: uses what atomic.{access.kind} returns for "
        f"{access.field} of a vertex that another device may own"
    )
    if access.kind == "add":
        raise ProgramError(
            f"{what}, which adds to it at the same time; look at the sum in a later stage, or use "
            "one device."
        )
    if access.old in _TRUSTED.get(access.kind, ()) and not _by_edge(stage):
        return
    if replicated and access.old == FRONTIER and access.kind == "cas":
        return  # what it decides is the field itself, whose copies are merged
    if access.old == BEATEN:
        raise ProgramError(
            f"{what}, and knows only its own offers; it may return True where its own is better, "
            "not where others were, or use one device."
        )
    if access.kind in ("min", "max") and access.old == MORE:
        raise ProgramError(
            f"{what}, and knows only its own offers; it may decide what the functor returns and "
            f"fields with follows={access.field}, or use one device."
        )
    raise ProgramError(
        f"{what}, and knows only its own changes; use one device, or atomic.min or atomic.max with "
        "fields that follow."
    )


def _by_edge(stage: Stage) -> bool:
    """Whether what a functor returns is kept edge by edge: each part would keep some of its own."""
    if isinstance(stage, Advance):
        return stage.emit == "edges"
    return stage.on_edges
