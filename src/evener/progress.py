"""Progress of work that takes over a second: a bar in a terminal, a line in a notebook.

A task is named by ``with progress.task("reading"):`` and reports ``done`` of ``total``, or a note
in words. Python threads share one display with a row each. If standard error is neither a terminal
nor a notebook's, nothing is shown.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

_SHOW_AFTER_SECONDS = 1.0
_LINE_SECONDS = 0.5  # between two updates in a notebook, which may go over a network

_current = threading.local()  # .task: the outermost task of a thread
_lock = threading.RLock()  # guards the display and its rows
_display: Any = None  # a `_Bars` or `_Line` while any task is shown


class _State(NamedTuple):
    """The state of a task that the display shows."""

    label: str
    done: float = 0.0
    total: float | None = None
    note: str = ""  # progress in words

    @property
    def text(self) -> str:
        return f"{self.label}: {self.note}" if self.note else self.label


class _Bars:
    """Progress bars of rich, for a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        # Not redirected: output of the program must stay on standard output.
        console = Console(stderr=True)
        self.bars: Any = Progress(
            console=console, disable=console.is_dumb_terminal, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self.bars.start()

    def add(self, state: _State) -> Any:
        return self.bars.add_task(state.text, completed=state.done, total=state.total)

    def update(self, row: Any, state: _State) -> Any:
        self.bars.update(row, completed=state.done, total=state.total, description=state.text)
        return row

    def remove(self, row: Any) -> bool:
        """Remove a row; returns whether it was the last."""
        self.bars.remove_task(row)
        if self.bars.tasks:
            return False
        self.bars.stop()
        return True


class _Line:
    """A line that is overwritten with each update, for a notebook."""

    def __init__(self) -> None:
        self.rows = self.width = 0
        self.next = 0.0

    def add(self, state: _State) -> Any:
        self.rows += 1
        self.update(self.rows, state)
        return self.rows

    def update(self, row: Any, state: _State) -> Any:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + _LINE_SECONDS
            share = f" {state.done / state.total:.0%}" if state.total else ""
            self.write(state.text + share)
        return row

    def remove(self, row: Any) -> bool:
        """Remove a row; returns whether it was the last."""
        self.rows -= 1
        if self.rows == 0:
            self.write("")
            sys.stderr.write("\r")
            sys.stderr.flush()
        return self.rows == 0

    def write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)


def _display_class() -> type[_Bars] | type[_Line] | None:
    """The display for this standard error, or None."""
    if sys.stderr is None or sys.stderr.closed:
        return None
    if sys.stderr.isatty():
        return _Bars
    shell = sys.modules.get("IPython")  # not imported: a notebook already has it
    running = shell.get_ipython() if shell is not None else None
    return _Line if hasattr(running, "kernel") else None


class _Task:
    def __init__(self, label: str):
        self.state = _State(label)
        self.row: Any = None  # in the display, once it is shown
        self.timer: threading.Timer | None = None
        if _display_class() is not None:
            self.timer = threading.Timer(_SHOW_AFTER_SECONDS, self._show)
            self.timer.daemon = True
            with contextlib.suppress(RuntimeError):  # no thread is available: no bar
                self.timer.start()

    def set(self, state: _State) -> None:
        renamed, self.state = state.label != self.state.label, state
        if self.row is None:
            return
        with _lock:
            if renamed:  # a new row, because rich cannot unset a total
                old, self.row = self.row, _display.add(state)
                _display.remove(old)
            else:
                _display.update(self.row, state)

    def _show(self) -> None:
        global _display
        with _lock:
            if self.timer is None:
                return  # the task has ended meanwhile
            if _display is None:
                try:
                    display_class = _display_class()
                    _display = display_class and display_class()
                except ImportError:  # without rich
                    return
            if _display is not None:
                self.row = _display.add(self.state)

    def close(self) -> None:
        global _display
        if self.timer is not None:
            self.timer.cancel()
        with _lock:
            row, self.timer, self.row = self.row, None, None
            if row is not None and _display.remove(row):
                _display = None


@contextlib.contextmanager
def task(label: str) -> Iterator[None]:
    """Name the work that follows; a task within another task only renames its bar.

    Examples
    --------
    >>> from evener import progress
    >>> with progress.task("counting"):
    ...     progress.report(1, 3)
    ...     progress.set_note("the last sheep")
    """
    outer: _Task | None = getattr(_current, "task", None)
    task = outer or _Task(label)
    before = task.state
    try:
        _current.task = task
        task.set(_State(label))
        yield
    finally:
        task.set(before)
        if outer is None:
            _current.task = None
            task.close()


def report(done: float, total: float) -> None:
    """Report the progress of this thread's current task; costs nothing without a task."""
    current: _Task | None = getattr(_current, "task", None)
    if current is not None:
        current.set(current.state._replace(done=done, total=total))


def set_note(note: str) -> None:
    """Report the progress of this thread's current task in words."""
    current: _Task | None = getattr(_current, "task", None)
    if current is not None:
        current.set(current.state._replace(note=note))


@contextlib.contextmanager
def compiling(name: str) -> Iterator[None]:
    """Note that a function is being compiled, unless the current task says so itself."""
    current: _Task | None = getattr(_current, "task", None)
    if current is None or current.state.label.startswith("compiling"):
        yield
        return
    before = current.state.note
    try:
        set_note(f"compiling {name}")
        yield
    finally:
        set_note(before)


def report_supersteps(supersteps: int, frontier: int, arcs: int) -> None:
    """Report the progress of a loop of supersteps."""
    if supersteps > 0:
        set_note(f"superstep {supersteps:,}, {frontier:,} in the frontier, {arcs:,} arcs visited")


def _reset_in_child() -> None:
    global _lock, _display
    _lock, _display, current = threading.RLock(), None, getattr(_current, "task", None)
    if current is not None:
        current.row = current.timer = None


if hasattr(os, "register_at_fork"):  # a child has no display, and no thread to release the lock
    os.register_at_fork(after_in_child=_reset_in_child)
