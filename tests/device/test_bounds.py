"""Every kernel of the CPU once with bounds checks, those of atomics included.

Numba checks them where ``NUMBA_BOUNDSCHECK`` is set when a process starts, so these tests run others
in processes of their own.
"""

import os
import subprocess
import sys

import pytest

from places import ROOT
from processes import python

GROUPS = {
    "graphs and files": [
        "graph/test_build.py", "graph/test_files_roundtrip.py", "graph/test_generate.py",
        "engine/test_partitioners.py", "engine/test_partition_stats.py", "graph/test_look.py",
        "graph/test_graph.py",
    ],
    "one CPU": [
        "operators/test_cpu.py", "operators/test_cpu_loops.py",
        "algorithms/test_example_programs.py",
    ],
    "algorithms": ["algorithms/test_matrix.py::test_sample"],
    "parts": ["operators/test_parts_cpu.py", "operators/test_parts_shared.py"],
    "sets": ["operators/test_device_sets.py::test_sets"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_within_bounds(group):
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow",
         *GROUPS[group]],
        cwd=ROOT / "tests", env={**os.environ, "NUMBA_BOUNDSCHECK": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-5000:]


BEYOND = """
import numpy as np
from evener.device import atomic, compiled

@compiled(allocates=False)
def add(array, index):
    return atomic.add(array, index, 1)

@compiled(allocates=False)
def replace(array, index):
    return atomic.cas(array, index, 0, 1)

for function in (add, replace):
    for index in (3, 4, -1):
        try:
            print(function(np.zeros(4, np.int64), index))
        except IndexError:
            print("beyond")
"""


def test_atomics_are_checked_too():
    assert python(BEYOND, NUMBA_BOUNDSCHECK="1").split() == ["0", "beyond", "beyond"] * 2
