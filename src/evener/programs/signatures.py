"""The arguments of a functor, by their names: a known name stands where it is expected."""

from __future__ import annotations

from evener.programs.kinds import Use

_VERTICES = ("src", "dst", "v")


def wrong_order(names: tuple[str, ...], use: Use) -> str | None:
    """What is wrong with the arguments of a functor, None if nothing is.

    Names of one's own are fine. Those that stages have (``src``, ``dst``, ``v``, ``edge``,
    ``total``, ``s``) mean what they mean there.

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
    """Whether an argument of this name may stand at a place."""
    if name == place or place in ("a", "b"):  # of a combination, all names are one's own
        return True
    if name in ("s", "edge", "total", "self", "cls"):
        return False
    if name == "v" or place == "v":  # v is any vertex, and the vertex of a stage may be a dst
        return name not in _VERTICES or place in _VERTICES
    return name not in ("src", "dst")
