"""Thousands of damaged files: each is refused in a sentence or is a sound graph that can be used.

They are loaded by processes of their own (`fuzz`), so that a crash or an endless loop is noticed.
Every file is decided by its number, so a failure repeats by it.
"""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import evener as ev
import fuzz

SECONDS = 60  # that one file may take, compiling included
MOST_FAULTS = 10


def campaign(folder, start, stop):
    """Load the files of these numbers; returns what was wrong, crashes and hangs included."""
    found = []
    while start < stop and len(found) < MOST_FAULTS:
        folder.mkdir(exist_ok=True)
        shutil.rmtree(folder / "damaged", ignore_errors=True)  # of a process that ended in it
        with (folder / "out").open("w") as out, (folder / "errors").open("w") as errors:
            words = [sys.executable, fuzz.__file__, folder, str(start), str(stop)]
            run = subprocess.Popen(words, stdout=out, stderr=errors)
            hung = watch(run, folder / "number")
        found += (folder / "out").read_text().splitlines()
        if run.returncode == 0:
            break
        number = int((folder / "number").read_text())
        last = (folder / "errors").read_text()[-500:]
        found.append(f"{number}: {'hangs' if hung else f'ends with {run.returncode}'}: {last}")
        start = number + 1
    return found


def watch(run, progress):
    """Wait for a process, and end it when it stays with one file."""
    last, since = "", time.monotonic()
    while run.poll() is None:
        time.sleep(0.05)
        now = progress.read_text() if progress.exists() else ""
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > SECONDS:
            run.kill()
            run.wait()
            return True
    return False


def test_damaged_files(tmp_path):
    assert campaign(tmp_path / "fuzz", 0, 300) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_twenty_thousand_damaged_files(part, tmp_path):
    assert campaign(tmp_path / "fuzz", 5000 * part, 5000 * (part + 1)) == []


def test_the_corpus_as_it_is(tmp_path):
    """Whole files load; those that are kept are refused, or taken, in a sentence each."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    fuzz.write_corpus(corpus)
    for number, folder in enumerate(sorted(corpus.iterdir())):
        path = min(folder.iterdir())
        assert fuzz.faults(path, number) is None, path.name
        if not folder.name.startswith("kept-"):
            assert ev.load(path).num_edges > 0, path.name


def test_rubbish(tmp_path):
    """Random bytes under every suffix."""
    suffixes = [
        ".el", ".csv", ".tsv", ".mtx", ".gr", ".graph", ".adjlist", ".parquet", ".graphml", ".gml",
        ".gexf", "", ".dat", ".txt.gz", ".txt.zst",
    ]  # fmt: skip
    for number in range(150):
        rng = random.Random(number)
        path = tmp_path / f"g{number}{rng.choice(suffixes)}"
        path.write_bytes(rng.randbytes(rng.randrange(1, 3000)))
        assert fuzz.faults(path, number) is None, number


def test_a_crash_and_a_hang_would_be_noticed(tmp_path, monkeypatch):
    """The campaign reports the number of a file that ends the process, and goes on behind it."""
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "for number in range(int(sys.argv[2]), int(sys.argv[3])):\n"
        "    Path(sys.argv[1], 'number').write_text(str(number))\n"
        "    if number == 2: os.kill(os.getpid(), 11)\n"
        "    if number == 4: time.sleep(600)\n"
        '    if number == 5: print(\'[5, "g.el", "unsound"]\')\n'
    )
    monkeypatch.setattr(fuzz, "__file__", str(script))
    monkeypatch.setattr(sys.modules[__name__], "SECONDS", 1)
    found = campaign(Path(tmp_path, "fuzz"), 0, 8)
    assert [line[:12] for line in found] == ["2: ends with", "4: hangs: ", '[5, "g.el", ']
