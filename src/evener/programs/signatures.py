"""Checks of a functor's argument names: a known name must be at the place it has in a stage."""

from __future__ import annotations

from evener.programs.kinds import Use

_VERTICES = ("src", "dst", "v")


def wrong_order(names: tuple[str, ...], use: Use) -> str | None:
    """Describe what is wrong with the arguments of a functor; None if they are correct.

    Users may choose names. The names that stages use (``src``, ``dst``, ``v``, ``edge``, ``total``,
    ``s``) must have the meaning they have there.

    Examples
    --------
    >>> from evener.programs.kinds import Use
    >>> from evener.programs.signatures import wrong_order
    >>> use = Use("widen", ("src", "dst", "edge", "s"), True)
    >>> wrong_order(("u", "v", "e", "s"), use)
    >>> wrong_order(("dst", "src", "edge", "s"), use)
    'takes (dst, src, edge, s); as f it needs (src, dst, edge, s), in this order'
    """
    wanted = ", ".join(use.arguments)
    if names and names[0] in ("self", "cls"):
        return (
            f"takes {names[0]}, but functors are not methods; as {use.role} it needs ({wanted})"
        )  # fmt: skip
    if len(names) != len(use.arguments):
        return f"takes {len(names)} arguments; as {use.role} it needs ({wanted})"
    if all(_fits(name, place) for name, place in zip(names, use.arguments, strict=True)):
        return None
    return f"takes ({', '.join(names)}); as {use.role} it needs ({wanted}), in this order"


def _fits(name: str, place: str) -> bool:
    """Whether an argument of this name may be at a place."""
    if name == place or place in ("a", "b"):  # the arguments of a combination have free names
        return True
    if name in ("s", "edge", "total", "self", "cls"):
        return False
    if name == "v" or place == "v":  # v may be any vertex, and a stage's vertex may be called dst
        return name not in _VERTICES or place in _VERTICES
    return name not in ("src", "dst")
