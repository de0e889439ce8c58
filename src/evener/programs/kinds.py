"""The kinds of stages as data: what each holds, and which functors it uses how.

Programs make them by the functions of `evener.programs.stages`; engines read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

from evener.programs.fields import Field, Param, Scalar

EDGE_ARGUMENTS = ("src", "dst", "edge", "s")
SOURCE_ARGUMENTS = ("src", "edge", "s")
VERTEX_ARGUMENTS = ("v", "s")


@dataclass(frozen=True)
class Use:
    """A functor as a stage uses it: its name, and what its arguments stand for."""

    name: str
    arguments: tuple[str, ...]
    returns: bool
    role: str = "f"


@dataclass(frozen=True)
class Stage:
    """What all stages have: whether they run over the frontier or over all vertices.

    What engines ask of a stage, of whichever kind, is said by the class.
    """

    over_all: bool

    takes: ClassVar[bool] = True  # the frontier, unless it runs over all vertices
    makes: ClassVar[bool] = False  # a frontier
    takes_edges: ClassVar[bool] = False  # frontiers of edges too, and is told so: `on_edges`
    sets_changed: ClassVar[bool] = False
    # No annotations: they are fields of some stages.
    on_edges = False
    into = cast("Scalar | None", None)  # a scalar that it computes, combined by `op`

    def uses(self) -> Iterator[Use]:
        """The functors of the stage."""
        yield from ()


Loop: TypeAlias = Stage | tuple[Stage, ...]
"""What ``loop`` of a program may be; for type checkers, where a subclass has another one."""


@dataclass(frozen=True)
class Advance(Stage):
    """Visit the out-edges of the frontier."""

    functor: str
    where: str | None
    emit: str
    idempotent: bool | str

    makes = True

    def uses(self) -> Iterator[Use]:
        yield Use(self.functor, EDGE_ARGUMENTS, True)
        if self.where is not None:
            yield Use(self.where, ("dst", "s"), True, "where")


@dataclass(frozen=True)
class Filter(Stage):
    """Keep a part of the frontier."""

    functor: str
    on_edges: bool = False  # set by what comes before the stage

    makes = True
    takes_edges = True

    def uses(self) -> Iterator[Use]:
        yield Use(self.functor, EDGE_ARGUMENTS if self.on_edges else VERTEX_ARGUMENTS, True)


@dataclass(frozen=True)
class Compute(Stage):
    """Do something at each vertex of the frontier."""

    functor: str
    on_edges: bool = False  # as in Filter

    takes_edges = True

    def uses(self) -> Iterator[Use]:
        yield Use(self.functor, EDGE_ARGUMENTS if self.on_edges else VERTEX_ARGUMENTS, False)


@dataclass(frozen=True)
class Gather(Stage):
    """Combine values over the edges of each vertex of the frontier."""

    functor: str
    combine: str
    apply: str
    asynchronous: bool
    along: str = "in"
    sees_dst: bool = True  # whether the functor has an argument for the vertex that gathers

    makes = True

    @property
    def combine_is_functor(self) -> bool:
        """Whether the combination is the program's own function."""
        return self.combine.startswith("@")

    def uses(self) -> Iterator[Use]:
        arguments = EDGE_ARGUMENTS if self.sees_dst else SOURCE_ARGUMENTS
        yield Use(self.functor, arguments, True, "gather")
        yield Use(self.apply, ("v", "total", "s"), True, "apply")
        if self.combine_is_functor:
            yield Use(self.combine[1:], ("a", "b"), True, "combine")


@dataclass(frozen=True)
class Edges(Stage):
    """Visit all edges, or a slice of each neighbour list."""

    functor: str
    neighbours: tuple[int, int | None] | None
    where: str | None

    takes = False
    sets_changed = True

    def uses(self) -> Iterator[Use]:
        yield Use(self.functor, EDGE_ARGUMENTS, True)
        if self.where is not None:
            yield Use(self.where, ("src", "s"), True, "where of edges")


@dataclass(frozen=True)
class Reduce(Stage):
    """Reduce a value over the frontier into a scalar."""

    functor: str
    op: str
    into: Scalar

    def uses(self) -> Iterator[Use]:
        yield Use(self.functor, VERTEX_ARGUMENTS, True, "reduce")


@dataclass(frozen=True)
class Nearest:
    """An order of the frontier: buckets of width ``delta`` of a field, nearest first."""

    field: Field
    delta: float | Param


@dataclass(frozen=True)
class Repeat(Stage):
    """A loop."""

    stages: tuple[Stage, ...]
    until: str | None
    max_supersteps: int | Param | None
    order: Nearest | None
    record: bool

    takes = False

    def uses(self) -> Iterator[Use]:
        if self.until is not None:
            yield Use(self.until, ("s",), True, "until")

    @property
    def takes_frontier(self) -> bool:
        """Whether a stage takes the frontier that the superstep starts with."""
        return _takes_frontier(self.stages)

    @property
    def makes_frontier(self) -> bool:
        """Whether a stage makes a new frontier, so that it may run empty."""
        return _makes_frontier(self.stages)


@dataclass(frozen=True)
class Backwards(Stage):
    """The recorded frontiers from last to first."""

    stages: tuple[Stage, ...]

    takes = False


def _takes_frontier(stages: tuple[Stage, ...]) -> bool:
    for stage in stages:
        if isinstance(stage, Repeat):
            if stage.takes_frontier:
                return True
            if stage.makes_frontier:
                return False
        elif stage.takes and not stage.over_all:
            return True
        elif stage.makes:
            return False
    return False


def _makes_frontier(stages: tuple[Stage, ...]) -> bool:
    return any(
        stage.makes or (isinstance(stage, Repeat) and stage.makes_frontier) for stage in stages
    )
