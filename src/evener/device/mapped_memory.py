"""Host arrays that a GPU reads in place, over the bus.

Their pages are locked and mapped into the address space of the GPU, where a kernel reads them like
any other array. Nothing is copied unless an array shares its pages with others.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from typing import Any

import numpy as np

from evener.device import cuda
from evener.errors import DeviceError

OWN_PAGES = 1 << 20  # bytes from which an array shares at most its first and last page
_PORTABLE_AND_MAPPED = 1 | 2  # cudaHostRegister: for all GPUs, in their address space


class Locked:
    """Host memory that is locked as long as this object lives."""

    def __init__(self, array: np.ndarray):
        runtime = cuda.library().cuda.runtime
        self.nbytes = array.nbytes
        runtime.hostRegister(array.ctypes.data, array.nbytes, _PORTABLE_AND_MAPPED)
        # Keeps the array until its pages are released; at exit the driver releases them.
        weakref.finalize(self, _release, array).atexit = False
        self.address = runtime.pointerGetAttributes(array.ctypes.data).devicePointer


_locked: weakref.WeakValueDictionary[tuple[int, int], Locked] = weakref.WeakValueDictionary()


def map_array(array: np.ndarray) -> Any:
    """A CuPy array in host memory, for the current GPU."""
    library = cuda.library()
    if array.nbytes == 0:
        return library.asarray(array)
    lock = _lock(array)
    memory = library.cuda.UnownedMemory(lock.address, lock.nbytes, lock, cuda.current())
    return library.ndarray(array.shape, array.dtype, library.cuda.MemoryPointer(memory, 0))


def mapped_bytes() -> int:
    """Bytes that are locked now.

    Examples
    --------
    >>> from evener.device.mapped_memory import mapped_bytes
    >>> mapped_bytes()
    0
    """
    return sum(lock.nbytes for lock in list(_locked.values()))


def bytes_to_map(array: np.ndarray) -> int:
    """Extra memory that mapping an array takes: pages of a file must be in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.device.mapped_memory import bytes_to_map
    >>> bytes_to_map(np.zeros(1 << 20)), bytes_to_map(np.zeros(8))
    (0, 64)
    """
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    in_memory = isinstance(base, np.ndarray) and array.nbytes >= OWN_PAGES
    return 0 if in_memory else array.nbytes


def _lock(array: np.ndarray) -> Locked:
    """The array's memory, locked once for all its mappings; a copy if that fails."""
    key = (array.ctypes.data, array.nbytes)
    locked = _locked.get(key)
    if locked is not None:
        return locked
    if array.nbytes >= OWN_PAGES:
        with contextlib.suppress(cuda.library().cuda.runtime.CUDARuntimeError):
            _locked[key] = locked = Locked(array)
            return locked
    pages = np.frombuffer(mmap.mmap(-1, array.nbytes), np.uint8)
    pages[:] = array.view(np.uint8)
    try:
        _locked[pages.ctypes.data, pages.nbytes] = locked = Locked(pages)
    except cuda.library().cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"{array.nbytes:,} bytes of host memory cannot be locked for the GPU ({error}); "
            "use device='cpu'."
        ) from error
    return locked


def _release(array: np.ndarray) -> None:
    with contextlib.suppress(cuda.library().cuda.runtime.CUDARuntimeError):
        cuda.library().cuda.runtime.hostUnregister(array.ctypes.data)
