"""Where the arrays of a run on a GPU are: places in a few pieces of memory, worked out once.

The pieces are allocated for each run; which array is where in them depends on a graph and a kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evener.device import cuda as device

ALIGNED = 256  # bytes at which an array may begin
CLEARED, SCRATCH, RECORD = "cleared", "scratch", "record"


class HostMemory:
    """As `Layout`, arrays in the host's memory: to compile, and to simulate."""

    library = np

    def __init__(self, **given: np.ndarray):
        self.given = given

    def cleared(self, length: int, dtype: Any) -> Any:
        """An array of zeros."""
        return np.zeros(length, dtype)

    told = record = cleared

    def scratch(self, length: int, dtype: Any) -> Any:
        """An array of anything."""
        return np.empty(length, dtype)

    def named(self, region: str, length: int, dtype: Any) -> Any:
        """An array that is given, or zeros."""
        if region not in self.given:
            self.given[region] = np.zeros(length, dtype)
        return self.given[region]


class Layout:
    """Places for arrays in memory that is allocated for each run."""

    def __init__(self) -> None:
        self.library = device.library()
        self.sizes: dict[str, int] = {CLEARED: 0, SCRATCH: 0}

    def cleared(self, length: int, dtype: Any) -> device.Span:
        """An array of zeros."""
        return self._place(length, dtype, CLEARED)

    def told(self, length: int, dtype: Any) -> device.Span:
        """An array of zeros by which host and kernel tell each other something."""
        return self._place(length, dtype, CLEARED)

    def scratch(self, length: int, dtype: Any) -> device.Span:
        """An array of anything."""
        return self._place(length, dtype, SCRATCH)

    def record(self, length: int, dtype: Any) -> device.Span:
        """An array of anything that may be moved to more room."""
        return self._place(length, dtype, RECORD)

    def named(self, region: str, length: int, dtype: Any) -> device.Span:
        """An array of its own in each run, under this name: fields, since they may be results."""
        return device.Span(np.dtype(dtype), length, 0, region)

    def _place(self, length: int, dtype: Any, region: str) -> device.Span:
        dtype = np.dtype(dtype)
        first = -(-self.sizes.get(region, 0) // ALIGNED) * ALIGNED
        self.sizes[region] = first + length * dtype.itemsize
        return device.Span(dtype, length, first, region)
