"""The device ``cpu``: a program's whole loop as one compiled kernel, run by a team of threads."""

from __future__ import annotations

import time
import weakref
from typing import Any, NamedTuple

import numpy as np

from evener import progress
from evener.device import crew, interrupts, num_threads, require_memory
from evener.device.compile import Compiled, kind_of
from evener.device.states import Identity
from evener.device.sync import new_sync
from evener.device.team import most_threads, run_led
from evener.engine.codegen.analysis import pulls
from evener.engine.codegen.crew import lower_led
from evener.engine.codegen.functors import (
    check_functors,
    compile_kernel,
    examples_of,
    functors_of,
    kernel_key,
    name_totals,
    state_of,
    told_as_mistakes,
    unsigned,
    weights_of,
)
from evener.engine.codegen.printer import Kernel
from evener.engine.codegen.worker import worker_of
from evener.engine.job import Job, field_dtype
from evener.engine.memory.growing import (
    Rooms,
    bucket_bytes,
    bucket_rooms,
    edge_rooms,
    grown,
    joined_once,
    most_recorded,
    record_rooms,
    room,
    rooms_of,
    waiting_rooms,
)
from evener.engine.request import Request
from evener.engine.results.trace import MOST_ROWS
from evener.errors import DeviceError
from evener.graph.csr import Graph
from evener.operators.cpu.frontier import BUFFER, EDGES, FORM, INFO_WORDS, NUMBER, SIZE
from evener.operators.cpu.gather import num_chunks
from evener.operators.cpu.vertices import partial_words
from evener.operators.shared.frontier import ALL
from evener.programs.fields import neutral
from evener.programs.program import program_cache
from evener.programs.stages import Backwards, Gather, Repeat, walk


def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns what there is to say about it."""
    threads = request.devices[0].number or num_threads()
    execute(job, threads, request.direction)
    return [f"Threads: {threads}. Direction: {request.direction}."]


def lower(job: Job, request: Request) -> list[Kernel]:
    """The kernel of a job, not compiled."""
    return [lower_led(job, request.direction, state_of(job.declaration))]


def execute(job: Job, threads: int, direction: str = "auto") -> None:
    """Run a job on the CPU, changing its fields in place."""
    if threads > most_threads():
        raise DeviceError(
            f"cpu:{threads} has more threads than can run at once here; name at most "
            f"{most_threads()}."
        )
    job.stats.update(supersteps=0, edges=0, threads=threads)
    for name, scalar in job.declaration.scalars.items():
        dtype = field_dtype(scalar.dtype, job.graph)
        job.scalars[name] = dtype.type(neutral(scalar.merge, dtype))
    if job.graph.num_vertices == 0:
        return
    began = time.perf_counter()
    plan, n = _plan(job, direction), job.graph.num_vertices
    left = job.left[0] if job.left else None
    growth = 1
    scratch = _scratch(job, plan, threads, rooms_of(job, n, left))
    arguments = (*_given(job, plan), *scratch)
    # Compiled on this thread, for arguments of these types; nothing runs yet.
    examples = (0, threads, new_sync(), *arguments)
    job.stats["from_cache"] = plan.worker.find_for(*examples)
    if not job.stats["from_cache"]:
        with progress.task(f"compiling {job.declaration.name} for cpu"), interrupts.kept():
            check_functors(job.declaration, functors_of(job, plan.kernel), *examples_of(job))
            compile_kernel(job.declaration, plan.worker, *examples)
    job.stats["compile_seconds"] = time.perf_counter() - began
    started = time.perf_counter()
    # There may be no stage that is worth so many threads.
    hands = min(threads, 1 + (job.graph.num_vertices + job.graph.num_edges) // crew.WORTH)
    while _run(job, plan, hands, arguments):  # there was too little room
        growth = grown(job, n, left, growth)
        job.begin_again()
        scratch = _scratch(job, plan, threads, rooms_of(job, n, left, growth))
        arguments = (*_given(job, plan), *scratch)
    _collect(job, arguments, threads, time.perf_counter() - started)
    recorded = most_recorded(scratch[_RECORD])
    job.preallocation.remember(job, n, recorded)
    recorded = scratch[_RECORD][0].size if job.preallocation.fixed else recorded
    job.stats["memory"] = [_memory(arguments, recorded)]
    _kept[job.graph] = (plan.worker, threads, rooms_of(job, n, left, growth)), scratch


def _run(job: Job, plan: _Plan, hands: int, arguments: tuple[Any, ...]) -> bool:
    """Run the kernel; returns whether it could not go on."""
    with told_as_mistakes(job.declaration):
        return run_led(plan.worker, hands, new_sync(), *arguments)


class _Plan(NamedTuple):
    worker: Compiled
    kernel: Kernel
    pulls: bool


def _plan(job: Job, direction: str) -> _Plan:
    graph = job.graph
    kinds = (
        graph._indptr.dtype, graph._indices.dtype, weights_of(job, graph).dtype,
        *(kind_of(value) for value in job.params.values()),
    )  # fmt: skip
    program, *rest = kernel_key(job)
    # By all that decides the text of a kernel: to write that takes longer than a small run.
    known = program_cache(program, "plans")
    key = (*rest, kinds, direction)
    if key not in known:
        known[key] = _make_plan(job, direction)
    return known[key]


def _make_plan(job: Job, direction: str) -> _Plan:
    d = job.declaration
    state = state_of(d)
    kernel = lower_led(job, direction, state)
    if kernel.plan.gathers:
        name_totals(job, kernel, *examples_of(job))
    key = (*kernel_key(job), kernel.totals)
    worker = worker_of(kernel.text, key, kernel.names)
    return _Plan(worker, kernel, pulls(d, direction))


def _given(job: Job, plan: _Plan) -> tuple[Any, ...]:
    """The graph, the fields and the parameters, as the kernel takes them (`lower.SIGNATURE`)."""
    graph = job.graph
    into = graph.transpose() if plan.pulls else graph
    rows = (unsigned(graph._indptr), unsigned(graph._indices), weights_of(job, graph))
    columns = (unsigned(into._indptr), unsigned(into._indices), weights_of(job, into))
    both: tuple[np.ndarray, ...] = columns
    stages = walk(job.declaration.loop)
    if graph.directed and any(isinstance(s, Gather) and s.along == "both" for s in stages):
        both = joined_once(graph, 0, columns, rows)
    return (
        (*rows, *columns, graph.degrees, Identity(), *both),
        tuple(job.fields.values()),
        tuple(job.params.values()),
    )


def _memory(arguments: tuple[Any, ...], recorded: int) -> int:
    """Bytes of all that a run worked on, but of a room what it wrote there at most."""
    (lists, fields, _), scratch = arguments[:3], arguments[3:]
    # The lists of an undirected graph are given twice.
    held = {a.ctypes.data: a.nbytes for a in (*lists, *fields) if isinstance(a, np.ndarray)}
    fronts, marks, _, _, totals, copies, sums, ordered, record, edges, waiting, _ = scratch
    queues = sum(min(a.size, marks.size) * a.itemsize for a in fronts)
    others = [*totals, *copies, *sums, *(a for room in (*edges, *waiting) for a in room)]
    entry = record[0].itemsize + (record[2].itemsize if record[2].size else 0)
    counted = sum(a.nbytes for a in (marks, *others)) + recorded * entry
    return sum(held.values()) + queues + counted + bucket_bytes(ordered, marks.size)


_RECORD = 8  # its place among what a kernel works with

# What the last run on a graph worked with, for the next run of the same program: memory that was
# given back is dear to touch again (a tenth of a search on R-MAT scale 18, on a virtual machine).
_kept: weakref.WeakKeyDictionary[Graph, tuple[Any, tuple[Any, ...]]] = weakref.WeakKeyDictionary()


def _scratch(job: Job, plan: _Plan, threads: int, rooms: Rooms) -> tuple[Any, ...]:
    """All else that the kernel works on, new or used before."""
    key, scratch = _kept.pop(job.graph, (None, ()))
    plain = not plan.kernel.plan.has_edges and not plan.kernel.plan.orders
    if not plain or key != (plan.worker, threads, rooms):
        scratch = _new_scratch(job, plan, threads, rooms)
    else:
        marks, partials, ordered, trace = scratch[1], scratch[3], scratch[7], scratch[-1]
        for array in (marks, *partials, ordered[0], ordered[-1], trace[0]):
            array.fill(0)
    _begin(job, scratch[0])
    return scratch


def _new_scratch(job: Job, plan: _Plan, threads: int, rooms: Rooms) -> tuple[Any, ...]:
    graph, d = job.graph, job.declaration
    n, ids = graph.num_vertices, unsigned(graph._indices).dtype
    stages = list(walk(d.loop))
    ordered = any(isinstance(stage, Repeat) and stage.order is not None for stage in stages)
    replays = any(isinstance(stage, Backwards) for stage in stages)
    require_memory(n * (2 * ids.itemsize + 1), f"Running {d.name}")
    totals = tuple(
        np.empty(n if stored else 0, dtype)
        for stored, dtype in zip(plan.kernel.plan.stores_totals, plan.kernel.totals, strict=True)
    )
    copies = tuple(np.empty_like(job.fields[name]) for name in plan.kernel.plan.copied)
    sums = tuple(
        np.empty(num_chunks(n), field_dtype(d.scalars[name].dtype, graph))
        for name in plan.kernel.plan.summed
    )
    partials = tuple(
        np.zeros(partial_words(threads), field_dtype(scalar.dtype, graph))
        for scalar in d.scalars.values()
    )
    return (
        _fronts(n, ids, threads, replays),
        np.zeros(n, np.uint8),
        np.empty((threads, BUFFER), ids),
        (np.zeros(8 * threads, np.uint8), *partials),
        (*totals, np.empty(0)),
        (*copies, np.empty(0)),
        (*sums, np.empty(0)),
        bucket_rooms(
            n, graph.num_edges, graph.degrees, ids, threads if ordered else 0, rooms.bucketed
        ),
        record_rooms(
            ids, replays, plan.kernel.plan.has_edges, rooms.recorded, fixed=job.preallocation.fixed
        ),
        edge_rooms(graph.num_edges, ids, threads, plan.kernel.plan.has_edges),
        waiting_rooms(n, ids, threads, plan.kernel.plan.orders),
        np.zeros((MOST_ROWS + 1, 6), np.int64),
    )


def _fronts(n: int, ids: np.dtype, threads: int, replays: bool) -> tuple[np.ndarray, ...]:
    """Two frontiers, everyone, and for `backwards` one more with bits and info to replay with."""
    words = (n + 63) // 64

    def queue(wanted: bool = True) -> np.ndarray:
        return room(threads * n if wanted else 0, ids)  # inexact culling: once for each thread

    def bits(wanted: bool = True) -> np.ndarray:
        return np.zeros(words if wanted else 0, np.uint64)

    def info() -> np.ndarray:
        return np.zeros(INFO_WORDS, np.int64)

    return (
        queue(), bits(), info(), queue(), bits(), info(), bits(), info(),
        queue(replays), bits(replays), info(), bits(replays), info(),
    )  # fmt: skip


def _begin(job: Job, fronts: tuple[np.ndarray, ...]) -> None:
    """Set the first frontier, and everyone."""
    n, m = job.graph.num_vertices, job.graph.num_edges
    queue, first, following, everyone, spare, replayed = (fronts[i] for i in (0, 2, 5, 7, 10, 12))
    for info in (first, following, everyone, spare, replayed):
        info.fill(0)
    everyone[[SIZE, FORM, EDGES]] = n, ALL, m
    first[NUMBER], following[NUMBER], spare[NUMBER] = 1, 2, 3
    if job.frontier is None:
        first[[SIZE, FORM, EDGES]] = n, ALL, m
    else:
        queue[: len(job.frontier)] = job.frontier
        first[[SIZE, EDGES]] = len(job.frontier), job.graph.degrees[job.frontier].sum()


def _collect(job: Job, arguments: tuple[Any, ...], threads: int, seconds: float) -> None:
    """Scalars, stats and the trace."""
    partials, trace = arguments[6], arguments[-1]
    for name, partial in zip(job.declaration.scalars, partials[1:], strict=True):
        job.scalars[name] = partial[0]
    taken = int(trace[0, 0])
    rows = trace[1 : min(taken + 1, len(trace))]
    calls = rows[:, 5:].sum(axis=1)
    total = max(1, int(rows[:, 4].sum()))
    job.stats["supersteps"] = taken + int(trace[0, 1])  # and those of fused buckets
    job.stats["edges"] = int(trace[0, 5:].sum())
    kept = rows[:, :5].copy()  # the rest of the table may go

    def make() -> list[dict[str, Any]]:
        return [
            {
                "superstep": int(row[0]), "frontier": int(row[1]), "edges": int(count),
                "direction": "pull" if row[3] else "push",
                "seconds": seconds * float(row[4]) / total,
            }
            for row, count in zip(kept, calls, strict=True)
        ]  # fmt: skip

    job.make_trace = make
