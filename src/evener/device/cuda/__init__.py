"""NVIDIA GPUs: numba-cuda compiles, CuPy links, owns memory and launches.

`card` finds GPUs, `compile` makes PTX, `launch` runs kernels, `memory` holds arrays; `arrays`,
`intrinsics`, `serial` and `ufuncs` extend numba-cuda.
"""

from evener.device.cuda.card import (
    EXTRA,
    capability_here,
    current,
    free_memory,
    hung,
    library,
    on,
    require,
    synchronize,
    total_memory,
    why_not,
)
from evener.device.cuda.compile import CompileError, compile_ptx, describe, inlined
from evener.device.cuda.launch import (
    POLL_SECONDS,
    SPIN_SECONDS,
    TELL_SECONDS,
    GridKernel,
    Running,
    ask_to_stop,
    tell_progress,
    wait_for_the_end,
)
from evener.device.cuda.memory import (
    Packed,
    Span,
    address_of,
    allocate,
    bits_of,
    clear,
    copy,
    download,
    join_peers,
    on_card,
    pack,
    pinned,
    upload,
)

__all__ = [
    "EXTRA", "POLL_SECONDS", "SPIN_SECONDS", "TELL_SECONDS", "CompileError", "GridKernel",
    "Packed", "Running", "Span", "address_of", "allocate", "ask_to_stop", "bits_of",
    "capability_here", "clear", "compile_ptx", "copy", "current", "describe", "download",
    "free_memory", "hung", "inlined", "join_peers", "library", "on", "on_card", "pack", "pinned",
    "require", "synchronize", "tell_progress", "total_memory", "upload", "wait_for_the_end",
    "why_not",
]  # fmt: skip
