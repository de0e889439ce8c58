"""Where arrays are and the work on them is done: the host with its cores, or a GPU.

A function of `parallel` that begins ``f(chunk, size, …)`` and works on the items from
``chunk * size`` up to the next chunk serves both: the cores take long chunks, and the threads of a
GPU chunks of one item, so that neighbours touch neighbouring memory. One text, hence one result;
only a sum of products of floats would differ, see `evener.device.random.rounded_product`.
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

_BLOCKS_EACH = 2  # on a multiprocessor


class Host:
    """The cores, and arrays of NumPy."""

    library: Any = np

    def each(self, function: Parallel, num_items: int, size: int, *arguments: Any) -> None:
        """Run ``function(chunk, size, *arguments)`` for the chunks of so many items."""
        function(-(-num_items // size), size, *arguments)

    def require(self, nbytes: int, purpose: str) -> None:
        """Refuse what cannot fit, before anything is allocated for it."""
        require_memory(nbytes, purpose)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Gpu:
    """A GPU, and arrays of CuPy there; within a ``with`` it is the current one."""

    def __init__(self, ordinal: int | None = None):
        cuda.require(ordinal)
        self.ordinal = ordinal or 0
        self.library: Any = cuda.library()
        self._within: list[Any] = []

    def each(self, function: Parallel, num_items: int, size: int, *arguments: Any) -> None:
        """Start ``function(item, 1, *arguments)`` for every item; ``size`` is for the cores."""
        if num_items == 0:
            return
        given = (np.int64(num_items), (1, *arguments))
        described = cuda.describe(given)
        _kernel(function.kernel, described, self.ordinal).start(cuda.pack(given).words)

    def require(self, nbytes: int, purpose: str) -> None:
        """Refuse what cannot fit, before anything is allocated for it."""
        with cuda.on(self.ordinal):
            free = cuda.free_memory()
        if nbytes > free:
            raise MemoryBudgetError(
                f"{purpose} needs about {format_bytes(nbytes)} on the GPU while it is made, but "
                f"only {format_bytes(free)} are free; use a smaller graph or device='cpu'."
            )

    def release(self) -> None:
        """Give memory that the pool holds and nobody uses back to the GPU."""
        self.library.get_default_memory_pool().free_all_blocks()

    def __enter__(self) -> Gpu:
        self._within.append(cuda.on(self.ordinal))
        self._within[-1].__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._within.pop().__exit__(*error)


HOST = Host()


def place_of(device: Any) -> Host | Gpu:
    """The place that a name stands for; DeviceError if there is none.

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
