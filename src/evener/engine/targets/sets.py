"""What all device sets share: limits and division before a run, stats and reasons after it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from evener.device.compile import seconds_compiling
from evener.engine.codegen.analysis import pulls
from evener.engine.job import Job
from evener.engine.memory.estimate import require_parts
from evener.engine.memory.growable import grown
from evener.engine.partition.divide import Parts, divide_by
from evener.engine.partition.partitioners import partition as assign
from evener.programs.stages import Edges, walk


def nothing_to_do(job: Job, direction: str) -> list[str]:
    """The lines for `explain()` about a run on a graph without vertices."""
    job.fields = {name: np.asarray(field) for name, field in job.fields.items()}
    return [f"Direction: {direction}. There was nothing to do."]


def divided(
    job: Job, partition: Any, shares: list[float], limits: Sequence[int | None],
    names: list[str], direction: str, *, cpu: int = 0, has_ghosts: bool = True,
) -> Parts:  # fmt: skip
    """The parts of a graph; MemoryBudgetError if one exceeds the limit of its device.

    ``names`` are those of the devices if the user gave none; ``cpu`` is the first part on a CPU.
    """
    if any(limit is not None for limit in limits):
        part_of = assign(job.graph, partition, shares, cpu=cpu)
        job.left = require_parts(
            job.declaration, job.graph, part_of, limits, job.names_of(names), direction
        )
    began, earlier = time.perf_counter(), seconds_compiling()
    lists = {**lists_of(job, direction), "has_ghosts": has_ghosts}
    parts = divide_by(job.graph, partition, shares, cpu=cpu, **lists)
    compiled = seconds_compiling() - earlier  # dividing compiles its functions at first
    job.stats["partition_seconds"] = time.perf_counter() - began - compiled
    return parts


def lists_of(job: Job, direction: str) -> dict[str, bool]:
    """Which neighbour lists the parts of a graph need for a program, and in which order."""
    d = job.declaration
    slices = any(isinstance(s, Edges) and s.neighbours is not None for s in walk(d.loop))
    return {"pulls": pulls(d, direction), "in_order": slices, "weighted": d.uses_weights}


def grown_parts(job: Job, parts: Parts, growth: int) -> int:
    """As `grown`, for the largest part: which one was full is unknown."""
    largest = max(part.owned for part in parts.parts)
    left = [one for one in job.left if one is not None]
    return grown(job, largest, min(left, default=None), growth)


def sizes_of(parts: Parts) -> dict[str, list[int]]:
    """The sizes of parts, for stats."""
    return {
        "owned": [part.owned for part in parts.parts],
        "ghosts": [part.held - part.owned for part in parts.parts],
    }


def partition_reason(partition: Any, parts: Parts) -> str:
    """The line for `explain()` about a partition."""
    name = partition if isinstance(partition, str) else getattr(partition, "__name__", "given")
    name = "random" if name == "auto" else name
    owned, ghosts = (
        " + ".join(f"{count:,}" for count in counts) for counts in sizes_of(parts).values()
    )
    return f"Partition: {name}, {len(parts.parts)} parts with {owned} vertices and {ghosts} ghosts."
