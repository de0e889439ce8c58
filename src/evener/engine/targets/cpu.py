"""The device ``cpu``: a program's whole loop as one compiled kernel, run by a team of threads."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from evener import progress
from evener.device import crew, interrupts, num_threads, require_memory
from evener.device.compile import Compiled, kind_of
from evener.device.sync import new_sync
from evener.device.team import most_threads, run_led
from evener.device.tuples import Identity, named
from evener.engine.codegen.analysis import pulls
from evener.engine.codegen.arguments import CpuArguments
from evener.engine.codegen.functors import (
    check_functors,
    compile_kernel,
    examples_of,
    functors_of,
    kernel_key,
    name_totals,
    raised_as_mistakes,
    state_of,
    weights_of,
)
from evener.engine.codegen.print_cpu_led import lower_cpu
from evener.engine.codegen.printer import Kernel
from evener.engine.codegen.worker import worker_of
from evener.engine.job import Job
from evener.engine.memory import cpu as memory
from evener.engine.memory.growable import Capacity, capacity_of, grown, most_recorded
from evener.engine.request import Request
from evener.engine.results.trace import rows_of
from evener.errors import DeviceError
from evener.graph.csr import Graph
from evener.operators.shared.trace import FUSED, ROWS, VISITED
from evener.programs.program import program_cache

REPEATS_START = False


def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns the lines for `explain()`."""
    threads = request.devices[0].number or num_threads()
    execute(job, threads, request.direction)
    return [f"Threads: {threads}. Direction: {request.direction}."]


def lower(job: Job, request: Request) -> list[Kernel]:
    """The kernel of a job, not compiled."""
    return [lower_cpu(job, request.direction, state_of(job.declaration))]


def execute(job: Job, threads: int, direction: str = "auto") -> None:
    """Run a job on the CPU, changing its fields in place."""
    if threads > most_threads():
        raise DeviceError(
            f"cpu:{threads} has more threads than can run at once here; name at most "
            f"{most_threads()}."
        )
    job.begin(threads=threads)
    if job.graph.num_vertices == 0:
        return
    began = time.perf_counter()
    plan, n = _plan(job, direction), job.graph.num_vertices
    left = job.left[0] if job.left else None
    growth = 1
    rooms = capacity_of(job, n, left)
    arguments, nbytes = _arguments(job, plan, threads, rooms)
    # Compiled on this thread, for arguments of these types; nothing runs yet.
    examples = (0, threads, new_sync(), *arguments)
    entry = plan.worker.find_for(*examples)
    job.stats["from_cache"] = entry is not None
    if entry is None:
        with progress.task(f"compiling {job.declaration.name} for cpu"), interrupts.kept():
            check_functors(job.declaration, functors_of(job, plan.kernel), *examples_of(job))
            compile_kernel(job.declaration, plan.worker, *examples)
            entry = plan.worker.entry_for(*examples)
    job.stats["compile_seconds"] = time.perf_counter() - began
    started = time.perf_counter()
    # Perhaps no stage is worth that many threads.
    hands = min(threads, 1 + (job.graph.num_vertices + job.graph.num_edges) // crew.WORTH)
    while _run(job, entry, hands, arguments):  # there was too little room
        growth = grown(job, n, left, growth)
        job.begin_again()
        rooms = capacity_of(job, n, left, growth)
        arguments, nbytes = _arguments(job, plan, threads, rooms)
    _collect(job, arguments, time.perf_counter() - started)
    recorded = most_recorded(arguments.kept)
    job.preallocation.remember(job, n, recorded)
    recorded = arguments.kept.queue.size if job.preallocation.fixed else recorded
    job.stats["memory"] = [nbytes + memory.grown_bytes(arguments, recorded)]
    _kept[job.graph] = _Kept((plan.worker, threads, rooms), arguments, nbytes)


def _run(job: Job, entry: Callable[..., Any], hands: int, arguments: CpuArguments) -> bool:
    """Run the kernel; returns whether it ran out of room."""
    with raised_as_mistakes(job.declaration):
        return run_led(entry, hands, new_sync(), *arguments)


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
    # By all that decides the text of a kernel: printing it takes longer than a small run.
    known = program_cache(program, "plans")
    key = (*rest, kinds, direction)
    if key not in known:
        known[key] = _make_plan(job, direction)
    return known[key]


def _make_plan(job: Job, direction: str) -> _Plan:
    d = job.declaration
    state = state_of(d)
    kernel = lower_cpu(job, direction, state)
    if kernel.plan.gathers:
        name_totals(job, kernel, *examples_of(job))
    key = (*kernel_key(job), kernel.totals)
    worker = worker_of(kernel.text, key, kernel.names)
    return _Plan(worker, kernel, pulls(d, direction))


# ---- memory ------------------------------------------------------------------------------------


class _Kept(NamedTuple):
    key: Any
    arguments: CpuArguments
    nbytes: int  # but for growable arrays


# Arrays of the last run on a graph, for the next run of the same program: touching memory again
# after freeing it is expensive (a tenth of a search on R-MAT scale 18, on a virtual machine).
_kept: weakref.WeakKeyDictionary[Graph, _Kept] = weakref.WeakKeyDictionary()


def _arguments(job: Job, plan: _Plan, threads: int, rooms: Capacity) -> tuple[CpuArguments, int]:
    """The arguments of the kernel, new or those of the last run, and their fixed bytes."""
    graph = job.graph
    region = memory.Region(graph.num_vertices, graph.num_edges, _lists(job, plan))
    kept = _kept.pop(graph, None)
    if kept is None or kept.key != (plan.worker, threads, rooms):
        arguments = _new_arguments(job, plan, region, threads, rooms)
        nbytes = memory.fixed_bytes(arguments)
    else:
        nbytes = kept.nbytes
        arguments = kept.arguments._replace(
            graph=region.graph,
            fields=named("Fields", job.fields),
            params=named("Params", job.params),
        )
    arcs = 0 if job.frontier is None else graph.degrees[job.frontier].sum()
    return memory.begin(arguments, region, job.frontier, arcs), nbytes


def _lists(job: Job, plan: _Plan) -> Any:
    """The graph arguments of the kernel."""
    graph = job.graph
    into = graph.transpose() if plan.pulls else graph
    out, into_lists = (
        (one._indptr, one._indices, weights_of(job, one)) for one in (graph, into)
    )  # fmt: skip
    return memory.graph_arrays(
        job, plan.kernel, graph, 0, out, into_lists, graph.degrees, Identity()
    )


def _new_arguments(
    job: Job, plan: _Plan, region: memory.Region, threads: int, rooms: Capacity
) -> CpuArguments:
    n, width = region.owned, region.graph.out.indices.itemsize
    require_memory(n * (2 * width + 1), f"Running {job.declaration.name}")
    copies = {name: np.empty_like(job.fields[name]) for name in plan.kernel.plan.copied}
    marks = np.zeros(n, np.uint8)
    return memory.cpu_arguments(job, plan.kernel, region, threads, rooms, job.fields, copies, marks)


def _collect(job: Job, arguments: CpuArguments, seconds: float) -> None:
    """Collect scalars, stats and the trace."""
    trace = arguments.trace
    for name, partial in arguments.partials._asdict().items():
        job.scalars[name] = partial[0]
    supersteps = int(trace[0, ROWS])
    job.stats["supersteps"] = supersteps + int(trace[0, FUSED])
    job.stats["edges"] = int(trace[0, VISITED:].sum())
    rows = trace[1 : min(supersteps + 1, len(trace))].copy()  # the table serves the next run
    job.make_trace = lambda: rows_of(rows, seconds)
