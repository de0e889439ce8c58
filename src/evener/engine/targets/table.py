"""Which target runs a program on which devices, and which one takes over from it.

A target is a module with ``run(job, request)``, which returns the lines for `explain()`,
``lower(job, request)``, which returns the kernels that it would run, and ``REPEATS_START``: whether
it has its own memory, in which it repeats what a program's `start` did to fields.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from evener.device.compile import compiling
from evener.engine.codegen.passes import NotLoweredError
from evener.engine.devices import Device
from evener.engine.job import Job
from evener.engine.request import Request
from evener.errors import MemoryBudgetError

_ALONE = {"python": "python", "cpu": "cpu", "cuda": "gpu"}
_SETS = {
    frozenset({"cpu"}): "parts_cpu",
    frozenset({"cuda"}): "parts_gpu",
    frozenset({"cpu", "cuda"}): "hybrid",
}


class Target(NamedTuple):
    """A module that runs jobs."""

    name: str
    module: Any

    @property
    def repeats_start(self) -> bool:
        """Whether it repeats in its own memory what `start` did to fields."""
        return bool(self.module.REPEATS_START)


def target_of(devices: Sequence[Device]) -> Target:
    """The target for devices.

    Examples
    --------
    >>> from evener.engine.devices import Device
    >>> from evener.engine.targets.table import target_of
    >>> target_of([Device("cpu", 1), Device("python")]).name
    'parts_python'
    """
    kinds = frozenset(one.kind for one in devices)
    name = _ALONE[devices[0].kind] if len(devices) == 1 else _SETS.get(kinds, "parts_python")
    with compiling():  # loading the compiler is part of a first run too
        return Target(name, importlib.import_module(f"evener.engine.targets.{name}"))


def run_on(target: Target, job: Job, request: Request) -> list[str]:
    """Run a job on its target; if that cannot, and the user named no device, on the next one."""
    try:
        return target.module.run(job, request)
    except (NotLoweredError, MemoryBudgetError) as error:
        too_large = isinstance(error, MemoryBudgetError)
        turn_to = _NEXT.get(target.name)
        if request.explicit or turn_to is None or (too_large and target.name != "hybrid"):
            raise
        then, sentence = turn_to(job, request)
        job.stats["device"] = str(then.devices[0])
        return [f"{error} {sentence}", *run_on(target_of(then.devices), job, then)]


def _to_the_gpu(job: Job, request: Request) -> tuple[Request, str]:
    p = [one.kind for one in request.devices].index("cuda")
    job.stats.pop("threads", None)
    then = request.on(request.devices[p], partition="auto", limits=(request.limits[p],))
    return then, "Evener ran it on the GPU alone instead."


def _to_the_cpu(job: Job, request: Request) -> tuple[Request, str]:
    job.fields = {name: np.array(field) for name, field in job.fields.items()}
    return request.on(Device("cpu"), schedule="auto"), "Evener ran it on the CPU instead."


def _to_the_interpreter(_: Job, request: Request) -> tuple[Request, str]:
    return request.on(Device("python")), "Evener ran it in the interpreter instead."


_NEXT = {"hybrid": _to_the_gpu, "gpu": _to_the_cpu, "cpu": _to_the_interpreter}
