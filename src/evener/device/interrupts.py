"""Ctrl-C while something runs that may swallow it."""

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
# Modules whose functions must not end in the middle. Of a compiler that is left between two passes
# nothing remains; elsewhere its registries, read by generators, would be broken for ever.
_DELICATE = ("numba.", "llvmlite.", "weakref")
_FINALIZERS = ("__del__", "_on_type_disposal")


def _handler() -> Callable[..., Any] | None:
    """What Ctrl-C calls on this thread, if anything."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    return before if is_main and callable(before) else None


def _is_delicate(frame: Any) -> bool:
    """Whether an exception now would be forgotten, or leave something half done.

    A finalizer and a callback from C forget it. LLVM's objects are disposed of in one step and
    marked as such in the next: between the two their memory would be freed twice.
    """
    while frame is not None:
        if frame.f_code.co_name in _FINALIZERS:
            return True
        if frame.f_globals.get("__name__", "").startswith(_DELICATE):
            return True
        frame = frame.f_back
    return False


class _Asked:
    """Whether Ctrl-C was pressed, and a timer that repeats it where it came at a bad moment."""

    def __init__(self, before: Callable[..., Any]):
        self.before, self.at_all, self.waits, self.ends = before, False, False, False
        self.timer: threading.Timer | None = None

    def __call__(self, number: int, frame: Any) -> None:
        self.at_all = True
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
        """Let no timer ask any more."""
        self.ends, self.waits = True, False
        if self.timer is not None:
            self.timer.cancel()
            self.timer.join()


_asked: list[_Asked] = []  # of the blocks that the main thread is in


def come_before_passes(event: Any, kind: str) -> None:
    """Have a Ctrl-C that waits come before the next pass of a compiler, which tells of each."""

    class Passes(event.Listener):
        def on_start(self, _: object) -> None:
            if threading.current_thread() is not threading.main_thread():
                return
            waiting = [asked for asked in _asked if asked.waits]
            for asked in waiting:
                asked.waits = False
            if waiting:
                raise KeyboardInterrupt

        def on_end(self, _: object) -> None:
            pass

    event.register(kind, Passes())


def _dispose(error: BaseException) -> None:
    """Have what the compiler held disposed of now: later a finalizer would meet the next Ctrl-C."""
    traceback.clear_frames(error.__traceback__)
    error.__traceback__ = None
    if "llvmlite" in sys.modules:
        gc.collect()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Let no Ctrl-C be lost, and none come in the middle of what must be finished.

    It is an exception wherever the interpreter happens to be. In a finalizer it comes a moment
    later instead, and within a compiler before its next pass. One that was forgotten all the same
    is raised again at the end, also in place of an error that comes of it.

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
    asked = _Asked(before)
    try:
        _asked.append(asked)
        signal.signal(signal.SIGINT, asked)  # within, since the next moment may be the one
        yield
    except BaseException as error:
        if not asked.at_all or not isinstance(error, Exception | KeyboardInterrupt):
            raise
        if not isinstance(before, _Asked):  # the outermost block, once for all
            _dispose(error)
        raise KeyboardInterrupt from None
    finally:
        asked.end()
        _asked.remove(asked)
        signal.signal(signal.SIGINT, before)
    if asked.at_all:
        raise KeyboardInterrupt


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Let Ctrl-C wait until the end: for what must not be left half done, and takes no second.

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
    asked: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: asked.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        before(*asked[0])
