"""Programs that several tests run: those of the examples, and some that gather every way."""

import importlib
import sys
from pathlib import Path

import numpy as np
from numpy import int64

from evener.programs import Field, Program, functor
from evener.programs.gas import GasProgram

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = [
    "widest_path", "k_core", "k_hop", "personalised_heat", "path_counting",
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


def parameters_for(program, graph):
    n = graph.num_vertices
    ones = np.ones(n)
    known = {
        "source": 0, "found": np.zeros(n), "initial": ones * np.arange(n), "held": np.array([0]),
        "sources": np.arange(min(2, n)), "seeds": np.array([0]), "target": 5, "max_iterations": 3,
    }  # fmt: skip
    d = program.declaration
    asked = {*d.start_parameters, *d.params}
    return {name: value for name, value in known.items() if name in asked}


class Neighbours(GasProgram):
    """What comes in, goes out, or both, with weights."""

    total = Field(int64)
    max_supersteps = 1

    @functor
    def gather(src, dst, edge, s):
        return (s.id[src] + 1) * s.weight[edge] + 1000 * s.id[dst]

    @functor
    def apply(v, total, s):
        s.total[v] = total
        return True


class Outwards(Neighbours):
    along = "out"


class Around(Neighbours):
    along = "both"
