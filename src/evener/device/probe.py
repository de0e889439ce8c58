"""The devices of this machine: the interpreter, the cores granted, and the GPUs of the driver.

The CUDA driver is queried through its C interface, so that no package is needed to see a GPU. Its
initialisation does not survive a ``fork``: if forked workers use a GPU, only they may query it.
"""

from __future__ import annotations

import ctypes
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evener.device.limits import available_memory, num_cores, total_memory

_CUDA_LIBRARY = "libcuda.so.1"
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_CAPABILITY_MAJOR = 75  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
_CAPABILITY_MINOR = 76


@dataclass(frozen=True)
class DeviceInfo:
    """One device: ``available`` if it responds; ``note`` says what it is used for.

    Attributes
    ----------
    name
        Its name on the command line: ``python``, ``cpu``, ``cuda:0``.
    kind
        ``python``, ``cpu`` or ``cuda``.
    description
        The product, in words.
    cores
        Cores granted to this process, or multiprocessors of a GPU.
    memory_bytes
        Total memory, or what the container grants if that is less.
    available
        Whether it is there and responds.
    note
        What this version of Evener does with it, or why it is not available.
    memory_available_bytes
        Memory that can still be allocated; None if only a running program can tell.
    compute_capability
        Of a GPU, such as ``"9.0"``.
    """

    name: str
    kind: str
    description: str
    cores: int | None
    memory_bytes: int | None
    available: bool
    note: str
    memory_available_bytes: int | None = None
    compute_capability: str | None = None


def list_devices() -> list[DeviceInfo]:
    """The devices of this machine; `why_no_cuda` says why there is no GPU among them.

    Examples
    --------
    >>> from evener.device.probe import list_devices
    >>> [device.name for device in list_devices()][:2]
    ['python', 'cpu']
    """
    return [_interpreter(), _cpu(), *_cuda_devices()[0]]


def why_no_cuda() -> str | None:
    """Why there is no CUDA GPU, in a sentence; None if there is one.

    Examples
    --------
    >>> from evener.device.probe import list_devices, why_no_cuda
    >>> any(device.kind == "cuda" for device in list_devices()) == (why_no_cuda() is None)
    True
    """
    return _cuda_devices()[1]


def _cuda_devices() -> tuple[list[DeviceInfo], str | None]:
    """The GPUs that the driver finds, and the reason if there are none."""
    try:
        driver = ctypes.CDLL(_CUDA_LIBRARY)
    except OSError:
        return [], f"No CUDA GPU: there is no NVIDIA driver ({_CUDA_LIBRARY} cannot be loaded)."
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status not in (0, _NO_DEVICE):
        return [], f"No CUDA GPU: the driver does not start and reports {_error(driver, status)}."
    if count.value == 0:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = "" if hidden is None else f" (CUDA_VISIBLE_DEVICES is {hidden!r})"
        return [], f"No CUDA GPU: the NVIDIA driver finds none{why}."
    return [_gpu(driver, ordinal) for ordinal in range(count.value)], None


def _interpreter() -> DeviceInfo:
    return DeviceInfo(
        name="python",
        kind="python",
        description=f"{platform.python_implementation()} {platform.python_version()}",
        cores=1,
        memory_bytes=total_memory(),
        available=True,
        note="runs programs interpreted: reference and debugger",
        memory_available_bytes=available_memory(),
    )


def _cpu() -> DeviceInfo:
    cores = num_cores()
    if os.environ.get("EVENER_THREADS"):
        granted = "cores set by EVENER_THREADS"
    elif cores < (os.cpu_count() or 1):
        granted = f"granted by affinity or container, of {os.cpu_count()} cores"
    else:
        granted = "all cores"
    return DeviceInfo(
        name="cpu",
        kind="cpu",
        description=f"{_processor_name()} ({granted})",
        cores=cores,
        memory_bytes=total_memory(),
        available=True,
        note="builds graphs and runs programs, compiled",
        memory_available_bytes=available_memory(),
    )


def _gpu(driver: Any, ordinal: int) -> DeviceInfo:
    device = ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    memory = ctypes.c_size_t()
    status = (
        driver.cuDeviceGet(ctypes.byref(device), ordinal)
        or driver.cuDeviceGetName(name, len(name), device)
        or driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    )
    numbers = [
        _attribute(driver, device, which)
        for which in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _MULTIPROCESSORS)
    ]
    if status or None in numbers:
        reason = f"the driver reports {_error(driver, status)}" if status else "no response"
        return DeviceInfo(f"cuda:{ordinal}", "cuda", "CUDA GPU", None, None, False, reason)
    major, minor, multiprocessors = numbers
    return DeviceInfo(
        name=f"cuda:{ordinal}",
        kind="cuda",
        description=f"{name.value.decode(errors='replace')}, compute capability {major}.{minor}",
        cores=multiprocessors,
        memory_bytes=memory.value,
        available=True,
        note="runs programs, with the extra cu12 or cu13 installed",
        compute_capability=f"{major}.{minor}",
    )


def _attribute(driver: Any, device: ctypes.c_int, which: int) -> int | None:
    value = ctypes.c_int()
    status = driver.cuDeviceGetAttribute(ctypes.byref(value), which, device)
    return None if status else value.value


def _error(driver: Any, status: int) -> str:
    name = ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(name))
    return name.value.decode() if name.value else f"error {status}"


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()
