"""Ctrl-C while the command starts: one line and exit code 130, as it is once it listens itself.

The package is imported before a line of the command runs, and that takes a moment. So the first
thing that it imports is this; `evener.cli.signals` takes over. In a process that is not the command
nothing changes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType


def leave(number: int, _: FrameType | None) -> None:
    """End the process, without the traceback of whatever was being imported."""
    if sys.stderr is not None:
        sys.stderr.write("evener: interrupted.\n")
    raise SystemExit(128 + number)


def _is_command() -> bool:
    """Whether this process is ``evener …`` or ``python -m evener …``."""
    first = sys.argv[0] if getattr(sys, "argv", None) else ""
    if first == "-m":  # as long as Python looks for the module
        return ("-m", "evener") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    return os.path.basename(first).removesuffix(".exe") == "evener"


def _listen() -> None:
    is_main = threading.current_thread() is threading.main_thread()  # others may not
    # A shell has what runs in the background ignore Ctrl-C, and it stays so.
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


if _is_command():
    _listen()
