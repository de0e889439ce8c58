"""Evener: graph analytics on CPUs and GPUs from one program text.

>>> import evener as ev
>>> g = ev.generate.rmat(10, seed=1)
>>> g.num_vertices
1024
"""

import sys as _sys
from typing import Any as _Any

from evener import startup_signals  # noqa: F401 (first, so that it handles Ctrl-C from the start)

# isort: split
from evener import algorithms, errors
from evener.device import atomic
from evener.engine.lower import lower
from evener.engine.run import run
from evener.errors import (
    DeviceError,
    EvenerError,
    GraphError,
    GraphFormatError,
    MemoryBudgetError,
    ProgramError,
)
from evener.graph import generate
from evener.graph.csr import Graph
from evener.graph.files import load
from evener.programs import (
    DISTANCE,
    ID,
    REAL,
    VERTEX,
    WEIGHT,
    Field,
    Param,
    Program,
    Scalar,
    Vertex,
    functor,
    gas,
    stages,
    vertex,
)
from evener.versions import show_versions

__version__ = "0.1.0"

__all__ = [
    "DISTANCE",
    "ID",
    "REAL",
    "VERTEX",
    "WEIGHT",
    "DeviceError",
    "EvenerError",
    "Field",
    "Graph",
    "GraphError",
    "GraphFormatError",
    "MemoryBudgetError",
    "Param",
    "Program",
    "ProgramError",
    "Scalar",
    "Vertex",
    "atomic",
    "functor",
    "gas",
    "generate",
    "load",
    "lower",
    "run",
    "show_versions",
    "stages",
    "vertex",
    *algorithms.__all__,
]

# Public names of modules, for `import evener.stages` and the like.
_sys.modules.update(
    {
        f"{__name__}.{module.__name__.rpartition('.')[2]}": module
        for module in (atomic, gas, generate, stages, vertex)
    }
)


def __getattr__(name: str) -> _Any:
    """Import an algorithm on first use."""
    if name in algorithms.__all__:
        return getattr(algorithms, name)
    near = "" if name.startswith("_") else errors.did_you_mean(name, __all__)
    raise errors.MissingNameError(f"module 'evener' has no attribute {name!r}{near}")


def __dir__() -> list[str]:
    """The public names; subpackages such as ``evener.graph`` work but are not listed."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
