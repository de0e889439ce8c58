"""What kernels are given, by name: the host makes these tuples, the text of a kernel reads them.

A kernel for threads is ``worker(thread, threads, sync, *CpuArguments)``, one for a grid
``kernel(*GpuArguments)``. Arrays that belong to fields or scalars of a program come under the
names of those (`named`), and those of several gathers, or loops over buckets, in their order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from evener.operators.shared.frontier import Adjacency, EdgeFrontier, Frontier
from evener.operators.shared.record import Record


class GraphArrays(NamedTuple):
    """Neighbour lists with their weights, and what a kernel asks of each vertex."""

    out: Adjacency
    weight_out: Any
    into: Adjacency  # the same as `out` where nothing is pulled
    weight_in: Any
    both: Adjacency  # in-edges, then out-edges
    weight_both: Any
    degree: Any
    ids: Any  # in the whole graph


class Waiting(NamedTuple):
    """What a loop over buckets keeps: who waits, twice, since both take turns, and how near."""

    mine: Frontier
    later: Frontier
    near: Any
    scratch: Any  # of the threads; none on a GPU
    words: Any  # of the frontiers, for all turns; none on a CPU


# ---- between parts -----------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a part is among the others; numbers all."""

    part: int
    parts: int
    threads: int  # of all parts on this machine
    first: int  # of this part among them
    num_vertices: int  # of the whole graph
    num_arcs: int
    policy: int
    machine: int
    machines: int
    total: int  # ghosts of all parts
    patience: int


class Links(NamedTuple):
    """What all parts of a machine see; see `evener.operators.shared.world.World`."""

    sync: Any
    words: Any
    bases: Any
    owned: Any
    ghosts: Any
    home: Any
    marks: Any
    box: Any
    boxed: Any
    bits: Any
    words_from: Any
    counts: Any
    tally: Any
    traffic: Any


class HubArrays(NamedTuple):
    """What leads to other machines; see `evener.operators.shared.between_machines.Hub`."""

    machine_of: Any
    ghosts: Any
    shaken: Any
    sizes: Any
    flags: Any
    words: Any
    far_sizes: Any
    box: Any
    marks: Any
    bits: Any


class Common(NamedTuple):
    """Arrays that all parts of a machine have in common."""

    links: Links
    fields: Any  # of all parts
    copies: Any
    olds: Any  # what ghosts held before
    united: Any  # what replicated fields held before
    agreed: Any  # by scalar
    hub: HubArrays
    boxes: Any  # in the hub, by field
    far_copies: Any
    far_agreed: Any


class Between(NamedTuple):
    """What a part needs to meet the others."""

    place: Place
    common: Common
    present: Any  # bits of the members that it sees
    rows: Any  # of communication, for the trace
    box: Any = ()  # its emitted ghosts, as a frontier of a CPU
    buffers: Any = ()  # of its threads, for ghosts


# ---- for threads of a CPU ----------------------------------------------------------------------


class CpuFrontiers(NamedTuple):
    """Two frontiers that take turns, all vertices, and one more for `backwards`."""

    current: Frontier
    following: Frontier
    everyone: Frontier
    spare: Frontier
    replay_bits: Any
    replay_info: Any


class CpuBuckets(NamedTuple):
    """What `nearest` works with: words that all see, the bucket that is visited, all others."""

    words: Any
    bucket: Any
    pools: Any


class CpuEdges(NamedTuple):
    """Frontiers of edges, and the buffers of the threads."""

    current: EdgeFrontier
    following: EdgeFrontier
    spare: EdgeFrontier
    buffers: Any


class CpuArguments(NamedTuple):
    """What the threads of a team are given besides their numbers and their words to meet."""

    graph: GraphArrays
    fields: Any
    params: Any
    fronts: CpuFrontiers
    marks: Any
    buffers: Any
    flags: Any
    partials: Any  # by scalar
    totals: tuple[Any, ...]  # by gather
    copies: Any  # by field
    sums: Any  # by scalar
    ordered: CpuBuckets
    kept: Record
    edge_fronts: Any  # `CpuEdges`, or nothing
    waiting: tuple[Waiting, ...]
    trace: Any
    between: Any = ()  # `Between`, of parts


# ---- for the grid of a GPU ---------------------------------------------------------------------


class GpuFrontiers(NamedTuple):
    """Two frontiers that take turns, all vertices, and one more for `backwards`."""

    current: Frontier
    following: Frontier
    everyone: Frontier
    spare: Frontier


class GpuWords(NamedTuple):
    """The words of frontiers that are made, some for each turn."""

    made: Any
    everyone: Any
    remade: Any  # in a replay
    replayed: Any


class GpuBuckets(NamedTuple):
    """What `nearest` works with: words that all see, a far pile twice, and who is in it."""

    words: Any
    far: Any
    farther: Any
    in_far: Any


class GpuEdges(NamedTuple):
    """Frontiers of edges, and their words."""

    current: EdgeFrontier
    following: EdgeFrontier
    spare: EdgeFrontier
    made: Any
    remade: Any


class GpuArguments(NamedTuple):
    """What the threads of a grid are given."""

    sync: Any
    graph: GraphArrays
    fields: Any
    params: Any
    fronts: GpuFrontiers
    infos: GpuWords
    works: Any
    marks: Any
    pieces: Any
    partials: Any  # by scalar
    totals: tuple[Any, ...]  # by gather
    subtotals: tuple[Any, ...]  # by gather: of pieces of lists
    copies: Any  # by field
    ordered: GpuBuckets
    kept: Any  # `Record`
    edge_fronts: Any  # `GpuEdges`, or nothing
    waiting: tuple[Waiting, ...]
    saves: Any
    trace: Any
    between: Any = ()  # `Between`, of parts


# ---- for a single stage ------------------------------------------------------------------------


class StageNumbers(NamedTuple):
    """What a stage is told of the loop around it."""

    superstep: int
    changed: bool
    num_vertices: int


class StageArguments(NamedTuple):
    """What threads are given to run one stage, over a frontier that the host makes and takes."""

    graph: GraphArrays
    fields: Any
    params: Any
    scalars: Any
    told: StageNumbers
    current: Frontier
    following: Frontier
    marks: Any
    buffers: Any
    flags: Any
    partials: Any  # by scalar
    totals: tuple[Any, ...]
    edge_fronts: Any  # `CpuEdges`, or nothing
    has_changed: Any  # a word
    calls_of_threads: Any
