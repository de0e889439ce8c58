"""What a kernel does, as a tree of nodes, between the stages of a program and the kernel's text.

`evener.engine.codegen.passes` makes a tree of the stages and rewrites it: what is fused, where a
vertex may be twice in a frontier, where parts exchange what, where a kernel may return and resume.
Printers for threads and for a grid turn it into text; they decide nothing.

All nodes are frozen. A `Step` is a stage with all nodes that it needs; loops hold steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeVar

from evener.programs import kinds
from evener.programs.program import Declaration


class Exchange(NamedTuple):
    """Fields that are exchanged for one stage; groups pair a leader with written followers."""

    broadcast: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()
    ghosts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    replicated: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def merged(self) -> tuple[str, ...]:
        """Fields that owners merge from their ghosts: leaders and followers."""
        return tuple(sorted({name for lead, rest in self.ghosts for name in (lead, *rest)}))

    @property
    def names(self) -> list[str]:
        """All fields of ghosts that are exchanged."""
        return sorted({*self.broadcast, *self.zeroed, *self.merged})

    @property
    def shadowed(self) -> list[str]:
        """Fields whose old values at ghosts show whether a stage has changed them."""
        kept = [name for lead, rest in self.ghosts for name in (lead, *rest)]
        return [name for name in kept if name not in self.zeroed]


class Stale(NamedTuple):
    """A field whose ghosts may be stale in one stage, and the followers written with it."""

    leader: str
    followers: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The leader and its followers."""
        return [self.leader, *self.followers]


class Guard(NamedTuple):
    """A kernel that resumes skips a stage, unless its place is from ``first`` to ``last``."""

    first: int = 0
    last: int = -1


N = TypeVar("N", bound="Node")


@dataclass(frozen=True)
class Node:
    """A part of a kernel."""

    WITHIN: ClassVar[tuple[str, ...]] = ()  # attributes that hold nodes, in the order of the text

    @property
    def inner(self) -> tuple[Node, ...]:
        """The nodes within this one, in the order of the text."""
        return tuple(node for name in self.WITHIN for node in getattr(self, name))


@dataclass(frozen=True)
class Step(Node):
    """A stage and the nodes that it needs."""

    stage: kinds.Stage
    nodes: tuple[Node, ...]
    guard: Guard | None = None  # where a kernel that resumes may skip it

    WITHIN = ("nodes",)


# ---- stages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Advance(Node):
    """From a frontier to the next, along edges: a push or a pull, and what it needs before."""

    stage: kinds.Advance
    nodes: tuple[Node, ...]

    WITHIN = ("nodes",)


@dataclass(frozen=True)
class PushOrPull(Node):
    """One operator that pushes along out-edges or pulls along in-edges, whichever is less work."""

    stage: kinds.Advance
    mode: str  # push, pull, auto
    exact: bool = True  # whether no vertex may be twice in the frontier that it makes


@dataclass(frozen=True)
class Choose(Node):
    """All parts push or all pull, whichever is less work for all together."""

    stage: kinds.Advance
    pull: tuple[Node, ...]
    push: tuple[Node, ...]
    mode: str = "auto"

    WITHIN = ("pull", "push")


@dataclass(frozen=True)
class Push(Node):
    """Along the out-edges of a frontier; with ``boxes`` emitted ghosts go into a box."""

    stage: kinds.Advance
    boxes: bool


@dataclass(frozen=True)
class Pull(Node):
    """Along the in-edges of all vertices that ``where`` selects, from members of a frontier."""

    stage: kinds.Advance


@dataclass(frozen=True)
class Targets(Node):
    """From a frontier, if it is one of edges, to the set of their ``dst``."""

    nodes: tuple[Node, ...] = ()

    WITHIN = ("nodes",)


@dataclass(frozen=True)
class EmitEdges(Node):
    """From a frontier of vertices to those out-edges for which a functor returns True."""

    stage: kinds.Advance


OF_STAGE: dict[type[kinds.Stage], type[Node]] = {}  # nodes of stages that need no decision


def _of(stage: type[kinds.Stage]) -> Callable[[type[N]], type[N]]:
    """Register a node for a stage: a decorator."""

    def register(node: type[N]) -> type[N]:
        OF_STAGE[stage] = node
        return node

    return register


@_of(kinds.Filter)
@dataclass(frozen=True)
class Filter(Node):
    """The members of a frontier, vertices or edges, for which a functor returns True."""

    stage: kinds.Filter


@_of(kinds.Compute)
@dataclass(frozen=True)
class Compute(Node):
    """A functor called for each member of a frontier."""

    stage: kinds.Compute


@dataclass(frozen=True)
class Gather(Node):
    """A total over the edges of each vertex, which another functor applies."""

    stage: kinds.Gather
    number: int
    keeps: bool  # whether a stage may take the frontier that it makes; else it is only counted
    seen: tuple[str, ...] = ()  # fields that applies write and the totals of others read
    copies: bool = False  # whether those have a second copy, which applies write to
    fused: tuple[kinds.Reduce, ...] = ()  # reductions computed on the way

    @property
    def at_once(self) -> bool:
        """Whether each total is applied as soon as it is made, so that none is stored."""
        return self.copies or not self.seen

    @property
    def all_at_once(self) -> bool:
        """Whether it goes over all vertices in one pass."""
        return self.stage.over_all and self.at_once


@_of(kinds.Edges)
@dataclass(frozen=True)
class Edges(Node):
    """A functor called for edges of all vertices."""

    stage: kinds.Edges


@_of(kinds.Reduce)
@dataclass(frozen=True)
class Reduce(Node):
    """A scalar reduced from what a functor returns."""

    stage: kinds.Reduce


# ---- exchanges ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meet(Node):
    """All threads of all parts meet at a barrier."""


@dataclass(frozen=True)
class Broadcast(Node):
    """Ghosts take the values of their owners."""

    exchange: Exchange


@dataclass(frozen=True)
class Spread(Node):
    """Ghosts of members become members too, and take the values of their owners."""

    exchange: Exchange
    stage: kinds.Advance  # that takes the frontier


@dataclass(frozen=True)
class Collect(Node):
    """Owners merge writes to their ghosts; ``emits``: those of emitted ghosts join a frontier."""

    exchange: Exchange
    emits: bool
    into: str = ""  # the frontier that they join, if it is not the next


@dataclass(frozen=True)
class Deliver(Node):
    """Owners merge the values of emitted ghosts; those that improve join the frontier."""

    stale: Stale


@dataclass(frozen=True)
class Unite(Node):
    """All copies of replicated fields get one value."""

    leader: str
    followers: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The leader and its followers."""
        return [self.leader, *self.followers]


@dataclass(frozen=True)
class Watch(Unite):
    """Parts share one copy of replicated fields: only changes are counted."""


@dataclass(frozen=True)
class Agree(Node):
    """A scalar is combined over all parts."""

    scalar: str
    op: str


@dataclass(frozen=True)
class AgreeOnChanged(Node):
    """``changed`` is combined over all parts."""


# ---- loops -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnyLoop(Node):
    """A loop; the names of its variables end in its number."""

    stage: kinds.Repeat | kinds.Backwards
    number: int
    body: tuple[Step, ...]

    WITHIN = ("body",)

    @property
    def only_loops(self) -> bool:
        """Whether it holds only loops, so that a superstep may do nothing."""
        return all(isinstance(s, kinds.Repeat | kinds.Backwards) for s in self.stage.stages)


@dataclass(frozen=True)
class Loop(AnyLoop):
    """Supersteps until the frontier is empty, ``until`` holds, or the limit is reached."""

    stage: kinds.Repeat
    records: bool = False  # for a replay
    skips_head: bool = False  # when the kernel resumes at a place in it
    place: int = 0  # its number as a place where the kernel may return and resume, if it is one


@dataclass(frozen=True)
class Buckets(Loop):
    """A superstep for each bucket of waiting vertices, the nearest first."""

    room: int = 0  # the number of its room for waiting vertices
    has_place: bool = False  # whether a kernel may resume within it


@dataclass(frozen=True)
class FusedBuckets(AnyLoop):
    """An ordered loop as one operator: nothing in it depends on where supersteps end."""

    stage: kinds.Repeat
    stale: Stale | None = None  # over parts

    @property
    def advance(self) -> kinds.Advance:
        """The one stage of the loop."""
        only = self.stage.stages[0]
        assert isinstance(only, kinds.Advance)
        return only


@dataclass(frozen=True)
class RunAhead(FusedBuckets):
    """A loop of one push: a machine pushes from its own frontier while others are late."""


@dataclass(frozen=True)
class Replay(AnyLoop):
    """The recorded frontiers, from the last to the first."""

    stage: kinds.Backwards
    in_place: bool = False  # whether stages read the record itself; none changes what it takes


# ---- the whole ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class KernelPlan:
    """What a kernel does, with a node for each step."""

    d: Declaration
    direction: str
    directed: bool
    body: tuple[Step, ...]
    over_parts: bool = False
    hub: bool = False  # whether some parts are on other machines
    shares: bool = False  # whether parts share one copy of replicated fields
    far_is_global: bool = False  # whether neighbour lists hold global numbers
    places: int = 0  # the number of places where the kernel may return and resume
    saved: tuple[int, ...] = ()  # loops around such a place

    def __str__(self) -> str:
        from evener.engine.codegen.describe import describe  # it imports this module

        return describe(self)

    __repr__ = __str__

    def nodes(self) -> Iterator[Node]:
        """All nodes in the order of the text."""
        yield from walk(self.body)

    @cached_property
    def has_edges(self) -> bool:
        """Whether there are frontiers of edges."""
        return any(isinstance(node, EmitEdges) for node in self.nodes())

    @cached_property
    def replays(self) -> bool:
        """Whether recorded frontiers are replayed."""
        return any(isinstance(node, Replay) for node in self.nodes())

    @cached_property
    def gathers(self) -> list[Gather]:
        """The gathers by their numbers."""
        return [node for node in self.nodes() if isinstance(node, Gather)]

    @cached_property
    def stores_totals(self) -> tuple[bool, ...]:
        """Whether each gather stores its totals."""
        return tuple(not gather.at_once for gather in self.gathers)

    @cached_property
    def copied(self) -> list[str]:
        """Fields that have a second copy."""
        return _unique(name for one in self.gathers if one.copies for name in one.seen)

    @cached_property
    def summed(self) -> list[str]:
        """Scalars that gathers compute on the way."""
        return [other.into.name for one in self.gathers for other in one.fused]

    @cached_property
    def has_both(self) -> bool:
        """Whether a gather goes along both directions of a directed graph."""
        return self.directed and any(one.stage.along == "both" for one in self.gathers)

    @cached_property
    def is_inexact(self) -> bool:
        """Whether a vertex may be twice in a frontier."""
        return any(isinstance(node, PushOrPull) and not node.exact for node in self.nodes())

    @cached_property
    def orders(self) -> int:
        """The number of loops with a superstep for each bucket."""
        return sum(isinstance(node, Buckets) for node in self.nodes())

    @cached_property
    def fuses(self) -> bool:
        """Whether a loop fuses buckets."""
        return any(type(node) is FusedBuckets for node in self.nodes())

    # ---- what parts exchange --------------------------------------------------------------

    @cached_property
    def shadowed(self) -> list[str]:
        """Fields whose old values at ghosts are kept."""
        exchanges = [node.exchange for node in self.nodes() if isinstance(node, _EXCHANGING)]
        return _unique(name for exchange in exchanges for name in exchange.shadowed)

    @cached_property
    def united(self) -> list[str]:
        """Replicated fields whose old values are kept."""
        return _unique(n for node in self.nodes() if isinstance(node, Unite) for n in node.names)

    @cached_property
    def carried(self) -> list[str]:
        """Fields that are carried between owners and ghosts on other machines."""
        if not self.hub:
            return []
        return _unique(name for node in self.nodes() for name in _carried_by(node))


_EXCHANGING = (Broadcast, Spread, Collect)


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Nodes and all within them, in the order of the text."""
    for node in nodes:
        yield node
        yield from walk(node.inner)


def _carried_by(node: Node) -> list[str]:
    if isinstance(node, Broadcast | Spread):
        return list(node.exchange.broadcast)
    if isinstance(node, Collect):
        return list(node.exchange.merged)
    if isinstance(node, Deliver):
        return node.stale.names
    if isinstance(node, RunAhead) and node.stale is not None:
        return [node.stale.leader]
    return []


def _unique(names: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(names))
