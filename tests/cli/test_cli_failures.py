"""The command when something goes wrong: errors, signals, broken pipes, full disks."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import evener as ev
from evener.graph.files import evg
from processes import run_on_terminal


@pytest.fixture
def broken(monkeypatch):
    def install(error):
        def fail(text):
            raise error

        monkeypatch.setattr("evener.graph.generate.from_spec", fail)

    return install


def test_unexpected_errors_are_one_line(run, broken, monkeypatch):
    broken(RuntimeError("first\nsecond"))
    code, out, err = run("info", "rmat:scale=4")
    assert (code, out) == (1, "")
    assert err.startswith("evener: error: unexpected RuntimeError: first second (please report")
    assert err.count("\n") == 1
    monkeypatch.setenv("EVENER_DEBUG", "1")
    assert "Traceback" in run("info", "rmat:scale=4")[2]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "x"), "evener: error: x: Permission denied.\n"),
        (MemoryError(), "evener: error: there is not enough memory for this.\n"),
    ],
)
def test_errors_of_the_machine(run, broken, error, line):
    broken(error)
    assert run("info", "rmat:scale=4") == (2, "", line)


def test_interrupt_while_saving_leaves_nothing(run, tmp_path, monkeypatch):
    written = []

    def interrupt(*arguments):
        if written:
            raise KeyboardInterrupt
        written.append(arguments)
        return original(*arguments)

    original = evg._write_array
    monkeypatch.setattr(evg, "_write_array", interrupt)
    result = run("generate", "path", tmp_path / "x.evg", "--num-vertices", "5")
    assert result == (130, "", "evener: interrupted.\n")
    assert written
    assert list(tmp_path.iterdir()) == []


GENERATE = """
import sys
from evener.cli import main
print("ready", flush=True)
sys.exit(main(["generate", "rmat", "x.evg", "--scale", "22"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_long_work(tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-c", GENERATE], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.0)
        assert process.poll() is None
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert out == ""
    assert err == f"evener: {'interrupted' if number == signal.SIGINT else 'ended'}.\n"
    assert list(tmp_path.iterdir()) == []


SLOWLY = """
import signal, sys

class Interrupts:
    # Ctrl-C comes while some module of the package is looked for
    def find_spec(self, name, *_):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["/usr/bin/evener", "devices"]
from evener.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("name", ["evener.device", "numpy", "evener.versions", "evener.cli.parser"])
def test_an_interrupt_while_the_command_starts(name):
    script = SLOWLY.format(name=name)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "evener: interrupted.\n"


def test_importing_the_package_leaves_interrupts_alone():
    script = SLOWLY.format(name="evener.versions").replace("/usr/bin/evener", "own.py")
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "KeyboardInterrupt" in ended.stderr


def test_an_interrupt_lost_in_a_callback_is_sent_again(run, broken, monkeypatch):
    import ctypes

    @ctypes.CFUNCTYPE(None)
    def callback():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)  # here the exception comes, which C code cannot pass on

    def compile_for_long(text):
        callback()
        time.sleep(30)

    monkeypatch.setattr("evener.graph.generate.from_spec", compile_for_long)
    assert run("info", "rmat:scale=4") == (130, "", "evener: interrupted.\n")


def test_handlers_of_signals_are_given_back(run):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    run("--version")
    assert [signal.getsignal(number) for number in numbers] == before


def shell(command, cwd):
    return subprocess.run(
        ["bash", "-c", command.replace("evener", f"'{sys.executable}' -m evener")],
        capture_output=True, text=True, cwd=cwd,
    )  # fmt: skip


@pytest.mark.parametrize("words", [["devices"], ["--help"], ["info", "path:num_vertices=3"]])
def test_broken_pipe_is_silent(words):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "evener", *words], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode in (141, 0)  # 0: argparse itself swallows it, where unbuffered


def test_full_disk_behind_standard_output(tmp_path):
    done = shell("evener info path:num_vertices=3 --json >/dev/full", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("evener: error: No space left")
    assert done.stderr.count("\n") == 1


def test_closed_standard_output(tmp_path):
    done = shell("evener info path:num_vertices=3 >&-", tmp_path)
    assert "Traceback" not in done.stderr


def test_output_that_cannot_show_a_label(tmp_path):
    ev.Graph.from_edges([0], [1], labels=["a", "日本"]).save(tmp_path / "x.evg")
    done = shell("PYTHONIOENCODING=ascii evener info x.evg", tmp_path)
    assert done.returncode == 0
    assert "a to ??" in done.stdout


def test_warnings_are_one_line(run, monkeypatch):
    import warnings

    def warn(text):
        warnings.warn("odd\nthings", stacklevel=1)
        return ev.generate.path(2)

    monkeypatch.setattr("evener.graph.generate.from_spec", warn)
    code, _, err = run("info", "rmat:scale=4")
    assert (code, err) == (0, "evener: warning: odd things\n")


def test_progress_on_a_terminal():
    program = """
        from evener import progress
        progress._SHOW_AFTER_SECONDS = 0.0
        from evener.cli import main
        raise SystemExit(main(["info", "rmat:scale=17", "--json"]))
    """
    code, out, err = run_on_terminal(program)
    assert code == 0
    assert json.loads(out)["num_vertices"] == 1 << 17
    assert "R-MAT" in err
