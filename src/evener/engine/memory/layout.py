"""Where the arrays of a GPU run are: offsets in a few pieces of memory, computed once.

The pieces are allocated for each run; the offsets depend on a graph and a kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evener.device import cuda as device

ALIGNED = 256  # bytes
CLEARED, SCRATCH, RECORD = "cleared", "scratch", "record"


class HostMemory:
    """Like `Layout`, with arrays in the host's memory: to compile, and to simulate."""

    library = np

    def __init__(self, **arrays: np.ndarray):
        self.arrays = arrays

    def cleared(self, length: int, dtype: Any) -> Any:
        """An array of zeros."""
        return np.zeros(length, dtype)

    host_visible = record = cleared

    def scratch(self, length: int, dtype: Any) -> Any:
        """An uninitialized array."""
        return np.empty(length, dtype)

    def named(self, region: str, length: int, dtype: Any) -> Any:
        """The array of this name, or zeros."""
        if region not in self.arrays:
            self.arrays[region] = np.zeros(length, dtype)
        return self.arrays[region]


class Layout:
    """Offsets of arrays in memory that is allocated for each run."""

    def __init__(self) -> None:
        self.library = device.library()
        self.sizes: dict[str, int] = {CLEARED: 0, SCRATCH: 0}

    def cleared(self, length: int, dtype: Any) -> device.Span:
        """An array of zeros."""
        return self._place(length, dtype, CLEARED)

    def host_visible(self, length: int, dtype: Any) -> device.Span:
        """An array of zeros through which host and kernel communicate."""
        return self._place(length, dtype, CLEARED)

    def scratch(self, length: int, dtype: Any) -> device.Span:
        """An uninitialized array."""
        return self._place(length, dtype, SCRATCH)

    def record(self, length: int, dtype: Any) -> device.Span:
        """An uninitialized array that may move to more room."""
        return self._place(length, dtype, RECORD)

    def named(self, region: str, length: int, dtype: Any) -> device.Span:
        """A separate array of each run, by name: fields, since they may become results."""
        return device.Span(np.dtype(dtype), length, 0, region)

    def _place(self, length: int, dtype: Any, region: str) -> device.Span:
        dtype = np.dtype(dtype)
        first = -(-self.sizes.get(region, 0) // ALIGNED) * ALIGNED
        self.sizes[region] = first + length * dtype.itemsize
        return device.Span(dtype, length, first, region)
