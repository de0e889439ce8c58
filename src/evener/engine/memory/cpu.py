"""The arrays of a team of threads, made for a run and reused by the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from evener.device.tuples import named
from evener.engine.codegen.arguments import CpuArguments, CpuFrontiers, GraphArrays
from evener.engine.codegen.functors import unsigned
from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job, field_dtype
from evener.engine.memory.growable import (
    Capacity,
    bucket_bytes,
    joined_once,
    new_buckets,
    new_edge_fronts,
    new_info,
    new_record,
    new_waiting,
    room,
)
from evener.engine.results.trace import MOST_ROWS
from evener.operators.cpu.frontier import BUFFER, EDGES, FORM, NUMBER, SIZE
from evener.operators.cpu.gather import num_chunks
from evener.operators.cpu.vertices import partial_words
from evener.operators.shared.frontier import ALL, Adjacency, Frontier

Lists = tuple[np.ndarray, ...]  # row starts, neighbours, weights


class Region(NamedTuple):
    """The vertices of a team (of a graph, or of a part) and their arcs."""

    owned: int
    arcs: int
    graph: GraphArrays
    ghosts: int = 0  # of all parts


def graph_arrays(
    job: Job, kernel: Kernel, owner: Any, number: int, out: Lists, into: Lists, degree: Any,
    ids: Any,
) -> GraphArrays:  # fmt: skip
    """The graph arguments of a kernel; joined lists are kept with their owner."""
    rows, columns = (_as_read(job, lists) for lists in (out, into))
    goes_both_ways = any(one.stage.along == "both" for one in kernel.plan.gathers)
    both = columns
    if job.graph.directed and goes_both_ways:  # one kernel serves undirected graphs too
        both = joined_once(owner, number, columns, rows)
    sides = [
        (Adjacency(starts, indices), weights) for starts, indices, weights in (rows, columns, both)
    ]
    return GraphArrays(*sides[0], *sides[1], *sides[2], degree, ids)


def _as_read(job: Job, lists: Lists) -> Lists:
    """Lists with unsigned numbers, and without weights if a program reads none."""
    weights = lists[2] if job.declaration.uses_weights else np.empty(0, np.int32)
    return unsigned(lists[0]), unsigned(lists[1]), weights


def cpu_arguments(
    job: Job,
    kernel: Kernel,
    region: Region,
    threads: int,
    rooms: Capacity,
    fields: dict[str, np.ndarray],
    copies: dict[str, np.ndarray],
    marks: np.ndarray,
    again: Callable[[str, Callable[[], Any]], Any] = lambda name, make: make(),
) -> CpuArguments:
    """The arguments of a team's kernel, not yet cleared for a run (`begin`).

    ``again(name, make)`` may return the arrays of an earlier run instead of making new ones.
    """
    plan, graph, d = kernel.plan, job.graph, job.declaration
    n, ids = region.owned, unsigned(graph._indices).dtype
    queue = threads * n if plan.is_inexact else n  # each thread may add a vertex once

    def of_scalars(length: int) -> dict[str, np.ndarray]:
        return {
            name: np.zeros(length, field_dtype(scalar.dtype, graph))
            for name, scalar in d.scalars.items()
        }

    sums = of_scalars(num_chunks(n) if plan.summed else 0)
    ordered_threads = threads if plan.fuses else 0
    return CpuArguments(
        region.graph,
        named("Fields", fields),
        named("Params", job.params),
        _fronts(n, ids, queue, plan.replays, again),
        marks,
        np.empty((threads, BUFFER), ids),
        np.zeros(8 * threads, np.uint8),
        named("Partials", of_scalars(partial_words(threads))),
        tuple(
            np.empty(n if stored else 0, dtype)
            for stored, dtype in zip(plan.stores_totals, kernel.totals, strict=True)
        ),
        named("Copies", copies),
        named("Sums", {name: sums[name] for name in plan.summed}),
        again("ordered", lambda: new_buckets(
            n, region.arcs + region.ghosts, graph.degrees, ids, ordered_threads, rooms.bucketed
        )),
        again("record", lambda: new_record(
            ids, plan.replays, plan.has_edges, rooms.recorded, fixed=job.preallocation.fixed
        )),
        new_edge_fronts(region.arcs, ids, threads, plan.has_edges),
        new_waiting(n, ids, threads, plan.orders),
        again("trace", lambda: np.zeros((MOST_ROWS + 1, 5 + threads), np.int64)),
    )  # fmt: skip


def _fronts(
    n: int, ids: np.dtype, queue: int, replays: bool, again: Callable[..., Any]
) -> CpuFrontiers:
    lengths = (queue, queue, queue if replays else 0)
    queues = again("queues", lambda: tuple(room(length, ids) for length in lengths))
    words = (n + 63) // 64

    def bits(wanted: bool = True) -> np.ndarray:
        return np.zeros(words if wanted else 0, np.uint64)

    return CpuFrontiers(
        Frontier(queues[0], bits(), new_info(1)),
        Frontier(queues[1], bits(), new_info(2)),
        Frontier(queues[0], bits(), new_info(0)),
        Frontier(queues[2], bits(replays), new_info(3)),
        bits(replays),
        new_info(0),
    )


def begin(
    arguments: CpuArguments, region: Region, members: np.ndarray | None, arcs: int
) -> CpuArguments:
    """Clear what a run expects to be empty, and set its first frontier: None for all vertices."""
    fronts, ordered = arguments.fronts, arguments.ordered
    for array in (
        arguments.marks, arguments.flags, *arguments.partials, arguments.trace[0], ordered.words,
        ordered.pools.top, fronts.replay_info,
    ):  # fmt: skip
        array.fill(0)
    current, following, everyone, spare = fronts[:4]
    waiting = [front for room in arguments.waiting for front in (room.mine, room.later)]
    for frontier in (current, following, everyone, spare, *arguments.edge_fronts[:3], *waiting):
        number = frontier.info[NUMBER]
        frontier.info.fill(0)
        frontier.info[NUMBER] = number
    for one in arguments.waiting:
        one.near.fill(0)
    everyone.info[[SIZE, FORM, EDGES]] = region.owned, ALL, region.arcs
    if members is None:
        current.info[[SIZE, FORM, EDGES]] = region.owned, ALL, region.arcs
    else:
        current.queue[: len(members)] = members
        current.info[[SIZE, EDGES]] = len(members), arcs
    return arguments


def fixed_bytes(arguments: CpuArguments) -> int:
    """Bytes of the arrays of a run, but for growable ones."""
    n = arguments.marks.size
    # The lists of an undirected graph occur twice, and so does one of the queues.
    held = {a.ctypes.data: a.nbytes for a in _arrays((arguments.graph, arguments.fields))}
    fronts = {a.ctypes.data: min(a.size, n) * a.itemsize for a in _arrays(arguments.fronts)}
    others = _arrays((
        arguments.marks, arguments.totals, arguments.copies, arguments.sums, arguments.edge_fronts,
        arguments.waiting,
    ))  # fmt: skip
    return sum(held.values()) + sum(fronts.values()) + sum(a.nbytes for a in others)


def grown_bytes(arguments: CpuArguments, recorded: int) -> int:
    """Bytes that a run wrote at most in growable arrays."""
    record = arguments.kept
    entry = record.queue.itemsize + (record.edge.itemsize if record.edge.size else 0)
    return recorded * entry + bucket_bytes(arguments.ordered, arguments.marks.size)


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _arrays(item)
