"""The device ``python``: programs as plain Python, one call of a functor after the other."""

from __future__ import annotations

from typing import NoReturn

from evener.engine.job import Job
from evener.engine.reference.loop import interpret
from evener.engine.request import Request
from evener.errors import DeviceError

REPEATS_START = False


def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns the lines for `explain()`."""
    interpret(job, request.direction)
    pulled = "pulled" if request.direction == "pull" else "pushed"
    return [f"Direction: {request.direction}; the interpreter {pulled}."]


def lower(job: Job, request: Request) -> NoReturn:
    """Refuse: there is no kernel."""
    raise DeviceError("device='python' calls functors one by one and has no kernel to show.")
