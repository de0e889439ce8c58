"""The data of a program: fields of vertices, parameters of a run, scalars of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from evener.programs.mistakes import mistake

if TYPE_CHECKING:
    from evener.programs.program import Program

MERGES = ("min", "max", "sum", "any")
HIDDEN = "evener_"  # prefix of fields and functors that Evener adds; results hide them
COPY = f"{HIDDEN}before_"  # prefix of the copy of a field made when the superstep begins


class _Kind:
    """A dtype or value that the graph or the run determines; compared by identity."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name  # pickling and copying preserve the identity


VERTEX = _Kind("VERTEX")
"""As dtype of a field: the global index of a vertex, as wide as the graph's indices."""

WEIGHT = _Kind("WEIGHT")
"""As dtype of a field: the dtype for sums of the graph's weights, int64 for integers."""


DISTANCE = _Kind("DISTANCE")
"""As dtype of a field: the length of a path; 32 bits if integer lengths need no more."""

REAL = _Kind("REAL")
"""As dtype of a field, parameter or scalar: float64, or float32 in a run with that ``dtype=``."""

ID = _Kind("ID")
"""As ``fill`` of a field: each vertex starts with its own global index."""


class Vertex(Any):
    """Annotation of a parameter of ``start``: callers pass labels, ``start`` receives indices.

    Examples
    --------
    >>> import evener as ev
    >>> class Visited(ev.Program):
    ...     seen = ev.Field("bool")
    ...     @ev.functor
    ...     def visit(v, s):
    ...         s.seen[v] = True
    ...     def start(self, chosen: ev.Vertex):
    ...         return [chosen]
    ...     loop = ev.stages.compute(visit)
    >>> graph = ev.Graph.from_edges([0, 1], [1, 2], labels=["a", "b", "c"])
    >>> ev.run(Visited, graph, chosen="b", device="python").seen.tolist()
    [False, True, False]
    """


class _Declared:
    """A declaration in the body of a program; it gets its name when the class is made.

    A second name in the body, as in ``max_supersteps = rounds``, is an alias. For a type checker it
    is a descriptor: the class has the declaration, ``start`` and functors have a value.
    """

    name = "?"

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any = None) -> Self: ...
        @overload
        def __get__(self, instance: Program, owner: Any = None) -> Any: ...
        @overload
        def __get__(self, instance: object, owner: Any = None) -> Self: ...
        def __get__(self, instance: Any, owner: Any = None) -> Any: ...

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name == "?":
            self.name = name

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class Field(_Declared):
    """One value for each vertex.

    Parameters
    ----------
    dtype
        A NumPy dtype, `VERTEX`, `WEIGHT`, `DISTANCE` or `REAL`.
    fill
        The value at the start of a run, or `ID`: each vertex starts with its own index. By default
        the neutral value of ``merge``, else 0.
    merge
        How values of one vertex from several parts combine: ``"min"``, ``"max"``, ``"sum"``,
        ``"any"`` (any value that changed), or None if only the owner of a vertex writes it.
    follows
        The field that leads this one: a value is kept only if the leader's value that came with it
        won the merge.
    replicated
        Whether every device holds the whole field, so that it can be indexed by any vertex.
    missing
        The value that results show instead of ``fill``, for instance -1 or infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.programs.fields import Field
    >>> Field(np.int32, merge="min").initial(np.dtype(np.int32))
    2147483647

    >>> import evener as ev
    >>> class Lowest(ev.Program):
    ...     lowest = ev.Field(ev.VERTEX, fill=ev.ID, merge="min")
    ...     @ev.functor
    ...     def lower(src, dst, edge, s):
    ...         offer = s.lowest[src]
    ...         return ev.atomic.min(s.lowest, dst, offer) > offer
    ...     loop = ev.stages.repeat(ev.stages.advance(lower))
    >>> ev.run(Lowest, ev.Graph.from_edges([1, 2], [3, 1]), device="python").lowest.tolist()
    [0, 1, 2, 1]
    """

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any = None) -> Self: ...
        @overload
        def __get__(self, instance: Program, owner: Any = None) -> np.ndarray: ...
        @overload
        def __get__(self, instance: object, owner: Any = None) -> Self: ...
        def __get__(self, instance: Any, owner: Any = None) -> Any: ...

    def __init__(
        self,
        dtype: Any,
        fill: Any = None,
        merge: str | None = None,
        follows: Field | None = None,
        replicated: bool = False,
        missing: Any = None,
    ):
        if merge is not None and merge not in MERGES:
            allowed = ", ".join(map(repr, MERGES))
            raise mistake(f"a field merges by {merge!r}; it must be one of {allowed} or None")
        if follows is not None and not isinstance(follows, Field):
            raise mistake(f"a field follows {follows!r}; it must be a field declared above it")
        self.dtype = dtype_of(dtype, "a field")
        if fill is ID and self.dtype is not VERTEX and getattr(self.dtype, "kind", "f") not in "iu":
            raise mistake(f"a field of type {self.dtype} has fill=ID; it must hold integers")
        self.fill = fill
        self.merge = merge
        self.follows = follows
        self.replicated = replicated
        self.missing = missing

    def initial(self, dtype: np.dtype) -> Any:
        """The initial value of all vertices, in the dtype of the field on this graph, or `ID`."""
        if self.fill is not None:
            return self.fill
        return neutral(self.merge, dtype)


class Param(_Declared):
    """A parameter of a run, the same everywhere; functors read it as ``s.name``.

    Parameters
    ----------
    dtype
        A NumPy dtype, or `REAL`.
    default
        The value if a run sets none.

    Examples
    --------
    >>> import evener as ev
    >>> class Scaled(ev.Program):
    ...     value = ev.Field("float64")
    ...     factor = ev.Param("float64", 2.0)
    ...     @ev.functor
    ...     def scale(v, s):
    ...         s.value[v] = s.factor * s.id[v]
    ...     loop = ev.stages.compute(scale)
    >>> ev.run(Scaled, ev.generate.path(3), device="python").value.tolist()
    [0.0, 2.0, 4.0]
    >>> ev.run(Scaled, ev.generate.path(3), factor=0.5, device="python").value.tolist()
    [0.0, 0.5, 1.0]
    """

    def __init__(self, dtype: Any, default: Any):
        self.dtype = dtype_of(dtype, "a parameter")
        self.default = default


class Scalar(_Declared):
    """One value for the whole graph that a ``reduce`` stage writes and functors read.

    Parameters
    ----------
    dtype
        A NumPy dtype, `WEIGHT` or `REAL`.
    merge
        How values combine: ``"min"``, ``"max"``, ``"sum"`` or ``"any"``, as in the stage.

    Examples
    --------
    >>> import evener as ev
    >>> class Shares(ev.Program):
    ...     share = ev.Field("float64")
    ...     most = ev.Scalar("int64", "max")
    ...     @ev.functor
    ...     def leaving(v, s):
    ...         return s.degree[v]
    ...     @ev.functor
    ...     def compare(v, s):
    ...         s.share[v] = s.degree[v] / s.most
    ...     loop = (ev.stages.reduce(leaving, "max", into=most), ev.stages.compute(compare))
    >>> found = ev.run(Shares, ev.generate.path(4), device="python")
    >>> found.most, found.share.tolist()
    (2, [0.5, 1.0, 1.0, 0.5])
    """

    def __init__(self, dtype: Any, merge: str):
        if merge not in MERGES:
            allowed = ", ".join(map(repr, MERGES))
            raise mistake(f"a scalar merges by {merge!r}; it must be one of {allowed}")
        self.dtype = dtype_of(dtype, "a scalar")
        self.merge = merge


def dtype_of(dtype: Any, what: str) -> Any:
    """A NumPy dtype of 32 or 64 bits or bool, or one of the kinds above."""
    if isinstance(dtype, _Kind) and dtype is not ID:
        return dtype
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise mistake(f"{what} is of type {dtype!r}, which is not a dtype") from None
    if found.kind not in "iufb" or (found.kind != "b" and found.itemsize not in (4, 8)):
        raise mistake(
            f"{what} is of type {found}; it must be bool or an integer or float of 32 or 64 bits"
        )
    return found


def neutral(merge: str | None, dtype: np.dtype) -> Any:
    """The neutral value of a merge, or 0 without a merge.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.programs.fields import neutral
    >>> neutral("min", np.dtype(np.float32)), neutral("sum", np.dtype(np.int64))
    (inf, 0)
    """
    if merge in ("min", "max"):
        if dtype.kind == "f":
            return np.inf if merge == "min" else -np.inf
        if dtype.kind == "b":
            return merge == "min"
        limits = np.iinfo(dtype)
        return int(limits.max) if merge == "min" else int(limits.min)
    return dtype.type(0).item()
