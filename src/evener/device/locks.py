"""Locks that tell a signal handler, and the locks of a process that forks.

The order in which locks are taken, the first first:

1. `team._together`, by runs whose threads meet at barriers: one at a time;
2. Numba's lock of its compiler (`compile.compiler_lock`): the only one around compiling;
3. llvmlite's around each call of LLVM, which only a fork takes by itself;
4. those of the pool of threads, of the progress display and of mapped files, for some lines each,
   within which no other is taken.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging  # noqa: F401  before our hook at a fork, see `_before_fork`
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from evener.errors import DeviceError

_LOADED_LATE = ("evener", "numba", "llvmlite")  # while threads may already fork
_PATIENCE = 60.0  # seconds that a fork waits for another thread to compile

_REFUSED = (
    "Evener was called by a signal handler that interrupted another call of it; let the handler "
    "set a flag, and call Evener when the first call is over."
)


def refuse_while_compiling() -> None:
    """Let nobody compile in the middle of compiling: only a signal handler asks for that.

    The compiler's own lock lets its owner in, who would find everything half done.
    """
    lock = _lock_of_compiler()
    if lock is not None and lock._lock._is_owned():
        raise DeviceError(_REFUSED)


@contextlib.contextmanager
def refusing_half_loaded() -> Iterator[None]:
    """Say what it is when a signal handler meets a module that it interrupted in loading."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        if any(True for _ in _half_loaded()):
            raise DeviceError(_REFUSED) from error
        raise


class OwnLock:
    """A lock that its owner does not wait for.

    A signal handler runs on the main thread, in the middle of what it interrupted. If that holds
    the lock, waiting would never end.
    """

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()  # of which its owner can be asked

    def __enter__(self) -> None:
        if self._lock._is_owned():
            raise DeviceError(_REFUSED)
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def _lock_of_compiler() -> Any:
    module = sys.modules.get("numba.core.compiler_lock")
    return None if module is None else module.global_compiler_lock


def _locks_of_fork() -> list[Any]:
    """What a fork takes, in this order: each has the lock proper as ``_lock``.

    LLVM's is free when Numba's is, but for finalizers. Where Numba's is not to be had for too long,
    a child with LLVM's can still compile: only what the other thread was compiling is half done.
    """
    llvm = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    found = _lock_of_compiler(), getattr(llvm, "_lock", None)
    return [lock for lock in found if lock is not None]


_forking: dict[int, list[Any]] = {}  # threads that fork, and the locks that they have


def _half_loaded() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        begun = getattr(getattr(module, "__spec__", None), "_initializing", False)
        if begun and name.partition(".")[0] in _LOADED_LATE:
            yield name


def _finish_imports() -> None:
    """Wait for modules that other threads load: in a child nobody would let go of their locks."""
    for name in _half_loaded():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _before_fork() -> None:
    """Wait until nobody compiles: a child would inherit a compiler that was left in the middle.

    Hooks run the latest first. That of `logging` takes its lock, for which a thread that loads or
    compiles may wait: it must run after this one, so `logging` is imported before.
    """
    _finish_imports()
    held = _forking[threading.get_ident()] = []
    for lock in _locks_of_fork():
        if lock._lock.acquire(timeout=_PATIENCE):
            held.append(lock._lock)


def _after_fork_in_parent() -> None:
    for lock in reversed(_forking.pop(threading.get_ident(), [])):
        lock.release()


def _after_fork_in_child() -> None:
    """Whoever else held a lock is not there to let it go."""
    held = _forking.pop(threading.get_ident(), [])
    _forking.clear()
    for lock in _locks_of_fork():
        if lock._lock in held:
            lock._lock.release()
        else:
            lock._lock = threading.RLock()
            _forget_calls()


def _forget_calls() -> None:
    """Let Numba forget what another thread was compiling: it would take that for a recursion."""
    registry, dispatchers = map(sys.modules.get, ("numba.core.registry", "numba.core.dispatcher"))
    if registry is not None and dispatchers is not None:
        registry.cpu_target.typing_context.callstack.__init__()
        for one in gc.get_objects():
            if type(one) is dispatchers.CompilingCounter:
                one.counter = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
