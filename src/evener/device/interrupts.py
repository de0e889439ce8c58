"""Ctrl-C during code that may swallow it."""

from __future__ import annotations

import _thread
import contextlib
import gc
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

_AGAIN_SECONDS = 0.01
# Modules whose functions must not be interrupted. A compiler stopped between two passes leaves
# nothing behind; anywhere else its registries, read by generators, would stay broken.
_DELICATE = ("numba.", "llvmlite.", "weakref")
_FINALIZERS = ("__del__", "_on_type_disposal")


def _handler() -> Callable[..., Any] | None:
    """The function that Ctrl-C calls on this thread, if any."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    return before if is_main and callable(before) else None


def _is_delicate(frame: Any) -> bool:
    """Whether an exception now would be lost or leave something half done.

    Finalizers and callbacks from C lose it. LLVM's objects are freed in one step and marked as
    freed in the next: an exception between the two would have them freed twice.
    """
    while frame is not None:
        if frame.f_code.co_name in _FINALIZERS:
            return True
        if frame.f_globals.get("__name__", "").startswith(_DELICATE):
            return True
        frame = frame.f_back
    return False


class _Recorder:
    """Records Ctrl-C and repeats it by a timer if it came at a bad moment."""

    def __init__(self, before: Callable[..., Any]):
        self.before, self.pressed, self.waits, self.ends = before, False, False, False
        self.timer: threading.Timer | None = None

    def __call__(self, number: int, frame: Any) -> None:
        self.pressed = True
        if self.ends:
            return
        self.waits = _is_delicate(frame)
        if not self.waits:
            self.before(number, frame)
            return
        self.timer = threading.Timer(_AGAIN_SECONDS, _thread.interrupt_main)
        self.timer.daemon = True
        self.timer.start()

    def end(self) -> None:
        """Stop raising, and cancel the timer."""
        self.ends, self.waits = True, False
        if self.timer is not None:
            self.timer.cancel()
            self.timer.join()


_recorders: list[_Recorder] = []  # of the blocks that the main thread is in


def raise_before_passes(event: Any, kind: str) -> None:
    """Raise a waiting Ctrl-C before a compiler's next pass, by its events."""

    class Passes(event.Listener):
        def on_start(self, _: object) -> None:
            if threading.current_thread() is not threading.main_thread():
                return
            waiting = [recorder for recorder in _recorders if recorder.waits]
            for recorder in waiting:
                recorder.waits = False
            if waiting:
                raise KeyboardInterrupt

        def on_end(self, _: object) -> None:
            pass

    event.register(kind, Passes())


def _dispose(error: BaseException) -> None:
    """Free the compiler's objects now: later, a finalizer would meet the next Ctrl-C."""
    traceback.clear_frames(error.__traceback__)
    error.__traceback__ = None
    if "llvmlite" in sys.modules:
        gc.collect()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Lose no Ctrl-C, and let none interrupt what must be finished.

    Ctrl-C raises wherever the interpreter happens to be. In a finalizer it raises a moment later
    instead, and within a compiler before the next pass. If it was lost anyway it raises again at
    the end, replacing any error that it caused.

    Examples
    --------
    >>> import signal
    >>> from evener.device import interrupts
    >>> try:
    ...     with interrupts.kept():
    ...         try:
    ...             signal.raise_signal(signal.SIGINT)
    ...         except KeyboardInterrupt:
    ...             pass
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    interrupted
    """
    before = _handler()
    if before is None:
        yield
        return
    recorder = _Recorder(before)
    try:
        _recorders.append(recorder)
        signal.signal(signal.SIGINT, recorder)  # in the try: Ctrl-C may follow at once
        yield
    except BaseException as error:
        if not recorder.pressed or not isinstance(error, Exception | KeyboardInterrupt):
            raise
        if not isinstance(before, _Recorder):  # only in the outermost block
            _dispose(error)
        raise KeyboardInterrupt from None
    finally:
        recorder.end()
        _recorders.remove(recorder)
        signal.signal(signal.SIGINT, before)
    if recorder.pressed:
        raise KeyboardInterrupt


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Delay Ctrl-C until the end, for short work that must not be left half done.

    Examples
    --------
    >>> import signal
    >>> from evener.device import interrupts
    >>> try:
    ...     with interrupts.held_back():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("done")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    done
    interrupted
    """
    before = _handler()
    if before is None:
        yield
        return
    calls: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: calls.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if calls:
        before(*calls[0])
