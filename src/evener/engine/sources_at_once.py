"""Runs from several sources at once, on copies of the graph.

With a small frontier a superstep takes a GPU the latency of its loads, whatever it does. Several
such frontiers at once cost little more than one. Large frontiers gain nothing, and the caches are
divided.
"""

from __future__ import annotations

import operator
from typing import Any

from evener.device.cuda import free_memory, on
from evener.engine.devices import choose_devices
from evener.engine.job import Job
from evener.errors import EvenerError, short_repr
from evener.graph.csr import Graph
from evener.programs.program import Program

MOST = 16
# The most vertices or arcs of all copies. Frontiers stay small for longer where lists are short.
SPARSE, SPARSE_SIZE, SIZE = 8, 1 << 26, 1 << 22
BYTES = 128  # per vertex or arc at most, with the arrays of a run


def sources_at_once(device: str, graph: Graph, sources: int) -> int:
    """How many sources to run at a time.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.engine.sources_at_once import sources_at_once
    >>> sources_at_once("cpu", ev.generate.path(9), 4)
    1
    """
    (only, *others), _ = choose_devices(device)
    size = max(1, graph.num_vertices, graph.num_edges)
    if not only.traits.is_card or others or sources < 2:
        return 1
    is_sparse = graph.num_edges <= SPARSE * graph.num_vertices
    with on(only.number or 0):
        room = min(SPARSE_SIZE if is_sparse else SIZE, free_memory() // BYTES)
    return max(1, min(MOST, sources, room // size))


def copies_for(
    program: type[Program], graph: Graph, most: Any, device: str, memory_limit: Any
) -> int:
    """The number of copies for ``sources_at_once=most``."""
    try:
        wanted = operator.index(most)
    except TypeError:
        wanted = 0
    if wanted < 1:
        raise EvenerError(
            f"sources_at_once is {short_repr(most)}; it must be a whole number of at least 1."
        )
    if wanted == 1 or memory_limit is not None:  # copies would need more memory
        return 1
    if program.declaration.uses_weights:  # copies have none
        return 1
    return sources_at_once(device, graph, wanted)


def merge_copies(job: Job, graph: Graph, count: int) -> None:
    """Reduce the fields of a job that ran on copies to those of one graph."""
    job.graph = graph
    for name, declared in job.declaration.fields.items():
        of_each = job.fields[name].reshape(count, -1)
        if declared.merge in ("sum", "min", "max"):
            job.fields[name] = getattr(of_each, declared.merge)(axis=0)
        else:
            job.fields[name] = of_each[0]
