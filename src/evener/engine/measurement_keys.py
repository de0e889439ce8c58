"""What measurements are kept under: the machine, the program and the kind of graph."""

from __future__ import annotations

import hashlib
import platform

from evener.device import num_cores
from evener.device.probe import list_devices
from evener.engine.codegen.functors import texts_of
from evener.graph.csr import Graph
from evener.programs.program import Declaration
from evener.versions import evener_version

_FORMAT = 6  # of the file of rates
_SKEWED = 16  # times the mean degree that the largest is
_LATTICE = 8  # the largest degree of what counts as a lattice


def this_machine() -> str:
    """A name for this machine as programs see it."""
    devices = [(d.name, d.description, d.memory_bytes) for d in list_devices()]
    told = repr((_FORMAT, platform.node(), num_cores(), devices, evener_version()))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def code_of(d: Declaration) -> str:
    """A hash of what a program does, so that an edited one is measured anew."""
    told = repr((tuple(d.functors), texts_of(d), d.loop, d.fields, d.params, d.scalars))
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def kind_of_graph(graph: Graph) -> str:
    """Whether a few vertices have most edges, all have few, or neither."""
    _, mean, highest = graph.degree_spread()
    if highest > _SKEWED * max(mean, 1):
        return "skewed"
    return "lattice" if highest <= _LATTICE else "even"
