"""The programs of the examples."""

import importlib
import sys

from evener.programs import Program
from places import EXAMPLES

NAMES = [
    "widest_path", "k_core", "k_hop", "few_stops", "personalised_heat", "path_counting",
    "gather_apply_scatter", "vertex_centric",
]  # fmt: skip


def module(name):
    """An example as a module."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


def programs():
    """The programs of all examples."""
    for name in NAMES:
        for found in vars(module(name)).values():
            if isinstance(found, type) and issubclass(found, Program) and found is not Program:
                yield found
