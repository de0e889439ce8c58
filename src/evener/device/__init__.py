"""Compiling, threads, atomics and limits; the only folder that knows Numba or CUDA."""

from evener.device.compile import by_target, compiled
from evener.device.limits import (
    available_memory,
    format_bytes,
    num_cores,
    parse_bytes,
    require_memory,
)
from evener.device.sort import bucket_cursors, sort_keys
from evener.device.team import num_threads, parallel, use_threads

__all__ = [
    "available_memory",
    "bucket_cursors",
    "by_target",
    "compiled",
    "format_bytes",
    "num_cores",
    "num_threads",
    "parallel",
    "parse_bytes",
    "require_memory",
    "sort_keys",
    "use_threads",
]
