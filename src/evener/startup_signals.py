"""Ctrl-C while the command starts: one line and exit code 130, as later.

Importing the package takes a moment, before any code of the command runs. So the package imports
this module first; `evener.cli.signals` takes over later. Other processes are not affected.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType


def exit_on_interrupt(number: int, _: FrameType | None) -> None:
    """Exit without the traceback of the import that was interrupted."""
    if sys.stderr is not None:
        sys.stderr.write("evener: interrupted.\n")
    raise SystemExit(128 + number)


def _is_command() -> bool:
    """Whether this process is ``evener …`` or ``python -m evener …``."""
    first = sys.argv[0] if getattr(sys, "argv", None) else ""
    if first == "-m":  # while Python searches for the module
        return ("-m", "evener") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return os.path.basename(first).removesuffix(".exe") == "evener"


def _install_handler() -> None:
    is_main = threading.current_thread() is threading.main_thread()  # others may not set handlers
    # A shell makes background processes ignore Ctrl-C; that stays as it is.
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, exit_on_interrupt)


if _is_command():
    _install_handler()
