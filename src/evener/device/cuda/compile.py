"""PTX of kernels, by numba-cuda: it serves as a compiler only, without a driver."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import re
import sys
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from evener.device import interrupts, serial
from evener.device.compile import Compiled, compiler_lock
from evener.device.cuda.memory import Span
from evener.device.keys import globals_read
from evener.device.random import rounded_product
from evener.device.typing_cache import remembering, without_garbage_collection
from evener.device.warp import BLOCK
from evener.errors import DeviceError

_REMOVED = "row_stack"  # from NumPy 2.5; numba-cuda 0.30.4 still names it

# The files that decide what the compiler makes of a function.
_COMPILER = (
    "compile.py", "arrays.py", "intrinsics.py", "serial.py", "ufuncs.py", "../typing_cache.py"
)  # fmt: skip

_translated: weakref.WeakKeyDictionary[Compiled, Any] = weakref.WeakKeyDictionary()


class CompileError(DeviceError):
    """A kernel that the compiler refuses."""


def describe(value: Any) -> Any:
    """What the compiler must know of an argument: dtypes, in tuples as the arguments are."""
    if isinstance(value, tuple) and not isinstance(value, Span):
        items = map(describe, value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
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

    # They register with numba-cuda.
    from evener.device.cuda import arrays, intrinsics, ufuncs  # noqa: F401
    from evener.device.cuda import serial as plain

    _do_without_nvrtc(load)
    codegen = load("numba.cuda.codegen")
    codegen.CUDACodeLibrary.modules = property(_modules_once)
    interrupts.come_before_passes(load("numba.cuda.core.event"), "numba-cuda:run_pass")

    def type_of(described: Any) -> Any:
        if isinstance(described, tuple):
            return types.BaseTuple.from_types(list(map(type_of, described)), type(described))
        if described.endswith("[]"):
            return arrays.SpanType(from_dtype(np.dtype(described[:-2])))
        return from_dtype(np.dtype(described))

    return SimpleNamespace(
        compile=library.compile, jit=library.jit(device=True, forceinline=True), type_of=type_of,
        asks_device=(load("numba.cuda.compiler"), load("numba.cuda.dispatcher")),
        errors=load("numba.core.errors").NumbaError, serial=plain,
        intrinsics=intrinsics, types=types,
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


@functools.cache
def versions() -> str:
    """All that decides what the compiler makes of a function, besides the function."""
    texts = [(Path(__file__).parent / name).read_bytes() for name in _COMPILER]
    packages = [importlib.metadata.version(name) for name in ("numba-cuda", "numba", "llvmlite")]
    text = hashlib.sha256(b"".join(texts)).hexdigest()
    return repr((sys.version, np.__version__, packages, text))


def entry_of(ptx: str) -> str:
    """The name of the one kernel in a text of PTX."""
    found = re.search(r"\.visible \.entry (\S+?)\(", ptx)
    assert found is not None
    return found[1]
