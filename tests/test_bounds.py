"""Every kernel of the CPU once with bounds checks, those of atomics included.

Numba checks them where ``NUMBA_BOUNDSCHECK`` is set when a process starts, so these tests run others
in processes of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes import python

TESTS = Path(__file__).parent
GROUPS = {
    "graphs and files": [
        "test_build.py", "test_files_roundtrip.py", "test_generate.py", "test_partitioners.py",
        "test_partition_stats.py", "test_look.py", "test_graph.py",
    ],
    "one CPU": ["test_native.py", "test_native_loops.py", "test_example_programs.py"],
    "algorithms": ["test_matrix.py::test_sample"],
    "parts": ["test_parts.py", "test_parts_shared.py"],
    "sets": ["test_device_sets.py::test_sets"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_within_bounds(group):
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow",
         *GROUPS[group]],
        cwd=TESTS, env={**os.environ, "NUMBA_BOUNDSCHECK": "1"}, capture_output=True, text=True,
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
