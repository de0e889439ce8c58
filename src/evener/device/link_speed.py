"""Measured transfer rates between devices, in bytes per second."""

from __future__ import annotations

import time

import numpy as np

from evener.device.team import parallel

_VALUES = 1 << 20
_CHUNK = 1 << 14
_TIMES = 3


def host_rate() -> float:
    """Bytes per second of gathering values at random and scattering them at random.

    An exchange between two parts in host memory does the same.

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
    """Bytes per second between pinned host memory and a GPU, either way."""
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
