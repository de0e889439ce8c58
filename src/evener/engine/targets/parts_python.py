"""Sets with interpreters: the reference over parts, some of which may be compiled."""

from __future__ import annotations

from evener.engine.devices import threads_of
from evener.engine.job import Job
from evener.engine.reference.parts import run_partitioned
from evener.engine.request import Request
from evener.engine.targets.python import lower as lower  # which refuses

REPEATS_START = False


def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns the lines for `explain()`."""
    threads = threads_of(request.devices)
    return run_partitioned(
        job, len(threads), request.partition, request.direction, None, request.limits, threads,
        request.policy,
    )  # fmt: skip
