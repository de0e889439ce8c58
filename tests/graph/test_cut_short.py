"""Mapped files that another program cuts short: the call that meets it raises, nothing crashes."""

import shutil
import signal

import pytest

import evener as ev
from processes import ended_by, python

CUT = """
import os
from pathlib import Path
import numpy as np
import evener as ev

for path, size in {cuts}:
    g = ev.load(path)
    (file,) = Path(path).glob("indices.*")
    os.truncate(file, size)
    try:
        {use}
    except ev.GraphFormatError as error:
        print(error)
"""


@pytest.mark.parametrize(
    "use",
    [
        "ev.bfs(g, 0)",
        "ev.bfs(g, 0, device='python')",
        "g.transpose()",
        "print(g.indices.sum(), [0 for _ in range(10**6)])",
    ],
)
def test_a_file_that_is_cut_short_while_it_is_mapped(use, tmp_path):
    path = tmp_path / "g.evg"
    ev.generate.rmat(12, seed=1, directed=True).save(path)
    cuts = [(str(tmp_path / f"{size}.evg"), size) for size in (0, 70_000)]
    for copy, _ in cuts:
        shutil.copytree(path, copy)
    printed = python(CUT.format(cuts=cuts, use=use))
    assert printed.count("was cut short by another program while it was in use") == 2


def test_a_file_that_is_cut_within_a_page(tmp_path):
    path = tmp_path / "g.evg"
    ev.generate.path(100).save(path)
    printed = python(CUT.format(cuts=[(str(path), 100)], use="ev.bfs(g, 0)"))
    assert "was cut short by another program" in printed


def test_a_foreign_bus_error_is_as_before(tmp_path):
    """The handler is for our files only: any other fault ends the process, as it did."""
    (tmp_path / "g.el").write_text("0 1\n")
    (tmp_path / "other").write_bytes(b"x" * 9000)
    script = f"""
import mmap, os
import evener as ev
ev.load("{tmp_path / "g.el"}")
with open("{tmp_path / "other"}", "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
os.truncate("{tmp_path / "other"}", 0)
mapped[5000]
"""
    assert ended_by(script) == signal.SIGBUS
