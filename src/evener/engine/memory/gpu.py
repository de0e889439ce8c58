"""The arrays of a grid of a GPU, for a whole graph or a part of one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device.tuples import named
from evener.device.warp import BLOCK, WARP
from evener.engine.codegen import plan as plans
from evener.engine.codegen.arguments import (
    GpuArguments,
    GpuBuckets,
    GpuEdges,
    GpuFrontiers,
    GpuWords,
    GraphArrays,
    Waiting,
)
from evener.engine.codegen.print_resume import SAVED_WORDS
from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job, field_dtype
from evener.engine.memory.gpu_graph import Edges
from evener.engine.results.trace import MOST_ROWS
from evener.operators.gpu.frontier import (
    EDGES,
    FORM,
    INFO_WORDS,
    SIZE,
    SYNC_WORDS,
    TURNS,
    WORK_WORDS,
)
from evener.operators.gpu.gather import GATHER_PIECE
from evener.operators.gpu.nearest import SHARED_WORDS
from evener.operators.gpu.schedules import SCHEDULES
from evener.operators.gpu.schedules.common import PIECE, PIECE_WORDS, room_for_pieces
from evener.operators.gpu.trace import TRACE_WORDS
from evener.operators.shared.frontier import ALL, Adjacency, EdgeFrontier, Frontier
from evener.operators.shared.record import Record
from evener.programs.stages import Advance, walk

MAX_BLOCKS = 1024  # with room for partial results
MAX_WARPS = MAX_BLOCKS * BLOCK // WARP
# Room for duplicates in a queue: n / TWICE + TWICE_BESIDES. With less, exact deduplication would
# begin sooner (`evener.operators.gpu.advance.limit_of`).
TWICE, TWICE_BESIDES = 4, 1 << 19

# Words of frontiers: made outside replays, of all vertices, made and read in replays.
_MADE, _EVERYONE, _REMADE, _REPLAYED = (0, 3), (3, 4), (4, 7), (7, 10)
_ALL_WORDS = 10


class Lowered(NamedTuple):
    """A kernel for a grid, and what determines its arrays."""

    key: Any
    kernel: Kernel
    function: Any  # the plain function
    functors: dict[str, Any]  # compiled separately
    pulls: bool
    degree: bool
    schedule: str
    blocks_each: int  # on a multiprocessor
    relabels: bool = False  # works on vertices in the order of their degrees
    mapped: tuple[Edges, ...] = ()  # arrays of edges that stay in the host's memory

    @property
    def stored(self) -> tuple[np.dtype | None, ...]:
        """The dtypes of stored totals, by gather; None for a gather that stores none."""
        stores = zip(self.kernel.totals, self.plan.stores_totals, strict=True)
        return tuple(dtype if stored else None for dtype, stored in stores)

    @property
    def plan(self) -> plans.KernelPlan:
        """The plan of the kernel."""
        return self.kernel.plan


class Lists(NamedTuple):
    """The arrays of a graph or part for a grid, weights last; absent ones are None."""

    rows: tuple[Any, Any, Any]
    columns: tuple[Any, Any, Any]
    both: tuple[Any, Any, Any] | None
    degrees: Any
    ids: Any


def gpu_arguments(
    layout: Any, job: Job, lowered: Lowered, lists: Lists, fields: dict[str, Any],
    copies: dict[str, Any], owned: int, room: int, marks: Any = None, between: Any = (),
) -> GpuArguments:  # fmt: skip
    """The arguments of a kernel, with ``room`` for recorded vertices.

    ``layout`` is a `evener.engine.memory.layout.Layout` or its host equivalent. With several parts,
    marks and copies of fields belong to all of them.
    """
    plan, d, graph = lowered.plan, job.declaration, job.graph
    scratch, cleared = layout.scratch, layout.cleared
    n, m = max(1, owned), max(len(lists.rows[1]), len(lists.columns[1]))
    ids = lists.rows[1].dtype
    # Adjacent, because they are filled together (`first_frontier`).
    infos, queue = scratch(_ALL_WORDS * INFO_WORDS, np.int64), scratch(queue_length(plan, n), ids)
    pieces = num_pieces(lowered, m)
    words_of = getattr(SCHEDULES.get(lowered.schedule), "scratch_words", None)
    own = words_of(n, MAX_WARPS) if words_of else 0
    far = n if plan.fuses else 1
    sync, nothing = layout.host_visible(SYNC_WORDS, np.uint32), cleared(1, np.int32)
    arguments = GpuArguments(
        sync,
        _graph(lists, nothing, d.uses_weights),
        named("Fields", fields),
        named("Params", job.params),
        _fronts(layout, lowered, n, ids, infos, queue),
        GpuWords(*(_words(infos, *of) for of in (_MADE, _EVERYONE, _REMADE, _REPLAYED))),
        cleared(TURNS * WORK_WORDS, np.int64),
        cleared(n, np.uint32) if marks is None else marks,
        scratch(max(pieces * PIECE_WORDS, own), np.int64),
        (),
        tuple(
            scratch(n if stored else 1, dtype)
            for stored, dtype in zip(plan.stores_totals, lowered.kernel.totals, strict=True)
        ),
        tuple(scratch(pieces, dtype) for dtype in lowered.kernel.totals),
        named("Copies", copies),
        GpuBuckets(
            cleared(SHARED_WORDS, np.int64), scratch(far, ids), scratch(far, ids),
            cleared(far, np.uint32),
        ),
        _record(layout, plan, room, ids, lists.rows[0].dtype),
        _edge_fronts(layout, plan, m, ids, lists.rows[0].dtype) if plan.has_edges else (),
        _waiting(layout, plan, n, ids),
        cleared(SAVED_WORDS if plan.places else 1, np.int64),
        (),
        between,
    )  # fmt: skip
    partials = {
        name: layout.host_visible(MAX_BLOCKS, field_dtype(scalar.dtype, graph))
        for name, scalar in d.scalars.items()
    }
    trace = layout.host_visible((MOST_ROWS + 1) * TRACE_WORDS, np.int64)
    return arguments._replace(partials=named("Partials", partials), trace=trace)


def _graph(lists: Lists, nothing: Any, uses_weights: bool) -> GraphArrays:
    def side(arrays: tuple[Any, Any, Any] | None) -> tuple[Adjacency, Any]:
        if arrays is None:
            return Adjacency(nothing, nothing), nothing
        starts, indices, weights = arrays
        # A program that reads no weights has one kernel for all their dtypes.
        return Adjacency(starts, indices), weights if uses_weights else nothing

    return GraphArrays(
        *side(lists.rows), *side(lists.columns), *side(lists.both),
        nothing if lists.degrees is None else lists.degrees,
        nothing if lists.ids is None else lists.ids,
    )  # fmt: skip


def _words(infos: Any, first: int, last: int) -> Any:
    return infos[first * INFO_WORDS : last * INFO_WORDS]


def _fronts(
    layout: Any, lowered: Lowered, n: int, ids: Any, infos: Any, queue: Any
) -> GpuFrontiers:
    plan = lowered.plan
    has_bits = lowered.pulls and any(isinstance(s, Advance) for s in walk(plan.d.loop))
    words, length = (n + 31) // 32 if has_bits else 1, queue_length(plan, n)

    def frontier(queue: Any, first: int) -> Frontier:
        bits = layout.cleared(words, np.uint32)
        return Frontier(queue, bits, _words(infos, first, first + 1))

    return GpuFrontiers(
        frontier(queue, _MADE[0]),
        frontier(layout.scratch(length, ids), _MADE[0]),
        frontier(queue, _EVERYONE[0]),
        frontier(layout.scratch(length if plan.replays else 1, ids), _REMADE[0]),
    )


def _record(layout: Any, plan: plans.KernelPlan, room: int, ids: Any, places: Any) -> Record:
    """The record, which may move to more room."""
    make = layout.record if plan.replays else layout.scratch
    room = room if plan.replays else 1
    edges = room if plan.has_edges and plan.replays else 0
    return Record(
        make(room, ids), make(room + 1, np.int64), make(edges, places), make(edges, np.uint8)
    )  # fmt: skip


def _edge_fronts(layout: Any, plan: plans.KernelPlan, m: int, ids: Any, places: Any) -> GpuEdges:
    """Two frontiers of edges, a third for `backwards`, and their words."""
    made, remade = (layout.cleared(TURNS * INFO_WORDS, np.int64) for _ in range(2))

    def edges(length: int, words: Any) -> EdgeFrontier:
        scratch = layout.scratch
        return EdgeFrontier(scratch(length, ids), scratch(length, places), words)

    third = edges(m if plan.replays else 1, remade)
    return GpuEdges(edges(m, made), edges(m, made), third, made, remade)


def _waiting(layout: Any, plan: plans.KernelPlan, n: int, ids: Any) -> tuple[Waiting, ...]:
    """The waiting vertices of each loop over buckets."""

    def waiting(scratch: Any, cleared: Any) -> Waiting:
        words, bits = cleared(TURNS * INFO_WORDS, np.int64), cleared(1, np.uint32)
        mine, later = (Frontier(scratch(n, ids), bits, words) for _ in range(2))
        return Waiting(mine, later, cleared(n, np.int64), (), words)

    return tuple(waiting(layout.scratch, layout.cleared) for _ in range(plan.orders))


def bytes_of_run(job: Job, lowered: Lowered, room: int) -> int:
    """About how many bytes a run takes besides the graph."""
    plan = lowered.plan
    graph = job.graph
    n, m, width = graph.num_vertices, graph.num_edges, graph._indices.dtype.itemsize
    needed = sum(array.nbytes for array in job.fields.values())
    needed += (
        (2 + plan.replays) * width * queue_length(plan, n)
        + 4 * n
        + n // 2
        + sum(dtype.itemsize * n for dtype in lowered.stored if dtype is not None)
    )
    needed += num_pieces(lowered, m) * 8 * (PIECE_WORDS + len(lowered.kernel.totals))
    needed += sum(job.fields[name].nbytes for name in plan.copied)
    needed += plan.fuses * n * (2 * width + 4) + plan.replays * room * (width + 8)
    needed += plan.orders * n * (2 * width + 8)
    if plan.has_edges:
        edge = graph._indptr.dtype.itemsize
        needed += (2 + plan.replays) * m * (width + edge) + plan.replays * room * (edge + 1)
    return needed


def queue_length(plan: plans.KernelPlan, n: int) -> int:
    """Entries of a queue of n vertices."""
    return n + n // TWICE + TWICE_BESIDES if plan.is_inexact else n


def num_pieces(lowered: Lowered, num_arcs: int) -> int:
    """The number of pieces of long lists for which there is room."""
    num_arcs *= 1 + lowered.plan.has_both
    return room_for_pieces(num_arcs, GATHER_PIECE if lowered.kernel.totals else PIECE)


def first_frontier(n: int, m: int, members: np.ndarray | None, ids: np.dtype) -> np.ndarray:
    """The bytes of the words of frontiers, followed by the first queue.

    Without ``members`` a run begins with all n vertices, which have m arcs.
    """
    pools = np.zeros((_ALL_WORDS, INFO_WORDS), np.int64)
    pools[_EVERYONE[0], [SIZE, FORM, EDGES]] = n, ALL, m
    if members is None:
        pools[0] = pools[_EVERYONE[0]]
        return pools.view(np.uint8).ravel()
    pools[0, SIZE] = len(members)
    queue = members.astype(ids)
    return np.concatenate([pools.view(np.uint8).ravel(), queue.view(np.uint8)])


def put_first(arguments: GpuArguments, content: np.ndarray) -> None:
    """Write the first frontier into arguments in the host's memory."""
    words, queue = arguments.infos, arguments.fronts.current.queue
    split = _ALL_WORDS * INFO_WORDS * 8
    pools = content[:split].view(np.int64)
    for array, (first, last) in zip(words, (_MADE, _EVERYONE, _REMADE, _REPLAYED), strict=True):
        array[:] = pools[first * INFO_WORDS : last * INFO_WORDS]
    members = content[split:].view(queue.dtype)
    queue[: len(members)] = members
