"""Memory of a run: an estimate for each device, and limits that users set.

A single GPU has a more exact one, `evener.engine.memory.gpu.bytes_of_run`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evener.device import format_bytes, parse_bytes
from evener.engine.codegen.analysis import pulls
from evener.engine.job import field_dtype
from evener.engine.partition.stats import PartitionStats, measure_partition
from evener.errors import DeviceError, EvenerError, MemoryBudgetError
from evener.graph.csr import Graph
from evener.programs.program import Declaration
from evener.programs.stages import Advance, Gather, Repeat, walk


def estimate_memory(
    declaration: Declaration,
    graph: Graph,
    direction: str = "auto",
    parts: Any = None,
    *,
    transposing: bool = False,
) -> list[int]:
    """Estimate the bytes of each part: graph, fields, ghosts, frontiers, boxes.

    ``parts`` are the statistics of a partition; without them the run is on one device. Frontiers
    that grow on demand (recorded, of edges, in buckets) count as if they held every vertex or edge
    once. ``transposing`` includes making the transpose of a directed graph that is pulled, in the
    host's memory.

    Examples
    --------
    >>> from evener import generate
    >>> from evener.algorithms.bfs import BFS
    >>> from evener.engine.memory.estimate import estimate_memory
    >>> estimate_memory(BFS.declaration, generate.path(1000))
    [33371]
    """
    pulling = pulls(declaration, direction)
    building = graph._transposing_bytes() if transposing and pulling else 0
    if parts is None:
        parts = measure_whole(graph, pulling)
    alone = len(parts.vertices) == 1
    each_id, each_start = graph._indices.itemsize, graph._indptr.itemsize
    weight = 0
    if declaration.uses_weights and graph._weights is not None:
        weight = graph._weights.itemsize
    per_vertex, replicated, message = _field_bytes(declaration, graph)
    stages = list(walk(declaration.loop))
    held = parts.vertices + parts.ghosts
    lists = (parts.vertices + 1) * each_start + parts.edges * (each_id + weight)
    if pulling and graph.directed:
        lists = lists + (parts.vertices + 1) * each_start + parts.in_edges * (each_id + weight)
    tables = held * each_start  # degrees
    if not alone:
        tables = tables + held * each_id + parts.ghosts * each_id  # global ids, owners' numbers
    fields = held * per_vertex + graph.num_vertices * replicated
    # Two queues, a byte for deduplication, three sets of bits.
    frontiers = 2 * parts.vertices * each_id + held + 3 * held // 8
    frontiers = frontiers + 8 * parts.vertices * sum(isinstance(s, Gather) for s in stages)
    early = tables + fields + frontiers
    if any(isinstance(s, Repeat) and s.order is not None for s in stages):
        frontiers = frontiers + (parts.edges + parts.vertices) * each_id
    if declaration.replays:
        frontiers = frontiers + parts.vertices * each_id
    if any(isinstance(s, Advance) and s.emit == "edges" for s in stages):
        frontiers = frontiers + 3 * parts.edges * (each_id + 8)
    boxes = 2 * (parts.links.sum(axis=0) + parts.links.sum(axis=1)) * (each_id + message)
    needed = lists + tables + fields + frontiers + boxes
    if building:  # beside the graph with all its weights, and arrays of fixed size
        needed = np.maximum(needed, graph.nbytes + early + building)
    return [int(x) for x in needed]


def edge_bytes(declaration: Declaration, graph: Graph, direction: str = "auto") -> int:
    """Bytes of the arrays of edges in `estimate_memory` for one device.

    Examples
    --------
    >>> from evener import generate
    >>> from evener.algorithms.bfs import BFS
    >>> from evener.engine.memory.estimate import edge_bytes
    >>> path = generate.path(1000)
    >>> edge_bytes(BFS.declaration, path) == path.indices.nbytes
    True
    """
    weights = graph._weights if declaration.uses_weights else None
    nbytes = graph._indices.nbytes + (0 if weights is None else weights.nbytes)
    return nbytes * (2 if graph.directed and pulls(declaration, direction) else 1)


def measure_whole(graph: Graph, pulling: bool = False) -> PartitionStats:
    """The statistics of a graph in one part, without visiting its edges."""
    n, m = graph.num_vertices, graph.num_edges
    none = np.zeros(1, np.int64)
    in_edges = np.array([m if pulling and graph.directed else 0])
    return PartitionStats(np.array([n]), np.array([m]), none, none.reshape(1, 1), in_edges)


def _field_bytes(declaration: Declaration, graph: Graph) -> tuple[int, int, int]:
    """Bytes of fields per held vertex, per vertex of the graph, and per message."""
    per_vertex = replicated = 0
    for field in declaration.fields.values():
        size = field_dtype(field.dtype, graph).itemsize
        if field.replicated:
            replicated += size
        else:
            per_vertex += size
    return per_vertex, replicated, per_vertex


def parse_limits(limits: Any, devices: Sequence[str]) -> list[int | None]:
    """The limit of each device: one for all, one for each, or by name.

    Examples
    --------
    >>> from evener.engine.memory.estimate import parse_limits
    >>> parse_limits("1KiB", ["cpu", "cpu"])
    [1024, 1024]
    >>> parse_limits("cuda:0=2KiB", ["cpu", "cuda:0"])
    [None, 2048]
    """
    if limits is None:
        return [None] * len(devices)
    if isinstance(limits, str) and "=" in limits:
        pairs = [one.partition("=") for one in limits.split(",")]
        for name, equals, _ in pairs:
            if not equals:
                raise EvenerError(
                    f"memory_limit has {name!r} among limits by name; write it as DEVICE=4GiB."
                )
        limits = {name.strip(): limit for name, _, limit in pairs}
    if isinstance(limits, Mapping):
        for name in limits:
            if name not in devices:
                raise DeviceError(
                    f"memory_limit names {name!r}, but the devices are {', '.join(devices)}."
                )
        return [parse_bytes(limits[name]) if name in limits else None for name in devices]
    if isinstance(limits, list | tuple):
        if len(limits) != len(devices):
            raise EvenerError(
                f"memory_limit has {len(limits)} entries for {len(devices)} devices; give one for "
                "all or one for each."
            )
        return [None if one is None else parse_bytes(one) for one in limits]
    return [parse_bytes(limits)] * len(devices)


def require_within(
    name: str, needed: Sequence[int], limits: Sequence[int | None], devices: Sequence[str]
) -> list[int | None]:
    """Refuse a run that exceeds the limit of a device; returns what is left on each.

    Examples
    --------
    >>> from evener.engine.memory.estimate import require_within
    >>> require_within("BFS", [3000], [4096], ["cpu"])
    [1096]
    >>> require_within("BFS", [3000], [2048], ["cpu"])
    Traceback (most recent call last):
    evener.errors.MemoryBudgetError: BFS needs about 2.9 KiB (3,000 bytes) on cpu, and \
memory_limit allows 2.0 KiB (2,048 bytes); raise it, or use more devices.
    """
    for need, limit, device in zip(needed, limits, devices, strict=True):
        if limit is not None and need > limit:
            raise MemoryBudgetError(
                f"{name} needs about {format_bytes(need)} ({need:,} bytes) on {device}, and "
                f"memory_limit allows {format_bytes(limit)} ({limit:,} bytes); raise it, or use "
                "more devices."
            )
    return [
        None if limit is None else limit - need for need, limit in zip(needed, limits, strict=True)
    ]


def require_parts(
    declaration: Declaration,
    graph: Graph,
    part_of: np.ndarray,
    limits: Sequence[int | None],
    devices: Sequence[str],
    direction: str = "auto",
) -> list[int | None]:
    """Refuse a partition with a part that exceeds its device's limit; returns what is left."""
    if not any(limit is not None for limit in limits):
        return []
    parts = measure_partition(graph, part_of, len(devices), pulls=pulls(declaration, direction))
    needed = estimate_memory(declaration, graph, direction, parts)
    named = [f"{device} (part {p})" for p, device in enumerate(devices)]
    return require_within(declaration.name, needed, limits, named)
