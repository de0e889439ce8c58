"""The programs of the examples."""

import importlib
import sys

import pytest

from evener.programs import Program
from places import EXAMPLES

NAMES = [
    "widest_path", "k_core", "k_hop", "few_stops", "personalised_heat", "path_counting",
    "gather_apply_scatter", "vertex_centric",
]  # fmt: skip


def module(name):
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


def programs():
    for name in NAMES:
        for found in vars(module(name)).values():
            if isinstance(found, type) and issubclass(found, Program) and found is not Program:
                yield found


def programs_to_simulate():
    """Those of the examples; the ones with many iterations only in the long matrix."""
    return [
        pytest.param(p, marks=pytest.mark.slow) if p.__name__ == "Rank" else p for p in programs()
    ]
