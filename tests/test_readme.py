"""Everything in README and the tutorial runs, and says what they say that it says."""

import ast
import contextlib
import io
import re
import shlex
import shutil
import subprocess

import pytest

from evener.cli import main
from places import ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONG = {"warm", "plan"}  # compile all algorithms, or measure


def blocks(page="README.md"):
    """The blocks of code: what language, and the text."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder like a clone's, in which files may be written."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    return tmp_path


def shown_after(statement, lines):
    """The lines of comment below a statement: what it shows."""
    shown = []
    for line in lines[statement.end_lineno :]:
        if not line.startswith("# "):
            break
        shown.append(line[2:])
    return " ".join(shown)


def test_python(here):
    assert {language for language, _ in blocks()} == {"python", ""}
    assert run_python(here, "README.md") >= 4
    assert (here / "hops.csv").read_text().startswith("vertex,depth,parent\n")


def test_tutorial(here, capsys):
    assert run_python(here, "docs/tutorial.md") == 2
    assert capsys.readouterr().out == "a division by 0 at vertex 'e'.\n"


def run_python(here, page):
    """Run the blocks of a page; returns how many values were shown, and were those."""
    names = {"__name__": "__main__"}  # as in a script
    checked = 0
    for language, text in blocks(page):
        if language != "python":
            continue
        path = here / f"block_{checked}.py"  # a program's functors are read from their file
        path.write_text(text)
        for statement in ast.parse(text).body:
            shown = shown_after(statement, text.splitlines())
            if isinstance(statement, ast.Expr):
                code = compile(ast.Expression(statement.value), str(path), "eval")
                value = eval(code, names)
                if shown:
                    assert repr(value) == shown
                    checked += 1
            else:
                exec(compile(ast.Module([statement], []), str(path), "exec"), names)
    return checked


def commands():
    """The commands, each with the output that is shown, those of one block together."""
    for language, text in blocks():
        lines = text.splitlines()
        if language or lines[0].startswith("make "):
            continue
        found = []
        for line in lines:
            is_command = line.startswith(("$ ", "evener "))
            if is_command:
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
        yield found


def run(command):
    """What a command prints; those of ours run in this process, which compiles only once."""
    if not command.startswith("evener "):
        return subprocess.run(
            command, shell=True, capture_output=True, text=True, check=True
        ).stdout
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(shlex.split(command, comments=True)[1:])
    assert (code == 0) == ("error:" not in said.getvalue()), (command, said.getvalue())
    return said.getvalue()


def alike(shown, said):
    """Whether a line is as shown: numbers may be others, and a dot dot dot stands for anything."""

    def plain(line):
        line = line.removesuffix("fastest").strip()
        return re.sub(r"\s+", " ", re.sub(r"\d[\d.]*", "0", line))

    return re.fullmatch(re.escape(plain(shown)).replace("…", ".*"), plain(said))


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_commands(here, is_long):
    assert sum(map(len, commands())) >= 12
    for block in commands():
        for command, shown in block:
            if (command.split()[1] in LONG) != is_long:
                continue
            said = run(command).splitlines()
            for line, other in zip(shown, said, strict=False):
                assert alike(line, other), (command, line, other)
            assert len(said) >= len(shown), command
