"""A mistake shows the user's own lines; all of them with EVENER_DEBUG, and to whoever looks inside."""

import os
import subprocess
import sys
import traceback
from types import SimpleNamespace

import pytest

import evener as ev
from evener.tracebacks import shortened

SCRIPT = """\
import sys
import evener as ev
assert sys.excepthook is sys.__excepthook__  # importing changes nothing
{before}
def search(graph):
    return ev.bfs(graph, 7, device="python")

search(ev.generate.path(3))
"""


def output_of(tmp_path, before="", **environment):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(before=before))
    command = [sys.executable, str(script)]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    return done.stderr


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.delenv("EVENER_DEBUG", raising=False)


def names(tb):
    return [frame.name for frame in traceback.extract_tb(tb)]


def fail():
    ev.bfs(ev.generate.path(3), 7, device="python")


def caught(function):
    with pytest.raises(ev.EvenerError) as info:
        function()
    return info.value


def test_a_script_shows_its_own_lines_only(tmp_path):
    said = output_of(tmp_path)
    assert said.count("  File ") == said.count('script.py", line') == 2
    assert said.endswith("GraphError: vertex 7 is not in the graph, whose labels are 0..2.\n")
    assert "labels.py" in output_of(tmp_path, EVENER_DEBUG="1")
    other = "sys.excepthook = lambda kind, error, tb: sys.exit(print('mine', file=sys.stderr) or 1)"
    assert output_of(tmp_path, other) == "mine\n"  # who prints errors in another way goes on


def test_other_errors_are_printed_as_ever(tmp_path):
    said = output_of(tmp_path, "try:\n    search\nexcept NameError:\n    ev.EvenerError()\n1 / 0")
    assert said.endswith(
        "line 8, in <module>\n    1 / 0\n    ~~^~~\nZeroDivisionError: division by zero\n"
    )


def test_notebooks(monkeypatch):
    error = caught(fail)
    shown = "".join(error._render_traceback_())
    assert "in fail" in shown
    assert "labels.py" not in shown
    assert "_find" in names(error.__traceback__)  # for debuggers it is all there

    def structured(kind, value, tb):
        return [kind.__name__, str(value), *names(tb)]

    shell = SimpleNamespace(InteractiveTB=SimpleNamespace(structured_traceback=structured))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    said = error._render_traceback_()
    assert said == ["GraphError", str(error), "caught", "fail"]
    monkeypatch.setenv("EVENER_DEBUG", "1")
    assert "_find" in error._render_traceback_()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert "labels.py" in "".join(error._render_traceback_())


@pytest.mark.parametrize("name", ["ev.components", "found.dept"])
def test_missing_names_are_told_as_shortly(name):
    found = ev.bfs(ev.generate.path(3), 0, device="python")
    error = caught(lambda: eval(name, {"ev": ev, "found": found}))
    assert isinstance(error, AttributeError)
    assert "__getattr__" in names(error.__traceback__)
    assert "__getattr__" not in "".join(error._render_traceback_())
    assert "did you mean" in str(error)


def test_causes_are_shortened_too():
    class Divides(ev.Program):
        x = ev.Field("int64")

        @ev.functor
        def divide(v, s):
            s.x[v] = 1 // 0

        loop = ev.stages.compute(divide)

    error = caught(lambda: ev.run(Divides, ev.generate.path(3), device="python"))
    shown = "".join(error._render_traceback_())
    assert "in divide" in shown
    assert "interpret" not in shown
    assert names(error.__cause__.__traceback__) == ["call", "divide"]


def test_functions_of_the_users_that_we_called_stay():
    def halves(graph, shares):
        return graph.index_of("nobody")

    def call():
        ev.bfs(ev.generate.path(3), 0, device="python+python", partition=halves)

    kept = names(shortened(caught(call).__traceback__))
    assert kept[-2:] == ["call", "halves"]
    assert shortened(None) is None
