"""Arrays of the host's memory that a GPU reads in place, over the bus.

Their pages are locked and mapped into the address space of the GPU, where a kernel finds them like
any other array. They stay what they are for the host: nothing is copied, unless the pages are not
the array's own.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from typing import Any

import numpy as np

from evener.device import cuda
from evener.errors import DeviceError

OWN_PAGES = 1 << 20  # bytes from which on an array shares at most its first and last page
_PORTABLE_AND_MAPPED = 1 | 2  # cudaHostRegister: for every GPU, and in their address space


class Locked:
    """Memory of the host that is locked as long as this lives."""

    def __init__(self, array: np.ndarray):
        runtime = cuda.library().cuda.runtime
        self.nbytes = array.nbytes
        runtime.hostRegister(array.ctypes.data, array.nbytes, _PORTABLE_AND_MAPPED)
        # The array must not go before its pages are released; the driver does so at the exit.
        weakref.finalize(self, _release, array).atexit = False
        self.address = runtime.pointerGetAttributes(array.ctypes.data).devicePointer


_locked: weakref.WeakValueDictionary[tuple[int, int], Locked] = weakref.WeakValueDictionary()


def map_array(array: np.ndarray) -> Any:
    """An array of CuPy whose memory is that of the host, for the current GPU."""
    library = cuda.library()
    if array.nbytes == 0:
        return library.asarray(array)
    lock = _lock(array)
    memory = library.cuda.UnownedMemory(lock.address, lock.nbytes, lock, cuda.current())
    return library.ndarray(array.shape, array.dtype, library.cuda.MemoryPointer(memory, 0))


def mapped_bytes() -> int:
    """Bytes that are locked at present.

    Examples
    --------
    >>> from evener.device.mapped_memory import mapped_bytes
    >>> mapped_bytes()
    0
    """
    return sum(lock.nbytes for lock in list(_locked.values()))


def bytes_to_map(array: np.ndarray) -> int:
    """Memory that mapping takes beyond what the array has: pages of a file must be there.

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
    """The array's memory, locked once for all who map it; a copy where it cannot be."""
    key = (array.ctypes.data, array.nbytes)
    found = _locked.get(key)
    if found is not None:
        return found
    if array.nbytes >= OWN_PAGES:
        with contextlib.suppress(cuda.library().cuda.runtime.CUDARuntimeError):
            _locked[key] = found = Locked(array)
            return found
    pages = np.frombuffer(mmap.mmap(-1, array.nbytes), np.uint8)
    pages[:] = array.view(np.uint8)
    try:
        _locked[pages.ctypes.data, pages.nbytes] = found = Locked(pages)
    except cuda.library().cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"{array.nbytes:,} bytes of the host's memory cannot be locked for the GPU ({error}); "
            "use device='cpu'."
        ) from error
    return found


def _release(array: np.ndarray) -> None:
    with contextlib.suppress(cuda.library().cuda.runtime.CUDARuntimeError):
        cuda.library().cuda.runtime.hostUnregister(array.ctypes.data)
