"""Files mapped into memory: a file that is cut short raises an error and does not kill the process.

The processor reads a mapped file without a system call. Where another program has cut the file
short the system ends the process with SIGBUS. So a handler maps empty memory there, for the
instruction to continue with, and notes the file. `require_whole` raises the error; compiled work
calls it at its end, a run before and after. In a thread of the caller's that met the hole in NumPy
the handler has the error raised.

A file that is overwritten in place cannot be detected: it shows its new content at once.
"""

from __future__ import annotations

import _thread
import contextlib
import mmap
import os
import platform
import signal
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np

from evener.errors import GraphFormatError

_FIXED, _ADDRESS_OFFSET = 0x10, 16  # Linux: MAP_FIXED; the address in siginfo_t
_SIGINFO, _ON_STACK = 0x4, 0x08000000
_KNOWN = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")

_live: dict[int, weakref.ref[MappedFile]] = {}  # by address
_cut: list[MappedFile] = []  # met by the handler, not yet reported
_handler: Any = None  # what the system calls, and called before: they must stay alive
_lock = threading.RLock()


class MappedFile(mmap.mmap):
    """The mapping of one file, with its name for errors."""

    name: str
    address = 0

    def is_whole(self) -> bool:
        """Whether the file is as long as when it was mapped."""
        with contextlib.suppress(OSError, ValueError):
            return self.size() >= len(self)
        return True

    def __del__(self) -> None:
        _live.pop(self.address, None)


def map_file(descriptor: int, name: str, *, once: bool = False) -> np.ndarray:
    """Map the bytes of an open file; copy-on-write, so that kernels get an ordinary array.

    ``once``: they will be read from beginning to end.

    Examples
    --------
    >>> from evener.device.mapped_files import map_file
    >>> _ = (tmp_path / "two").write_bytes(b"ab")
    >>> with open(tmp_path / "two", "rb") as file:
    ...     map_file(file.fileno(), "two").tolist()
    [97, 98]
    """
    if _handler is None:
        with _lock:
            _install()
    mapped = MappedFile(descriptor, 0, access=mmap.ACCESS_COPY)
    if once and hasattr(mmap, "MADV_SEQUENTIAL"):
        mapped.madvise(mmap.MADV_SEQUENTIAL)
    content = np.frombuffer(mapped, np.uint8)
    mapped.name = name
    mapped.address = content.__array_interface__["data"][0]
    _live[mapped.address] = weakref.ref(mapped)
    return content


def require_whole(*arrays: np.ndarray | None) -> None:
    """Raise GraphFormatError if any mapped file had a hole, or a file of these arrays is cut short.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.device.mapped_files import require_whole
    >>> require_whole(np.zeros(3), None)
    """
    if _cut:
        raise GraphFormatError(_sentence(_cut.pop()))
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        mapped = getattr(base, "obj", base)  # NumPy holds a memoryview of it
        if isinstance(mapped, MappedFile) and not mapped.is_whole():
            raise GraphFormatError(_sentence(mapped))


def _sentence(mapped: MappedFile) -> str:
    return (
        f"{mapped.name} was cut short by another program while it was in use; "
        "load the graph again once it is whole."
    )


def _install() -> None:
    """Install the handler of SIGBUS, unless the program has its own."""
    global _handler
    if _handler is not None:
        return
    _handler = ()
    if not _KNOWN or signal.getsignal(signal.SIGBUS) != signal.SIG_DFL:
        return
    import ctypes

    class Action(ctypes.Structure):
        _fields_ = (
            ("handler", ctypes.c_void_p),
            ("mask", ctypes.c_uint8 * 128),
            ("flags", ctypes.c_int),
            ("restorer", ctypes.c_void_p),
        )

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    before = Action()

    def on_bus_error(number: int, info: int, _context: int) -> None:
        address = ctypes.c_uint64.from_address(info + _ADDRESS_OFFSET).value
        if not _fill(libc, address):
            # Not our file: the instruction fails again, and the previous handler gets it.
            libc.sigaction(number, ctypes.byref(before), None)

    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    entry = prototype(on_bus_error)
    action = Action(ctypes.cast(entry, ctypes.c_void_p).value, flags=_SIGINFO | _ON_STACK)
    _handler = (entry, before)
    if libc.sigaction(signal.SIGBUS, ctypes.byref(action), ctypes.byref(before)) != 0:
        _handler = ()


def _fill(libc: Any, address: int) -> bool:
    """Map empty memory from the page of an address to the end of its file."""
    for start, reference in list(_live.items()):
        mapped = reference()
        if mapped is not None and start <= address < start + len(mapped):
            page = address - address % mmap.PAGESIZE
            protection = mmap.PROT_READ | mmap.PROT_WRITE
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED
            libc.mmap(page, start + len(mapped) - page, protection, flags, -1, 0)
            _cut.append(mapped)
            if not threading.current_thread().name.startswith("evener-"):
                _thread.start_new_thread(_throw, (threading.get_ident(), mapped))
            return True
    return False


def _throw(thread: int, mapped: MappedFile) -> None:
    """Raise the error in a thread, unless it was raised meanwhile.

    Runs on its own thread: the handler runs in the middle of an instruction, where an exception
    would be lost.
    """
    import ctypes

    while _is_handling(sys._current_frames().get(thread)):
        time.sleep(0.001)

    class Cut(GraphFormatError):
        def __init__(self) -> None:
            super().__init__(_sentence(mapped))

    Cut.__name__ = Cut.__qualname__ = GraphFormatError.__name__
    with contextlib.suppress(ValueError):
        _cut.remove(mapped)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Cut))


def _is_handling(frame: Any) -> bool:
    while frame is not None and frame.f_code.co_filename == __file__:
        if frame.f_code is _fill.__code__ or frame.f_code.co_name == "on_bus_error":
            return True
        frame = frame.f_back
    return False


def _forget() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
