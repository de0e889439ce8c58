"""PTX of kernels, by numba-cuda: only its compiler is used, without a driver."""

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

_REMOVED = "row_stack"  # in NumPy 2.5; numba-cuda 0.30.4 still names it

# The files that determine how a function is compiled.
_COMPILER = (
    "compile.py", "arrays.py", "intrinsics.py", "serial.py", "ufuncs.py", "../typing_cache.py"
)  # fmt: skip

_translated: weakref.WeakKeyDictionary[Compiled, Any] = weakref.WeakKeyDictionary()


class CompileError(DeviceError):
    """A kernel does not compile."""


def describe(value: Any) -> Any:
    """What the compiler must know of an argument: dtypes, in tuples like the arguments."""
    if isinstance(value, tuple) and not isinstance(value, Span):
        items = map(describe, value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return f"{value.dtype}[]" if getattr(value, "ndim", 0) else str(np.asarray(value).dtype)


def inlined(function: Callable[..., Any]) -> Compiled:
    """Let kernels call a plain function."""
    return Compiled(function)


def compile_ptx(
    kernel: Callable[..., Any], described: Any, capability: tuple[int, int], blocks_each: int
) -> str:
    """PTX of a kernel, a plain Python function, for arguments that `describe` described.

    ``blocks_each`` blocks must fit on a multiprocessor, which bounds a thread's registers.
    """
    with compiler_lock(), without_garbage_collection():
        with interrupts.held_back():  # an interrupted import is never finished
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
    """Replace NVRTC if it is not installed: it only says which capabilities it knows."""
    nvrtc = load("numba.cuda.cudadrv.nvrtc")
    try:
        nvrtc.get_supported_ccs()
    except Exception:  # the loader's differs between versions
        nvrtc.get_supported_ccs = lambda: [(8, 0), (9, 0)]
        load("numba.cuda.cuda_paths")._get_nvrtc_path = lambda: None


@functools.cache
def _import_compiler() -> Any:
    """The parts of numba-cuda in use."""
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
    interrupts.raise_before_passes(load("numba.cuda.core.event"), "numba-cuda:run_pass")

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

    numba-cuda lists a function once for each path of calls to it: 1642 instead of 99.
    """
    modules, open_ends = {}, [library]
    while open_ends:
        one = open_ends.pop()
        if id(one) not in modules and hasattr(one, "_module"):
            modules[id(one)] = one._module
            open_ends += one._linking_libraries
    return list(modules.values())


def _translate(value: Any) -> Any:
    """Translate one of our compiled functions for a GPU; return other values unchanged."""
    if value is serial:
        return _import_compiler().serial
    if value is rounded_product:
        return _import_compiler().intrinsics.rounded_product
    if not isinstance(value, Compiled):
        return value
    value = value.of_gpu or value
    function = _translated.get(value)
    if function is None:
        function = _import_compiler().jit(_with_translated_globals(value.python))
        function.compile_device = _without_literals(function.compile_device)
        _translated[value] = function
    return function


def _without_literals(compile_device: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function once for all numbers, not again for each literal in a call.

    It is inlined, so constants propagate anyway.
    """
    unliteral = _import_compiler().types.unliteral

    def compile_once(args: tuple[Any, ...], return_type: Any = None) -> Any:
        return compile_device(tuple(map(unliteral, args)), return_type)

    return compile_once


def _with_translated_globals(function: Any) -> Any:
    scope = function.__globals__
    read = [name for name in globals_read(function.__code__) if name in scope]
    names = {name: _translate(scope[name]) for name in read}
    cells = tuple(types.CellType(_translate(c.cell_contents)) for c in function.__closure__ or ())
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, cells or None
    )
    copy.__module__ = function.__module__
    copy.__qualname__ = function.__qualname__
    return copy


@functools.cache
def versions() -> str:
    """All that determines how a function is compiled, besides the function."""
    texts = [(Path(__file__).parent / name).read_bytes() for name in _COMPILER]
    packages = [importlib.metadata.version(name) for name in ("numba-cuda", "numba", "llvmlite")]
    text = hashlib.sha256(b"".join(texts)).hexdigest()
    return repr((sys.version, np.__version__, packages, text))


def entry_of(ptx: str) -> str:
    """The name of the only kernel in a PTX text."""
    match = re.search(r"\.visible \.entry (\S+?)\(", ptx)
    assert match is not None
    return match[1]
