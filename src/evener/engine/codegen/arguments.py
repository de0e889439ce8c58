"""The arguments of kernels, as named tuples: the host makes them, the text of a kernel reads them.

A kernel for threads is ``worker(thread, threads, sync, *CpuArguments)``, one for a grid
``kernel(*GpuArguments)``. Arrays of fields and scalars have the names that the program gives them
(`named`); those of gathers, and of loops over buckets, are in the order of the stages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from evener.operators.shared.frontier import Adjacency, EdgeFrontier, Frontier
from evener.operators.shared.record import Record


class GraphArrays(NamedTuple):
    """Neighbour lists with their weights, and the degree and id of each vertex."""

    out: Adjacency
    weight_out: Any
    into: Adjacency  # the same as `out` where nothing is pulled
    weight_in: Any
    both: Adjacency  # in-edges, then out-edges
    weight_both: Any
    degree: Any
    ids: Any  # in the whole graph


class Waiting(NamedTuple):
    """The waiting vertices of a loop over buckets: two frontiers that take turns, and buckets."""

    mine: Frontier
    later: Frontier
    near: Any  # buckets, see `evener.operators.shared.buckets`
    scratch: Any  # of the threads; none on a GPU
    words: Any  # of the frontiers, for all turns; none on a CPU


# ---- between parts -----------------------------------------------------------------------------


class Place(NamedTuple):
    """Numbers that place a part among the others."""

    part: int
    parts: int
    threads: int  # of all parts on this machine
    first: int  # the first thread of this part among them
    num_vertices: int  # of the whole graph
    num_arcs: int
    policy: int
    machine: int
    machines: int
    total: int  # ghosts of all parts
    patience: int  # see `evener.engine.memory.hub.HubMemory.patience`


class Links(NamedTuple):
    """Arrays for exchanges on one machine; see `evener.operators.shared.world.World`."""

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
    """Arrays for exchanges with others; see `evener.operators.shared.between_machines.Hub`."""

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
    """Arrays that the parts of a machine share."""

    links: Links
    fields: Any  # of all parts
    copies: Any
    olds: Any  # values of ghosts before a stage
    united: Any  # values of replicated fields before a stage
    agreed: Any  # by scalar
    hub: HubArrays
    boxes: Any  # in the hub, by field
    far_copies: Any
    far_agreed: Any


class Between(NamedTuple):
    """The arguments of a part for exchanges with the others."""

    place: Place
    common: Common
    present: Any  # members of the frontier as bits, ghosts included
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
    """Memory of `nearest`: shared words, the bucket being visited, and the threads' buckets."""

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
    """The arguments of a kernel after ``thread``, ``threads`` and ``sync``."""

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
    """The words of frontiers, some for each turn."""

    made: Any
    everyone: Any
    remade: Any  # in a replay
    replayed: Any


class GpuBuckets(NamedTuple):
    """Memory of `nearest`: shared words, two far piles that take turns, and marks of members."""

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
    """The arguments of a kernel on a GPU."""

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
    """What a stage needs to know of the loop around it."""

    superstep: int
    changed: bool
    num_vertices: int


class StageArguments(NamedTuple):
    """The arguments of a kernel of one stage, whose frontiers the host makes and reads."""

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
