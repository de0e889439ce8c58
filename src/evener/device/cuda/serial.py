"""`evener.device.serial` for a GPU: plain updates of elements that only one thread uses."""

# mypy: ignore-errors

from __future__ import annotations

from numba import cuda

from evener.device import atomic

_inlined = cuda.jit(device=True, forceinline=True)

add = _inlined(atomic.add)
min = _inlined(atomic.min)
max = _inlined(atomic.max)
exchange = _inlined(atomic.exchange)
cas = _inlined(atomic.cas)
