"""How fast values travel between devices: measured, in bytes a second."""

from __future__ import annotations

import time

import numpy as np

from evener.device.team import parallel

_VALUES = 1 << 20
_CHUNK = 1 << 14
_TIMES = 3


def host_rate() -> float:
    """Bytes a second of values that are picked, carried over and put in place at random.

    That is what an exchange between two parts in the memory of the host does.

    Examples
    --------
    >>> from evener.device.link_speed import host_rate
    >>> host_rate() > 1e6
    True
    """
    order = np.random.default_rng(1).permutation(_VALUES).astype(np.uint32)
    source, box, target = (np.zeros(_VALUES) for _ in range(3))
    chunks = _VALUES // _CHUNK

    def carry() -> None:
        _pick(chunks, source, order, box)
        _put(chunks, box, order, target)

    return source.nbytes / _fastest(carry)


def gpu_rate(ordinal: int = 0) -> float:
    """Bytes a second between pinned memory of the host and a GPU, there or back."""
    from evener.device.cuda import library, on, synchronize

    cupy = library()
    with on(ordinal):
        pinned = cupy.cuda.alloc_pinned_memory(8 * _VALUES)
        host = np.frombuffer(pinned, np.float64, _VALUES)
        there = cupy.empty(_VALUES)

        def copy() -> None:
            there.set(host)
            synchronize()

        return host.nbytes / _fastest(copy)


def _fastest(work) -> float:
    work()  # compiles, and touches the memory
    best = float("inf")
    for _ in range(_TIMES):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


@parallel
def _pick(chunk, source, order, box):
    for i in range(chunk * _CHUNK, (chunk + 1) * _CHUNK):
        box[i] = source[order[i]]


@parallel
def _put(chunk, box, order, target):
    for i in range(chunk * _CHUNK, (chunk + 1) * _CHUNK):
        target[order[i]] = box[i]
