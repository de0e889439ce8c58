"""Generators by name: ``"rmat:scale=18,edge_factor=16,seed=1"`` becomes a graph."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from evener.errors import GraphError, did_you_mean
from evener.graph.csr import Graph
from evener.graph.generate.geometry import delaunay, geometric
from evener.graph.generate.lattices import complete, grid, path, star, tree
from evener.graph.generate.pairing import regular
from evener.graph.generate.random_graphs import rmat, uniform

KINDS: dict[str, Callable[..., Graph]] = {
    generator.__name__: generator
    for generator in (
        rmat, uniform, regular, geometric, delaunay, grid, path, star, tree, complete,
    )
}  # fmt: skip

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(f"({_NUMBER})-({_NUMBER})")
_WORDS = {"true": True, "false": False}


def from_spec(text: str) -> Graph:
    """Generate the graph that a text describes.

    Parameters
    ----------
    text
        ``kind:argument=value,…`` with the names of a generator and of its arguments; weights are a
        range such as ``1-255`` or ``0.5-2.0``.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.from_spec("grid:rows=10,columns=3,weights=1-9").num_vertices
    30
    """
    generator, arguments = read_spec(text)
    return generator(**arguments)


def read_spec(text: str) -> tuple[Callable[..., Graph], dict[str, Any]]:
    """The generator that a text names, and its arguments.

    Examples
    --------
    >>> from evener.graph.generate.spec import read_spec
    >>> read_spec("rmat:scale=6,directed=true")[1]
    {'scale': 6, 'directed': True}
    """
    kind, _, rest = text.partition(":")
    kind = kind.strip()
    if kind not in KINDS:
        near = did_you_mean(kind, KINDS)
        raise GraphError(f"there is no generator {kind!r}{near}; there are {', '.join(KINDS)}.")
    generator = KINDS[kind]
    parameters = inspect.signature(generator).parameters
    arguments: dict[str, Any] = {}
    for item in filter(None, map(str.strip, rest.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if name not in parameters:
            near = did_you_mean(name, parameters)
            raise GraphError(f"{kind} takes no {name!r}{near}; it takes {', '.join(parameters)}.")
        if not equals or not value:
            raise GraphError(f"{kind} needs a value for {name}, as in {name}=1.")
        if name in arguments:
            raise GraphError(f"{name} is given twice in {text!r}.")
        arguments[name] = _parse(name, value)
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise GraphError(f"{kind} needs {name}, as in {kind}:{name}=10.")
    return generator, arguments


def _parse(name: str, value: str) -> Any:
    if name == "weights":
        return _parse_range(value)
    if name == "device":
        return value
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    number = _number(value)
    if number is None:
        raise GraphError(f"{name} is {value!r}; it must be a number, true or false.")
    return number


def _parse_range(value: str) -> tuple[Any, Any]:
    match = _RANGE.fullmatch(value)
    if match is None:
        raise GraphError(f"weights is {value!r}; it must be a range such as 1-255 or 0.5-2.0.")
    return _number(match[1]), _number(match[2])


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None
