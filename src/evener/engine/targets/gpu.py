"""The device ``cuda``: a program's whole loop as one kernel that stays on the GPU.

The host uploads the graph once, the fields for each run, starts the kernel, and looks now and then
whether it has ended or the user wants it to. A kernel whose recorded frontiers outgrow their room
returns, and goes on from there with more.
"""

from __future__ import annotations

import dataclasses
import linecache
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from evener.device import cuda as device
from evener.device import format_bytes
from evener.device.fetch import fetched
from evener.device.warp import BLOCK, WARP
from evener.engine.codegen.functors import (
    check_functors,
    examples_of,
    functors_of,
    kernel_key,
    state_of,
    total_dtype,
)
from evener.engine.codegen.gpu import SIGNATURE, lower_grid
from evener.engine.codegen.resume import MORE_ROOM, SAVED_WORDS
from evener.engine.codegen.stages import pulls
from evener.engine.job import Job, field_dtype
from evener.engine.memory import edges as placement
from evener.engine.memory import gpu as memory
from evener.engine.records import entry_bytes
from evener.engine.request import Request
from evener.engine.results.trace import MOST_ROWS
from evener.errors import DeviceError, MemoryBudgetError
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
from evener.operators.gpu.schedules import SCHEDULES, merge_path
from evener.operators.gpu.schedules.common import PIECE, PIECE_WORDS, room_for_pieces
from evener.operators.shared.frontier import ALL
from evener.programs.fields import neutral
from evener.programs.program import memory_of
from evener.programs.stages import Advance, Backwards, Edges, Gather, Repeat, walk

FEW_ROWS = 64  # of the trace, fetched with the rest of what the host must know
# Blocks on a multiprocessor. What goes over all vertices is bound by memory: more threads hide
# more of its latency. Frontiers may be small and many: one block means fewer to meet at a barrier,
# and registers for all that a thread has to keep.
BLOCKS_FOR_ALL, BLOCKS_FOR_FRONTIERS = 2, 1
MAX_BLOCKS = 1024  # room for the partial results of so many
MAX_WARPS = MAX_BLOCKS * BLOCK // WARP
# Room for vertices that are twice in a queue, as a part of all vertices and besides: with less, all
# would be culled exactly sooner (`evener.operators.gpu.advance.limit_of`).
TWICE, TWICE_BESIDES = 4, 1 << 19


class _Plan(NamedTuple):
    """A kernel, and what it works with."""

    key: Any
    kernel: Any  # the plain function
    functors: dict[str, Any]  # each by itself
    dtypes: tuple[np.dtype, ...]  # of the totals of each gather
    stored: tuple[bool, ...]  # whether it stores them
    copied: tuple[str, ...]  # fields that have a second copy
    pulls: bool
    ordered: bool  # has loops in the order of fused buckets
    orders: int  # loops with a superstep for each bucket
    replays: bool
    edges: bool  # has frontiers of edges
    both: bool  # gathers along both directions of a directed graph
    twice: bool  # a vertex may be twice in a frontier
    degree: bool
    sums: bool  # of degrees, for the schedule merge_path
    blocks_each: int  # on a multiprocessor
    relabels: bool  # works on vertices in the order of their degrees
    mapped: tuple[memory.Edges, ...] = ()  # arrays of edges that stay in the host's memory


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
    _reset_scalars(job)
    if job.graph.num_vertices == 0:
        job.fields = {name: np.asarray(field) for name, field in job.fields.items()}
        return [f"Direction: {direction}. There was nothing to do."]
    with device.on(ordinal):
        began = time.perf_counter()
        plan = _plan(job, direction, schedule, ordinal, limit)
        room = _first_room(job, plan, limit)
        placed = _place(job, plan, room, ordinal, limit)
        if plan.relabels and not _has_room_to_relabel(job.graph, placed, ordinal):
            plan = _plan(job, direction, schedule, ordinal, limit=0)
            placed = _place(job, plan, room, ordinal, limit)
        plan = plan._replace(mapped=placed.in_host_memory)
        memory.move_edges(job.graph, placed.wanted, plan.mapped)
        launch = _launch(job, plan, room, ordinal)
        job.stats["compile_seconds"] = time.perf_counter() - began
        most = None
        if limit is not None:
            left = max(0, limit - (launch.nbytes - placed.mapped_bytes))
            most = launch.room + left // entry_bytes(job, plan.edges)
        nbytes = _run(job, plan, launch, ordinal, device_arrays, _chosen(schedule), most)
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
    if plan.relabels:
        reasons.append("On the GPU vertices are in the order of their degrees.")
    return [*reasons, *placement.told(placed)]


def _chosen(schedule: str) -> str:
    """The name of the schedule that ``auto`` is, but for slices of lists."""
    return "dynamic" if schedule == "auto" else schedule


def ptx_of(job: Job, direction: str, schedule: str, capability: tuple[int, int]) -> str:
    """The PTX of a job's kernel; no GPU is needed."""
    _reset_scalars(job)
    plan = _plan(job, direction, schedule)
    arguments, _ = _arguments(memory.HostMemory(), job, plan, _first_room(job, plan))
    described = device.describe(arguments)
    return device.compile_ptx(plan.kernel, described, capability, plan.blocks_each)


def _reset_scalars(job: Job) -> None:
    for name, scalar in job.declaration.scalars.items():
        dtype = field_dtype(scalar.dtype, job.graph)
        job.scalars[name] = dtype.type(neutral(scalar.merge, dtype))


# ---- the kernel --------------------------------------------------------------------------------


def _plan(
    job: Job, direction: str, schedule: str, ordinal: int | None = None, limit: int | None = None
) -> _Plan:  # fmt: skip
    if schedule != "auto" and schedule not in SCHEDULES:
        known = ", ".join(map(repr, SCHEDULES))
        raise DeviceError(f"there is no schedule {schedule!r}; there are 'auto', {known}.")
    graph = job.graph
    arrays: list[Any] = [graph._indptr, graph._indices]
    if job.declaration.uses_weights:
        arrays.append(graph._weights)
    relabels = _only_gathers(job) and memory.is_skewed(graph)
    if relabels and ordinal is not None:
        room = [] if limit is None else [limit]
        if not memory.is_kept(graph, memory.BY_DEGREE, ordinal):
            room.append(device.free_memory())
        relabels = not room or memory.bytes_to_relabel(graph) < min(room) // 2
    dtypes = tuple(array.dtype for array in arrays)
    both = graph.directed and any(
        isinstance(stage, Gather) and stage.along == "both" for stage in walk(job.declaration.loop)
    )
    key = (*kernel_key(job), direction, schedule, relabels, both, dtypes)
    plans = memory_of(job.program, "grid")
    if key not in plans:
        plans[key] = _make_plan(job, direction, schedule, relabels, key)
    return plans[key]


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


def compile_text(job: Job, kernel: Any, example: Any) -> tuple[list[np.dtype], dict[str, Any]]:
    """The dtypes of the totals of a kernel's gathers, and the names that its text defines."""
    totals = []
    for number, stage in enumerate(kernel.gathers):
        dtype = total_dtype(job.declaration, functors_of(job, kernel), stage, *examples_of(example))
        own = stage.combine_is_functor
        kernel.names[f"neutral_of_{number}"] = dtype.type(
            0 if own else neutral(stage.combine, dtype)
        )
        totals.append(dtype)
    file = f"<evener kernel {hash(kernel.text) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(kernel.text), None, kernel.text.splitlines(True), file)
    scope = {**kernel.names, "__name__": __name__}
    exec(compile(kernel.text, file, "exec"), scope)
    scope["worker"] = device.inlined(scope["worker"])
    return totals, scope


def _make_plan(
    job: Job, direction: str, schedule: str, relabels: bool, key: Any
) -> _Plan:  # fmt: skip
    d = job.declaration
    example = _example(job)
    state = state_of(d)
    kernel = lower_grid(job, direction, state, schedule, relabels)
    totals, scope = compile_text(job, kernel, example)
    stages = list(walk(d.loop))
    orders = sum(isinstance(stage, Repeat) and stage.order is not None for stage in stages)
    return _Plan(
        key,
        scope["kernel"],
        functors_of(job, kernel),
        tuple(totals),
        tuple(number in kernel.totals for number in range(len(totals))),
        tuple(kernel.copied),
        pulls(d, direction),
        orders > kernel.orders,
        kernel.orders,
        any(isinstance(stage, Backwards) for stage in stages),
        kernel.has_edges,
        kernel.has_both,
        kernel.is_inexact,
        any("degree" in found.offered for found in d.accesses.values()),
        schedule == "merge_path",
        BLOCKS_FOR_FRONTIERS if any(map(_takes_frontier, stages)) else BLOCKS_FOR_ALL,
        relabels,
    )


def _takes_frontier(stage: Any) -> bool:
    return isinstance(stage, Advance | Gather) and not stage.over_all


def _ready(job: Job, plan: _Plan, arguments: Any, ordinal: int) -> device.GridKernel:
    """The kernel on this GPU; where it does not compile, the functor that is to blame."""
    try:
        described = device.describe(arguments)
        return _grid_kernel(job, plan.kernel, described, plan.blocks_each, ordinal)
    except device.CompileError:
        check_functors(job.declaration, plan.functors, *examples_of(_example(job)))
        raise


def _example(job: Job) -> Job:
    """The job with fields of the right types and no length."""
    empty = {name: np.empty(0, field.dtype) for name, field in job.fields.items()}
    return dataclasses.replace(job, fields=empty)


def _grid_kernel(
    job: Job, kernel: Any, described: Any, blocks_each: int, ordinal: int
) -> device.GridKernel:
    known = memory_of(job.program, "grid kernels")
    key = (kernel, described, blocks_each, ordinal)
    if key not in known:
        known[key] = device.GridKernel(kernel, described, blocks_each)
    return known[key]


# ---- memory ------------------------------------------------------------------------------------


def _place(
    job: Job, plan: _Plan, room: int, ordinal: int, limit: int | None
) -> placement.Placed:  # fmt: skip
    """Where the edges are to be; refuses a run that cannot fit, before anything is allocated."""
    graph = job.graph
    besides = _bytes_of_run(job, plan, room)
    besides += placement.start_bytes(graph, plan.pulls, plan.both, plan.degree)
    arrays = placement.edge_arrays(job, plan.pulls, plan.both)
    return placement.place_edges(job, arrays, besides, limit, ordinal)


def _has_room_to_relabel(graph: Graph, placed: placement.Placed, ordinal: int) -> bool:
    """Whether vertices can be put in the order of degrees: of a graph that is on the card."""
    if placed.mapped or memory.is_kept(graph, memory.BY_DEGREE, ordinal):
        return not placed.mapped
    return memory.bytes_to_relabel(graph) <= placed.left


def _bytes_of_run(job: Job, plan: _Plan, room: int) -> int:
    """About how many bytes a run takes besides the graph."""
    graph = job.graph
    n, m, width = graph.num_vertices, graph.num_edges, graph._indices.dtype.itemsize
    needed = sum(array.nbytes for array in job.fields.values())
    needed += (
        (2 + plan.replays) * width * _queue_length(plan, n)
        + 4 * n
        + n // 2
        + sum(t.itemsize * n for t, s in zip(plan.dtypes, plan.stored, strict=True) if s)
    )
    needed += _pieces(plan, m) * 8 * (PIECE_WORDS + len(plan.dtypes))
    needed += sum(job.fields[name].nbytes for name in plan.copied)
    needed += plan.ordered * n * (2 * width + 4) + plan.replays * room * (width + 8)
    needed += plan.orders * n * (2 * width + 8)
    if plan.edges:
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
    room_for: Any, job: Job, plan: _Plan, room: int
) -> tuple[tuple[Any, ...], memory.OnDevice]:
    """All that the kernel works on, after `lower_grid.SIGNATURE`, and where the graph is."""
    graph, d = job.graph, job.declaration
    library, scratch, cleared = room_for.library, room_for.scratch, room_for.cleared
    n, m = graph.num_vertices, graph.num_edges
    if plan.relabels:
        at = memory.place_by_degree(library, graph)
    else:
        at = memory.place_graph(
            library, graph, plan.pulls, plan.degree, plan.both, weights=d.uses_weights,
            mapped=plan.mapped,
        )  # fmt: skip
    ids = at.rows[1].dtype
    has_bits = plan.pulls and any(isinstance(stage, Advance) for stage in walk(d.loop))
    words = (n + 31) // 32 if has_bits else 1
    pieces = _pieces(plan, m)
    sums = merge_path.scratch_words(n, MAX_WARPS) if plan.sums else 0
    entries = _queue_length(plan, n)
    # Given, one after the other.
    infos, queue = scratch(10 * INFO_WORDS, np.int64), scratch(entries, ids)
    far = n if plan.ordered else 1
    kept, recorded = (entries, room) if plan.replays else (1, 1)
    replayed_edges = recorded if plan.edges and plan.replays else 0
    sync = room_for.told(SYNC_WORDS, np.uint32)
    works = cleared(TURNS * WORK_WORDS, np.int64)
    marks = cleared(n, np.uint32)
    bits = [cleared(words, np.uint32) for _ in range(4)]
    shared, in_far = cleared(SHARED_WORDS, np.int64), cleared(far, np.uint32)
    saves = cleared(SAVED_WORDS if plan.replays else 1, np.int64)
    nothing = cleared(1, np.int32)
    edge_rooms = _edge_rooms(room_for, plan, m, ids, at.rows[0].dtype) if plan.edges else (nothing,)
    waiting = _waiting_rooms(room_for, plan, n, ids) if plan.orders else (nothing,)
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
        both = (*both[:2], nothing) if plan.both else ()
    arguments = (
        sync,
        (
            *rows, *columns, at.degrees if plan.degree else nothing,
            at.order if plan.relabels else nothing, *both,
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
            for stored, dtype in zip(plan.stored, plan.dtypes, strict=True)
        ),
        tuple(scratch(pieces, dtype) for dtype in plan.dtypes),
        tuple(scratch(n, job.fields[name].dtype) for name in plan.copied),
        (shared, scratch(far, ids), scratch(far, ids), in_far),
        record,
        edge_rooms,
        waiting,
        saves,
        trace,
    )  # fmt: skip
    return arguments, at


def _queue_length(plan: _Plan, n: int) -> int:
    """Entries of a queue."""
    return n + n // TWICE + TWICE_BESIDES if plan.twice else n


def _first_room(job: Job, plan: _Plan, limit: int | None = None) -> int:
    """How many recorded vertices a run begins with room for; within a limit each vertex once."""
    n = job.graph.num_vertices
    most = None if limit is None or job.preallocation.fixed else n + 1
    return job.preallocation.first(job, n, most) if plan.replays else 1


def _edge_rooms(room_for: Any, plan: Any, m: int, ids: Any, places: Any) -> tuple[Any, ...]:
    """Two frontiers of edges, a third for `backwards`, and words for those outside and in it."""
    scratch, infos = room_for.scratch, TURNS * INFO_WORDS
    third = m if plan.replays else 1
    fronts = tuple((scratch(size, ids), scratch(size, places)) for size in (m, m, third))
    return (*fronts, room_for.cleared(infos, np.int64), room_for.cleared(infos, np.int64))


def _waiting_rooms(room_for: Any, plan: Any, n: int, ids: Any) -> tuple[Any, ...]:
    """For each loop in the order of buckets: two queues, their words, how near vertices wait."""
    scratch, cleared, infos = room_for.scratch, room_for.cleared, TURNS * INFO_WORDS
    return tuple(
        (scratch(n, ids), scratch(n, ids), cleared(infos, np.int64), cleared(n, np.int64))
        for _ in range(plan.orders)
    )


def _pieces(plan: _Plan, num_arcs: int) -> int:
    """How many pieces of long lists there is room for."""
    num_arcs *= 1 + plan.both
    return room_for_pieces(num_arcs, GATHER_PIECE if plan.dtypes else PIECE)


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


def _launch(job: Job, plan: _Plan, room: int, ordinal: int) -> _Launch:
    """The launch of a kernel on this graph, made once."""
    launches = memory.kept(job.graph)
    key = (memory.LAUNCH, ordinal, room, plan.key)
    if key not in launches:
        layout = memory.Layout()
        arguments, at = _arguments(layout, job, plan, room)
        kernel = _ready(job, plan, arguments, ordinal)
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
    job: Job, plan: _Plan, launch: _Launch, ordinal: int, device_arrays: bool, schedule: str,
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
    if plan.replays:
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
        launch = _grow(job, plan, launch, regions, head, ordinal, most)
        launched_at.append(int(head[0]))
    kept = min(int(head[0]), MOST_ROWS)
    table = head
    if kept >= FEW_ROWS:
        table = device.download(cleared + trace, (kept + 1) * TRACE_WORDS * 8).view(np.int64)
    for name, partial in zip(job.declaration.scalars, launch.partials, strict=True):
        first = partial.address - launch.told
        job.scalars[name] = told[first : first + partial.dtype.itemsize].view(partial.dtype)[0]
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
    job: Job, plan: _Plan, launch: _Launch, regions: dict[str, Any], head: np.ndarray, ordinal: int,
    most: int | None,
) -> _Launch:  # fmt: skip
    """A launch with more room for what is recorded, which moves there; all else stays in place."""
    n, needed = job.graph.num_vertices, int(head[NEEDED])
    room = job.preallocation.more(job, n, launch.room, needed, most)
    larger = _launch(job, plan, room, ordinal)
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
