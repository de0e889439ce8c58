"""The compile decorator: plain Python functions become machine code when first called.

Numba is imported when a compiled function is first called, so that ``import evener`` stays fast.
Compiled code is kept on disk (`evener.device.cache`), also for functions from a notebook, and
reused for the same code, types and processor.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from evener import progress
from evener.device import interrupts
from evener.device.limits import require_address_space
from evener.device.locks import refuse_while_compiling
from evener.device.tuples import Identity

# Loading Numba and SciPy takes nearly this much: with less, SciPy's BLAS retries for ever.
_MIB_TO_LOAD = 400


def compiler_lock() -> Any:
    """Numba's own lock, held while it compiles: the only lock around its compiler.

    A second lock could deadlock: one thread would take it inside Numba's, since compiling makes
    dispatchers, another around it, since making them compiles.
    """
    _require_room_to_load()
    from numba.core.compiler_lock import global_compiler_lock

    return global_compiler_lock


def _require_room_to_load() -> None:
    if "numba" not in sys.modules:
        require_address_space(_MIB_TO_LOAD << 20, "Loading the compiler")


_clock = threading.local()  # .seconds spent compiling; .began: start of the current one


def seconds_compiling() -> float:
    """Seconds that this thread has spent compiling and loading compiled code."""
    return getattr(_clock, "seconds", 0.0)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Count the time in this block for `seconds_compiling`, once if nested."""
    if getattr(_clock, "began", None) is not None:
        yield
        return
    _clock.began = time.perf_counter()
    try:
        yield
    finally:
        _clock.seconds = seconds_compiling() + time.perf_counter() - _clock.began
        _clock.began = None


_inners: weakref.WeakSet[Compiled] = weakref.WeakSet()  # functions that others call


class Compiled:
    """A Python function and its compiled form, made on first use.

    Compiled functions call one another freely: Numba asks a global for ``_numba_type_`` and gets
    the dispatcher. Call ``.python`` to run it interpreted.
    """

    def __init__(self, function: Callable[..., Any], **options: Any):
        functools.update_wrapper(self, function)
        self.python = function
        self.options = options
        self.of_gpu: Compiled | None = None  # what GPU code calls instead
        self._entries: dict[Any, Callable[..., Any]] = {}

    def on_gpu(self, function: Callable[..., Any]) -> Compiled:
        """Decorator: define what GPU code calls instead of this function."""
        self.of_gpu = Compiled(function, **self.options)
        return self.of_gpu

    def __call__(self, *args: Any) -> Any:
        """Run the compiled form, compiling it first if these types are new."""
        return self.dispatcher(*map(_writeable, args))

    @property
    def dispatcher(self) -> Any:
        """The Numba dispatcher, created once even if many threads ask."""
        return self._dispatcher("_outer", _make_dispatcher)

    @property
    def inner(self) -> Any:
        """The dispatcher for compiled callers (`evener.device.cpu.inner`)."""
        _inners.add(self)
        return self._dispatcher("_inner", _make_inner)

    def forget_functions(self) -> None:
        """Drop what was compiled for function arguments, once a kernel contains it."""
        inner = self.__dict__.get("_inner")
        if inner is not None and any("Dispatcher(" in str(one) for one in inner.overloads):
            del self.__dict__["_inner"]

    def _dispatcher(self, name: str, make: Callable[..., Any]) -> Any:
        dispatcher = self.__dict__.get(name)
        if dispatcher is None:
            with compiler_lock():
                dispatcher = self.__dict__.get(name)
                if dispatcher is None:
                    dispatcher = self.__dict__[name] = make(self.python, self.options)
        return dispatcher

    def compile_for(self, *examples: Any) -> None:
        """Compile for arguments of these types, or load from the cache, without calling."""
        self.dispatcher.compile(tuple(map(self.type_of, examples)))

    def entry_for(self, *examples: Any) -> Callable[..., Any]:
        """The machine code for arguments of these types, compiled if necessary.

        Calling it skips determining the types of all arguments, which takes 0.2 ms for a kernel's
        and holds Python's lock.
        """
        kinds = kind_of(examples)
        entry = self._entries.get(kinds)
        if entry is None:
            signature = tuple(map(self.type_of, examples))
            self.dispatcher.compile(signature)
            entry = self._entries[kinds] = self.dispatcher.overloads[signature].entry_point
        return entry

    def find_for(self, *examples: Any) -> Callable[..., Any] | None:
        """As `entry_for`, if the machine code is in memory or in the cache, else None."""
        entry = self._entries.get(kind_of(examples))
        if entry is not None:
            return entry
        dispatcher = self.dispatcher
        signature = tuple(map(self.type_of, examples))
        known = signature in dispatcher.overloads
        if not known and not dispatcher._cache.holds(signature, dispatcher.targetctx):
            return None
        return self.entry_for(*examples)

    @staticmethod
    def type_of(example: Any) -> Any:
        """The compiler's type of a value."""
        _require_room_to_load()
        import numba

        return numba.typeof(_writeable(example))

    def result_dtype(self, *examples: Any) -> np.dtype:
        """The dtype that the function returns for arguments of these types."""
        from numba.np.numpy_support import as_dtype

        dispatcher = self.dispatcher
        signature = tuple(map(self.type_of, examples))
        dispatcher.compile(signature)
        return as_dtype(dispatcher.overloads[signature].signature.return_type)

    @property
    def _numba_type_(self) -> Any:
        from evener.device.cpu.types import FunctionType

        return FunctionType(self.inner)

    def __repr__(self) -> str:
        return f"<compiled {self.python.__module__}.{self.python.__qualname__}>"


_PLAIN = (bool, float, complex, Identity)


def kind_of(value: Any) -> Any:
    """What determines the compiler's type of a value, in a hundredth of the time."""
    kind = type(value)
    if kind is np.ndarray or kind is np.memmap:
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return value.dtype, value.ndim, layout, flags.aligned
    if isinstance(value, tuple):
        return kind, *map(kind_of, value)
    if kind is int:
        return kind if -(1 << 63) <= value < 1 << 63 else (kind, value > 0)
    if kind in _PLAIN or isinstance(value, np.number | np.bool_):
        return kind
    return Compiled.type_of(value)


class _Memory:
    """An array whose memory is described as writeable."""

    def __init__(self, array: np.ndarray):
        self.array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = array.__array_interface__ | {"data": (address, False)}


def _writeable(value: Any) -> Any:
    """Give a read-only array the type of an ordinary one; writing to it stays forbidden.

    Numba gives read-only arrays their own types, so every mix of read-only and ordinary
    arguments (a graph mapped from a file, a caller's frozen array) would be compiled again.
    """
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return np.asarray(_Memory(value))
    if isinstance(value, tuple):
        plain = [_writeable(item) for item in value]
        return type(value)(*plain) if hasattr(value, "_fields") else tuple(plain)
    return value


def _make_dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    from evener.device.cache import DiskCache

    dispatcher = _jit(function, options)
    dispatcher._cache = DiskCache(function, options)
    dispatcher.compile = _quickly(dispatcher)
    return dispatcher


def _quickly(dispatcher: Any) -> Callable[..., Any]:
    from numba.core import types
    from numba.core.targetconfig import ConfigStack

    from evener.device.typing_cache import remembering, without_garbage_collection

    def options() -> Any:
        flags = ConfigStack.top_or_none()
        return flags and (flags.nrt, frozenset(flags.fastmath.flags), flags.error_model)

    compile_for, context = dispatcher.compile, dispatcher.typingctx
    name = dispatcher.py_func.__name__.removesuffix("_chunks").lstrip("_")

    def compile_quickly(signature: Any) -> Any:
        refuse_while_compiling()
        # A Ctrl-C that an LLVM callback swallows leaves a library without its code.
        safe = interrupts.kept()
        memory = remembering(context, types, options)
        shown = progress.compiling(name)
        with safe, compiling(), memory, without_garbage_collection(), shown:
            return compile_for(signature)

    return compile_quickly


def forget_functions() -> None:
    """Drop operators compiled for the functors of a kernel: the kernel now contains them.

    An operator lives as long as the process, and would keep a version for every program.
    """
    with compiler_lock():
        for function in list(_inners):
            function.forget_functions()


_sees_passes: list[bool] = []  # filled once


def load_compiler() -> None:
    """Load Numba's compiler in one go: an import that Ctrl-C interrupts is never finished."""
    with interrupts.held_back():
        from numba.core import event
        from numba.core.registry import cpu_target

        from evener.device.cpu import atomic  # noqa: F401  it registers with Numba

        cpu_target.target_context.refresh()
        cpu_target.typing_context.refresh()
        if not _sees_passes:
            _sees_passes.append(True)
            interrupts.raise_before_passes(event, "numba:run_pass")


def _make_inner(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    load_compiler()
    from evener.device.cpu.inner import InnerCompiler

    without = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _jit(function, {**options, **without, "pipeline_class": InnerCompiler})


def _jit(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    import numba

    # Instructions (`cpu.atomic`) are registered on the first compilation: cached code saves the
    # 30 ms.
    from evener.device.cpu import types  # noqa: F401  it registers with Numba

    # error_model: a division by zero gives inf or nan as in C; raising would cost a branch. Bounds
    # are unchecked for the same reason (NUMBA_BOUNDSCHECK=1 checks them).
    return numba.njit(nogil=True, error_model="numpy", **options)(function)


def compiled(
    function: Callable[..., Any] | None = None, *, allocates: bool = True, **options: Any
) -> Any:
    """Compile ``function`` for the CPU when it is first called.

    Pass ``allocates=False`` for a function that makes no arrays: it then skips the reference
    counts of its arguments, atomic updates that cost a small function more than its work (the
    edge-list parser became four times faster). Other options go to the compiler
    (``inline="always"``, ``fastmath=True``).

    Examples
    --------
    >>> from evener.device import compiled
    >>> @compiled
    ... def triple(x):
    ...     return 3 * x
    >>> triple(14)
    42
    """
    if not allocates:
        options["_nrt"] = False
    if function is None:
        return functools.partial(compiled, **options)
    return Compiled(function, **options)


def by_target(cpu: Any, gpu: Any) -> Compiled:
    """A function that calls ``cpu`` on a CPU and ``gpu`` on a GPU.

    Either may be compiled already; neither makes arrays.

    Examples
    --------
    >>> from evener.device import by_target
    >>> lanes = by_target(cpu=lambda: 1, gpu=lambda: 32)
    >>> lanes(), lanes.of_gpu.python()
    (1, 32)
    """
    function = cpu if isinstance(cpu, Compiled) else compiled(cpu, allocates=False)
    function.of_gpu = gpu if isinstance(gpu, Compiled) else compiled(gpu, allocates=False)
    return function
