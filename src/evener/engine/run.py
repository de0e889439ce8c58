"""`run`: choose the devices, set the job up, run it, and hand back what it found."""

from __future__ import annotations

import importlib.util
import os
import time
from typing import Any, NamedTuple

from evener import progress
from evener.device import num_threads
from evener.engine.job import Job, set_up
from evener.engine.lower import NotLoweredError
from evener.engine.result import Result
from evener.errors import DeviceError, EvenerError
from evener.graph.csr import Graph
from evener.programs.program import Program

DIRECTIONS = ("auto", "push", "pull")


class Device(NamedTuple):
    """One device by name: ``python``, ``cpu``, or ``cpu`` with a number of threads."""

    kind: str
    number: int | None = None

    def __str__(self) -> str:
        return self.kind if self.number is None else f"{self.kind}:{self.number}"


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
        ``"auto"`` (``EVENER_DEVICE`` if it is set, else the fastest), or a set of partitions such
        as ``"python+python"``.
    partition
        How a device set divides the vertices: ``"auto"`` or ``"random"``, ``"static"`` (round
        robin), or a function ``(graph, shares)`` that returns the part of each vertex.
    exchange
        How parts tell each other of changes: ``"refined"``, only what changed.
    direction
        ``"push"`` along out-edges, ``"pull"`` along in-edges, or ``"auto"``.
    schedule, memory_limit, preallocate, device_arrays
        Not in this version; anything but the default is refused.
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
    refused = {
        "schedule": (schedule, "auto"), "memory_limit": (memory_limit, None),
        "preallocate": (preallocate, "auto"), "device_arrays": (device_arrays, False),
        "exchange": (exchange, "refined"),
    }  # fmt: skip
    for name, (given, default) in refused.items():
        if given is not default and given != default:
            raise EvenerError(f"{name}={given!r} is not in this version; leave {name} out.")
    if direction not in DIRECTIONS:
        allowed = ", ".join(map(repr, DIRECTIONS))
        raise EvenerError(f"direction is {direction!r}; it must be one of {allowed}.")
    devices, why = choose_devices(device)
    if len(devices) == 1 and partition != "auto":
        raise EvenerError(f"partition={partition!r} needs a device set, such as 'python+python'.")
    began = time.perf_counter()
    job = set_up(program, graph, parameters)
    job.stats["device"] = "+".join(map(str, devices))
    started = time.perf_counter()
    with progress.task(f"running {job.declaration.name}"):
        reasons = _execute(job, devices, partition, direction, asked=device != "auto")
    spent = time.perf_counter() - started
    job.stats["setup_seconds"] = started - began
    job.stats["run_seconds"] = spent - job.stats.get("compile_seconds", 0.0)
    place = f"{job.declaration.name} ran on {job.stats['device']}: {why}."
    return Result._of(job, [place, *reasons])


def _execute(
    job: Job, devices: list[Device], partition: Any, direction: str, *, asked: bool = True
) -> list[str]:
    """Run a job where it was told to; returns what there is to say about it.

    A device that nobody ``asked`` for gives way to the interpreter where it lacks a stage.
    """
    if len(devices) > 1:
        from evener.engine.partitioned import run_partitioned

        return run_partitioned(job, len(devices), partition, direction)
    only = devices[0]
    if only.kind == "python":
        from evener.engine.interpret import interpret

        interpret(job, direction)
        pulled = "pulled" if direction == "pull" else "pushed"
        return [f"Direction: {direction}; the interpreter {pulled}."]
    from evener.engine.native import execute

    try:
        execute(job, only.number or num_threads(), direction)
    except NotLoweredError as error:
        if asked:
            raise
        job.stats["device"] = "python"
        return [f"{error} So it did.", *_execute(job, [Device("python")], partition, direction)]
    return [f"Threads: {only.number or num_threads()}. Direction: {direction}."]


def choose_devices(given: str) -> tuple[list[Device], str]:
    """The devices that a name stands for, and why these.

    Examples
    --------
    >>> from evener.engine.run import choose_devices
    >>> choose_devices("python+python")
    ([Device(kind='python', number=None), Device(kind='python', number=None)], 'as asked for')
    """
    if not isinstance(given, str):
        raise DeviceError(f"device is {given!r}; it must be a name such as 'cpu' or 'cpu:4'.")
    name, why = given, "as asked for"
    if given == "auto":
        name, why = os.environ.get("EVENER_DEVICE", ""), "EVENER_DEVICE says so"
        if name in ("", "auto"):
            name, why = _fastest()
    devices = [_parse(one, name) for one in name.split("+")]
    if len(devices) > 1 and any(one.kind != "python" for one in devices):
        raise DeviceError(
            f"device {name!r}: this version has no sets of other devices than python."
        )
    if any(one.kind == "cpu" for one in devices) and not _has_compiler():
        raise DeviceError(f"device {name!r}: this version has no compiled CPU device.")
    return devices, why


def _fastest() -> tuple[str, str]:
    if _has_compiler():
        return "cpu", "the compiled CPU device is the fastest of this version"
    return "python", "this version has no compiled device"


def _has_compiler() -> bool:
    return importlib.util.find_spec("evener.engine.native") is not None


def _parse(one: str, whole: str) -> Device:
    kind, colon, number = one.strip().partition(":")
    if kind == "cuda":
        raise DeviceError(f"device {whole!r}: this version has no CUDA device.")
    if kind == "python" and not colon:
        return Device("python")
    if kind == "cpu" and not colon:
        return Device("cpu")
    if kind == "cpu" and number.isascii() and number.isdecimal() and int(number) > 0:
        return Device("cpu", int(number))
    raise DeviceError(f"there is no device {one!r}; there are 'auto', 'python', 'cpu' and 'cpu:N'.")
