"""The reference of a run over partitions: slow, complete, and all in plain Python.

The stages of a part may also be compiled, one by one (`evener.engine.reference.compiled_stage`);
what happens between stages stays the same.

A part owns vertices and their out-edges, and their in-edges if a stage pulls. Its vertices have
local numbers ``0..owned-1``, followed by a *ghost* for each neighbour that another part owns. A
stage on a part writes to ghosts as if they were its own; `evener.engine.reference.exchange` merges
what it wrote.

Neighbour lists keep the order of the graph, so that ``edges(neighbours=…)`` takes the same slice
and sums run in the same order as on one device. A ghost that a functor emits joins the frontier at
its owner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evener.engine.codegen.analysis import exchanges_of
from evener.engine.devices import require_together
from evener.engine.job import Job
from evener.engine.memory.estimate import require_parts
from evener.engine.partition.partitioners import partition as assign
from evener.engine.reference.exchange import Exchange, Fields, Holding, Local, Replicated
from evener.engine.reference.loop import Frontiers, Loop
from evener.engine.reference.numbers import widened, widened_all
from evener.engine.reference.stages import Adjacency, Outcome, Part, State
from evener.engine.results.trace import bytes_of
from evener.graph.csr import Graph
from evener.operators.shared.policies import Policy, policy_of
from evener.programs.stages import Advance, Gather, Stage, walk


def run_partitioned(
    job: Job,
    k: int,
    partition: Any = "auto",
    direction: str = "auto",
    shares: Sequence[float] | None = None,
    limits: Sequence[int | None] = (),
    threads: Sequence[int] = (),
    policy: Policy | None = None,
) -> list[str]:
    """Run a job over k parts in step; returns the lines for `explain()`.

    Parts have equal ``shares`` by default, and memory limits if there are ``limits``. Those with
    ``threads`` above 0 are compiled, the others interpreted. The ``policy`` determines the form in
    which values would be sent, hence the bytes.

    Examples
    --------
    >>> from evener.algorithms.bfs import BFS
    >>> from evener.engine.job import set_up
    >>> from evener.engine.reference.parts import run_partitioned
    >>> from evener.graph.csr import Graph
    >>> job = set_up(BFS, Graph.from_edges([0, 1], [1, 2]), {"source": 0})
    >>> run_partitioned(job, 2, "static")
    ['Partition: static, 2 parts with 2 + 1 vertices and 1 + 1 ghosts.']
    >>> job.fields["depth"].tolist()
    [0, 1, 2]
    """
    name = partition if isinstance(partition, str) else getattr(partition, "__name__", "given")
    threads = threads or [0] * k
    cpu = next((p for p, count in enumerate(threads) if count), 0)  # which gets the share alpha
    part_of = assign(job.graph, partition, [1 / k] * k if shares is None else shares, cpu=cpu)
    if any(threads):
        require_together([count for count in threads if count])
        job.stats["compile_seconds"] = 0.0
    if limits:
        devices = job.names_of([f"cpu:{count}" if count else "python" for count in threads])
        require_parts(job.declaration, job.graph, part_of, limits, devices, direction)
    machine = Partitions(job, part_of, direction, threads, policy or policy_of("refined"))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        Loop(job, machine).run()
    owned = [holding.owned for holding in machine.holdings]
    ghosts = [len(holding.globals) - holding.owned for holding in machine.holdings]
    exchange = machine.exchange
    traffic = exchange.traffic.sum(axis=0).tolist()
    job.stats.update(
        owned=owned, ghosts=ghosts, exchanged=exchange.values, threads=list(threads),
        **dict(zip(("bytes_sent", "bytes_useful", "bytes_of_all"), traffic, strict=True)),
    )  # fmt: skip
    reasons = [
        f"Partition: {'random' if name == 'auto' else name}, {k} parts with "
        f"{' + '.join(map(str, owned))} vertices and {' + '.join(map(str, ghosts))} ghosts."
    ]
    if any(threads):
        how = [f"compiled, threads: {count}" if count else "interpreted" for count in threads]
        reasons.append(f"Stage by stage: {'; '.join(how)}.")
    return reasons


class Partitions:
    """The parts of a graph, for `Loop` to drive in step."""

    def __init__(
        self, job: Job, part_of: np.ndarray, direction: str, threads: Sequence[int], policy: Policy
    ):
        self.job, self.direction, self.part_of = job, direction, part_of
        self.local_of = np.empty(job.graph.num_vertices, np.int64)  # at the owner
        self.holdings, self.parts = [], []
        pulled = direction == "pull" or any(
            isinstance(stage, Gather) for stage in walk(job.declaration.loop)
        )
        for p, count in enumerate(threads):
            owned = np.flatnonzero(part_of == p)
            self.local_of[owned] = np.arange(len(owned))
            holding, part = _make_part(job, owned, part_of, p, pulled, count)
            self.holdings.append(holding)
            self.parts.append(part)
        self.exchange = Exchange(
            job.declaration, self.holdings, part_of, self.local_of, policy.methods
        )
        self.spent = [0.0] * len(self.parts)  # seconds of the last stage
        self.traced = self.exchange.traffic.copy()  # bytes that rows of the trace include

    def start(self, frontier: np.ndarray | None) -> Frontiers:
        """The first frontier, each vertex at its owner."""
        if frontier is None:
            return [part.vertices for part in self.parts]
        return self.at_owners(frontier.tolist())

    def pulls(self, stage: Stage) -> bool:
        """Whether a stage runs along the in-edges."""
        return isinstance(stage, Gather) or (
            isinstance(stage, Advance) and stage.emit == "vertices" and self.direction == "pull"
        )

    def run(self, stage: Stage, frontiers: Frontiers) -> list[Outcome]:
        """Run one stage on every part, between the exchanges that it needs."""
        pull = self.pulls(stage)
        plan = exchanges_of(self.exchange.d, stage, pull)
        before = self.exchange.before(plan)
        if pull and isinstance(stage, Advance):
            frontiers = self.with_ghosts(frontiers)
        outcomes = []
        for p, (part, frontier) in enumerate(zip(self.parts, frontiers, strict=True)):
            began = time.perf_counter()
            outcomes.append(part.run(stage, frontier, pull))
            self.spent[p] = time.perf_counter() - began
        self.exchange.after(plan, before)
        if isinstance(stage, Advance) and stage.emit == "vertices":
            emitted = [outcome.frontier or [] for outcome in outcomes]
            for outcome, mine in zip(outcomes, self.delivered(emitted), strict=True):
                outcome.frontier = mine
        return outcomes

    def open_row(self, row: dict[str, Any], frontiers: Frontiers) -> dict[str, Any]:
        """A row of the trace with figures for each part; see `rows_of_parts`."""
        k = len(self.parts)
        return {
            **row,
            "compute_seconds": [0.0] * k,
            "communication_seconds": [0.0] * k,
            "device_frontier": [len(frontier) for frontier in frontiers],
            "device_edges": [0] * k,
            "traffic": np.zeros((k, 3), np.int64),
        }

    def note(self, row: dict[str, Any], seconds: float, outcomes: list[Outcome]) -> None:
        """Add a stage to a row. Parts take turns, so the others wait while one computes."""
        received = self.exchange.traffic - self.traced
        self.traced = self.exchange.traffic.copy()
        if "traffic" not in row:  # a stage outside of any loop
            return
        row["traffic"] += received
        for p, outcome in enumerate(outcomes):
            row["device_edges"][p] += outcome.calls
            row["compute_seconds"][p] += self.spent[p]
            row["communication_seconds"][p] += seconds - self.spent[p]

    def close_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with the bytes of its stages."""
        traffic = row.pop("traffic")
        return {**row, **bytes_of(traffic)}

    def targets(self, frontiers: Frontiers) -> Frontiers:
        """The set of ``dst`` of a frontier of edges, each at its owner."""
        return self.delivered([[dst for _, dst, _ in frontier] for frontier in frontiers])

    def delivered(self, emitted: Frontiers) -> Frontiers:
        """The vertices that the parts emitted, ghosts included, each at its owner."""
        emitted_anywhere = {
            holding.globals[v]
            for holding, mine in zip(self.holdings, emitted, strict=True)
            for v in mine
        }
        return self.at_owners(sorted(emitted_anywhere))

    def at_owners(self, vertices: list[int]) -> Frontiers:
        """Vertices of the graph, in ascending order, as local numbers of their owners."""
        frontiers: Frontiers = [[] for _ in self.parts]
        for v in vertices:
            p = self.part_of[v]
            frontiers[p].append(self.parts[p].vertices[self.local_of[v]])
        return frontiers

    def with_ghosts(self, frontiers: Frontiers) -> Frontiers:
        """The frontiers with the ghosts of their members, for pulls."""
        members = {
            holding.globals[v]
            for holding, mine in zip(self.holdings, frontiers, strict=True)
            for v in mine
        }
        return [
            [Local(v) for v, index in enumerate(holding.globals) if index in members]
            for holding in self.holdings
        ]

    def finish(self) -> None:
        """Collect the fields of all owners."""
        for name, declared in self.job.declaration.fields.items():
            whole = self.job.fields[name]
            for holding in self.holdings:
                mine = holding.fields[name]
                if declared.replicated:
                    whole[:] = mine
                else:
                    whole[holding.globals[: holding.owned]] = mine[: holding.owned]


def _make_part(
    job: Job, owned: np.ndarray, part_of: np.ndarray, p: int, pulled: bool, threads: int
) -> tuple[Holding, Part]:
    """One part: local numbers, neighbour lists, fields, and the state over them."""
    graph = job.graph
    sides = [graph, graph.transpose()] if pulled else [graph]
    seen = [side.indices[_edges_of(side, owned)] for side in sides]
    neighbours = np.unique(np.concatenate(seen))
    ghosts = neighbours[part_of[neighbours] != p]
    held = np.concatenate([owned, ghosts]).astype(np.int64)
    fields: Fields = {
        name: job.fields[name].copy() if declared.replicated else job.fields[name][held]
        for name, declared in job.declaration.fields.items()
    }
    holding = Holding(held.tolist(), len(owned), fields)
    offered = {
        name: Replicated(widened(array), holding.globals)
        if job.declaration.fields[name].replicated
        else widened(array)
        for name, array in fields.items()
    }
    degree = graph.degrees[held]
    degree = degree if threads else widened(degree)
    state = State(
        **offered, **widened_all(job.params), id=held, degree=degree,
        num_vertices=np.int64(graph.num_vertices),
    )  # fmt: skip
    lists = [_local_lists(side, owned, held) for side in sides]
    into: Callable[[], Adjacency] = lambda: lists[-1]  # noqa: E731
    vertices = [Local(v) for v in range(len(owned))]
    arguments = (job.declaration, state, vertices, lists[0], into, graph.directed)
    if threads == 0:
        return holding, Part(*arguments)
    from evener.engine.reference.compiled_stage import CompiledPart

    return holding, CompiledPart(*arguments, job=job, holding=holding, number=p, threads=threads)


def _edges_of(graph: Graph, owned: np.ndarray) -> np.ndarray:
    """The edges of some vertices, in the order of the graph."""
    if len(owned) == 0:
        return np.empty(0, np.int64)
    return np.concatenate([np.arange(graph.indptr[v], graph.indptr[v + 1]) for v in owned])


def _local_lists(graph: Graph, owned: np.ndarray, held: np.ndarray) -> Adjacency:
    """The neighbour lists of the owned vertices, in local numbers."""
    local = {index: Local(v) for v, index in enumerate(held.tolist())}
    edges = _edges_of(graph, owned)
    indptr = np.concatenate([[0], np.cumsum(graph.degrees[owned])]).astype(np.int64).tolist()
    weights = None if graph.weights is None else graph.weights[edges]
    return Adjacency(indptr, [local[v] for v in graph.indices[edges].tolist()], weights)
