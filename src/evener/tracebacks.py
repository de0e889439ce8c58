"""Short tracebacks: only the user's lines that led to an error, without Evener's own.

Notebooks and IPython ask an exception to render itself. In plain Python, the first error of Evener
replaces ``sys.excepthook`` if that is still Python's own; importing the package and other
exceptions change nothing. The traceback object stays complete, for debuggers and logs;
``EVENER_DEBUG=1`` shows it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_OTHERS = ("site-packages", "dist-packages")  # not standard, though within that folder


def shows_all() -> bool:
    """Whether ``EVENER_DEBUG`` asks for whole tracebacks."""
    return os.environ.get("EVENER_DEBUG", "0") not in ("", "0")


def shortened(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of Evener and of the standard library called by it.

    Frames of the user's functions that Evener called are kept.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.tracebacks import shortened
    >>> try:
    ...     ev.generate.path(3).index_of(7)
    ... except ev.GraphError as error:
    ...     shortened(error.__traceback__).tb_next is None
    True
    """
    kept, inside = [], False
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        ours = file.startswith(_PACKAGE)
        inside = inside or ours
        if not (ours or (inside and _is_standard(file))):
            kept.append(tb)
        tb = tb.tb_next
    short = None
    for one in reversed(kept):
        short = TracebackType(short, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return short


def render(error: BaseException) -> list[str]:
    """The lines that a notebook or IPython shows of an error: its own style, fewer frames."""
    with _shortened_for_now(error):
        shell, shown = _shell(), (type(error), error, error.__traceback__)
        if shell is not None:
            return shell.InteractiveTB.structured_traceback(*shown)
        return traceback.format_exception(*shown)


def shorten_uncaught() -> None:
    """Make Python print Evener's errors shortened, unless another excepthook is installed."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print


def _print(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
    if not hasattr(error, "_render_traceback_"):
        sys.__excepthook__(kind, error, tb)
        return
    with _shortened_for_now(error):
        sys.__excepthook__(kind, error, error.__traceback__)


@contextlib.contextmanager
def _shortened_for_now(error: BaseException) -> Iterator[None]:
    """Shorten the tracebacks of an error and its causes, and restore them for debuggers."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain and not shows_all():
        chain.append(one)
        one = one.__cause__ or one.__context__
    whole = [one.__traceback__ for one in chain]
    try:
        for one in chain:
            one.__traceback__ = shortened(one.__traceback__)
        yield
    finally:
        for one, tb in zip(chain, whole, strict=True):
            one.__traceback__ = tb


def _is_standard(file: str) -> bool:
    if file.startswith("<frozen "):
        return True
    return file.startswith(_STANDARD) and not file[len(_STANDARD) :].startswith(_OTHERS)


def _shell() -> Any:
    """The running IPython shell, or None; imports nothing."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
