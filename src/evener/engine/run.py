"""`run`: set a job up on the devices that were chosen, run it, and hand back what it found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from evener import progress
from evener.device import format_bytes, interrupts, num_threads
from evener.device.compile import compiling, seconds_compiling
from evener.device.locks import refusing_half_loaded
from evener.device.mapped_files import require_whole
from evener.engine.checking import Checking
from evener.engine.checking import asked_for as checking_asked_for
from evener.engine.codegen.stages import NotLoweredError
from evener.engine.devices import Device, choose_devices, cores_of, device_from_environment
from evener.engine.job import Job, set_up
from evener.engine.memory.estimate import estimate_memory, parse_limits, require_within
from evener.engine.partition.partitioners import parse_partitioner
from evener.engine.records import parse_preallocate
from evener.engine.repeatable import threads_allowed
from evener.engine.results.result import Result
from evener.errors import EvenerError, MemoryBudgetError
from evener.graph.csr import Graph, require_graph
from evener.operators.policies import Policy, policy_of
from evener.programs.program import Program

DIRECTIONS = ("auto", "push", "pull")


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
        ``"python"`` (functors as plain Python), ``"cpu"``, ``"cpu:4"`` (with so many threads),
        ``"cuda"``, ``"cuda:1"`` (a GPU by number), ``"auto"`` (``EVENER_DEVICE`` if it is set,
        else the fastest), or a set of partitions such as ``"cpu+cpu"``, which share the cores,
        ``"cpu:1+cpu:3"``, ``"python+python"``, ``"cpu+python"`` (to debug), ``"cuda+cuda"``
        (several parts on one GPU), or ``"cpu+cuda"`` (both at once).
    partition
        How a device set divides the vertices: ``"random"``, ``"static"`` (round robin),
        ``"contiguous"`` (ranges with equal edges), ``"biased"`` (random, towards neighbours),
        ``"metis"``, ``"high"`` or ``"low"`` (by degree), or a function ``(graph, shares)`` that
        returns the part of each vertex. Shares and the like follow a colon, as in
        ``"random:shares=2/1"``: see `evener.engine.partition.partitioners.partition`. ``"auto"``:
        where there are CPUs and GPUs, ``"high"`` with as few edges on the first CPU as the memory
        of the GPUs allows, and a sixteenth at least; else ``"random"``.
    exchange
        How parts tell each other of changes: ``"refined"``, only what changed;
        ``"maximal_subset"``, all vertices at the boundary; ``"all"``, whole arrays; or an object
        with two methods (`evener.operators.policies`).
    direction
        ``"push"`` along out-edges, ``"pull"`` along in-edges, or ``"auto"``.
    schedule
        How a GPU divides edges among its threads: ``"auto"`` or the name of one of
        `evener.operators.schedules`.
    device_arrays
        Whether the results of a GPU stay there, as CuPy arrays.
    memory_limit
        The most memory that the run may take on each device, in bytes or as ``"4GiB"``; several
        devices may have a list of limits or a dict by their names. A run that is estimated to
        need more is refused before it begins; a GPU first leaves edges in the host's memory, and
        reads them there.
    preallocate
        Room for what a program records, the only memory that is not known beforehand, as recorded
        vertices for each vertex. ``"auto"``: a GPU begins with what the last run on such a graph
        needed, and grows it on demand; ``False``: it begins small. A number, or ``True`` for what
        the last run needed (at first 1): memory is taken once, and a run that needs more ends.
        The interpreter has nothing to take beforehand, and goes on.
    check
        Whether functors check themselves, on any device: indices out of range, divisions by 0,
        whole numbers that overflow, values that are no number (NaN) or do not fit their field. A
        run that met one raises `ProgramError` with the functor, the line and the vertex. It takes
        some times as long. Functions that functors call, and what a gather sums up, are not
        checked. ``EVENER_CHECK=1`` does the same for every run.
    deterministic
        Whether the answer must be the same to the last bit in every run (docs/contracts.md). On
        the CPU one thread runs a program whose updates race; GPUs and sets are refused for those.
    **parameters
        The parameters of the program and of its ``start``; vertices are given as labels.

    Examples
    --------
    >>> from evener import generate
    >>> from evener.algorithms.bfs import BFS
    >>> from evener.engine.run import run
    >>> run(BFS, generate.path(4), source=0, device="python").depth.tolist()
    [0, 1, 2, 3]
    """
    require_graph(graph)
    checking = None
    if checking_asked_for(check) and hasattr(program, "declaration"):
        checking = Checking(program, graph)
        program = checking.program
    preallocation = parse_preallocate(preallocate)
    if direction not in DIRECTIONS:
        allowed = ", ".join(map(repr, DIRECTIONS))
        raise EvenerError(f"direction is {direction!r}; it must be one of {allowed}.")
    devices, why = choose_devices(device)
    if deterministic and hasattr(program, "declaration"):
        devices, why = _repeatable(program, device, devices, why)
    if len(devices) == 1 and not (isinstance(partition, str) and partition == "auto"):
        raise EvenerError(f"partition={partition!r} needs a device set, such as 'python+python'.")
    policy = policy_of(exchange)
    if exchange != "refined" and len(devices) == 1:
        raise EvenerError(f"exchange={exchange!r} needs a device set, such as 'cpu+cpu'.")
    kinds = {one.kind for one in devices}
    on_gpu = {"schedule": schedule != "auto" and "cuda" not in kinds,
              "device_arrays": device_arrays and kinds != {"cuda"}}  # fmt: skip
    for name, refused_here in on_gpu.items():
        if refused_here:
            raise EvenerError(f"{name} is for a GPU; leave it out, or use device='cuda'.")
    if not callable(partition):
        parse_partitioner(partition, len(devices))  # now, not after a long start
    names = [str(one) for one in devices]
    limits = parse_limits(memory_limit, names)
    free = device == "auto" and not deterministic and schedule == "auto" and not device_arrays
    if free and kinds == {"cuda"} and hasattr(program, "declaration"):
        larger = _place_larger(program, graph, parameters, memory_limit, limits[0], direction)
        if larger is not None:
            devices, partition, limits, why = larger
            kinds, names = {one.kind for one in devices}, [str(one) for one in devices]
    alone = len(devices) == 1 and kinds != {"cuda"}  # a GPU looks itself what it has room for
    left: list[int | None] = []
    if alone and limits[0] is not None and hasattr(program, "declaration"):
        needed = estimate_memory(program.declaration, graph, direction, transposing=True)
        left = require_within(program.declaration.name, needed, limits, names)
    began = time.perf_counter()
    # Parts and GPUs do what `start` wrote down in memory of their own.
    lazy = kinds == {"cuda"} or (len(devices) > 1 and "python" not in kinds)
    job = set_up(program, graph, parameters, lazy=lazy)
    job.preallocation, job.left = preallocation, left
    job.stats["device"] = "+".join(map(str, devices))
    require_whole(graph._indptr, graph._indices, graph._weights)
    started = time.perf_counter()
    # What was compiled before may be disposed of at any time, in finalizers that forget a Ctrl-C.
    kept = interrupts.kept()
    with progress.task(f"running {job.declaration.name}"), refusing_half_loaded(), kept:
        reasons = _execute(
            job,
            devices,
            partition,
            direction,
            schedule,
            device_arrays,
            limits,
            policy,
            asked=device != "auto",
        )
    require_whole(graph._indptr, graph._indices, graph._weights)
    if checking is not None:
        checking.finish(job)
    if "bytes_sent" in job.stats:
        sent = format_bytes(job.stats["bytes_sent"])
        reasons.append(f"Exchange: {policy.name}, {sent} between the parts.")
    spent = time.perf_counter() - started
    job.stats["setup_seconds"] = started - began
    before = ("partition_seconds", "compile_seconds")
    job.stats["run_seconds"] = spent - sum(job.stats.get(name, 0.0) for name in before)
    if job.stats["device"] != "+".join(names):
        why = f"{'+'.join(names)} cannot run it"  # the reasons that follow say why not
    place = f"{job.declaration.name} ran on {job.stats['device']}: {why}."
    return Result._of(job, [place, *reasons])


def _repeatable(
    program: type[Program], given: str, devices: list[Device], why: str
) -> tuple[list[Device], str]:
    """Devices on which every run of a program gives the same answer."""
    if given == "auto" and device_from_environment() is None:
        devices, why = choose_devices("cpu")[0], "deterministic=True"
    named = "+".join(map(str, devices))
    threads = threads_allowed(program, [one.kind for one in devices], named)
    if threads is None or devices[0].number == threads:
        return devices, why
    return [Device("cpu", threads)], f"deterministic=True, and threads of {named} would race"


def _place_larger(
    program: type[Program], graph: Graph, parameters: dict[str, Any], memory_limit: Any,
    limit: int | None, direction: str,
) -> Any:  # fmt: skip
    """Where to run what the GPU has no room for, if nobody has named a device."""
    if device_from_environment() is not None:
        return None
    from evener.engine.planning.auto import limits_of_both, place_larger

    limits = limits_of_both(memory_limit, limit)
    return place_larger(program, graph, parameters, limits, direction=direction)


def _execute(
    job: Job,
    devices: list[Device],
    partition: Any,
    direction: str,
    schedule: str = "auto",
    device_arrays: bool = False,
    limits: Sequence[int | None] = (),
    policy: Policy | None = None,
    *,
    asked: bool = True,
) -> list[str]:
    """Run a job where it was told to; returns what there is to say about it.

    A device that nobody ``asked`` for gives way to the next one where it lacks a stage.
    """
    kinds = {one.kind for one in devices}
    if kinds == {"cpu", "cuda"}:
        from evener.engine.targets.hybrid import run_hybrid

        assert policy is not None
        given = iter(cores_of([one for one in devices if one.kind == "cpu"]))
        cores = [next(given) if one.kind == "cpu" else 0 for one in devices]
        cards = [None if one.kind == "cpu" else one.number or 0 for one in devices]
        try:
            return run_hybrid(job, cores, cards, partition, direction, schedule, policy, limits)
        except (NotLoweredError, MemoryBudgetError) as error:
            if asked:
                raise
            p = [one.kind for one in devices].index("cuda")
            job.stats["device"] = str(devices[p])
            job.stats.pop("threads", None)
            then = _execute(
                job, [devices[p]], "auto", direction, limits=[limits[p]], asked=False
            )  # fmt: skip
            return [f"{error} So it ran on the GPU alone.", *then]
    if len(devices) > 1 and kinds == {"cpu"}:
        before = seconds_compiling()
        with compiling():  # to load what compiles is part of a first run too
            from evener.engine.targets.parts_cpu import run_parts
        assert policy is not None
        reasons = run_parts(job, cores_of(devices), partition, direction, policy, limits)
        job.stats["compile_seconds"] = seconds_compiling() - before
        return reasons
    if len(devices) > 1 and kinds == {"cuda"}:
        from evener.engine.targets import hybrid
        from evener.engine.targets.parts_gpu import run_gpu_parts

        assert policy is not None
        ordinals = [one.number or 0 for one in devices]
        if max(hybrid.machines_of(ordinals)) > 0:
            none = [0] * len(ordinals)
            return hybrid.run_hybrid(
                job, none, ordinals, partition, direction, schedule, policy, limits
            )
        return run_gpu_parts(
            job, ordinals, partition, direction, schedule, policy, limits, device_arrays
        )
    if len(devices) > 1:
        from evener.engine.reference.parts import run_partitioned

        given = iter(cores_of([one for one in devices if one.kind == "cpu"]))
        threads = [next(given) if one.kind == "cpu" else 0 for one in devices]
        return run_partitioned(
            job, len(devices), partition, direction, None, limits, threads, policy
        )
    only = devices[0]
    if only.kind == "python":
        from evener.engine.reference.loop import interpret

        interpret(job, direction)
        pulled = "pulled" if direction == "pull" else "pushed"
        return [f"Direction: {direction}; the interpreter {pulled}."]
    if only.kind == "cuda":
        from evener.engine.targets.gpu import execute as execute_on_gpu

        try:
            limit = limits[0] if limits else None
            return execute_on_gpu(job, only.number or 0, direction, schedule, device_arrays, limit)
        except NotLoweredError as error:
            if asked:
                raise
            job.stats["device"] = "cpu"
            job.fields = {name: np.array(field) for name, field in job.fields.items()}
            then = _execute(job, [Device("cpu")], partition, direction, asked=False)
            return [f"{error} So it ran on the CPU.", *then]
    from evener.engine.targets.cpu import execute

    try:
        execute(job, only.number or num_threads(), direction)
    except NotLoweredError as error:
        if asked:
            raise
        job.stats["device"] = "python"
        return [f"{error} So it did.", *_execute(job, [Device("python")], partition, direction)]
    return [f"Threads: {only.number or num_threads()}. Direction: {direction}."]
