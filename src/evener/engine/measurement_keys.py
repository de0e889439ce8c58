"""Keys of stored measurements: the machine, the program and the kind of graph."""

from __future__ import annotations

import hashlib
import platform

from evener.device import num_cores
from evener.device.probe import list_devices
from evener.engine.codegen.functors import fingerprints_of
from evener.graph.csr import Graph
from evener.programs.program import Declaration
from evener.versions import evener_version

_FORMAT = 6  # of the file of rates
_SKEWED = 16  # largest over mean degree, above which a graph is skewed
_LATTICE = 8  # the largest degree of a lattice


def this_machine() -> str:
    """An identifier of this machine and its devices."""
    devices = [(d.name, d.description, d.memory_bytes) for d in list_devices()]
    identity = repr((_FORMAT, platform.node(), num_cores(), devices, evener_version()))
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def code_of(d: Declaration) -> str:
    """A hash of what a program does, so that an edited one is measured again."""
    content = repr((tuple(d.functors), fingerprints_of(d), d.loop, d.fields, d.params, d.scalars))
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def kind_of_graph(graph: Graph) -> str:
    """``skewed`` (a few vertices have most edges), ``lattice`` (all have few) or ``even``."""
    _, mean, highest = graph.degree_spread()
    if highest > _SKEWED * max(mean, 1):
        return "skewed"
    return "lattice" if highest <= _LATTICE else "even"
