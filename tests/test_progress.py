"""The bar: on a terminal after a second, never elsewhere, whatever threads and forks do."""

import contextlib
import io
import os
import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import pytest

from evener import progress
from evener.device import compiled
from processes import run_on_terminal

COUNTING = """
    import time
    from evener import progress
    progress._SHOW_AFTER_SECONDS = 0.1
    with progress.task("counting sheep"):
        for i in range(4):
            progress.report(i, 4)
            time.sleep(0.1)
"""


def test_bar_on_a_terminal():
    code, out, err = run_on_terminal(COUNTING)
    assert code == 0
    assert out == ""
    assert "counting sheep" in err


def test_short_work_shows_no_bar():
    _, _, err = run_on_terminal(COUNTING.replace("= 0.1", "= 100"))
    assert err == ""


def test_work_that_never_reports_shows_too():
    program = COUNTING.replace("progress.report(i, 4)", "pass")
    assert "counting sheep" in run_on_terminal(program)[2]


def test_dumb_terminal_shows_no_bar():
    assert "counting" not in run_on_terminal(COUNTING, term="dumb")[2]


def test_no_terminal_no_bar():
    command = [sys.executable, "-c", textwrap.dedent(COUNTING)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    assert done.stderr == ""


def test_nested_task_renames_and_gives_the_name_back():
    _, _, err = run_on_terminal(
        """
        import time
        from evener import progress
        progress._SHOW_AFTER_SECONDS = 0.05
        with progress.task("outer"):
            progress.report(1, 2)
            time.sleep(0.4)
            with progress.task("inner"):
                progress.report(1, 4)
                time.sleep(0.4)
            time.sleep(0.4)
        """
    )
    assert err.index("outer") < err.index("inner") < err.rindex("outer")


def test_output_stays_on_standard_output():
    code, out, err = run_on_terminal(
        COUNTING.replace("progress.report(i, 4)", "progress.report(i, 4); print(i)")
    )
    assert code == 0
    assert out.split() == list("0123")
    assert "counting sheep" in err


def test_without_rich_there_is_no_bar():
    code, _, err = run_on_terminal("    import sys; sys.modules['rich'] = None" + COUNTING)
    assert (code, err) == (0, "")


def test_threads_share_the_display():
    code, _, err = run_on_terminal(
        """
        import threading, time
        from evener import progress
        progress._SHOW_AFTER_SECONDS = 0.05
        def work(name):
            with progress.task(name):
                for i in range(8):
                    progress.report(i, 8)
                    time.sleep(0.1)
        team = [threading.Thread(target=work, args=(f"flock{i}",)) for i in range(4)]
        [t.start() for t in team]; [t.join() for t in team]
        assert progress._display is None
        """
    )
    assert code == 0, err
    assert all(f"flock{i}" in err for i in range(4))


def test_fork_within_a_shown_task():
    code, _, err = run_on_terminal(
        """
        import os, time
        from evener import progress
        progress._SHOW_AFTER_SECONDS = 0.05
        with progress.task("parent"):
            time.sleep(0.5)
            child = os.fork()
            with progress.task("nested"):
                progress.report(1, 2)
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert code == 0, err
    assert "parent" in err


@pytest.mark.parametrize("stderr", [None, "closed"])
def test_missing_standard_error(monkeypatch, tmp_path, stderr):
    if stderr == "closed":
        stderr = (tmp_path / "err").open("w")
        stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)
    with progress.task("quiet"):
        progress.report(1, 2)


def test_a_line_in_a_notebook(monkeypatch):
    err = io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setattr(progress, "_SHOW_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.0)
    with progress.task("counting sheep"):
        give_up = time.monotonic() + 60
        while "0%" not in err.getvalue() and time.monotonic() < give_up:
            progress.report(0, 4)
            time.sleep(0.01)
        progress.report(3, 4)
        progress.set_note("a black one")
    shown = err.getvalue().split("\r")
    assert "counting sheep 75%" in (line.strip() for line in shown)
    assert "counting sheep: a black one 75%" in shown
    assert shown[-2].strip() == shown[-1] == ""  # the line is wiped out
    assert progress._display is None


def test_what_is_compiled_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path))
    told = []
    monkeypatch.setattr(progress, "set_note", told.append)

    @compiled
    def double(x):
        return 2 * x

    double(1)
    assert told == []  # no task
    with progress.task("doubling"):
        double(1.5)
    assert told == ["compiling double", ""]
    with progress.task("compiling a program"):  # which says so itself
        double(1j)
    assert told == ["compiling double", ""]


def test_report_without_a_task():
    progress.report(1, 2)


def test_tasks_end_on_errors():
    with contextlib.suppress(ZeroDivisionError), progress.task("failing"):
        raise ZeroDivisionError
    assert getattr(progress._current, "task", None) is None


def test_cheap_without_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", open(os.devnull, "w"))  # noqa: SIM115
    asked, here = [], progress._display_class
    monkeypatch.setattr(progress, "_display_class", lambda: asked.append(1) or here())
    before = threading.active_count()
    with progress.task("busy"):
        for i in range(10_000):
            progress.report(i, 10_000)
        assert progress._current.task.row is None  # nothing is drawn, by no other thread
        assert threading.active_count() == before
    assert len(asked) == 1
