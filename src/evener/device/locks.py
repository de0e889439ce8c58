"""Locks that detect a signal handler, and the locks that a fork takes.

Locks are taken in this order:

1. `team._together`, by runs whose threads wait at barriers: one run at a time;
2. Numba's compiler lock (`compile.compiler_lock`): the only one around compiling;
3. llvmlite's lock around each call of LLVM, which only a fork takes by itself;
4. those of the thread pool, the progress display and mapped files, each for a few lines within
   which no other is taken.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging  # noqa: F401  before our fork hook, see `_before_fork`
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from evener.errors import DeviceError

_LOADED_LATE = ("evener", "numba", "llvmlite")  # when threads may already fork
_PATIENCE = 60.0  # seconds that a fork waits for another thread to compile

_REFUSED = (
    "Evener was called by a signal handler that interrupted another call of it; let the handler "
    "set a flag, and call Evener when the first call has returned."
)


def refuse_while_compiling() -> None:
    """Refuse to compile in the middle of compiling: only a signal handler asks for that.

    The compiler's own lock is reentrant, so a handler would find everything half done.
    """
    lock = _lock_of_compiler()
    if lock is not None and lock._lock._is_owned():
        raise DeviceError(_REFUSED)


@contextlib.contextmanager
def refusing_half_loaded() -> Iterator[None]:
    """Explain the error if a signal handler uses a module whose import it interrupted."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        if any(True for _ in _half_loaded()):
            raise DeviceError(_REFUSED) from error
        raise


class OwnLock:
    """A lock that raises where its owner would wait for itself.

    A signal handler runs on the main thread, in the middle of other code. If that code holds the
    lock, waiting would never end.
    """

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()  # it knows its owner

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
    """The locks that a fork takes, in this order; ``_lock`` of each is the lock proper.

    LLVM's is free when Numba's is, except for finalizers. If Numba's stays taken for too long, a
    child that holds LLVM's can still compile: only the other thread's compilation is half done.
    """
    llvm = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    locks = _lock_of_compiler(), getattr(llvm, "_lock", None)
    return [lock for lock in locks if lock is not None]


_forking: dict[int, list[Any]] = {}  # threads that fork, and the locks that they hold


def _half_loaded() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        begun = getattr(getattr(module, "__spec__", None), "_initializing", False)
        if begun and name.partition(".")[0] in _LOADED_LATE:
            yield name


def _finish_imports() -> None:
    """Wait for imports by other threads: in a child no thread would release their locks."""
    for name in _half_loaded():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _before_fork() -> None:
    """Wait until no thread compiles: a child would inherit a half-done compilation.

    Hooks run in reverse order of registration. That of `logging` takes its lock, which a thread
    that loads or compiles may wait for: it must run after this one, so `logging` is imported first.
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
    """Replace the locks of threads that do not exist in the child."""
    held = _forking.pop(threading.get_ident(), [])
    _forking.clear()
    for lock in _locks_of_fork():
        if lock._lock in held:
            lock._lock.release()
        else:
            lock._lock = threading.RLock()
            _forget_calls()


def _forget_calls() -> None:
    """Clear what another thread was compiling: Numba would take that for a recursion."""
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
