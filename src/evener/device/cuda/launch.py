"""Kernels on a GPU: keeping them on disk, launching, waiting and stopping.

A kernel is cooperative: its whole grid is on the card at once, so that its threads can wait at
barriers.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from evener import progress
from evener.device import interrupts
from evener.device.cuda.card import capability_here, current, hung, kernel_loaded, library
from evener.device.cuda.compile import compile_ptx, entry_of, versions
from evener.device.cuda.memory import upload
from evener.device.kept_files import load_bytes, save_bytes
from evener.device.keys import fingerprint, is_lasting
from evener.device.warp import BARRIERS, BLOCK, CANCEL
from evener.errors import DeviceError

POLL_SECONDS = 0.0005
SPIN_SECONDS = 0.02  # the wait for a short run does not sleep
TELL_SECONDS = 0.5  # between two progress reports
GRACE_SECONDS = 2.0  # for kernels to stop in

_WORD = 4  # bytes of a word that the threads of a grid share


class GridKernel:
    """A kernel on one GPU, ready to be launched."""

    def __init__(self, function: Callable[..., Any], described: Any, blocks_each: int):
        device, capability = library().cuda.Device(), capability_here()
        assert capability is not None
        code_key = fingerprint(function, on_gpu=True)
        key = repr((code_key, described, capability, blocks_each, versions()))
        name = f"kernel-{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"
        lasts = is_lasting(code_key)
        image = load_bytes(name) if lasts else None
        self.was_cached = image is not None
        if image is None:
            with progress.task("compiling for the GPU"), interrupts.kept():
                image = _link(compile_ptx(function, described, capability, blocks_each))
            if lasts:
                save_bytes(name, image)
        entry, _, code = image.partition(b"\n")
        self._module = library().cuda.function.Module()
        self._module.load(code)
        self._function = self._module.get_function(entry.decode())
        driver = library().cuda.driver
        each = driver.occupancyMaxActiveBlocksPerMultiprocessor(self._function.ptr, BLOCK, 0)
        if each < 1:
            raise DeviceError(
                "this GPU is too small for one block of the program's kernel; use device='cpu'."
            )
        kernel_loaded.append(True)
        self.blocks = min(each, blocks_each) * device.attributes["MultiProcessorCount"]

    def start(self, words: np.ndarray, blocks: int | None = None, stream: Any = None) -> None:
        """Start the kernel with arguments from `pack`, in the order of the stream."""
        stream = stream or library().cuda.get_current_stream()
        self._launch(*self._ready(words, blocks or self.blocks, stream))

    def _ready(self, words: np.ndarray, blocks: int, stream: Any) -> tuple[tuple[Any, ...], Any]:
        """The driver's arguments, and an array that the call reads."""
        places = words.ctypes.data + words.itemsize * np.arange(len(words), dtype=np.uint64)
        arguments = (
            ctypes.c_void_p(self._function.ptr), blocks, 1, 1, BLOCK, 1, 1, 0,
            ctypes.c_void_p(stream.ptr), ctypes.c_void_p(places.ctypes.data),
        )  # fmt: skip
        return arguments, places

    def _launch(self, arguments: tuple[Any, ...], places: np.ndarray) -> None:
        failed = _driver().cuLaunchCooperativeKernel(*arguments)
        if failed:
            raise DeviceError(f"the driver does not start the kernel: error {failed}.")

    def run(self, words: np.ndarray, sync: int) -> float:
        """Run the kernel with arguments from `pack`; returns its seconds.

        While it waits the host sees Ctrl-C: it then sets one of the words at the address ``sync``,
        which the kernel polls, and the caller gets the interrupt once the kernel has ended.
        """
        cuda = library().cuda
        stream = cuda.get_current_stream()
        start, stop = cuda.Event(), cuda.Event()
        start.record(stream)
        self.start(words)
        stop.record(stream)
        _wait([stop], [sync])
        return cuda.get_elapsed_time(start, stop) / 1000

    def start_beside(self, words: list[np.ndarray], blocks: list[int], group: int = 0) -> Running:
        """Start the kernel several times at once, each time with some of the card's blocks.

        All launches are on the card together, so that they can share barriers, and so are those of
        other groups if there are enough blocks.
        """
        if sum(blocks) > self.blocks:
            raise DeviceError(f"this GPU runs {self.blocks} blocks at once, not {sum(blocks)}.")
        cuda = library().cuda
        ready = cuda.Event()
        ready.record(cuda.get_current_stream())
        streams = _streams(current(), len(words), group)
        start, stops = cuda.Event(), [cuda.Event() for _ in words]
        for stream in streams:
            stream.wait_event(ready)
        calls = list(map(self._ready, words, blocks, streams))
        start.record(streams[0])
        for arguments, places in calls:  # back to back: the first waits for the last
            self._launch(arguments, places)
        for stream, stop in zip(streams, stops, strict=True):
            stop.record(stream)
        return Running(start, stops)


class Running(NamedTuple):
    """Launched kernels."""

    start: Any
    stops: list[Any]

    def is_done(self) -> bool:
        """Whether all have ended; raises errors of the GPU."""
        return all(stop.done for stop in self.stops)

    def wait(self, syncs: list[int]) -> float:
        """Wait for them; returns the seconds until the last ended."""
        _wait(self.stops, syncs)
        elapsed = library().cuda.get_elapsed_time
        return max(elapsed(self.start, stop) for stop in self.stops) / 1000


def _wait(stops: list[Any], syncs: list[int]) -> None:
    """Wait for kernels; an interrupt stops them, and then goes on to the caller."""
    began = reported = time.perf_counter()
    try:
        while not all(stop.done for stop in stops):
            now = time.perf_counter()
            if now - began > SPIN_SECONDS:
                time.sleep(POLL_SECONDS)
            if now - reported > TELL_SECONDS:
                reported = now
                tell_progress(syncs)
    except BaseException:
        ask_to_stop(syncs)
        wait_for_the_end(stops)
        raise


def tell_progress(syncs: list[int]) -> None:
    """Report how many stages the current GPU has done: each ends with a barrier."""
    barriers = max(int(_peek(sync + BARRIERS * _WORD)) for sync in syncs)
    progress.set_note(f"{barriers:,} stages done")


def wait_for_the_end(stops: list[Any]) -> None:
    """Wait a while for kernels that were asked to stop: a functor may never return."""
    deadline = time.monotonic() + GRACE_SECONDS
    with contextlib.suppress(KeyboardInterrupt):  # a second one ends the wait
        while not all(stop.done for stop in stops):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
    if not all(stop.done for stop in stops):
        hung.add(current())
        warnings.warn(
            f"a kernel on cuda:{current()} did not stop within {GRACE_SECONDS:g} seconds and runs "
            "on until this process ends, which can no longer use that GPU: is there an endless "
            "loop in a functor?",
            RuntimeWarning,
            stacklevel=2,
        )


@atexit.register  # before CuPy registers its handlers, hence run after them
def _leave_hung_gpus() -> None:
    """Exit at once if a kernel hangs: freeing its memory would wait for it."""
    if hung:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(130)


def ask_to_stop(syncs: list[int]) -> None:
    """Set the words on the current GPU that ask kernels to stop."""
    with library().cuda.Stream(non_blocking=True) as aside:
        word = np.ones(1, np.uint32)
        for sync in syncs:
            upload(sync + CANCEL * _WORD, word, aside)
        aside.synchronize()


def _peek(address: int) -> np.uint32:
    """Read a word of the current GPU while kernels run."""
    word = np.zeros(1, np.uint32)
    with library().cuda.Stream(non_blocking=True) as aside:
        runtime = library().cuda.runtime
        kind = runtime.memcpyDeviceToHost
        runtime.memcpyAsync(word.ctypes.data, address, word.nbytes, kind, aside.ptr)
        aside.synchronize()
    return word[0]


@functools.cache
def _streams(ordinal: int, count: int, group: int) -> list[Any]:
    """Streams of a GPU that do not wait for each other."""
    return [library().cuda.Stream(non_blocking=True) for _ in range(count)]


@functools.cache
def _driver() -> Any:
    """The driver's own library: its launch takes packed arguments."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def _link(ptx: str) -> bytes:
    """The name of the entry, a newline, and the code for the current GPU."""
    entry = entry_of(ptx)
    linker = library().cuda.function.LinkState()
    try:
        linker.add_ptr_data(ptx.encode() + b"\0", "kernel.ptx")
    except TypeError:  # CuPy 13 takes text
        linker.add_ptr_data(ptx, "kernel.ptx")
    return entry.encode() + b"\n" + bytes(linker.complete())
