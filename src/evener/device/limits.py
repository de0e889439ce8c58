"""Cores and memory that this process may use under its control groups and limits."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np

from evener.errors import EvenerError, MemoryBudgetError

_MOST_THREADS = 1024  # or the cores, if more: further threads only wait
_CGROUP = "/sys/fs/cgroup"
_OWN_GROUPS = "/proc/self/cgroup"
_MEMORY_FILES = {  # limit and usage, by version of control groups
    "": ("memory.max", "memory.current"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
}
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for ending, base in (("ib", 1024), ("b", 1000))
}
_MOST_BYTES = 1 << 62  # more than a process can address: a larger limit is the same
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


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
    """CPU quota of the control groups, in cores; None if they set none."""
    quotas = []
    for folder in _groups(""):
        fields = _read(f"{folder}/cpu.max").split()  # "quota period" or "max period"
        if len(fields) == 2 and fields[0].isdecimal():
            quotas.append(int(fields[0]) / int(fields[1]))
    for folder in _groups("cpu"):
        quota, period = (_read_int(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota and period and quota > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _groups(controller: str) -> Iterator[str]:
    """The folders of this process's control group and its ancestors: each may set a limit.

    Version 2 is the controller ``""``. In a container the host's path may not exist, but the top
    folder is then the container's own group.
    """
    top = f"{_CGROUP}/{controller}".rstrip("/")
    if controller == "" and os.path.isdir(f"{_CGROUP}/unified"):
        top = f"{_CGROUP}/unified"  # both versions side by side
    path = _own_groups().get(controller, "/")
    while path not in ("", "/"):
        yield top + path
        path = os.path.dirname(path)
    yield top


@functools.cache
def _own_groups() -> dict[str, str]:
    """The path of this process's group under each controller."""
    paths: dict[str, str] = {}
    for line in _read(_OWN_GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    return paths


def available_memory() -> int:
    """Bytes that can still be allocated.

    The least of what is free in the machine, in this process's control groups, and under its limits
    of address space and data (``ulimit -v`` and ``-d``).
    """
    candidates, machine = [_machine_available()], _machine_total()
    for controller, (limit_file, usage_file) in _MEMORY_FILES.items():
        for folder in _groups(controller):
            limit = _read_int(f"{folder}/{limit_file}")
            if limit is None or limit >= machine:  # version 1: a huge one means none
                continue
            usage = _read_int(f"{folder}/{usage_file}")
            if usage is not None:
                # The page cache counts as usage but is freed on demand.
                candidates.append(limit - usage + _cgroup_reclaimable(folder))
    used = None
    for name, field in (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")):
        limit = _process_limit(name)
        if limit is not None:
            used = _memory_of_process() if used is None else used
            candidates.append(limit - used.get(field, 0))
    return max(0, min(candidates))


def total_memory() -> int:
    """Bytes of memory of the machine, or that this process may use if fewer."""
    totals: list[int | None] = [_machine_total()]
    for controller, (limit_file, _) in _MEMORY_FILES.items():
        totals += [_read_int(f"{folder}/{limit_file}") for folder in _groups(controller)]
    totals += [_process_limit("RLIMIT_AS"), _process_limit("RLIMIT_DATA")]
    return min(total for total in totals if total is not None)


def _process_limit(name: str) -> int | None:
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit = resource.getrlimit(getattr(resource, name))[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _memory_of_process() -> dict[str, int]:
    """Bytes of address space by the names of ``/proc/self/status``."""
    lines = (line.split() for line in _read("/proc/self/status").splitlines())
    return {
        line[0].rstrip(":"): int(line[1]) * 1024
        for line in lines
        if len(line) == 3 and line[2] == "kB"
    }


def require_memory(nbytes: int, purpose: str) -> None:
    """Refuse a request that cannot fit, before allocating anything.

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


def require_address_space(nbytes: int, purpose: str) -> None:
    """Refuse a request for more address space than ``ulimit -v`` leaves.

    Examples
    --------
    >>> from evener.device.limits import require_address_space
    >>> require_address_space(1000, "a small graph")
    """
    limit = _process_limit("RLIMIT_AS")
    if limit is None:
        return
    left = max(0, limit - _memory_of_process().get("VmSize", 0))
    if nbytes > left:
        raise MemoryBudgetError(
            f"{purpose} needs about {format_bytes(nbytes)} of address space, but only "
            f"{format_bytes(left)} are left; raise its limit (ulimit -v)."
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


def parse_bytes(amount: Any) -> int:
    """A number of bytes, from an integer or from text with a unit.

    Examples
    --------
    >>> from evener.device import parse_bytes
    >>> parse_bytes("4GiB"), parse_bytes("1.5 kB"), parse_bytes(100)
    (4294967296, 1500, 100)
    """
    if isinstance(amount, int | np.integer) and not isinstance(amount, bool) and amount >= 0:
        return min(int(amount), _MOST_BYTES)
    match = _AMOUNT.fullmatch(amount.strip()) if isinstance(amount, str) else None
    if match is None or match[2].lower() not in _UNITS:
        raise EvenerError(
            f"{amount!r} is not an amount of memory; write it as 4GiB, 500MB or in bytes."
        )
    return int(min(Decimal(match[1]) * _UNITS[match[2].lower()], _MOST_BYTES))


def _machine_available() -> int:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return _machine_total()


def _machine_total() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cgroup_reclaimable(folder: str) -> int:
    for line in _read(f"{folder}/memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall().decode("ascii", "replace")
    except OSError:
        return ""


def _read_int(path: str) -> int | None:
    text = _read(path).strip()
    return int(text) if text.lstrip("-").isdecimal() else None
