"""Kernels for grids of a GPU, lowered once and compiled once per card."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from evener.device import cuda as device
from evener.engine.codegen.analysis import pulls
from evener.engine.codegen.functors import (
    check_functors,
    examples_of,
    functors_of,
    kernel_key,
    name_totals,
)
from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job
from evener.engine.memory.gpu import Lowered
from evener.errors import DeviceError
from evener.operators.gpu.schedules import SCHEDULES
from evener.programs.kinds import Advance, Gather
from evener.programs.program import program_cache
from evener.programs.stages import walk

# Blocks on a multiprocessor. Stages over all vertices are bound by memory: more threads hide more
# latency. Frontiers may be small and many: one block means fewer blocks at a barrier, and registers
# for all variables of a thread.
BLOCKS_FOR_ALL, BLOCKS_FOR_FRONTIERS = 2, 1


def require_schedule(schedule: str) -> None:
    """Refuse an unknown schedule."""
    if schedule != "auto" and schedule not in SCHEDULES:
        known = ", ".join(map(repr, SCHEDULES))
        raise DeviceError(f"there is no schedule {schedule!r}; there are 'auto', {known}.")


def lowered_once(
    job: Job, direction: str, schedule: str, more: tuple[Any, ...], lower: Callable[[], Kernel],
    relabels: bool = False,
) -> Lowered:  # fmt: skip
    """The kernel of a program, made once per key; ``more`` adds to the key."""
    require_schedule(schedule)
    graph = job.graph
    arrays: list[Any] = [graph._indptr, graph._indices]
    if job.declaration.uses_weights:
        arrays.append(graph._weights)
    dtypes = tuple(array.dtype for array in arrays)
    key = (*kernel_key(job), direction, schedule, relabels, *more, dtypes)
    known = program_cache(job.program, "grid")
    if key not in known:
        known[key] = _lowered(job, direction, schedule, lower(), relabels, key)
    return known[key]


def _lowered(
    job: Job, direction: str, schedule: str, kernel: Kernel, relabels: bool, key: Any
) -> Lowered:
    d = job.declaration
    if kernel.plan.gathers:
        name_totals(job, kernel, *examples_of(example_of(job)))
    takes = any(isinstance(s, Advance | Gather) and not s.over_all for s in walk(d.loop))
    return Lowered(
        key,
        kernel,
        _defined(kernel),
        functors_of(job, kernel),
        pulls(d, direction),
        any("degree" in found.offered for found in d.accesses.values()),
        schedule,
        BLOCKS_FOR_FRONTIERS if takes else BLOCKS_FOR_ALL,
        relabels,
    )


def _defined(kernel: Kernel) -> Any:
    """The function that a kernel's text defines."""
    file = f"<evener kernel {hash(kernel.text) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(kernel.text), None, kernel.text.splitlines(True), file)
    scope = {**kernel.names, "__name__": __name__}
    exec(compile(kernel.text, file, "exec"), scope)
    scope["worker"] = device.inlined(scope["worker"])
    return scope["kernel"]


def ready(job: Job, lowered: Lowered, arguments: Any, ordinal: int) -> device.GridKernel:
    """The kernel compiled for this GPU; if it does not compile, the error of its functor."""
    try:
        described = device.describe(arguments)
        known = program_cache(job.program, "grid kernels")
        key = (lowered.function, described, lowered.blocks_each, ordinal)
        if key not in known:
            known[key] = device.GridKernel(lowered.function, described, lowered.blocks_each)
        return known[key]
    except device.CompileError:
        check_functors(job.declaration, lowered.functors, *examples_of(example_of(job)))
        raise


def ptx_of(lowered: Lowered, arguments: Any, capability: tuple[int, int]) -> str:
    """The PTX of a kernel for arguments like these; no GPU is needed."""
    described = device.describe(arguments)
    return device.compile_ptx(lowered.function, described, capability, lowered.blocks_each)


def example_of(job: Job) -> Job:
    """The job with fields of the right types and no length."""
    empty = {name: np.empty(0, field.dtype) for name, field in job.fields.items()}
    return dataclasses.replace(job, fields=empty)
