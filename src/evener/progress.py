"""Progress of long work: a bar on an interactive standard error once a task has run a second.

Work names itself with ``with progress.task("reading"):`` and reports ``done`` of ``total``. Python
threads share one display, a row each. Without a terminal or without rich nothing happens.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

_SHOW_AFTER_SECONDS = 1.0

_current = threading.local()  # .task: the outermost task of a thread
_lock = threading.Lock()  # guards the display and the rows in it
_display: Any = None  # a rich Progress while any task shows


class _Task:
    def __init__(self, label: str):
        self.state: tuple[str, float, float | None] = (label, 0.0, None)  # label, done, total
        self.row: Any = None  # in the display, once it shows
        self.timer: threading.Timer | None = None
        if sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty():
            self.timer = threading.Timer(_SHOW_AFTER_SECONDS, self._show)
            self.timer.daemon = True
            with contextlib.suppress(RuntimeError):  # no more threads: then no bar either
                self.timer.start()

    def set(self, label: str, done: float, total: float | None) -> None:
        renamed, self.state = label != self.state[0], (label, done, total)
        if self.row is None:
            return
        with _lock:
            if renamed:  # a new row: rich cannot forget a total
                _display.remove_task(self.row)
                self.row = _display.add_task(label, completed=done, total=total)
            else:
                _display.update(self.row, completed=done, total=total)

    def _show(self) -> None:
        global _display
        try:
            from rich.console import Console
            from rich.progress import Progress
        except ImportError:
            return
        with _lock:
            if self.timer is None:
                return  # it ended meanwhile
            if _display is None:
                # Not redirected: what the program prints to standard output must stay there.
                console = Console(stderr=True)
                _display = Progress(
                    console=console, disable=console.is_dumb_terminal, transient=True,
                    redirect_stdout=False, redirect_stderr=False,
                )  # fmt: skip
                _display.start()
            label, done, total = self.state
            self.row = _display.add_task(label, completed=done, total=total)

    def close(self) -> None:
        global _display
        if self.timer is not None:
            self.timer.cancel()
        with _lock:
            row, self.timer, self.row = self.row, None, None
            if row is not None:
                _display.remove_task(row)
                if not _display.tasks:
                    _display.stop()
                    _display = None


@contextlib.contextmanager
def task(label: str) -> Iterator[None]:
    """Name the work that follows; inside another task it only renames that one's bar.

    Examples
    --------
    >>> from evener import progress
    >>> with progress.task("counting"):
    ...     progress.report(1, 3)
    """
    outer: _Task | None = getattr(_current, "task", None)
    task = outer or _Task(label)
    before = task.state
    try:
        _current.task = task
        task.set(label, 0.0, None)
        yield
    finally:
        task.set(*before)
        if outer is None:
            _current.task = None
            task.close()


def report(done: float, total: float) -> None:
    """Tell how far the current task of this thread is; costs nothing when there is none."""
    current: _Task | None = getattr(_current, "task", None)
    if current is not None:
        current.set(current.state[0], done, total)


def _forget() -> None:
    global _lock, _display
    _lock, _display, current = threading.Lock(), None, getattr(_current, "task", None)
    if current is not None:
        current.row = current.timer = None


if hasattr(os, "register_at_fork"):  # a child has neither the display nor a thread to unlock it
    os.register_at_fork(after_in_child=_forget)
