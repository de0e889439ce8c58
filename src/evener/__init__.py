"""Evener: graph analytics on every processor there is, from one program text.

>>> import evener as ev
>>> g = ev.generate.rmat(10, seed=1)
>>> g.num_vertices
1024
"""

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
from evener.versions import show_versions

__version__ = "0.1.0"

__all__ = [
    "DeviceError",
    "EvenerError",
    "Graph",
    "GraphError",
    "GraphFormatError",
    "MemoryBudgetError",
    "ProgramError",
    "generate",
    "load",
    "show_versions",
]
