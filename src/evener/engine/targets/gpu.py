"""The device ``cuda``: a program's whole loop as one kernel that stays on the GPU.

The host uploads the graph once, the fields for each run, starts the kernel, and looks now and then
whether it has ended or the user wants it to. A kernel whose recorded frontiers outgrow their room
returns, and goes on from there with more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from evener.device import cuda as device
from evener.device import format_bytes
from evener.device.fetch import fetched
from evener.device.warp import BLOCK, WARP
from evener.engine.codegen.functors import (
    state_of,
)
from evener.engine.codegen.print_gpu import MORE_ROOM, SAVED_WORDS, SIGNATURE, lower_grid
from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job, field_dtype
from evener.engine.memory import edges as placement
from evener.engine.memory import gpu as memory
from evener.engine.records import entry_bytes
from evener.engine.request import Request
from evener.engine.results.trace import MOST_ROWS
from evener.engine.targets import grid
from evener.engine.targets.grid import Lowered, lowered_once, ready, reset_scalars
from evener.errors import MemoryBudgetError
from evener.graph.csr import Graph
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
from evener.operators.gpu.record import (
    FUSED,
    NEEDED,
    RECORDED,
    STATUS,
    TRACE_WORDS,
    VISITED,
)
from evener.operators.gpu.schedules import merge_path
from evener.operators.gpu.schedules.common import PIECE, PIECE_WORDS, room_for_pieces
from evener.operators.shared.frontier import ALL
from evener.programs.stages import Advance, Edges, Gather, Repeat, walk

FEW_ROWS = 64  # of the trace, fetched with the rest of what the host must know
MAX_BLOCKS = 1024  # room for the partial results of so many
MAX_WARPS = MAX_BLOCKS * BLOCK // WARP
# Room for vertices that are twice in a queue, as a part of all vertices and besides: with less, all
# would be culled exactly sooner (`evener.operators.gpu.advance.limit_of`).
TWICE, TWICE_BESIDES = 4, 1 << 19


class _Launch(NamedTuple):
    """A kernel with all its arguments but for where the memory of a run is."""

    kernel: device.GridKernel
    packed: device.Packed
    sizes: dict[str, int]  # of the two pieces of memory
    sync: int  # where its words are, among what is cleared
    told: int  # where what the kernel tells begins there: scalars, then the trace
    partials: tuple[device.Span, ...]
    at: memory.OnDevice
    room: int  # for recorded vertices
    record: tuple[device.Span, ...]
    nbytes: int  # of all that the kernel works on


def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns what there is to say about it."""
    return execute(
        job, request.devices[0].number or 0, request.direction, request.schedule,
        request.device_arrays, request.limits[0],
    )  # fmt: skip


def execute(
    job: Job, ordinal: int, direction: str = "auto", schedule: str = "auto",
    device_arrays: bool = False, limit: int | None = None,
) -> list[str]:  # fmt: skip
    """Run a job on a GPU; its fields become what the run left, on the host or on the device.

    ``limit`` is how many bytes it may take there. Edges for which there is no room stay in the
    host's memory.
    """
    job.stats.update(supersteps=0, edges=0)
    reset_scalars(job)
    if job.graph.num_vertices == 0:
        job.fields = {name: np.asarray(field) for name, field in job.fields.items()}
        return [f"Direction: {direction}. There was nothing to do."]
    with device.on(ordinal):
        began = time.perf_counter()
        lowered = _lowered(job, direction, schedule, ordinal, limit)
        room = _first_room(job, lowered, limit)
        placed = _place(job, lowered, room, ordinal, limit)
        if lowered.relabels and not _has_room_to_relabel(job.graph, placed, ordinal):
            lowered = _lowered(job, direction, schedule, ordinal, limit=0)
            placed = _place(job, lowered, room, ordinal, limit)
        lowered = lowered._replace(mapped=placed.in_host_memory)
        memory.move_edges(job.graph, placed.wanted, lowered.mapped)
        launch = _launch(job, lowered, room, ordinal)
        job.stats["compile_seconds"] = time.perf_counter() - began
        most = None
        if limit is not None:
            left = max(0, limit - (launch.nbytes - placed.mapped_bytes))
            most = launch.room + left // entry_bytes(job, lowered.plan.has_edges)
        nbytes = _run(job, lowered, launch, ordinal, device_arrays, _chosen(schedule), most)
    job.stats["mapped_bytes"] = placed.mapped_bytes
    job.stats["memory"] = [nbytes - placed.mapped_bytes]
    chosen = _chosen(schedule)
    blocks, was_cached = launch.kernel.blocks, launch.kernel.was_cached
    job.stats["blocks"] = blocks
    kept = "the kernel came from the cache" if was_cached else "the kernel was compiled"
    reasons = [
        f"Direction: {direction}. Schedule: {chosen}.",
        f"The loop ran as one kernel of {blocks} blocks; {kept}.",
    ]
    if lowered.relabels:
        reasons.append("On the GPU vertices are in the order of their degrees.")
    return [*reasons, *placement.told(placed)]


def _chosen(schedule: str) -> str:
    """The name of the schedule that ``auto`` is, but for slices of lists."""
    return "dynamic" if schedule == "auto" else schedule


def lower(job: Job, request: Request) -> list[Kernel]:
    """The kernel of a job, not compiled."""
    grid.require_schedule(request.schedule)
    relabels = _only_gathers(job) and memory.is_skewed(job.graph)
    state = state_of(job.declaration)
    return [lower_grid(job, request.direction, state, request.schedule, relabels)]


def ptx(job: Job, request: Request, capability: tuple[int, int]) -> str:
    """The PTX of a job's kernel; no GPU is needed."""
    return ptx_of(job, request.direction, request.schedule, capability)


def ptx_of(job: Job, direction: str, schedule: str, capability: tuple[int, int]) -> str:
    """The PTX of a job's kernel; no GPU is needed."""
    reset_scalars(job)
    lowered = _lowered(job, direction, schedule)
    arguments, _ = _arguments(memory.HostMemory(), job, lowered, _first_room(job, lowered))
    return grid.ptx_of(lowered, arguments, capability)


# ---- the kernel --------------------------------------------------------------------------------


def _lowered(
    job: Job, direction: str, schedule: str, ordinal: int | None = None, limit: int | None = None
) -> Lowered:
    """The kernel of a job; where there is room it works on vertices in the order of degrees."""
    graph = job.graph
    relabels = _only_gathers(job) and memory.is_skewed(graph)
    if relabels and ordinal is not None:
        room = [] if limit is None else [limit]
        if not memory.is_kept(graph, memory.BY_DEGREE, ordinal):
            room.append(device.free_memory())
        relabels = not room or memory.bytes_to_relabel(graph) < min(room) // 2
    along = {stage.along for stage in walk(job.declaration.loop) if isinstance(stage, Gather)}
    both = graph.directed and "both" in along
    lower = partial(lower_grid, job, direction, state_of(job.declaration), schedule, relabels)
    return lowered_once(job, direction, schedule, (both,), lower, relabels)


def _only_gathers(job: Job) -> bool:
    """Whether all that a program does with edges is to gather over all vertices, in a loop."""
    stages = list(walk(job.declaration.loop))
    gathers = [stage for stage in stages if isinstance(stage, Gather)]
    return (
        len(gathers) > 0
        and all(stage.over_all for stage in gathers)
        and not any(isinstance(stage, Advance | Edges) for stage in stages)
        and any(isinstance(stage, Repeat) for stage in stages)
        and (not job.graph.directed or all(stage.along == "in" for stage in gathers))
    )


# ---- memory ------------------------------------------------------------------------------------


def _place(
    job: Job, lowered: Lowered, room: int, ordinal: int, limit: int | None
) -> placement.Placed:  # fmt: skip
    """Where the edges are to be; refuses a run that cannot fit, before anything is allocated."""
    plan = lowered.plan
    graph = job.graph
    besides = _bytes_of_run(job, lowered, room)
    besides += placement.start_bytes(graph, lowered.pulls, plan.has_both, lowered.degree)
    arrays = placement.edge_arrays(job, lowered.pulls, plan.has_both)
    return placement.place_edges(job, arrays, besides, limit, ordinal)


def _has_room_to_relabel(graph: Graph, placed: placement.Placed, ordinal: int) -> bool:
    """Whether vertices can be put in the order of degrees: of a graph that is on the card."""
    if placed.mapped or memory.is_kept(graph, memory.BY_DEGREE, ordinal):
        return not placed.mapped
    return memory.bytes_to_relabel(graph) <= placed.left


def _bytes_of_run(job: Job, lowered: Lowered, room: int) -> int:
    """About how many bytes a run takes besides the graph."""
    plan = lowered.plan
    graph = job.graph
    n, m, width = graph.num_vertices, graph.num_edges, graph._indices.dtype.itemsize
    needed = sum(array.nbytes for array in job.fields.values())
    needed += (
        (2 + plan.replays) * width * _queue_length(lowered, n)
        + 4 * n
        + n // 2
        + sum(dtype.itemsize * n for dtype in lowered.stored if dtype is not None)
    )
    needed += _pieces(lowered, m) * 8 * (PIECE_WORDS + len(lowered.kernel.totals))
    needed += sum(job.fields[name].nbytes for name in plan.copied)
    needed += plan.fuses * n * (2 * width + 4) + plan.replays * room * (width + 8)
    needed += plan.orders * n * (2 * width + 8)
    if plan.has_edges:
        edge = graph._indptr.dtype.itemsize
        needed += (2 + plan.replays) * m * (width + edge) + plan.replays * room * (edge + 1)
    return needed


def _require_free(job: Job, needed: int) -> None:
    free = device.free_memory()
    if needed > free:
        raise MemoryBudgetError(
            f"Running {job.declaration.name} needs about {format_bytes(needed)} on the GPU, but "
            f"only {format_bytes(free)} are free; use a smaller graph or device='cpu'."
        )


def _arguments(
    room_for: Any, job: Job, lowered: Lowered, room: int
) -> tuple[tuple[Any, ...], memory.OnDevice]:
    """All that the kernel works on, after `lower_grid.SIGNATURE`, and where the graph is."""
    plan = lowered.plan
    graph, d = job.graph, job.declaration
    library, scratch, cleared = room_for.library, room_for.scratch, room_for.cleared
    n, m = graph.num_vertices, graph.num_edges
    if lowered.relabels:
        at = memory.place_by_degree(library, graph)
    else:
        at = memory.place_graph(
            library, graph, lowered.pulls, lowered.degree, plan.has_both, weights=d.uses_weights,
            mapped=lowered.mapped,
        )  # fmt: skip
    ids = at.rows[1].dtype
    has_bits = lowered.pulls and any(isinstance(stage, Advance) for stage in walk(d.loop))
    words = (n + 31) // 32 if has_bits else 1
    pieces = _pieces(lowered, m)
    sums = merge_path.scratch_words(n, MAX_WARPS) if lowered.sums else 0
    entries = _queue_length(lowered, n)
    # Given, one after the other.
    infos, queue = scratch(10 * INFO_WORDS, np.int64), scratch(entries, ids)
    far = n if plan.fuses else 1
    kept, recorded = (entries, room) if plan.replays else (1, 1)
    replayed_edges = recorded if plan.has_edges and plan.replays else 0
    sync = room_for.told(SYNC_WORDS, np.uint32)
    works = cleared(TURNS * WORK_WORDS, np.int64)
    marks = cleared(n, np.uint32)
    bits = [cleared(words, np.uint32) for _ in range(4)]
    shared, in_far = cleared(SHARED_WORDS, np.int64), cleared(far, np.uint32)
    saves = cleared(SAVED_WORDS if plan.replays else 1, np.int64)
    nothing = cleared(1, np.int32)
    edge_rooms = (
        _edge_rooms(room_for, lowered, m, ids, at.rows[0].dtype) if plan.has_edges else (nothing,)
    )
    waiting = _waiting_rooms(room_for, lowered, n, ids) if plan.orders else (nothing,)
    # The last ones, in this order: it is what the host looks at.
    partials = tuple(
        room_for.told(MAX_BLOCKS, field_dtype(scalar.dtype, graph)) for scalar in d.scalars.values()
    )
    trace = room_for.told((MOST_ROWS + 1) * TRACE_WORDS, np.int64)
    grows = room_for.record if plan.replays else scratch
    record = (
        grows(recorded, ids), grows(recorded + 1, np.int64),
        grows(replayed_edges, at.rows[0].dtype), grows(replayed_edges, np.uint8),
    )  # fmt: skip
    rows, columns = at.rows, at.columns
    both: tuple[Any, ...] = at.both or ()
    if not d.uses_weights:  # one dtype of weights, hence one kernel, for all graphs
        rows, columns = (*rows[:2], nothing), (*columns[:2], nothing)
        both = (*both[:2], nothing) if plan.has_both else ()
    arguments = (
        sync,
        (
            *rows, *columns, at.degrees if lowered.degree else nothing,
            at.order if lowered.relabels else nothing, *both,
        ),
        tuple(room_for.field(field) for field in job.fields.values()),
        tuple(job.params.values()),
        (queue, bits[0], scratch(entries, ids), bits[1], scratch(kept, ids), bits[2], bits[3]),
        tuple(infos[first * INFO_WORDS : last * INFO_WORDS] for first, last in _POOLS),
        works,
        marks,
        scratch(max(pieces * PIECE_WORDS, sums), np.int64),
        partials,
        tuple(
            scratch(n if stored else 1, dtype)
            for stored, dtype in zip(plan.stores_totals, lowered.kernel.totals, strict=True)
        ),
        tuple(scratch(pieces, dtype) for dtype in lowered.kernel.totals),
        tuple(scratch(n, job.fields[name].dtype) for name in plan.copied),
        (shared, scratch(far, ids), scratch(far, ids), in_far),
        record,
        edge_rooms,
        waiting,
        saves,
        trace,
    )  # fmt: skip
    return arguments, at


def _queue_length(lowered: Lowered, n: int) -> int:
    """Entries of a queue."""
    return n + n // TWICE + TWICE_BESIDES if lowered.plan.is_inexact else n


def _first_room(job: Job, lowered: Lowered, limit: int | None = None) -> int:
    """How many recorded vertices a run begins with room for; within a limit each vertex once."""
    n = job.graph.num_vertices
    most = None if limit is None or job.preallocation.fixed else n + 1
    return job.preallocation.first(job, n, most) if lowered.plan.replays else 1


def _edge_rooms(room_for: Any, lowered: Lowered, m: int, ids: Any, places: Any) -> tuple[Any, ...]:
    """Two frontiers of edges, a third for `backwards`, and words for those outside and in it."""
    scratch, infos = room_for.scratch, TURNS * INFO_WORDS
    third = m if lowered.plan.replays else 1
    fronts = tuple((scratch(size, ids), scratch(size, places)) for size in (m, m, third))
    return (*fronts, room_for.cleared(infos, np.int64), room_for.cleared(infos, np.int64))


def _waiting_rooms(room_for: Any, lowered: Lowered, n: int, ids: Any) -> tuple[Any, ...]:
    """For each loop in the order of buckets: two queues, their words, how near vertices wait."""
    scratch, cleared, infos = room_for.scratch, room_for.cleared, TURNS * INFO_WORDS
    return tuple(
        (scratch(n, ids), scratch(n, ids), cleared(infos, np.int64), cleared(n, np.int64))
        for _ in range(lowered.plan.orders)
    )


def _pieces(lowered: Lowered, num_arcs: int) -> int:
    """How many pieces of long lists there is room for."""
    num_arcs *= 1 + lowered.plan.has_both
    return room_for_pieces(num_arcs, GATHER_PIECE if lowered.kernel.totals else PIECE)


_POOLS = ((0, 3), (3, 4), (4, 7), (7, 10))  # frontiers: main, everyone, in a replay, replayed


def first_frontier(job: Job, at: memory.OnDevice) -> tuple[np.ndarray, np.ndarray]:
    """The words of frontiers, and the queue with the first one."""
    n, m = job.graph.num_vertices, job.graph.num_edges
    pools = np.zeros((10, INFO_WORDS), np.int64)
    pools[3, [SIZE, FORM, EDGES]] = n, ALL, m
    if job.frontier is None:
        pools[0] = pools[3]
        return pools, np.empty(0, at.rows[1].dtype)
    pools[0, SIZE] = len(job.frontier)
    members = job.frontier
    if at.place is not None:
        members = np.sort(_fetched(at.place[members]))
    return pools, members.astype(at.rows[1].dtype)


def _fetched(array: Any) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()


# ---- running -----------------------------------------------------------------------------------


_LOOKED_AT = ("sync", "partials", "record", "trace")


def _launch(job: Job, lowered: Lowered, room: int, ordinal: int) -> _Launch:
    """The launch of a kernel on this graph, made once."""
    launches = memory.graph_cache(job.graph)
    key = (memory.LAUNCH, ordinal, room, lowered.key)
    if key not in launches:
        layout = memory.Layout()
        arguments, at = _arguments(layout, job, lowered, room)
        kernel = ready(job, lowered, arguments, ordinal)
        sync, partials, record, trace = (arguments[SIGNATURE.index(name)] for name in _LOOKED_AT)
        told = partials[0].address if partials else trace.address
        packed = device.pack(arguments)
        nbytes = sum(layout.sizes.values()) + at.nbytes
        nbytes += sum(field.nbytes for field in job.fields.values())
        launches[key] = _Launch(
            kernel, packed, layout.sizes, sync.address, told, partials, at, room, record, nbytes
        )
    return launches[key]


def _run(
    job: Job, lowered: Lowered, launch: _Launch, ordinal: int, device_arrays: bool, schedule: str,
    most: int | None,
) -> int:  # fmt: skip
    """Run a kernel; the job then has all that it found. Returns the bytes that it worked on.

    So many vertices may be recorded at ``most``.
    """
    fixed = {name for name, field in job.declaration.fields.items() if field.replicated}
    regions = {region: device.allocate(size) for region, size in launch.sizes.items()}
    for region, size in launch.sizes.items():
        if region.startswith(memory.CLEARED):
            device.clear(regions[region].ptr, size)
    pools, members = first_frontier(job, launch.at)
    given = np.concatenate([pools.view(np.uint8).ravel(), members.view(np.uint8)])
    device.upload(regions[memory.SCRATCH].ptr, given)
    if lowered.plan.replays:
        bounds = launch.record[1]  # of which the first is 0
        device.clear(regions[memory.RECORD].ptr + bounds.address, bounds.dtype.itemsize)
    fields = memory.fill_fields(device.library(), job.fields, launch.at, fixed)
    cleared, seconds = regions[memory.CLEARED].ptr, 0.0
    trace = launch.sizes[memory.CLEARED] - (MOST_ROWS + 1) * TRACE_WORDS * 8
    few = trace + FEW_ROWS * TRACE_WORDS * 8
    launched_at = [0]  # row of the trace
    while True:
        seconds += launch.kernel.run(_words(job, launch, regions, fields), cleared + launch.sync)
        told = device.download(cleared + launch.told, few - launch.told)
        head = told[trace - launch.told :].view(np.int64)
        if head[STATUS] != MORE_ROOM:
            break
        launch = _grow(job, lowered, launch, regions, head, ordinal, most)
        launched_at.append(int(head[0]))
    kept = min(int(head[0]), MOST_ROWS)
    table = head
    if kept >= FEW_ROWS:
        table = device.download(cleared + trace, (kept + 1) * TRACE_WORDS * 8).view(np.int64)
    for name, part in zip(job.declaration.scalars, launch.partials, strict=True):
        first = part.address - launch.told
        job.scalars[name] = told[first : first + part.dtype.itemsize].view(part.dtype)[0]
    found = dict(zip(job.fields, fields, strict=True))
    found = memory.in_users_order(found, launch.at, fixed)
    job.fields = found if device_arrays else {name: fetched(f) for name, f in found.items()}
    _tell(job, head, table[: (kept + 1) * TRACE_WORDS], seconds, schedule, launched_at)
    return launch.nbytes


def _words(
    job: Job, launch: _Launch, regions: dict[str, Any], fields: list[Any]
) -> np.ndarray:  # fmt: skip
    """The words of a launch, with the addresses of this run."""
    packed = launch.packed
    words = packed.words.copy()
    for region, place in regions.items():
        words[packed.addresses[region]] += place.ptr
    if fields:
        words[packed.addresses[memory.FIELDS]] = [field.data.ptr for field in fields]
    words[packed.values] = [device.bits_of(value) for value in job.params.values()]
    return words


def _grow(
    job: Job, lowered: Lowered, launch: _Launch, regions: dict[str, Any], head: np.ndarray,
    ordinal: int, most: int | None,
) -> _Launch:  # fmt: skip
    """A launch with more room for what is recorded, which moves there; all else stays in place."""
    n, needed = job.graph.num_vertices, int(head[NEEDED])
    room = job.preallocation.more(job, n, launch.room, needed, most)
    larger = _launch(job, lowered, room, ordinal)
    _require_free(job, larger.sizes[memory.RECORD])
    place = device.allocate(larger.sizes[memory.RECORD])
    was, supersteps = regions[memory.RECORD].ptr, int(head[RECORDED])
    end = device.download(was + launch.record[1].address + 8 * supersteps, 8).view(np.int64)[0]
    used = (end, supersteps + 1, end, supersteps)
    for old, new, many in zip(launch.record, larger.record, used, strict=True):
        length = min(many, old.size) * old.dtype.itemsize  # 0 where no edges are recorded
        device.copy(place.ptr + new.address, was + old.address, length)
    regions[memory.RECORD] = place
    return larger


def _tell(
    job: Job, head: np.ndarray, table: np.ndarray, seconds: float, schedule: str,
    launched_at: Sequence[int] = (0,),
) -> None:  # fmt: skip
    """Stats and the trace."""
    rows = table.reshape(-1, TRACE_WORDS)[1:]
    total = max(1, int(rows[:, 3].sum()))
    job.stats["device_seconds"] = seconds
    job.stats["supersteps"] = int(head[0]) + int(head[FUSED])
    job.stats["edges"] = int(head[VISITED])
    job.stats["kernels"] = len(launched_at)

    def make() -> list[dict[str, Any]]:
        barriers = np.diff(rows[:, 5], prepend=0)
        return [
            {
                "superstep": int(row[0]), "mode": "in one kernel",
                "frontier": int(row[1]), "edges": int(row[4]),
                "direction": "pull" if row[2] else "push",
                "seconds": seconds * float(row[3]) / total,
                "schedule": schedule, "kernels": launched_at.count(i), "barriers": int(barriers[i]),
            }
            for i, row in enumerate(rows)
        ]  # fmt: skip

    job.make_trace = make
