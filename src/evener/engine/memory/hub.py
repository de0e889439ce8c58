"""The hub of a run on several machines: memory of the host that all devices can reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job, field_dtype
from evener.engine.partition.divide import Parts
from evener.operators.shared.between_machines import FLAG_WORDS, PART_WORDS


class HubMemory(NamedTuple):
    """The arrays of the hub (`operators.shared.between_machines`), and the machine of each part."""

    machine_of: np.ndarray
    flags: np.ndarray
    words: np.ndarray
    far_sizes: np.ndarray
    box: np.ndarray
    marks: np.ndarray
    bits: np.ndarray
    boxes: tuple[np.ndarray, ...]  # of each field that is sent by ghosts
    copies: tuple[np.ndarray, ...]  # of each replicated field
    agreed: tuple[np.ndarray, ...]  # of each scalar

    @property
    def machines(self) -> int:
        """The number of machines."""
        return int(self.machine_of.max()) + 1

    def patience(self, polls: int) -> int:
        """How often a device polls before it runs ahead, or -1 if it must not.

        Parts of one machine read each other's boxes, which running ahead would overwrite.
        """
        return polls if self.machines == len(self.machine_of) else -1

    def reset(self) -> None:
        """Clear the hub for a run."""
        for array in (self.flags, self.words, self.far_sizes, *self.agreed):
            array[:] = 0

    def give_up(self) -> None:
        """End all waiting of machines for each other."""
        self.flags[self.machines * FLAG_WORDS] = 1


def new_hub(
    allocate: Callable[[int, Any], np.ndarray], job: Job, parts: Parts, machine_of: list[int],
    kernel: Kernel, boxes: Callable[[int, Any], Any] | None = None,
) -> HubMemory:  # fmt: skip
    """A hub for the parts and for what a kernel exchanges; ``allocate(length, dtype)``.

    Arrays that the host does not use may be elsewhere: ``boxes(length, dtype)``.
    """
    boxes = boxes or allocate
    k, n, ghosts = len(parts.parts), job.graph.num_vertices, len(parts.home)
    ids = np.dtype(f"u{job.graph._indices.dtype.itemsize}")
    words = 2 * k * PART_WORDS
    dtypes = {name: array.dtype for name, array in job.fields.items()}
    return HubMemory(
        np.array(machine_of, np.int64),
        allocate(FLAG_WORDS * (max(machine_of) + 2), np.int64),
        allocate(words, np.int64),
        allocate(words, np.int64),
        boxes(2 * ghosts, ids),
        boxes(2 * ghosts, np.uint8),
        boxes(2 * (ghosts // 64 + k * k + 1), np.uint64),
        tuple(boxes(2 * ghosts, dtypes[name]) for name in kernel.plan.carried),
        tuple(boxes(2 * k * n, dtypes[name]) for name in kernel.plan.united),
        tuple(
            allocate(words, field_dtype(scalar.dtype, job.graph))
            for scalar in job.declaration.scalars.values()
        ),
    )


def no_hub(job: Job, parts: Parts, kernel: Kernel) -> HubMemory:
    """The hub arguments of kernels if all parts are on one machine."""
    return new_hub(
        lambda length, dtype: np.zeros(1, dtype), job, parts, [0] * len(parts.parts), kernel
    )
