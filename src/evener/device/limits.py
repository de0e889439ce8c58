"""Cores and memory that this process may use: affinity and container limits, not the machine's."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path

from evener.errors import EvenerError, MemoryBudgetError

_MOST_THREADS = 1024  # beyond the cores there are: more only wait for each other
_CGROUP = Path("/sys/fs/cgroup")


def num_cores() -> int:
    """Cores granted by ``EVENER_THREADS``, else by affinity and the container's quota.

    Examples
    --------
    >>> from evener.device import num_cores
    >>> num_cores() >= 1
    True
    """
    chosen = os.environ.get("EVENER_THREADS")
    if chosen:
        most = max(_MOST_THREADS, _granted_cores())
        digits = len(str(most))  # Python refuses to read numbers of thousands of digits
        cores = int(chosen.lstrip("0")[: digits + 1] or 0) if chosen.isdecimal() else 0
        if not 1 <= cores <= most:
            raise EvenerError(
                f"EVENER_THREADS is {chosen[:20]!r}; it must be a whole number from 1 to {most}."
            )
        return cores
    return _granted_cores()


@functools.cache
def _granted_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = _cgroup_cpu_quota()
    return max(1, min(cores, math.ceil(quota))) if quota else cores


def _cgroup_cpu_quota() -> float | None:
    """Cores' worth of time that the container grants; None when it sets no quota."""
    fields = _read(_CGROUP / "cpu.max").split()  # version 2: "quota period" or "max period"
    if len(fields) == 2 and fields[0].isdecimal():
        return int(fields[0]) / int(fields[1])
    quota = _read_int(_CGROUP / "cpu/cpu.cfs_quota_us")
    period = _read_int(_CGROUP / "cpu/cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def available_memory() -> int:
    """Bytes that can still be allocated: free memory of the machine or of the container."""
    candidates = [_machine_available()]
    for limit_file, usage_file in (
        (_CGROUP / "memory.max", _CGROUP / "memory.current"),
        (_CGROUP / "memory/memory.limit_in_bytes", _CGROUP / "memory/memory.usage_in_bytes"),
    ):
        limit, usage = _read_int(limit_file), _read_int(usage_file)
        if limit is not None and usage is not None:
            # The page cache counts as usage but is given up on demand.
            candidates.append(limit - usage + _cgroup_reclaimable(limit_file.parent))
    return max(0, min(candidates))


def total_memory() -> int:
    """Bytes of memory of the machine, or of the container where that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit_file in (_CGROUP / "memory.max", _CGROUP / "memory/memory.limit_in_bytes"):
        limit = _read_int(limit_file)
        if limit is not None:
            total = min(total, limit)
    return total


def require_memory(nbytes: int, purpose: str) -> None:
    """Refuse a request that cannot fit, before anything is allocated for it.

    Examples
    --------
    >>> from evener.device import require_memory
    >>> require_memory(1000, "a small graph")
    """
    available = available_memory()
    if nbytes > available:
        raise MemoryBudgetError(
            f"{purpose} needs about {format_bytes(nbytes)}, but only "
            f"{format_bytes(available)} of memory is available; use a smaller graph or a machine "
            "with more memory."
        )


def format_bytes(nbytes: float) -> str:
    """Write a number of bytes for people.

    Examples
    --------
    >>> from evener.device import format_bytes
    >>> format_bytes(3 << 20)
    '3.0 MiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(nbytes) < 1024 or unit == "PiB":
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    raise AssertionError("unreachable")


def _machine_available() -> int:
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cgroup_reclaimable(folder: Path) -> int:
    for line in _read(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _read_int(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.lstrip("-").isdecimal() else None
