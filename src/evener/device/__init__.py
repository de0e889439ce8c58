"""Processors: compiling, threads, atomics, limits; the only folder that knows Numba or CUDA."""

from evener.device.compile import compiled
from evener.device.limits import available_memory, format_bytes, num_cores, require_memory
from evener.device.team import num_threads, parallel, use_threads

__all__ = [
    "available_memory",
    "compiled",
    "format_bytes",
    "num_cores",
    "num_threads",
    "parallel",
    "require_memory",
    "use_threads",
]
