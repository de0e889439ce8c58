"""Kernels for NVIDIA GPUs: compiled by numba-cuda, kept on disk, launched through CuPy.

numba-cuda serves as a compiler only, here and in `cuda_intrinsics`: a Python function and the
types of its arguments become PTX for a compute capability, without a driver. CuPy links that, owns
memory and launches. A kernel is cooperative: its whole grid is on the card at once, so that its
threads can meet at barriers.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import time
import types
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from evener import progress
from evener.device import interrupts, serial
from evener.device.compile import Compiled, compiler_lock
from evener.device.kept_files import load_bytes, save_bytes
from evener.device.keys import fingerprint, globals_read, is_lasting
from evener.device.probe import why_no_cuda
from evener.device.random import rounded_product
from evener.device.typing_memory import remembering, without_garbage_collection
from evener.device.warp import BARRIERS, BLOCK, CANCEL
from evener.errors import DeviceError

POLL_SECONDS = 0.0005
SPIN_SECONDS = 0.02  # a short run is waited for without sleeping
ASK_SECONDS = 0.5  # the driver takes its time to say how much memory is free
TELL_SECONDS = 0.5  # between two words of how far a run is
GRACE_SECONDS = 2.0  # that kernels have to stop in
EXTRA = "install the extra for your driver: pip install 'evener[cu12]' or 'evener[cu13]'"

_WORD = 4  # bytes of a word that the threads of a grid share

_REMOVED = "row_stack"  # from NumPy 2.5; numba-cuda 0.30.4 still names it

# The files that decide what the compiler makes of a function.
_COMPILER = (
    "cuda.py", "cuda_arrays.py", "cuda_intrinsics.py", "cuda_serial.py", "cuda_ufuncs.py",
    "typing_memory.py",
)  # fmt: skip

_worked: list[bool] = []  # filled once a kernel was loaded: the question need not be asked again
_was_forked: list[bool] = []  # filled in the child of a process that had loaded one
_translated: weakref.WeakKeyDictionary[Compiled, Any] = weakref.WeakKeyDictionary()


class CompileError(DeviceError):
    """A kernel that the compiler refuses."""


def why_not() -> str | None:
    """The reason, in a sentence, why no program can run on a GPU here; None if one can."""
    if _was_forked:
        return (
            "this process was forked from one that uses the GPU, which a fork cannot take along; "
            "start it with multiprocessing's method 'spawn', or fork before the first run."
        )
    if _worked:
        return None
    packages = (("numba-cuda", "numba_cuda"), ("CuPy", "cupy"))
    missing = [name for name, module in packages if importlib.util.find_spec(module) is None]
    no_gpu = why_no_cuda()  # first: no package helps where there is none
    if no_gpu:
        return f"{no_gpu} Where there is one, {EXTRA}." if missing else no_gpu
    return f"{missing[0]} is not installed; {EXTRA}." if missing else _why_no_library()


@functools.cache
def _why_no_library() -> str | None:
    """Why CuPy does not load, asked once."""
    try:
        library()
    except Exception as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        return f"CuPy is installed but does not load ({said}); {EXTRA}."
    return None


def _after_fork() -> None:
    if _worked:
        _was_forked.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def capability_here() -> tuple[int, int] | None:
    """The compute capability of the current GPU, if there is one."""
    if why_not() is not None:
        return None
    digits = library().cuda.Device().compute_capability
    return int(digits[:-1]), int(digits[-1])


def require(ordinal: int | None = None) -> None:
    """Raise DeviceError unless programs can run on this GPU."""
    reason = why_not()
    if reason:
        name = "cuda" if ordinal is None else f"cuda:{ordinal}"
        raise DeviceError(f"device {name!r}: {reason}")
    if (ordinal or 0) in _lost:
        raise DeviceError(
            f"cuda:{ordinal or 0} still runs a kernel that did not stop at Ctrl-C; start a new "
            "process to use it."
        )
    count = library().cuda.runtime.getDeviceCount()
    if ordinal is not None and ordinal >= count:
        raise DeviceError(f"there is no GPU {ordinal}; the driver knows {count}, from 0 on.")


@functools.cache
def library() -> Any:
    """CuPy, imported when first needed."""
    import cupy

    return cupy


def on(ordinal: int) -> Any:
    """A context in which this GPU is the current one."""
    return library().cuda.Device(ordinal)


def current() -> int:
    """The number of the current GPU."""
    return library().cuda.Device().id


def synchronize() -> None:
    """Wait for all that was asked of the current GPU."""
    library().cuda.get_current_stream().synchronize()


@functools.cache
def total_memory(ordinal: int) -> int:
    """Bytes of a GPU's memory, used or not."""
    return int(library().cuda.Device(ordinal).mem_info[1])


def free_memory() -> int:
    """Bytes that can still be allocated on the current GPU.

    The driver is asked now and then; in between, what this process took since is known.
    """
    pool, ordinal, now = library().get_default_memory_pool(), current(), time.monotonic()
    asked, free, taken = _free.get(ordinal, (-ASK_SECONDS, 0, 0))
    if now - asked >= ASK_SECONDS:
        free, taken = library().cuda.runtime.memGetInfo()[0], pool.total_bytes()
        _free[ordinal] = (now, free, taken)
    return free - (pool.total_bytes() - taken) + pool.free_bytes()


_free: dict[int, tuple[float, int, int]] = {}  # when it was asked, bytes free and taken then


# ---- compiling ---------------------------------------------------------------------------------


def describe(value: Any) -> Any:
    """What the compiler must know of an argument: dtypes, in tuples as the arguments are."""
    if isinstance(value, tuple) and not isinstance(value, Span):
        return tuple(describe(item) for item in value)
    return f"{value.dtype}[]" if getattr(value, "ndim", 0) else str(np.asarray(value).dtype)


def inlined(function: Callable[..., Any]) -> Compiled:
    """A plain function as one that kernels may call."""
    return Compiled(function)


def compile_ptx(
    kernel: Callable[..., Any], described: Any, capability: tuple[int, int], blocks_each: int
) -> str:
    """PTX of a kernel, a plain function of Python, for arguments that `describe` described.

    So many blocks must fit on a multiprocessor: that bounds the registers of a thread.
    """
    with compiler_lock(), without_garbage_collection():
        with interrupts.held_back():  # what it interrupts there is never loaded
            compiler = _import_compiler()
            compiler.typing_context.refresh()
        device = SimpleNamespace(compute_capability=capability)
        for module in compiler.asks_device:
            module.get_current_device = lambda: device
        remembers = remembering(compiler.typing_context, compiler.types)
        try:
            with remembers:
                code, _ = compiler.compile(
                    _with_translated_globals(kernel), tuple(map(compiler.type_of, described)),
                    device=False, abi="numba", cc=capability, output="ptx",
                    launch_bounds=(BLOCK, blocks_each),
                )  # fmt: skip
        except compiler.errors as error:
            raise CompileError(f"the kernel does not compile for a GPU: {error}") from error
    return code


def _do_without_nvrtc(load: Callable[[str], Any]) -> None:
    """Where NVRTC is not installed, go on: it is asked for nothing but capabilities it knows."""
    nvrtc = load("numba.cuda.cudadrv.nvrtc")
    try:
        nvrtc.get_supported_ccs()
    except Exception:  # of a loader that differs from version to version
        nvrtc.get_supported_ccs = lambda: [(8, 0), (9, 0)]
        load("numba.cuda.cuda_paths")._get_nvrtc_path = lambda: None


@functools.cache
def _import_compiler() -> Any:
    """What is used of numba-cuda."""
    removed = not hasattr(np, _REMOVED)
    if removed:
        setattr(np, _REMOVED, np.vstack)
    try:
        load = importlib.import_module
        library, types = load("numba.cuda"), load("numba.cuda.types")
        from_dtype = load("numba.cuda.np.numpy_support").from_dtype
        load("numba.cuda.np.arrayobj")
    finally:
        if removed:
            delattr(np, _REMOVED)

    from evener.device import (  # they register with numba-cuda
        cuda_arrays,
        cuda_intrinsics,
        cuda_serial,
        cuda_ufuncs,  # noqa: F401
    )

    _do_without_nvrtc(load)
    codegen = load("numba.cuda.codegen")
    codegen.CUDACodeLibrary.modules = property(_modules_once)
    interrupts.come_before_passes(load("numba.cuda.core.event"), "numba-cuda:run_pass")

    def type_of(described: Any) -> Any:
        if isinstance(described, tuple):
            return types.BaseTuple.from_types([type_of(item) for item in described])
        if described.endswith("[]"):
            return cuda_arrays.SpanType(from_dtype(np.dtype(described[:-2])))
        return from_dtype(np.dtype(described))

    return SimpleNamespace(
        compile=library.compile, jit=library.jit(device=True, forceinline=True), type_of=type_of,
        asks_device=(load("numba.cuda.compiler"), load("numba.cuda.dispatcher")),
        errors=load("numba.core.errors").NumbaError, serial=cuda_serial,
        intrinsics=cuda_intrinsics, types=types,
        typing_context=load("numba.cuda.descriptor").cuda_target.typing_context,
    )  # fmt: skip


def _modules_once(library: Any) -> list[Any]:
    """The code of a function and of all that it calls, directly or not.

    numba-cuda lists a function once for each way that calls lead to it: 1642 instead of 99.
    """
    found, open_ends = {}, [library]
    while open_ends:
        one = open_ends.pop()
        if id(one) not in found and hasattr(one, "_module"):
            found[id(one)] = one._module
            open_ends += one._linking_libraries
    return list(found.values())


def _translate(value: Any) -> Any:
    """A compiled function of ours as one of the GPU's; anything else as it is."""
    if value is serial:
        return _import_compiler().serial
    if value is rounded_product:
        return _import_compiler().intrinsics.rounded_product
    if not isinstance(value, Compiled):
        return value
    value = value.of_gpu or value
    found = _translated.get(value)
    if found is None:
        made = _import_compiler().jit(_with_translated_globals(value.python))
        made.compile_device = _without_literals(made.compile_device)
        found = _translated[value] = made
    return found


def _without_literals(compile_device: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function once for all numbers, not again for each that is written out in a call.

    It is inlined, so whatever follows from the number is worked out all the same.
    """
    unliteral = _import_compiler().types.unliteral

    def compile_once(args: tuple[Any, ...], return_type: Any = None) -> Any:
        return compile_device(tuple(map(unliteral, args)), return_type)

    return compile_once


def _with_translated_globals(function: Any) -> Any:
    given = function.__globals__
    read = [name for name in globals_read(function.__code__) if name in given]
    names = {name: _translate(given[name]) for name in read}
    cells = tuple(types.CellType(_translate(c.cell_contents)) for c in function.__closure__ or ())
    made = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, cells or None
    )
    made.__module__ = function.__module__
    made.__qualname__ = function.__qualname__
    return made


# ---- keeping -----------------------------------------------------------------------------------


@functools.cache
def _versions() -> str:
    """All that decides what the compiler makes of a function, besides the function."""
    texts = [Path(__file__).with_name(name).read_bytes() for name in _COMPILER]
    packages = [importlib.metadata.version(name) for name in ("numba-cuda", "numba", "llvmlite")]
    text = hashlib.sha256(b"".join(texts)).hexdigest()
    return repr((sys.version, np.__version__, packages, text))


class GridKernel:
    """A kernel on one GPU, ready to be launched."""

    def __init__(self, function: Callable[..., Any], described: Any, blocks_each: int):
        device, capability = library().cuda.Device(), capability_here()
        assert capability is not None
        told = fingerprint(function, on_gpu=True)
        key = repr((told, described, capability, blocks_each, _versions()))
        name = f"kernel-{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"
        lasts = is_lasting(told)
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
            raise DeviceError("this GPU is too small for one block of the program's kernel.")
        _worked.append(True)
        self.blocks = min(each, blocks_each) * device.attributes["MultiProcessorCount"]

    def start(self, words: np.ndarray, blocks: int | None = None, stream: Any = None) -> None:
        """Start the kernel with arguments that `pack` packed, in the order of the stream."""
        stream = stream or library().cuda.get_current_stream()
        self._launch(*self._ready(words, blocks or self.blocks, stream))

    def _ready(self, words: np.ndarray, blocks: int, stream: Any) -> tuple[tuple[Any, ...], Any]:
        """What the driver is given, and an array that it reads when it is called."""
        places = words.ctypes.data + words.itemsize * np.arange(len(words), dtype=np.uint64)
        given = (
            ctypes.c_void_p(self._function.ptr), blocks, 1, 1, BLOCK, 1, 1, 0,
            ctypes.c_void_p(stream.ptr), ctypes.c_void_p(places.ctypes.data),
        )  # fmt: skip
        return given, places

    def _launch(self, given: tuple[Any, ...], places: np.ndarray) -> None:
        failed = _driver().cuLaunchCooperativeKernel(*given)
        if failed:
            raise DeviceError(f"the driver does not start the kernel: its error is {failed}.")

    def run(self, words: np.ndarray, sync: int) -> float:
        """Run the kernel with arguments that `pack` packed; returns its seconds.

        The wait is for the host to see Ctrl-C: it then sets a word of those at the address
        ``sync``, which the kernel looks at, and the interrupt goes on to the caller once the
        kernel has ended.
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
        """Start the kernel several times at once, each time with so many of the card's blocks.

        All of them are on the card together, so that they can meet, and so are those of other
        groups if there are blocks enough.
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
        for given, places in calls:  # one after the other at once: the first waits for the last
            self._launch(given, places)
        for stream, stop in zip(streams, stops, strict=True):
            stop.record(stream)
        return Running(start, stops)


class Running(NamedTuple):
    """Kernels that were started."""

    start: Any
    stops: list[Any]

    def is_done(self) -> bool:
        """Whether all have ended; an error of the GPU is raised."""
        return all(stop.done for stop in self.stops)

    def wait(self, syncs: list[int]) -> float:
        """Wait for them; returns the seconds until the last ended."""
        _wait(self.stops, syncs)
        elapsed = library().cuda.get_elapsed_time
        return max(elapsed(self.start, stop) for stop in self.stops) / 1000


def _wait(stops: list[Any], syncs: list[int]) -> None:
    """Wait for kernels; an interrupt has them stop, and goes on to the caller when they have."""
    began = told = time.perf_counter()
    try:
        while not all(stop.done for stop in stops):
            now = time.perf_counter()
            if now - began > SPIN_SECONDS:
                time.sleep(POLL_SECONDS)
            if now - told > TELL_SECONDS:
                told = now
                tell_progress(syncs)
    except BaseException:
        ask_to_stop(syncs)
        wait_for_the_end(stops)
        raise


def tell_progress(syncs: list[int]) -> None:
    """Tell how many stages kernels on the current GPU have done: each ends with a barrier."""
    barriers = max(int(_peek(sync + BARRIERS * _WORD)) for sync in syncs)
    progress.tell(f"{barriers:,} stages done")


def wait_for_the_end(stops: list[Any]) -> None:
    """Wait for kernels that were asked to stop, but not for ever: a functor may never return."""
    deadline = time.monotonic() + GRACE_SECONDS
    with contextlib.suppress(KeyboardInterrupt):  # asked twice: it has waited long enough
        while not all(stop.done for stop in stops):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
    if not all(stop.done for stop in stops):
        _lost.add(current())
        warnings.warn(
            f"a kernel on cuda:{current()} did not stop within {GRACE_SECONDS:g} seconds and runs "
            "on until this process ends, which can no longer use that GPU: is there an endless "
            "loop in a functor?",
            RuntimeWarning,
            stacklevel=2,
        )


_lost: set[int] = set()  # GPUs on which a kernel does not end


@atexit.register  # before CuPy registers anything, hence after all that it does at the end
def _leave_lost_gpus() -> None:
    """End at once where a kernel does not: to free its memory would wait for it."""
    if _lost:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(130)


def ask_to_stop(syncs: list[int]) -> None:
    """Set the words, on the current GPU, at which kernels look whether they are to stop."""
    with library().cuda.Stream(non_blocking=True) as aside:
        word = np.ones(1, np.uint32)
        for sync in syncs:
            upload(sync + CANCEL * _WORD, word, aside)
        aside.synchronize()


def _peek(address: int) -> np.uint32:
    """A word of the current GPU, whatever runs there."""
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
    """The driver's own library: its launch takes arguments as they were packed."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def allocate(nbytes: int) -> Any:
    """Memory of the current GPU, from the pool; its address is ``ptr``."""
    return library().cuda.alloc(nbytes)


def join_peers(ordinals: list[int]) -> bool:
    """Let GPUs reach the memory of the first of them, if all can; returns whether they do."""
    runtime = library().cuda.runtime
    first, others = ordinals[0], sorted(set(ordinals[1:]) - {ordinals[0]})
    if not all(runtime.deviceCanAccessPeer(other, first) for other in others):
        return False
    for other in others:
        if (other, first) not in _joined:
            with on(other):
                runtime.deviceEnablePeerAccess(first)
            _joined.add((other, first))
    return True


_joined: set[tuple[int, int]] = set()


def on_card(length: int, dtype: Any) -> Any:
    """An array in the memory of the current GPU, filled with zeros."""
    return library().zeros(max(1, length), dtype)


def pinned(length: int, dtype: Any) -> np.ndarray:
    """An array in the host's memory that kernels reach at the same address."""
    dtype = np.dtype(dtype)
    memory = library().cuda.alloc_pinned_memory(max(1, length) * dtype.itemsize)
    return np.frombuffer(memory, dtype, max(1, length))


def address_of(array: Any) -> int:
    """Where an array is, in the host's memory or a GPU's."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def upload(address: int, array: np.ndarray, stream: Any = None) -> None:
    """Copy an array to the current GPU, in the order of its stream."""
    cuda = library().cuda
    stream = stream or cuda.get_current_stream()
    kind = cuda.runtime.memcpyHostToDevice
    cuda.runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, kind, stream.ptr)


def download(address: int, nbytes: int) -> np.ndarray:
    """Bytes from the current GPU, once all before is done."""
    cuda = library().cuda
    array = np.empty(nbytes, np.uint8)
    stream = cuda.get_current_stream()
    kind = cuda.runtime.memcpyDeviceToHost
    cuda.runtime.memcpyAsync(array.ctypes.data, address, nbytes, kind, stream.ptr)
    stream.synchronize()
    return array


def copy(address: int, source: int, nbytes: int) -> None:
    """Copy within the current GPU, in the order of its stream."""
    cuda = library().cuda
    kind = cuda.runtime.memcpyDeviceToDevice
    cuda.runtime.memcpyAsync(address, source, nbytes, kind, cuda.get_current_stream().ptr)


def clear(address: int, nbytes: int) -> None:
    """Fill memory of the current GPU with zeros."""
    cuda = library().cuda
    cuda.runtime.memsetAsync(address, 0, nbytes, cuda.get_current_stream().ptr)


def _link(ptx: str) -> bytes:
    """The name of the entry, a new line, and the code for the GPU at hand."""
    entry = entry_of(ptx)
    linker = library().cuda.function.LinkState()
    try:
        linker.add_ptr_data(ptx.encode() + b"\0", "kernel.ptx")
    except TypeError:  # CuPy 13 takes text
        linker.add_ptr_data(ptx, "kernel.ptx")
    return entry.encode() + b"\n" + bytes(linker.complete())


def entry_of(ptx: str) -> str:
    """The name of the one kernel in a text of PTX."""
    found = re.search(r"\.visible \.entry (\S+?)\(", ptx)
    assert found is not None
    return found[1]


class Span(NamedTuple):
    """An array of the GPU, as a kernel sees it. Its address may be in a region not yet there."""

    dtype: np.dtype
    size: int
    address: int
    region: str = ""
    ndim: int = 1

    def __getitem__(self, part: slice) -> Span:  # type: ignore[override]
        first, last, _ = part.indices(self.size)
        address = self.address + first * self.dtype.itemsize
        return self._replace(size=last - first, address=address)


class Packed(NamedTuple):
    """Arguments as words: each array as its address and its length."""

    words: np.ndarray
    addresses: dict[str, np.ndarray]  # by region: which words are addresses within it
    values: np.ndarray  # which words are plain values


def pack(arguments: tuple[Any, ...]) -> Packed:
    """Arguments as a launch takes them, each in a word of 64 bits."""
    words: list[int] = []
    addresses: dict[str, list[int]] = {}
    values: list[int] = []

    def add(value: Any) -> None:
        if isinstance(value, tuple) and not isinstance(value, Span):
            for item in value:
                add(item)
        elif getattr(value, "ndim", 0):
            if isinstance(value, Span):
                addresses.setdefault(value.region, []).append(len(words))
                address = value.address
            else:
                address = value.data.ptr if value.size else 0
            words.extend((address, value.size))
        else:
            values.append(len(words))
            words.append(bits_of(value))

    add(arguments)
    places = {region: np.array(found) for region, found in addresses.items()}
    return Packed(np.array(words, np.int64), places, np.array(values, np.int64))


def bits_of(value: Any) -> int:
    """A number, of up to 64 bits, as the word that holds it."""
    return int.from_bytes(np.asarray(value).tobytes().ljust(8, b"\0"), "little", signed=True)
