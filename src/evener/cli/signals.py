"""Ctrl-C, a request to end and a closed terminal: all unwind the command, so nothing stays behind.

A signal becomes an exception, as Python's own handler of Ctrl-C does it. One that arrives while the
compiler calls back into Python is lost there: Python can only report it as "ignored". It is sent
again a moment later, until it gets through.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from evener.starting import leave

_AGAIN_SECONDS = 0.02


class Stopped(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def stopping_on_signals() -> Iterator[None]:
    """Raise `Stopped` in the main thread on Ctrl-C, SIGTERM and SIGHUP.

    Signals that somebody else handles or ignores (``nohup``) stay as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}
    hook = sys.unraisablehook
    try:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            defaults = (signal.SIG_DFL, signal.default_int_handler, leave)
            if number is not None and signal.getsignal(number) in defaults:
                before[number] = signal.signal(number, _stop)
        sys.unraisablehook = _sending_again(hook)
        yield
    except Stopped:
        hook = _without_half_made(hook)  # those go with the exception, after this
        raise
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            # The command has said all that it has to say, and Ctrl-C changes nothing any more.
            signal.signal(number, signal.SIG_IGN if handler is leave else handler)


def _stop(number: int, _: FrameType | None) -> None:
    raise Stopped(number)


def _sending_again(hook: Any) -> Any:
    """A hook for exceptions that Python cannot raise: a lost `Stopped` becomes a new signal."""

    def unraisable(report: Any) -> None:
        if isinstance(report.exc_value, Stopped):
            main_thread = threading.main_thread().ident
            again = (main_thread, report.exc_value.number)
            timer = threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, again)
            timer.daemon = True
            timer.start()
        else:
            _without_half_made(hook)(report)

    return unraisable


def _without_half_made(hook: Any) -> Any:
    """A hook that leaves out objects of the compiler that a signal cut short: they complain."""

    def unraisable(report: Any) -> None:
        if not str(getattr(report.object, "__module__", "")).startswith("llvmlite."):
            hook(report)

    return unraisable
