"""Scripts in processes of their own."""

import os
import signal
import subprocess
import sys
import textwrap


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
