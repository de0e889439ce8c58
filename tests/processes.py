"""Scripts in processes of their own."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import time


def python(script, *, timeout=60, **environment):
    """Run a script in a fresh interpreter; returns what it printed."""
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, **environment}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        printed, errors = run.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)  # a stuck child of a fork, too
        run.communicate()
        raise
    assert run.returncode == 0, errors
    return printed.strip()


def ended_by(script):
    """The signal that ends a script in a fresh interpreter; 0 if none does."""
    run = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    return max(0, -run.returncode)


def run_on_terminal(program, *, term="xterm", stdout=subprocess.PIPE, timeout=60):
    """Run a program with a pseudo-terminal as standard error; return code, stdout and stderr."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": term, "COLUMNS": "80"}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=stdout, stderr=slave, env=environment) as process:
        os.close(slave)
        seen = b""
        give_up = time.monotonic() + timeout
        with contextlib.suppress(OSError):  # the end of a pseudo-terminal is an error
            while time.monotonic() < give_up:
                if select.select([master], [], [], 0.2)[0]:
                    piece = os.read(master, 1 << 16)
                    if not piece:
                        break
                    seen += piece
        out = process.stdout.read() if process.stdout else b""
    os.close(master)
    return process.returncode, out.decode(), seen.decode()
