"""Saving that is killed: what is there is the old graph or the new one, whole."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import evener as ev

SAVE = """
import itertools, sys
import evener as ev
graphs = [ev.generate.rmat(11, seed=seed, directed=bool(seed % 2)) for seed in (1, 2)]
print("ready", flush=True)
for number in itertools.count():
    graphs[number % 2].save(sys.argv[1])
"""
SUFFIXES = (".evg", ".el", ".parquet", ".csv.gz", ".e")


def kills(folder, rounds, seed):
    """Kill a process that saves without end, ``rounds`` times; after each there is a whole graph."""
    rng = random.Random(seed)
    graphs = [ev.generate.rmat(11, seed=seed, directed=bool(seed % 2)) for seed in (1, 2)]
    for number in range(rounds):
        path = folder / f"g{SUFFIXES[number % len(SUFFIXES)]}"
        graphs[0].save(path)
        run = subprocess.Popen(
            [sys.executable, "-c", SAVE, path], stdout=subprocess.PIPE, start_new_session=True
        )
        run.stdout.readline()
        time.sleep(rng.random() * 0.3)
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        run.stdout.close()
        assert run.returncode == -signal.SIGKILL
        # The three files of one suffix cannot change at once, but that they did not is noticed.
        allowed = ev.GraphFormatError if path.suffix == ".e" else ()
        with contextlib.suppress(allowed):
            found = ev.load(path)
            assert any(same(found, graph) for graph in graphs), path
        graphs[1].save(path)  # and nothing that is left over is in the way
        assert same(ev.load(path), graphs[1])


def same(a, b):
    return (
        a.directed == b.directed
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
    )


def test_a_few_kills_while_saving(tmp_path):
    kills(tmp_path, 2, seed=0)


@pytest.mark.slow
def test_fifty_kills_while_saving(tmp_path):
    kills(tmp_path, 50, seed=1)


def test_files_of_two_graphs_are_noticed(tmp_path):
    """What a kill between two renames leaves of a Graphalytics graph."""
    ev.generate.path(5).save(tmp_path / "g.e")
    ev.generate.path(6).save(tmp_path / "h.e")
    for suffix in (".v", ".e"):
        os.replace(tmp_path / f"h{suffix}", tmp_path / f"g{suffix}")
        with pytest.raises(ev.GraphFormatError, match="but g.properties declares"):
            ev.load(tmp_path / "g.e")
