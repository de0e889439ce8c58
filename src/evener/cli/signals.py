"""Ctrl-C, SIGTERM and a closed terminal all unwind the command, so that nothing is left behind.

A signal becomes an exception, as with Python's own handler of Ctrl-C. If it arrives while the
compiler calls back into Python, the exception is lost: Python can only report it as "ignored". Then
the signal is sent again a moment later, until it gets through.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from evener.startup_signals import exit_on_interrupt

_AGAIN_SECONDS = 0.02


class Stopped(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def stopping_on_signals() -> Iterator[None]:
    """Raise `Stopped` in the main thread on Ctrl-C, SIGTERM and SIGHUP.

    Signals that have another handler, or are ignored (``nohup``), stay as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {}
    hook = sys.unraisablehook
    try:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            defaults = (signal.SIG_DFL, signal.default_int_handler, exit_on_interrupt)
            if number is not None and signal.getsignal(number) in defaults:
                before[number] = signal.signal(number, _stop)
        sys.unraisablehook = _resend_lost(hook)
        yield
    except Stopped:
        hook = _hide_interrupted(hook)  # those objects are destroyed with the exception, later
        raise
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            # The command has finished its output; Ctrl-C must not disturb its exit.
            signal.signal(number, signal.SIG_IGN if handler is exit_on_interrupt else handler)


def _stop(number: int, _: FrameType | None) -> None:
    raise Stopped(number)


def _resend_lost(hook: Any) -> Any:
    """A hook for exceptions that Python cannot raise: send the signal of a lost `Stopped` again."""

    def unraisable(report: Any) -> None:
        if isinstance(report.exc_value, Stopped):
            main_thread = threading.main_thread().ident
            again = (main_thread, report.exc_value.number)
            timer = threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, again)
            timer.daemon = True
            timer.start()
        else:
            _hide_interrupted(hook)(report)

    return unraisable


def _hide_interrupted(hook: Any) -> Any:
    """A hook that hides the complaints of compiler objects that a signal interrupted."""

    def unraisable(report: Any) -> None:
        if not str(getattr(report.object, "__module__", "")).startswith("llvmlite."):
            hook(report)

    return unraisable
