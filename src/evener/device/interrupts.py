"""Ctrl-C while something runs that may swallow it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


def _handler() -> Callable[..., Any] | None:
    """What Ctrl-C calls on this thread, if anything."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    return before if is_main and callable(before) else None


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Let no Ctrl-C be lost.

    It is an exception wherever the interpreter happens to be: in a finalizer or a callback from C,
    of which a compiler has many, it is printed and forgotten. Then it is raised again at the end,
    also in place of an error that comes of it.

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
    was_asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal was_asked
        was_asked = True
        before(number, frame)

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    except Exception:
        if was_asked:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if was_asked:
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
