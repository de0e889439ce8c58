"""Tests that need an NVIDIA GPU; the others' helpers are a folder up."""

import sys
from pathlib import Path

import pytest

from evener.device import cuda

collect_ignore = ["sanitize.py"]  # a script

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


def pytest_collection_modifyitems(items):
    reason = cuda.why_not()
    for item in items:
        if reason and Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.skip(reason=reason))
