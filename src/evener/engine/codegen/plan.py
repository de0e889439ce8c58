"""What a kernel does, as a tree: what stands between the stages of a program and a kernel's text.

`evener.engine.codegen.build` makes a tree of the stages alone. Passes rewrite it: `fuse` (what is
done in one pass over the vertices, what may be twice in a frontier), `exchange` (where parts tell
each other what), `resume` (where a kernel may return and begin again). Printers for threads and for
a grid turn it into text; they decide nothing.

All nodes are frozen. A `Step` is a stage with all that it takes; loops hold steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeVar

from evener.programs import kinds
from evener.programs.program import Declaration


class Exchange(NamedTuple):
    """What one stage needs to be exchanged; groups map a leader to the followers written."""

    broadcast: tuple[str, ...] = ()
    zeroed: tuple[str, ...] = ()
    ghosts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    replicated: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def merged(self) -> tuple[str, ...]:
        """Fields that ghosts bring home: leaders and their followers."""
        return tuple(sorted({name for lead, rest in self.ghosts for name in (lead, *rest)}))

    @property
    def names(self) -> list[str]:
        """All fields of ghosts that are exchanged."""
        return sorted({*self.broadcast, *self.zeroed, *self.merged})

    @property
    def shadowed(self) -> list[str]:
        """Fields whose old values at ghosts tell whether a stage has changed them."""
        kept = [name for lead, rest in self.ghosts for name in (lead, *rest)]
        return [name for name in kept if name not in self.zeroed]


class Stale(NamedTuple):
    """A field whose ghosts may be stale in one stage, and those written along with it."""

    leader: str
    followers: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The leader and its followers."""
        return [self.leader, *self.followers]


class Guard(NamedTuple):
    """What is run when a kernel begins again at a place from ``first`` to ``last``, if at any."""

    first: int = 0
    last: int = -1


N = TypeVar("N", bound="Node")


@dataclass(frozen=True)
class Node:
    """A part of a kernel."""

    WITHIN: ClassVar[tuple[str, ...]] = ()  # its tuples of nodes, in the order of the text

    @property
    def inner(self) -> tuple[Node, ...]:
        """The nodes within this one, in the order of the text."""
        return tuple(node for name in self.WITHIN for node in getattr(self, name))


@dataclass(frozen=True)
class Step(Node):
    """A stage and all that it takes."""

    stage: kinds.Stage
    nodes: tuple[Node, ...]
    guard: Guard | None = None  # where a kernel that begins again may skip it

    WITHIN = ("nodes",)


# ---- stages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Advance(Node):
    """From a frontier to the next, along edges: what comes before, and a push or a pull."""

    stage: kinds.Advance
    nodes: tuple[Node, ...]

    WITHIN = ("nodes",)


@dataclass(frozen=True)
class PushOrPull(Node):
    """One operator that goes along out-edges or in-edges, by the work that either would be."""

    stage: kinds.Advance
    mode: str  # push, pull, auto
    exact: bool = True  # whether no vertex may be twice in the frontier that it makes


@dataclass(frozen=True)
class Choose(Node):
    """All parts push or all pull, by the work of all."""

    stage: kinds.Advance
    pull: tuple[Node, ...]
    push: tuple[Node, ...]
    mode: str = "auto"

    WITHIN = ("pull", "push")


@dataclass(frozen=True)
class Push(Node):
    """Along the out-edges of a frontier; with ``boxes`` emitted ghosts wait in a box."""

    stage: kinds.Advance
    boxes: bool


@dataclass(frozen=True)
class Pull(Node):
    """To all vertices that want it along their in-edges, from members of a frontier."""

    stage: kinds.Advance


@dataclass(frozen=True)
class Targets(Node):
    """From a frontier of edges, if it is one, to the set of their ``dst``."""

    nodes: tuple[Node, ...] = ()

    WITHIN = ("nodes",)


@dataclass(frozen=True)
class EmitEdges(Node):
    """From a frontier of vertices to those of their edges that a functor lets pass."""

    stage: kinds.Advance


OF_STAGE: dict[type[kinds.Stage], type[Node]] = {}  # what a stage is where nothing is decided


def _of(stage: type[kinds.Stage]) -> Callable[[type[N]], type[N]]:
    """Say which stage a node stands for: a decorator."""

    def note(node: type[N]) -> type[N]:
        OF_STAGE[stage] = node
        return node

    return note


@_of(kinds.Filter)
@dataclass(frozen=True)
class Filter(Node):
    """Those of a frontier, of vertices or of edges, that a functor lets pass."""

    stage: kinds.Filter


@_of(kinds.Compute)
@dataclass(frozen=True)
class Compute(Node):
    """A functor called with each of a frontier."""

    stage: kinds.Compute


@dataclass(frozen=True)
class Gather(Node):
    """A total over the edges of each vertex, which another functor takes."""

    stage: kinds.Gather
    number: int
    keeps: bool  # whether the frontier that it makes is ever taken, or only counted
    seen: tuple[str, ...] = ()  # fields that applies write and the totals of others read
    copies: bool = False  # whether those have a second copy, which applies write to
    fused: tuple[kinds.Reduce, ...] = ()  # reductions made in the same pass

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
    """A functor called with edges of all vertices."""

    stage: kinds.Edges


@_of(kinds.Reduce)
@dataclass(frozen=True)
class Reduce(Node):
    """A scalar of what a functor returns."""

    stage: kinds.Reduce


# ---- exchanges ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meet(Node):
    """All threads of all parts."""


@dataclass(frozen=True)
class Broadcast(Node):
    """Ghosts take the values of their owners."""

    exchange: Exchange


@dataclass(frozen=True)
class Spread(Node):
    """Ghosts learn whether they are in a frontier, and those that are take their owners' values."""

    exchange: Exchange
    stage: kinds.Advance  # that takes the frontier


@dataclass(frozen=True)
class Collect(Node):
    """Owners merge what a stage wrote to their ghosts; with ``emits`` they join the frontier."""

    exchange: Exchange
    emits: bool
    into: str = ""  # the frontier, if it is another than the next


@dataclass(frozen=True)
class Deliver(Node):
    """Emitted ghosts bring their values home, where those join the frontier that improve."""

    stale: Stale


@dataclass(frozen=True)
class Unite(Node):
    """The copies of replicated fields come to one value."""

    leader: str
    followers: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The leader and its followers."""
        return [self.leader, *self.followers]


@dataclass(frozen=True)
class Watch(Unite):
    """Parts share one copy of the fields: what has changed is counted."""


@dataclass(frozen=True)
class Agree(Node):
    """A scalar becomes that of all parts."""

    scalar: str
    op: str


@dataclass(frozen=True)
class AgreeOnChanged(Node):
    """``changed`` becomes that of all parts."""


# ---- loops -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnyLoop(Node):
    """A loop; its number is that of its variables."""

    stage: kinds.Repeat | kinds.Backwards
    number: int
    body: tuple[Step, ...]

    WITHIN = ("body",)

    @property
    def only_loops(self) -> bool:
        """Whether nothing is in it but loops, none of which may have anything to do."""
        return all(isinstance(s, kinds.Repeat | kinds.Backwards) for s in self.stage.stages)


@dataclass(frozen=True)
class Loop(AnyLoop):
    """Supersteps until the frontier is empty, a functor says so, or a limit is reached."""

    stage: kinds.Repeat
    records: bool = False  # for a replay
    skips_head: bool = False  # on the way to a place that is in it
    place: int = 0  # where a superstep is recorded, the kernel may return and begin again


@dataclass(frozen=True)
class Buckets(Loop):
    """Supersteps over the nearest bucket of those that wait."""

    room: int = 0  # which of the rooms for those that wait is its own
    has_place: bool = False  # whether a kernel may begin again within it


@dataclass(frozen=True)
class FusedBuckets(AnyLoop):
    """An ordered loop that is one operator: nothing in it tells supersteps apart."""

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
    """A loop of one push: a part that waits for others goes on with its own frontier."""


@dataclass(frozen=True)
class Replay(AnyLoop):
    """The recorded frontiers, from the last to the first."""

    stage: kinds.Backwards
    in_place: bool = False  # stages read the record itself, since none changes what it takes


# ---- the whole ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class KernelPlan:
    """All of a kernel but its text."""

    d: Declaration
    direction: str
    directed: bool
    body: tuple[Step, ...]
    over_parts: bool = False
    hub: bool = False  # whether some parts are on other machines
    shares: bool = False  # whether all parts have replicated fields in common
    far_is_global: bool = False  # whether neighbour lists hold global numbers
    places: int = 0  # where the kernel may return and begin again
    saved: tuple[int, ...] = ()  # loops around such a place

    def __str__(self) -> str:
        from evener.engine.codegen.describe import describe  # which reads all kinds of nodes

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
        """Whether recorded frontiers are ever taken."""
        return any(isinstance(node, Replay) for node in self.nodes())

    @cached_property
    def gathers(self) -> list[Gather]:
        """The gathers by their numbers."""
        return [node for node in self.nodes() if isinstance(node, Gather)]

    @cached_property
    def stores_totals(self) -> tuple[bool, ...]:
        """Which gathers have to store their totals."""
        return tuple(not gather.at_once for gather in self.gathers)

    @cached_property
    def copied(self) -> list[str]:
        """Fields that have a second copy."""
        return _unique(name for one in self.gathers if one.copies for name in one.seen)

    @cached_property
    def summed(self) -> list[str]:
        """Scalars that are reduced on the way of a gather."""
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
        """Loops with a superstep for each bucket."""
        return sum(isinstance(node, Buckets) for node in self.nodes())

    @cached_property
    def fuses(self) -> bool:
        """Whether there are buckets that are fused."""
        return any(type(node) is FusedBuckets for node in self.nodes())

    # ---- what parts exchange --------------------------------------------------------------

    @cached_property
    def shadowed(self) -> list[str]:
        """Fields of which the old values at ghosts are kept."""
        exchanges = [node.exchange for node in self.nodes() if isinstance(node, _EXCHANGING)]
        return _unique(name for exchange in exchanges for name in exchange.shadowed)

    @cached_property
    def united(self) -> list[str]:
        """Replicated fields of which the old values are kept."""
        return _unique(n for node in self.nodes() if isinstance(node, Unite) for n in node.names)

    @cached_property
    def carried(self) -> list[str]:
        """Fields that are carried to other machines, by ghosts."""
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
