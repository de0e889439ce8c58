"""`run`: choose devices, set up a job, run it and return its result."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from evener import progress
from evener.device import format_bytes, interrupts
from evener.device.locks import refusing_half_loaded
from evener.device.mapped_files import require_whole
from evener.engine.checking import Checking
from evener.engine.checking import is_requested as check_is_requested
from evener.engine.job import Job, set_up
from evener.engine.request import Request, request_of
from evener.engine.results.result import Result
from evener.engine.sources_at_once import copies_for, merge_copies
from evener.engine.targets.table import Target, run_on, target_of
from evener.graph.copies import copies_of
from evener.graph.csr import Graph, require_graph
from evener.programs.program import Program
from evener.programs.reals import with_reals

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def run(
    program: type[Program],
    graph: Graph,
    *,
    device: str = "auto",
    partition: Any = "auto",
    exchange: Any = "refined",
    direction: str = "auto",
    schedule: str = "auto",
    memory_limit: Any = None,
    preallocate: Any = "auto",
    device_arrays: bool = False,
    check: bool = False,
    deterministic: bool = False,
    dtype: DTypeLike | None = None,
    sources_at_once: int = 1,
    **parameters: Any,
) -> Result:
    """Run a program on a graph.

    Parameters
    ----------
    program
        A subclass of `Program`.
    graph
        The graph.
    device
        ``"python"`` (functors as plain Python), ``"cpu"``, ``"cpu:4"`` (four threads),
        ``"cuda"``, ``"cuda:1"`` (a GPU by number), ``"auto"`` (``EVENER_DEVICE`` if it is set,
        else the fastest), or a set of partitions such as ``"cpu+cpu"``, which share the cores,
        ``"cpu:1+cpu:3"``, ``"python+python"``, ``"cpu+python"`` (to debug), ``"cuda+cuda"``
        (several parts on one GPU), or ``"cpu+cuda"`` (both at once).
    partition
        How a device set divides the vertices: ``"random"``, ``"static"`` (round robin),
        ``"contiguous"`` (ranges with equal edges), ``"biased"`` (random, towards neighbours),
        ``"metis"``, ``"high"`` or ``"low"`` (by degree), or a function ``(graph, shares)`` that
        returns the part of each vertex. Options follow a colon, as in ``"random:shares=2/1"``: see
        `evener.engine.partition.partitioners.partition`. ``"auto"``: for CPUs with GPUs
        ``"high"`` with as few edges on the first CPU as the memory of the GPUs allows, and at
        least a sixteenth; else ``"random"``.
    exchange
        What parts send each other: ``"refined"``, only what changed;
        ``"maximal_subset"``, all vertices at the boundary; ``"all"``, whole arrays; or an object
        with two methods (`evener.operators.shared.policies`).
    direction
        ``"push"`` along out-edges, ``"pull"`` along in-edges, or ``"auto"``.
    schedule
        How a GPU divides edges among its threads: ``"auto"`` or the name of one of
        `evener.operators.gpu.schedules`.
    device_arrays
        Whether the results of a GPU stay in its memory, as CuPy arrays.
    memory_limit
        The most memory that the run may take on each device, in bytes or as ``"4GiB"``; for several
        devices also a list of limits or a dict by name. A run that is estimated to need more is
        refused before it begins; a GPU first leaves edges in the host's memory and reads them
        there.
    preallocate
        Room for recorded frontiers, the only memory not known in advance, in recorded vertices
        per vertex. ``"auto"``: a GPU begins with what the last run on such a graph needed, and
        grows on demand; ``False``: it begins small. A number, or ``True`` for what the last run
        needed (at first 1), is allocated once, and a run that needs more fails. The interpreter
        allocates nothing in advance and never fails.
    check
        Whether functors check themselves, on any device: indices out of range, division by 0,
        integer overflow, NaN, and values that do not fit their field. A fault raises
        `ProgramError` with the functor, the line and the vertex. Checked runs take several times
        as long. Functions that functors call, and the sums of a gather, are not checked.
        ``EVENER_CHECK=1`` checks every run.
    deterministic
        Whether results must be bitwise identical in every run (docs/contracts.md). A program
        whose updates race gets one thread on the CPU, and is refused on GPUs and sets.
    dtype
        The dtype of ``REAL`` in the program: ``"float64"``, the default, or ``"float32"``.
    sources_at_once
        The most sources that may run at once, each on a copy of the graph, for a program whose
        ``start`` takes ``copies``, their number: vertex ``v`` of copy ``k`` is ``k * n + v``.
        Several run if one source leaves a GPU idle. Fields that merge are merged over the
        copies; the others are those of the first copy.
    **parameters
        The parameters of the program and of its ``start``, with vertices as labels.

    Examples
    --------
    >>> from evener import generate
    >>> from evener.algorithms.bfs import BFS
    >>> from evener.engine.run import run
    >>> run(BFS, generate.path(4), source=0, device="python").depth.tolist()
    [0, 1, 2, 3]
    """
    require_graph(graph)
    if dtype is not None and hasattr(program, "declaration"):
        program = with_reals(program, dtype)
    checking = None
    if check_is_requested(check) and hasattr(program, "declaration"):
        checking = Checking(program, graph)
        program = checking.program
    whole, copies = graph, 1
    if sources_at_once != 1 and hasattr(program, "declaration"):
        copies = copies_for(program, graph, sources_at_once, device, memory_limit)
        graph, parameters = copies_of(graph, copies), {**parameters, "copies": copies}
    request = request_of(
        program, graph, parameters, device=device, exchange=exchange, memory_limit=memory_limit,
        preallocate=preallocate, deterministic=deterministic, partition=partition,
        direction=direction, schedule=schedule, device_arrays=device_arrays,
    )  # fmt: skip
    began = time.perf_counter()
    target = target_of(request.devices)
    job = set_up(
        program, graph, parameters, deferred=target.repeats_start,
        arcs_a_bucket=request.devices[0].traits.arcs_a_bucket,
    )  # fmt: skip
    job.preallocation, job.left = request.preallocation, [*request.left]
    started = time.perf_counter()
    reasons = _run(target, job, request)
    if checking is not None:
        checking.finish(job)
    if copies > 1:
        merge_copies(job, whole, copies)
    spent = time.perf_counter() - started
    job.stats["setup_seconds"] = started - began
    before = ("partition_seconds", "compile_seconds")
    job.stats["run_seconds"] = spent - sum(job.stats.get(name, 0.0) for name in before)
    return Result._of(job, reasons)


def _run(target: Target, job: Job, request: Request) -> list[str]:
    """Run a job on its target; returns the lines for `explain()`."""
    graph, names = job.graph, "+".join(request.names)
    job.stats["device"] = names
    require_whole(graph._indptr, graph._indices, graph._weights)
    # Compiled code may be freed at any time, in finalizers that would swallow a Ctrl-C.
    kept = interrupts.kept()
    with progress.task(f"running {job.declaration.name}"), refusing_half_loaded(), kept:
        reasons = run_on(target, job, request)
    require_whole(graph._indptr, graph._indices, graph._weights)
    if "bytes_sent" in job.stats:
        sent = format_bytes(job.stats["bytes_sent"])
        reasons.append(f"Exchange: {request.policy.name}, {sent} between the parts.")
    why = request.why
    if job.stats["device"] != names:
        why = f"{names} cannot run it"  # the reasons that follow say why not
    return [f"{job.declaration.name} ran on {job.stats['device']}: {why}.", *reasons]
