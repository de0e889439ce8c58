"""The device ``cuda``: a program's whole loop as one kernel that stays on the GPU.

The host uploads the graph once, the fields for each run, starts the kernel, and looks now and then
whether it has ended or the user wants it to. A run whose recorded frontiers outgrow their room
starts again with more.
"""

from __future__ import annotations

import dataclasses
import functools
import linecache
import time
from typing import Any, NamedTuple

import numpy as np

from evener.device import cuda as device
from evener.device import format_bytes
from evener.device.states import state_type
from evener.device.warp import BLOCK, WARP
from evener.engine.check_functors import check_functors, total_dtype
from evener.engine.job import Job, field_dtype
from evener.engine.lazy import LazyArray
from evener.engine.lower import pulls
from evener.engine.lower_grid import MORE_ROOM, TOO_MANY, lower_grid
from evener.engine.native import OFFERED, _examples, _functors, _unsigned
from evener.errors import DeviceError, MemoryBudgetError
from evener.graph.csr import Graph
from evener.operators.frontier import ALL
from evener.operators.grid.frontier import (
    CANCEL,
    EDGES,
    FORM,
    INFO_WORDS,
    SIZE,
    SYNC_WORDS,
    TURNS,
    WORK_WORDS,
)
from evener.operators.grid.nearest import SHARED_WORDS
from evener.operators.grid.record import FUSED, STATUS, TRACE_WORDS, VISITED
from evener.operators.schedules import SCHEDULES, merge_path
from evener.operators.schedules.common import PIECE_WORDS, room_for_pieces
from evener.programs.fields import neutral
from evener.programs.stages import Advance, Backwards, Gather, Repeat, walk

TRACE_ROWS = 1 << 14
FEW_ROWS = 64  # of the trace, fetched with the rest of what the host must know
# Blocks on a multiprocessor. What goes over all vertices is bound by memory: more threads hide
# more of its latency. Frontiers may be small and many: one block means fewer to meet at a barrier,
# and registers for all that a thread has to keep.
BLOCKS_FOR_ALL, BLOCKS_FOR_FRONTIERS = 2, 1
ALIGNED = 256  # bytes at which an array may begin
MAX_BLOCKS = 1024  # room for the partial results of so many
MAX_WARPS = MAX_BLOCKS * BLOCK // WARP


class _Plan(NamedTuple):
    """A kernel, and what it works with."""

    kernel: Any  # the plain function
    functors: dict[str, Any]  # each by itself
    dtypes: tuple[np.dtype, ...]  # of the totals of each gather
    stored: tuple[bool, ...]  # whether it stores them
    copied: tuple[str, ...]  # fields that have a second copy
    pulls: bool
    ordered: bool
    replays: bool
    degree: bool
    sums: bool  # of degrees, for the schedule merge_path
    blocks_each: int  # on a multiprocessor


def execute(
    job: Job, ordinal: int, direction: str = "auto", schedule: str = "auto",
    device_arrays: bool = False,
) -> list[str]:  # fmt: skip
    """Run a job on a GPU; its fields become what the run left, on the host or on the device."""
    cp = device.library()
    job.stats.update(supersteps=0, edges=0)
    _reset_scalars(job)
    if job.graph.num_vertices == 0:
        job.fields = {name: np.asarray(field) for name, field in job.fields.items()}
        return [f"Direction: {direction}. There was nothing to do."]
    with device.on(ordinal):
        began = time.perf_counter()
        plan = _plan(job, direction, schedule)
        room = job.graph.num_vertices + 1
        while True:
            _check_memory(job, plan, room, ordinal)
            arguments = _arguments(cp, job, plan, room)
            ready = _ready(job, plan, arguments, ordinal)
            device.synchronize()
            job.stats["compile_seconds"] = time.perf_counter() - began
            seconds = ready.run(arguments, cancel=arguments[0][CANCEL : CANCEL + 1])
            head = cp.asnumpy(arguments[-1][: FEW_ROWS * TRACE_WORDS])
            ended = int(head[STATUS])
            if ended == MORE_ROOM:
                room *= 4
            elif ended == TOO_MANY:
                plan = _plan(job, direction, schedule, exact=True)
            else:
                break
        _collect(cp, job, arguments, head, seconds, device_arrays)
        job.stats["blocks"] = ready.blocks
    chosen = "dynamic" if schedule == "auto" else schedule
    kept = "the kernel came from the cache" if ready.was_cached else "the kernel was compiled"
    return [
        f"Direction: {direction}. Schedule: {chosen}.",
        f"The loop ran as one kernel of {ready.blocks} blocks; {kept}.",
    ]


def ptx_of(job: Job, direction: str, schedule: str, capability: tuple[int, int]) -> str:
    """The PTX of a job's kernel; no GPU is needed."""
    _reset_scalars(job)
    plan = _plan(job, direction, schedule)
    described = device.describe(_arguments(np, job, plan, job.graph.num_vertices + 1))
    return device.compile_ptx(plan.kernel, described, capability, plan.blocks_each)


def _reset_scalars(job: Job) -> None:
    for name, scalar in job.declaration.scalars.items():
        dtype = field_dtype(scalar.dtype, job.graph)
        job.scalars[name] = dtype.type(neutral(scalar.merge, dtype))


# ---- the kernel --------------------------------------------------------------------------------


_plans: dict[Any, _Plan] = {}


def _plan(job: Job, direction: str, schedule: str, exact: bool = False) -> _Plan:
    if schedule != "auto" and schedule not in SCHEDULES:
        known = ", ".join(map(repr, SCHEDULES))
        raise DeviceError(f"there is no schedule {schedule!r}; there are 'auto', {known}.")
    graph = job.graph
    arrays: list[Any] = [graph._indptr, graph._indices, *job.fields.values()]
    if job.declaration.uses_weights:
        arrays.append(graph._weights)
    key = (job.program, direction, schedule, exact, tuple(str(array.dtype) for array in arrays))
    if key not in _plans:
        _plans[key] = _make_plan(job, direction, schedule, exact)
    return _plans[key]


def _make_plan(job: Job, direction: str, schedule: str, exact: bool) -> _Plan:
    d = job.declaration
    example = _example(job)
    state = state_type((*d.fields, *d.params, *d.scalars, *OFFERED))
    kernel = lower_grid(job, direction, state, schedule, exact)
    totals = []
    for number, stage in enumerate(kernel.gathers):
        dtype = total_dtype(d, _functors(job, kernel), stage, *_examples(example))
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
    stages = list(walk(d.loop))
    return _Plan(
        scope["kernel"],
        _functors(job, kernel),
        tuple(totals),
        tuple(number in kernel.totals for number in range(len(totals))),
        tuple(kernel.copied),
        pulls(d, direction),
        any(isinstance(stage, Repeat) and stage.order is not None for stage in stages),
        any(isinstance(stage, Backwards) for stage in stages),
        any("degree" in found.offered for found in d.accesses.values()),
        schedule == "merge_path",
        BLOCKS_FOR_FRONTIERS if any(map(_takes_frontier, stages)) else BLOCKS_FOR_ALL,
    )


def _takes_frontier(stage: Any) -> bool:
    return isinstance(stage, Advance | Gather) and not stage.over_all


def _ready(job: Job, plan: _Plan, arguments: Any, ordinal: int) -> device.GridKernel:
    """The kernel on this GPU; where it does not compile, the functor that is to blame."""
    try:
        described = device.describe(arguments)
        return _grid_kernel(plan.kernel, described, plan.blocks_each, ordinal)
    except device.CompileError:
        check_functors(job.declaration, plan.functors, *_examples(_example(job)))
        raise


def _example(job: Job) -> Job:
    """The job with fields of the right types and no length."""
    empty = {name: np.empty(0, field.dtype) for name, field in job.fields.items()}
    return dataclasses.replace(job, fields=empty)


@functools.lru_cache(maxsize=256)
def _grid_kernel(kernel: Any, described: Any, blocks_each: int, ordinal: int) -> device.GridKernel:
    return device.GridKernel(kernel, described, blocks_each)


# ---- memory ------------------------------------------------------------------------------------


def _check_memory(job: Job, plan: _Plan, room: int, ordinal: int) -> None:
    """Refuse a run that cannot fit, before anything is allocated."""
    graph = job.graph
    n, m, width = graph.num_vertices, graph.num_edges, graph._indices.dtype.itemsize
    needed = sum(array.nbytes for array in job.fields.values())
    needed += (
        n * (2 * width + 4)
        + n // 2
        + sum(t.itemsize * n for t, s in zip(plan.dtypes, plan.stored, strict=True) if s)
    )
    needed += room_for_pieces(m) * 8 * (PIECE_WORDS + len(plan.dtypes))
    needed += sum(job.fields[name].nbytes for name in plan.copied)
    needed += plan.ordered * n * (2 * width + 4) + plan.replays * (room * (width + 8) + n * width)
    parts = [graph, *([graph.transpose()] if plan.pulls and graph.directed else [])]
    needed += sum(part.nbytes for part in parts if ordinal not in _kept(part))
    free = device.free_memory()
    if needed > free:
        raise MemoryBudgetError(
            f"Running {job.declaration.name} needs about {format_bytes(needed)} on the GPU, but "
            f"only {format_bytes(free)} are free; use a smaller graph or device='cpu'."
        )


def _kept(graph: Graph) -> dict[Any, Any]:
    """The copies of a graph on GPUs; they go when the graph goes."""
    return graph.__dict__.setdefault("_on_gpus", {})


def _upload(cp: Any, graph: Graph) -> tuple[Any, ...]:
    """Row starts, neighbours and weights on the current GPU, uploaded once."""
    weights = np.empty(0, np.int32) if graph._weights is None else graph._weights
    host = (_unsigned(graph._indptr), _unsigned(graph._indices), weights)
    if cp is np:
        return host
    kept, ordinal = _kept(graph), device.current()
    if ordinal not in kept:
        kept[ordinal] = tuple(cp.asarray(array) for array in host)
    return kept[ordinal]


def _degrees(cp: Any, graph: Graph) -> Any:
    """The degrees on the current GPU, uploaded once."""
    if cp is np:
        return graph.degrees
    kept = _kept(graph)
    where = ("degrees", device.current())
    if where not in kept:
        kept[where] = cp.asarray(graph.degrees)
    return kept[where]


def _on_device(cp: Any, field: Any) -> Any:
    """A new array for a field; a rerun begins with the same values."""
    return field.made_by(cp) if isinstance(field, LazyArray) else cp.array(field)


def _arguments(cp: Any, job: Job, plan: _Plan, room: int) -> tuple[Any, ...]:
    """All that the kernel works on, after `lower_grid.SIGNATURE`, in arrays of ``cp``."""
    graph, d = job.graph, job.declaration
    n, m = graph.num_vertices, graph.num_edges
    rows = _upload(cp, graph)
    columns = _upload(cp, graph.transpose()) if plan.pulls else rows
    ids = rows[1].dtype
    has_bits = plan.pulls and any(isinstance(stage, Advance) for stage in walk(d.loop))
    words = (n + 31) // 32 if has_bits else 1
    pieces = room_for_pieces(m)
    scratch = merge_path.scratch_words(n, MAX_WARPS) if plan.sums else 0
    queue, infos = _first_frontier(cp, job, ids)
    far = n if plan.ordered else 1
    kept = n if plan.replays else 1
    sync, works, marks, shared, in_far, bounds, trace, nothing, *bits = _zeros(
        cp,
        (SYNC_WORDS, np.uint32),
        (TURNS * WORK_WORDS, np.int64),
        (n, np.uint32),
        (SHARED_WORDS, np.int64),
        (far, np.uint32),
        (room + 1 if plan.replays else 2, np.int64),
        ((TRACE_ROWS + 1) * TRACE_WORDS, np.int64),
        (1, np.int32),
        *[(words, np.uint32)] * 4,
    )
    if not d.uses_weights:  # one dtype of weights, hence one kernel, for all graphs
        rows, columns = (*rows[:2], nothing), (*columns[:2], nothing)
    degree = _degrees(cp, graph) if plan.degree else nothing
    return (
        sync,
        (*rows, *columns, degree),
        tuple(_on_device(cp, field) for field in job.fields.values()),
        tuple(job.params.values()),
        (queue, bits[0], cp.empty(n, ids), bits[1], cp.empty(kept, ids), bits[2], bits[3]),
        infos,
        works,
        marks,
        cp.empty(max(pieces * PIECE_WORDS, scratch), np.int64),
        tuple(
            cp.empty(MAX_BLOCKS, field_dtype(scalar.dtype, graph)) for scalar in d.scalars.values()
        ),
        tuple(
            cp.empty(n if stored else 1, dtype)
            for stored, dtype in zip(plan.stored, plan.dtypes, strict=True)
        ),
        tuple(cp.empty(pieces, dtype) for dtype in plan.dtypes),
        tuple(cp.empty(n, job.fields[name].dtype) for name in plan.copied),
        (shared, cp.empty(far, ids), cp.empty(far, ids), in_far),
        (cp.empty(room if plan.replays else 1, ids), bounds),
        trace,
    )


def _zeros(cp: Any, *wanted: tuple[int, Any]) -> list[Any]:
    """Arrays of zeros in one piece of memory, which is cleared at once."""
    ends, end = [], 0
    for length, dtype in wanted:
        first = -(-end // ALIGNED) * ALIGNED
        end = first + length * np.dtype(dtype).itemsize
        ends.append((first, end, dtype))
    memory = cp.zeros(end, np.uint8)
    return [memory[first:last].view(dtype) for first, last, dtype in ends]


def _first_frontier(cp: Any, job: Job, ids: np.dtype) -> tuple[Any, tuple[Any, ...]]:
    """The queue with the first frontier, and the pools of words of frontiers."""
    n, m = job.graph.num_vertices, job.graph.num_edges
    pools = np.zeros((10, INFO_WORDS), np.int64)  # main, everyone, in a replay, replayed
    pools[3, [SIZE, FORM, EDGES]] = n, ALL, m
    queue = cp.empty(n, ids)
    if job.frontier is None:
        pools[0] = pools[3]
    else:
        queue[: len(job.frontier)] = cp.asarray(job.frontier.astype(ids))
        pools[0, SIZE] = len(job.frontier)
    flat = cp.asarray(pools.ravel())
    parts = [flat[first * INFO_WORDS : last * INFO_WORDS] for first, last in _POOLS]
    return queue, tuple(parts)


_POOLS = ((0, 3), (3, 4), (4, 7), (7, 10))


# ---- running -----------------------------------------------------------------------------------


def _collect(
    cp: Any, job: Job, arguments: tuple[Any, ...], head: np.ndarray, seconds: float,
    device_arrays: bool,
) -> None:  # fmt: skip
    """Fields, scalars, stats and the trace."""
    fields = arguments[2] if device_arrays else map(cp.asnumpy, arguments[2])
    job.fields = dict(zip(job.fields, fields, strict=True))
    for name, partial in zip(job.declaration.scalars, arguments[9], strict=True):
        job.scalars[name] = cp.asnumpy(partial[:1])[0]
    taken = int(head[0])
    kept = min(taken, TRACE_ROWS)
    table = head if kept < FEW_ROWS else cp.asnumpy(arguments[-1])
    rows = table[: (kept + 1) * TRACE_WORDS].reshape(-1, TRACE_WORDS)[1:]
    total = max(1, int(rows[:, 3].sum()))
    job.stats["device_seconds"] = seconds
    job.stats["supersteps"] = taken + int(head[FUSED])
    job.stats["edges"] = int(head[VISITED])

    def make() -> list[dict[str, Any]]:
        return [
            {
                "superstep": int(row[0]), "frontier": int(row[1]), "edges": int(row[4]),
                "direction": "pull" if row[2] else "push",
                "seconds": seconds * float(row[3]) / total,
            }
            for row in rows
        ]  # fmt: skip

    job.make_trace = make
