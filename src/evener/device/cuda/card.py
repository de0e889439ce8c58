"""Which GPUs there are, which one is current, and how much memory is free."""

from __future__ import annotations

import functools
import importlib.util
import os
import time
from typing import Any

from evener.device.probe import why_no_cuda
from evener.errors import DeviceError

ASK_SECONDS = 0.5  # between queries for free memory, which are slow
EXTRA = "install the extra for your driver: pip install 'evener[cu12]' or 'evener[cu13]'"

kernel_loaded: list[bool] = []  # filled by the first kernel: then nothing need be checked again
hung: set[int] = set()  # GPUs on which a kernel does not end
_was_forked: list[bool] = []  # filled in a child whose parent had loaded one


def why_not() -> str | None:
    """Why no program can run on a GPU here, in a sentence; None if one can."""
    if _was_forked:
        return (
            "this process was forked from one that uses the GPU, which does not survive a fork; "
            "start it with multiprocessing's method 'spawn', or fork before the first run."
        )
    if kernel_loaded:
        return None
    packages = (("numba-cuda", "numba_cuda"), ("CuPy", "cupy"))
    missing = [name for name, module in packages if importlib.util.find_spec(module) is None]
    no_gpu = why_no_cuda()  # first: without a GPU no package helps
    if no_gpu:
        return f"{no_gpu} To use one, {EXTRA}." if missing else no_gpu
    return f"{missing[0]} is not installed; {EXTRA}." if missing else _why_no_library()


@functools.cache
def _why_no_library() -> str | None:
    """Why CuPy does not load, checked once."""
    try:
        library()
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return f"CuPy is installed but does not load ({reason}); {EXTRA}."
    return None


def _after_fork() -> None:
    if kernel_loaded:
        _was_forked.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def capability_here() -> tuple[int, int] | None:
    """The compute capability of the current GPU, if there is one."""
    if why_not() is not None:
        return None
    digits = library().cuda.Device().compute_capability
    return int(digits[:-1]), int(digits[-1])


def require(ordinal: int | None = None) -> None:
    """Raise DeviceError unless programs can run on this GPU."""
    reason = why_not()
    if reason:
        name = "cuda" if ordinal is None else f"cuda:{ordinal}"
        raise DeviceError(f"device {name!r}: {reason}")
    if (ordinal or 0) in hung:
        raise DeviceError(
            f"cuda:{ordinal or 0} still runs a kernel that did not stop at Ctrl-C; start a new "
            "process to use it."
        )
    count = library().cuda.runtime.getDeviceCount()
    if ordinal is not None and ordinal >= count:
        raise DeviceError(f"there is no GPU {ordinal}; the driver has {count}, from 0 on.")


@functools.cache
def library() -> Any:
    """CuPy, imported when first needed."""
    import cupy

    return cupy


def on(ordinal: int) -> Any:
    """A context in which this GPU is current."""
    return library().cuda.Device(ordinal)


def current() -> int:
    """The number of the current GPU."""
    return library().cuda.Device().id


def synchronize() -> None:
    """Wait for all work on the current GPU's stream."""
    library().cuda.get_current_stream().synchronize()


@functools.cache
def total_memory(ordinal: int) -> int:
    """Total memory of a GPU, in bytes."""
    return int(library().cuda.Device(ordinal).mem_info[1])


def free_memory() -> int:
    """Bytes that can still be allocated on the current GPU.

    The driver is queried now and then; in between, this process's allocations are counted.
    """
    pool, ordinal, now = library().get_default_memory_pool(), current(), time.monotonic()
    asked, free, taken = _free.get(ordinal, (-ASK_SECONDS, 0, 0))
    if now - asked >= ASK_SECONDS:
        free, taken = library().cuda.runtime.memGetInfo()[0], pool.total_bytes()
        _free[ordinal] = (now, free, taken)
    return free - (pool.total_bytes() - taken) + pool.free_bytes()


_free: dict[int, tuple[float, int, int]] = {}  # time of the query, bytes free and taken then
