"""Places with arrays and the processors that work on them: the host, or a GPU.

A `parallel` function ``f(chunk, size, …)`` that works on the items from ``chunk * size`` up to the
next chunk runs on both: cores take long chunks, and threads of a GPU one item each, so that
neighbours touch neighbouring memory. One source gives one result; only a sum of products of floats
would differ, see `evener.device.random.rounded_product`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from evener.device import cuda
from evener.device.compile import Compiled
from evener.device.limits import format_bytes, require_memory
from evener.device.team import Parallel
from evener.device.warp import BLOCK, block, num_blocks, thread_of_block
from evener.errors import DeviceError, MemoryBudgetError

_BLOCKS_EACH = 2  # per multiprocessor


class Host:
    """The cores, and NumPy arrays."""

    library: Any = np

    def each(self, function: Parallel, num_items: int, size: int, *arguments: Any) -> None:
        """Run ``function(chunk, size, *arguments)`` for each chunk of the items."""
        function(-(-num_items // size), size, *arguments)

    def require(self, nbytes: int, purpose: str) -> None:
        """Refuse a request that cannot fit, before allocating anything."""
        require_memory(nbytes, purpose)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Gpu:
    """A GPU, and CuPy arrays on it; within a ``with`` it is the current one."""

    def __init__(self, ordinal: int | None = None):
        cuda.require(ordinal)
        self.ordinal = ordinal or 0
        self.library: Any = cuda.library()
        self._within: list[Any] = []

    def each(self, function: Parallel, num_items: int, size: int, *arguments: Any) -> None:
        """Start ``function(item, 1, *arguments)`` for each item; ``size`` is for cores only."""
        if num_items == 0:
            return
        values = (np.int64(num_items), (1, *arguments))
        described = cuda.describe(values)
        _kernel(function.kernel, described, self.ordinal).start(cuda.pack(values).words)

    def require(self, nbytes: int, purpose: str) -> None:
        """Refuse a request that cannot fit, before allocating anything."""
        with cuda.on(self.ordinal):
            free = cuda.free_memory()
        if nbytes > free:
            raise MemoryBudgetError(
                f"{purpose} needs about {format_bytes(nbytes)} on the GPU while it is built, but "
                f"only {format_bytes(free)} are free; use a smaller graph or device='cpu'."
            )

    def release(self) -> None:
        """Return unused memory of the pool to the GPU."""
        self.library.get_default_memory_pool().free_all_blocks()

    def __enter__(self) -> Gpu:
        self._within.append(cuda.on(self.ordinal))
        self._within[-1].__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._within.pop().__exit__(*error)


HOST = Host()


def place_of(device: Any) -> Host | Gpu:
    """The place with this name; DeviceError if there is none.

    Examples
    --------
    >>> from evener.device.processors import place_of
    >>> place_of("cpu").library.__name__
    'numpy'
    """
    if device == "cpu":
        return HOST
    match = re.fullmatch(r"cuda(?::([0-9]{1,9}))?", device) if isinstance(device, str) else None
    if match is None:
        raise DeviceError(f"device is {device!r}; it must be 'cpu', 'cuda' or 'cuda:N' here.")
    return Gpu(None if match[1] is None else int(match[1]))


def ptx_of(function: Parallel, arguments: tuple[Any, ...], capability: tuple[int, int]) -> str:
    """The PTX of a function for arguments like these; no GPU is needed."""
    described = cuda.describe((np.int64(1), (1, *arguments)))
    return cuda.compile_ptx(_over_items(function.kernel), described, capability, _BLOCKS_EACH)


@functools.lru_cache(maxsize=256)
def _kernel(body: Compiled, described: Any, ordinal: int) -> cuda.GridKernel:
    return cuda.GridKernel(_over_items(body), described, _BLOCKS_EACH)


@functools.cache
def _over_items(body: Compiled) -> Callable[..., None]:
    def over_items(num_items, arguments):
        first = np.int64(block()) * BLOCK + thread_of_block()
        for item in range(first, num_items, np.int64(num_blocks()) * BLOCK):
            body(item, *arguments)

    return over_items
