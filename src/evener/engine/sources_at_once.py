"""Runs from different sources that go side by side, on copies of the graph.

A superstep of a small frontier costs a GPU the same whatever it does: it is the time in which
loads wait for each other. Several frontiers at once then cost little more than one. Where
frontiers become large, nothing is won, and what lies in the caches is divided.
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
# The most vertices or arcs of all copies. Lists are short where frontiers stay small for long.
SPARSE, SPARSE_SIZE, SIZE = 8, 1 << 26, 1 << 22
BYTES = 128  # for each of them, at most, with what a run keeps


def sources_at_once(device: str, graph: Graph, sources: int) -> int:
    """How many of the sources to take at a time.

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
    """The number of copies for a run that was given ``sources_at_once=most``."""
    try:
        wanted = operator.index(most)
    except TypeError:
        wanted = 0
    if wanted < 1:
        raise EvenerError(
            f"sources_at_once is {short_repr(most)}; it must be a whole number of at least 1."
        )
    if wanted == 1 or memory_limit is not None:  # copies would take more
        return 1
    if program.declaration.uses_weights:  # which copies do not have
        return 1
    return sources_at_once(device, graph, wanted)


def merge_copies(job: Job, graph: Graph, count: int) -> None:
    """Make the fields of a job those of one graph, once it has run on copies."""
    job.graph = graph
    for name, declared in job.declaration.fields.items():
        of_each = job.fields[name].reshape(count, -1)
        if declared.merge in ("sum", "min", "max"):
            job.fields[name] = getattr(of_each, declared.merge)(axis=0)
        else:
            job.fields[name] = of_each[0]
