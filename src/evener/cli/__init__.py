"""The command line ``evener COMMAND …``, with a module of this package for each command.

Every error becomes one line on standard error and an exit code: 2 for bad input, 130 for Ctrl-C,
1 for a fault of Evener itself. ``EVENER_DEBUG=1`` adds the traceback.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from evener.cli.signals import Stopped, stopping_on_signals
from evener.errors import EvenerError, GraphWarning
from evener.tracebacks import shows_all

BAD_INPUT = 2
FAULT = 1
BY_SIGNAL = 128  # plus the signal's number: 130 for Ctrl-C
BROKEN_PIPE = BY_SIGNAL + getattr(signal, "SIGPIPE", 13)

_ISSUES = "please report it, with what EVENER_DEBUG=1 shows"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv
        The words after ``evener``; by default those of the process.

    Examples
    --------
    >>> from evener.cli import main
    >>> main(["--version"])  # doctest: +ELLIPSIS
    evener ...
    0
    """
    try:
        with stopping_on_signals(), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return _run_to_exit_code(argv)
    except KeyboardInterrupt as stop:
        number = stop.number if isinstance(stop, Stopped) else signal.SIGINT
        what = "interrupted" if number == signal.SIGINT else "ended"
        return _fail(f"{what}.", BY_SIGNAL + number, prefix="")


def _run_to_exit_code(argv: Sequence[str] | None) -> int:
    """Run one command; turn every exception except an interrupt into a line and an exit code."""
    try:
        _run(argv)
    except SystemExit as stop:  # argparse after --help or a usage error
        return stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:
        return _abandon_output()
    except EvenerError as error:
        return _fail(str(error), BAD_INPUT)
    except OSError as error:
        return _fail(_sentence(error), BAD_INPUT)
    except MemoryError:
        return _fail("there is not enough memory for this.", BAD_INPUT)
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return _fail(f"unexpected {what} ({_ISSUES}).", FAULT)
    return 0


def _run(argv: Sequence[str] | None) -> None:
    from evener.cli.parser import build_parser

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # the terminal may not be able to show a label or path
            stream.reconfigure(errors="replace")
    try:
        arguments = build_parser().parse_args(argv)
        arguments.run(arguments)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()  # here, so that we report a closed pipe or a full disk


def _fail(message: str, code: int, *, prefix: str = "error: ") -> int:
    """Write one line to standard error, after the traceback if EVENER_DEBUG is set."""
    if shows_all():
        traceback.print_exc()
    with contextlib.suppress(OSError):  # standard error may be closed too
        print(f"evener: {prefix}{' '.join(message.split())}", file=sys.stderr)
    return code


def _sentence(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}." if error.filename else f"{reason}."


def _abandon_output() -> int:
    """Exit silently, as other commands do, when the reader of our output has exited."""
    with contextlib.suppress(OSError, ValueError):  # so that Python's flush at exit cannot fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    kind = "note" if issubclass(category, GraphWarning) else "warning"
    print(f"evener: {kind}: {' '.join(str(message).split())}", file=sys.stderr)
