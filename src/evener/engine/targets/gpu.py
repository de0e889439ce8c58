"""The device ``cuda``: a program's whole loop as one kernel that stays on the GPU.

The host uploads the graph once and the fields for each run, starts the kernel, and polls whether it
has ended or the user wants it to. A kernel whose recorded frontiers outgrow their room returns, and
resumes with more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from evener.device import cuda as device
from evener.device import format_bytes
from evener.device.download import downloaded
from evener.engine.codegen.arguments import GpuArguments
from evener.engine.codegen.functors import state_of
from evener.engine.codegen.print_gpu import lower_gpu
from evener.engine.codegen.print_resume import MORE_ROOM
from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job
from evener.engine.memory import edges as placement
from evener.engine.memory import gpu_graph as memory
from evener.engine.memory.gpu import (
    Lists,
    Lowered,
    bytes_of_run,
    first_frontier,
    gpu_arguments,
)
from evener.engine.memory.layout import CLEARED, RECORD, HostMemory, Layout
from evener.engine.preallocation import entry_bytes
from evener.engine.request import Request
from evener.engine.results.trace import MOST_ROWS, rows_of
from evener.engine.targets import gpu_kernel, sets
from evener.engine.targets.gpu_kernel import lowered_once, ready
from evener.errors import MemoryBudgetError
from evener.graph.csr import Graph
from evener.operators.gpu.trace import NEEDED, PASSED, RECORDED, STATUS, TRACE_WORDS
from evener.operators.shared.trace import FUSED, ROWS, VISITED
from evener.programs.stages import Advance, Edges, Gather, Repeat, walk

REPEATS_START = True
FEW_ROWS = 64  # of the trace, downloaded with the rest of what the host must know


class _Launch(NamedTuple):
    """A kernel with all its arguments, except for the addresses of a run's memory."""

    kernel: device.GridKernel
    arguments: GpuArguments
    packed: device.Packed
    sizes: dict[str, int]  # of the pieces of memory
    at: memory.OnDevice
    room: int  # for recorded vertices
    nbytes: int  # of all that the kernel works on

    @property
    def report(self) -> int:
        """Where the report of the kernel begins in cleared memory: scalars, then the trace."""
        return (*self.arguments.partials, self.arguments.trace)[0].address


def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns the lines for `explain()`."""
    return execute(
        job, request.devices[0].number or 0, request.direction, request.schedule,
        request.device_arrays, request.limits[0],
    )  # fmt: skip


def execute(
    job: Job, ordinal: int, direction: str = "auto", schedule: str = "auto",
    device_arrays: bool = False, limit: int | None = None,
) -> list[str]:  # fmt: skip
    """Run a job on a GPU; its fields become the results, on the host or on the device.

    ``limit`` is how many bytes it may take there. Edges that do not fit stay in the host's memory.
    """
    job.begin()
    if job.graph.num_vertices == 0:
        return sets.nothing_to_do(job, direction)
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
    return [*reasons, *placement.reasons_of(placed)]


def _chosen(schedule: str) -> str:
    """The name of the schedule that ``auto`` selects, except for slices of lists."""
    return "dynamic" if schedule == "auto" else schedule


def lower(job: Job, request: Request) -> list[Kernel]:
    """The kernel of a job, not compiled."""
    gpu_kernel.require_schedule(request.schedule)
    relabels = _only_gathers(job) and memory.is_skewed(job.graph)
    state = state_of(job.declaration)
    return [lower_gpu(job, request.direction, state, request.schedule, relabels)]


def ptx(job: Job, request: Request, capability: tuple[int, int]) -> str:
    """The PTX of a job's kernel; no GPU is needed."""
    return ptx_of(job, request.direction, request.schedule, capability)


def ptx_of(job: Job, direction: str, schedule: str, capability: tuple[int, int]) -> str:
    """The PTX of a job's kernel; no GPU is needed."""
    job.begin()
    lowered = _lowered(job, direction, schedule)
    arguments, _ = _arguments(HostMemory(), job, lowered, _first_room(job, lowered))
    return gpu_kernel.ptx_of(lowered, arguments, capability)


# ---- the kernel --------------------------------------------------------------------------------


def _lowered(
    job: Job, direction: str, schedule: str, ordinal: int | None = None, limit: int | None = None
) -> Lowered:
    """The kernel of a job; if there is room, with vertices in degree order."""
    graph = job.graph
    relabels = _only_gathers(job) and memory.is_skewed(graph)
    if relabels and ordinal is not None:
        room = [] if limit is None else [limit]
        if not memory.is_kept(graph, memory.BY_DEGREE, ordinal):
            room.append(device.free_memory())
        relabels = not room or memory.bytes_to_relabel(graph) < min(room) // 2
    along = {stage.along for stage in walk(job.declaration.loop) if isinstance(stage, Gather)}
    both = graph.directed and "both" in along
    lower = partial(lower_gpu, job, direction, state_of(job.declaration), schedule, relabels)
    return lowered_once(job, direction, schedule, (both,), lower, relabels)


def _only_gathers(job: Job) -> bool:
    """Whether the only stages on edges are gathers over all vertices, in a loop."""
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
    """Place the edges; refuses a run that cannot fit, before anything is allocated."""
    plan = lowered.plan
    graph = job.graph
    besides = bytes_of_run(job, lowered, room)
    besides += placement.start_bytes(graph, lowered.pulls, plan.has_both, lowered.degree)
    arrays = placement.edge_arrays(job, lowered.pulls, plan.has_both)
    return placement.place_edges(job, arrays, besides, limit, ordinal)


def _has_room_to_relabel(graph: Graph, placed: placement.Placed, ordinal: int) -> bool:
    """Whether vertices can be sorted by degree: only if the graph is on the card."""
    if placed.mapped or memory.is_kept(graph, memory.BY_DEGREE, ordinal):
        return not placed.mapped
    return memory.bytes_to_relabel(graph) <= placed.left


def _require_free(job: Job, needed: int) -> None:
    free = device.free_memory()
    if needed > free:
        raise MemoryBudgetError(
            f"Running {job.declaration.name} needs about {format_bytes(needed)} on the GPU, but "
            f"only {format_bytes(free)} are free; use a smaller graph or device='cpu'."
        )


def _arguments(
    layout: Any, job: Job, lowered: Lowered, room: int
) -> tuple[GpuArguments, memory.OnDevice]:
    """The arguments of the kernel, and the graph on the device."""
    plan, graph, d = lowered.plan, job.graph, job.declaration
    if lowered.relabels:
        at = memory.place_by_degree(layout.library, graph)
    else:
        at = memory.place_graph(
            layout.library, graph, lowered.pulls, lowered.degree, plan.has_both,
            weights=d.uses_weights, mapped=lowered.mapped,
        )  # fmt: skip
    degrees, ids = at.degrees if lowered.degree else None, at.order if lowered.relabels else None
    fields = {
        name: layout.named(f"field {name}", len(field), field.dtype)
        for name, field in job.fields.items()
    }
    n = graph.num_vertices
    copies = {name: layout.scratch(n, job.fields[name].dtype) for name in plan.copied}
    lists = Lists(at.rows, at.columns, at.both, degrees, ids)
    return gpu_arguments(layout, job, lowered, lists, fields, copies, n, room), at


def _first_room(job: Job, lowered: Lowered, limit: int | None = None) -> int:
    """The initial room for recorded vertices; within a limit, each vertex once."""
    n = job.graph.num_vertices
    most = None if limit is None or job.preallocation.fixed else n + 1
    return job.preallocation.first(job, n, most) if lowered.plan.replays else 1


def frontier_of(job: Job, at: memory.OnDevice) -> np.ndarray:
    """The bytes of the first frontier; see `evener.engine.memory.gpu.first_frontier`."""
    members = job.frontier
    if members is not None and at.place is not None:
        places = at.place[members]
        members = np.sort(places if isinstance(places, np.ndarray) else places.get())
    return first_frontier(job.graph.num_vertices, job.graph.num_edges, members, at.rows[1].dtype)


# ---- running -----------------------------------------------------------------------------------


def _launch(job: Job, lowered: Lowered, room: int, ordinal: int) -> _Launch:
    """The launch of a kernel on this graph, made once."""
    launches = memory.graph_cache(job.graph)
    key = (memory.LAUNCH, ordinal, room, lowered.key)
    if key not in launches:
        layout = Layout()
        arguments, at = _arguments(layout, job, lowered, room)
        kernel = ready(job, lowered, arguments, ordinal)
        nbytes = sum(layout.sizes.values()) + at.nbytes
        nbytes += sum(field.nbytes for field in job.fields.values())
        packed = device.pack(arguments)
        launches[key] = _Launch(kernel, arguments, packed, layout.sizes, at, room, nbytes)
    return launches[key]


def _run(
    job: Job, lowered: Lowered, launch: _Launch, ordinal: int, device_arrays: bool, schedule: str,
    most: int | None,
) -> int:  # fmt: skip
    """Run a kernel and store its results in the job. Returns the bytes of the run.

    ``most`` is the largest number of recorded vertices.
    """
    fixed = {name for name, field in job.declaration.fields.items() if field.replicated}
    regions = {region: device.allocate(size) for region, size in launch.sizes.items()}
    arguments = launch.arguments
    clear(regions, launch.sizes)
    cleared = regions[CLEARED].ptr
    device.upload(_address(arguments.infos.made, regions), frontier_of(job, launch.at))
    if lowered.plan.replays:
        bounds = arguments.kept.bounds  # of which the first is 0
        device.clear(_address(bounds, regions), bounds.dtype.itemsize)
    fields = memory.fill_fields(device.library(), job.fields, launch.at, fixed)
    trace, seconds = arguments.trace.address, 0.0
    few = trace + FEW_ROWS * TRACE_WORDS * 8
    launched_at = [0]  # row of the trace
    while True:
        begins = {region: place.ptr for region, place in regions.items()}
        begins |= {f"field {name}": field.data.ptr for name, field in fields.items()}
        words = launch.packed.placed(begins, job.params.values())
        seconds += launch.kernel.run(words, _address(arguments.sync, regions))
        report = device.download(cleared + launch.report, few - launch.report)
        head = report[trace - launch.report :].view(np.int64)
        if head[STATUS] != MORE_ROOM:
            break
        launch = _grow(job, lowered, launch, regions, head, ordinal, most)
        launched_at.append(int(head[ROWS]))
    kept = min(int(head[ROWS]), MOST_ROWS)
    table = head
    if kept >= FEW_ROWS:
        table = device.download(cleared + trace, (kept + 1) * TRACE_WORDS * 8).view(np.int64)
    for name, part in arguments.partials._asdict().items():
        first = part.address - launch.report
        job.scalars[name] = report[first : first + part.dtype.itemsize].view(part.dtype)[0]
    results = memory.in_users_order(fields, launch.at, fixed)
    job.fields = results if device_arrays else {name: downloaded(f) for name, f in results.items()}
    _write_stats(job, head, table[: (kept + 1) * TRACE_WORDS], seconds, schedule, launched_at)
    return launch.nbytes


def clear(regions: dict[str, Any], sizes: dict[str, int]) -> None:
    """Clear the memory that kernels expect to be zero."""
    for region, size in sizes.items():
        if region.startswith(CLEARED):
            device.clear(regions[region].ptr, size)


def _address(span: device.Span, regions: dict[str, Any]) -> int:
    return regions[span.region].ptr + span.address


def _grow(
    job: Job, lowered: Lowered, launch: _Launch, regions: dict[str, Any], head: np.ndarray,
    ordinal: int, most: int | None,
) -> _Launch:  # fmt: skip
    """A launch with more room for the record, which is copied; all else stays in place."""
    n, needed = job.graph.num_vertices, int(head[NEEDED])
    room = job.preallocation.more(job, n, launch.room, needed, most)
    larger = _launch(job, lowered, room, ordinal)
    _require_free(job, larger.sizes[RECORD])
    place = device.allocate(larger.sizes[RECORD])
    was, supersteps = regions[RECORD].ptr, int(head[RECORDED])
    record, into = launch.arguments.kept, larger.arguments.kept
    end = device.download(was + record.bounds.address + 8 * supersteps, 8).view(np.int64)[0]
    used = (end, supersteps + 1, end, supersteps)
    for old, new, many in zip(record, into, used, strict=True):
        length = min(many, old.size) * old.dtype.itemsize  # 0 where no edges are recorded
        device.copy(place.ptr + new.address, was + old.address, length)
    regions[RECORD] = place
    return larger


def _write_stats(
    job: Job, head: np.ndarray, table: np.ndarray, seconds: float, schedule: str,
    launched_at: Sequence[int] = (0,),
) -> None:  # fmt: skip
    """Write stats and the trace."""
    rows = table.reshape(-1, TRACE_WORDS)[1:]
    job.stats["device_seconds"] = seconds
    job.stats["supersteps"] = int(head[ROWS]) + int(head[FUSED])
    job.stats["edges"] = int(head[VISITED])
    job.stats["kernels"] = len(launched_at)

    def make_rows() -> list[dict[str, Any]]:
        barriers = np.diff(rows[:, PASSED], prepend=0).tolist()
        return [
            {
                **row, "mode": "in one kernel", "schedule": schedule,
                "kernels": launched_at.count(i), "barriers": barriers[i],
            }
            for i, row in enumerate(rows_of(rows[:, :PASSED], seconds))
        ]  # fmt: skip

    job.make_trace = make_rows
