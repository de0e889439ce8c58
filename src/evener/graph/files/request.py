"""The options of `load`, checked."""

from __future__ import annotations

from typing import Any, NamedTuple

from evener.errors import GraphError
from evener.graph.build import COMBINE

Column = str | int | None


class Request(NamedTuple):
    """The options of `load` that readers follow; None leaves the choice to the file."""

    directed: bool | None = None
    duplicates: str = "keep"
    src: Column = None
    dst: Column = None
    weight: Column = None  # False: no weights
    header: bool | None = None

    @property
    def has_weight(self) -> bool:
        """Whether the caller names a column of weights."""
        return self.weight is not None and self.weight is not False

    @property
    def column_options(self) -> list[str]:
        """The names of the options given that only a table can follow."""
        options = {"src": self.src, "dst": self.dst, "header": self.header}
        names = [name for name, value in options.items() if value is not None]
        return [*names, "weight"] if self.has_weight else names


def checked_request(**options: Any) -> Request:
    """Make a `Request` after checking the types of the options.

    Examples
    --------
    >>> from evener.graph.files.request import checked_request
    >>> checked_request(src="from", dst="to").column_options
    ['src', 'dst']
    """
    request = Request(**options)
    for name in ("src", "dst", "weight"):
        value = getattr(request, name)
        if value is None or (name == "weight" and value is False) or isinstance(value, str):
            continue
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
            raise GraphError(f"{name} is {value!r}; it must be a column's name, or number from 0.")
    for name in ("directed", "header"):
        if getattr(request, name) not in (None, True, False):
            raise GraphError(f"{name} is {getattr(request, name)!r}; it must be True or False.")
    if request.duplicates not in COMBINE:
        allowed = ", ".join(map(repr, COMBINE))
        raise GraphError(f"duplicates is {request.duplicates!r}; it must be one of {allowed}.")
    return request
