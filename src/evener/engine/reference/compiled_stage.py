"""A compiled part among interpreted ones: a kernel for each stage, called stage by stage.

Sets such as ``cpu+python`` are for debugging. The loop and the exchanges are those of the reference
(`evener.engine.reference.parts`), so that one part can be interpreted, with ``breakpoint()`` in a
functor, while another runs the same stage as the ``cpu`` does: with the same operators,
functors and threads.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from evener import progress
from evener.device import compiled, interrupts
from evener.device.compile import Compiled
from evener.device.once import once
from evener.device.sync import new_sync
from evener.device.team import run_together
from evener.engine.codegen.functors import (
    check_functors,
    compile_kernel,
    functors_of,
    kernel_key,
    name_totals,
    state_of,
    told_as_mistakes,
    unsigned,
)
from evener.engine.codegen.passes import stage_plan
from evener.engine.codegen.plan import KernelPlan
from evener.engine.codegen.print_cpu import EDGE_PROLOGUE, ThreadsPrinter
from evener.engine.codegen.printer import Kernel
from evener.engine.codegen.rewrite import globalized
from evener.engine.codegen.worker import worker_of
from evener.engine.job import Job, field_dtype
from evener.engine.memory.growing import edge_rooms
from evener.engine.reference.exchange import Holding, Local
from evener.engine.reference.stages import Adjacency, Frontier, Outcome, Part
from evener.operators.cpu.frontier import BUFFER, FORM, INFO_WORDS, SIZE
from evener.operators.cpu.vertices import partial_words
from evener.operators.shared.frontier import BITS
from evener.programs.stages import Advance, Compute, Edges, Filter, Gather, Reduce, Stage

_SIGNATURE = (
    "thread", "threads", "sync", "graph", "fields", "params", "scalars", "told", "fronts", "marks",
    "buffers", "partials", "totals", "edge_rooms", "found",
)  # fmt: skip
_PROLOGUE = (
    "team = Team(thread, threads, sync, buffers[thread])",
    "out, weight_out = Adjacency(graph[0], graph[1]), graph[2]",
    "into, weight_in = Adjacency(graph[3], graph[4]), graph[5]",
    "both, weight_both = Adjacency(graph[6], graph[7]), graph[8]",
    "degree, ids = graph[9], graph[10]",
    "superstep, changed, num_vertices = told[0], told[1] != 0, told[2]",
    "current = Frontier(fronts[0], fronts[1], fronts[2])",
    "following = Frontier(fronts[3], fronts[4], fronts[5])",
    "stamp, left, before, calls, visited, pulled = 0, 0, 0, 0, 0, False",
)


@dataclass
class CompiledPart(Part):
    """A part of which the stages are compiled; the fields of ``s`` are those of its ``holding``."""

    job: Job = dataclasses.field(kw_only=True)
    holding: Holding = dataclasses.field(kw_only=True)
    number: int = dataclasses.field(kw_only=True)
    threads: int = dataclasses.field(kw_only=True)
    workers: dict[tuple[Stage, bool], Any] = dataclasses.field(default_factory=dict)

    def run(self, stage: Stage, frontier: Frontier, pull: bool = False) -> Outcome:
        """Run any stage but a loop, as `evener.engine.reference.stages.run_stage` does."""
        if not self.vertices:  # kernels are compiled for arrays that hold something
            return Outcome([] if isinstance(stage, Advance | Filter | Gather) else None)
        on_edges = isinstance(stage, Filter | Compute) and stage.on_edges
        to_edges = on_edges or (isinstance(stage, Advance) and stage.emit == "edges")
        rooms = edge_rooms(len(self.lists[0][1]), self.ids, self.threads, to_edges)
        fronts = self.fronts()
        if on_edges:
            _fill(rooms[0], [src for src, _, _ in frontier], [edge for _, _, edge in frontier])
        elif not isinstance(stage, Edges):
            _fill((fronts[0], fronts[2]), frontier)
        partials, found = self.partials(), np.zeros(1 + self.threads, np.int64)
        worker, totals = self.worker(stage, pull)
        self.run_kernel(
            worker, self.graph,
            tuple(self.holding.fields.values()), tuple(self.job.params.values()),
            (*self.job.scalars.values(), 0), self.told(), fronts, np.zeros(self.held, np.uint8),
            np.empty((self.threads, BUFFER), self.ids), partials,
            tuple(np.empty(len(self.vertices), dtype) for dtype in totals) or (np.empty(0),),
            rooms, found,
        )  # fmt: skip
        outcome = Outcome(calls=int(found[1:].sum()), changed=bool(found[0]))
        if isinstance(stage, Reduce) and frontier:
            outcome.value = partials[1 + list(self.declaration.scalars).index(stage.into.name)][0]
        elif to_edges and not isinstance(stage, Compute):
            outcome.frontier = self.edges_of(rooms[1])
        elif isinstance(stage, Advance | Filter | Gather):
            outcome.frontier = _members(*fronts[3:])
        return outcome

    def run_kernel(self, worker: Compiled, *arguments: Any) -> None:
        """Have a kernel run by the threads of this part, compiled if it was not."""
        if not worker.find_for(0, self.threads, new_sync(), *arguments):
            began = time.perf_counter()
            what = f"compiling a stage of {self.declaration.name}"
            with progress.task(what), interrupts.kept():
                compile_kernel(self.declaration, worker, 0, self.threads, new_sync(), *arguments)
            self.job.stats["compile_seconds"] += time.perf_counter() - began
        with told_as_mistakes(self.declaration):
            run_together(worker, self.threads, new_sync(), *arguments)

    # ---- what the kernels get -------------------------------------------------------------

    @property
    def ids(self) -> np.dtype:
        """What vertices are numbered by: as on the ``cpu``."""
        return unsigned(self.job.graph._indices).dtype

    @property
    def held(self) -> int:
        """Owned vertices and ghosts."""
        return len(self.holding.globals)

    @once
    def lists(self) -> list[tuple[np.ndarray, ...]]:
        """Neighbour lists out of, into, and around the vertices."""
        return [self.arrays(self.side(along)) for along in ("out", "in", "both")]

    def arrays(self, side: Adjacency) -> tuple[np.ndarray, ...]:
        """Neighbour lists as arrays; the weights only where the program reads them."""
        uses = self.declaration.uses_weights and side.weights is not None
        weights = side.weights if uses else np.empty(0, np.int32)
        assert weights is not None
        return np.array(side.indptr, np.uint64), np.array(side.neighbours, self.ids), weights

    @once
    def graph(self) -> tuple[np.ndarray, ...]:
        """All that a kernel sees of the graph."""
        flat = [array for side in self.lists for array in side]
        numbers = np.array(self.holding.globals, self.job.graph._indices.dtype)
        return (*flat, self.s.degree, numbers)  # type: ignore[attr-defined]

    def told(self) -> np.ndarray:
        """The numbers of the state."""
        return np.array([self.s.superstep, self.s.changed, self.job.graph.num_vertices], np.int64)

    def fronts(self) -> tuple[np.ndarray, ...]:
        """An empty frontier to begin with, and one to write to: ghosts may be in both."""
        words = (self.held + 63) // 64
        one = [
            (np.empty(self.held, self.ids), np.zeros(words, np.uint64),
             np.zeros(INFO_WORDS, np.int64))
            for _ in range(2)
        ]  # fmt: skip
        return (*one[0], *one[1])

    def partials(self) -> tuple[np.ndarray, ...]:
        """What threads find: whether something changed, and a value of each scalar."""
        dtypes = [np.dtype(np.uint8)] + [
            field_dtype(scalar.dtype, self.job.graph)
            for scalar in self.declaration.scalars.values()
        ]
        return tuple(np.zeros(partial_words(self.threads), dtype) for dtype in dtypes)

    def edges_of(self, room: tuple[np.ndarray, ...]) -> Frontier:
        """The edges in a room, as the interpreter has them."""
        sources, places, info = room
        neighbours = self.out.neighbours
        found = zip(sources[: info[SIZE]].tolist(), places[: info[SIZE]].tolist(), strict=True)
        return sorted((Local(src), neighbours[edge], edge) for src, edge in found)

    # ---- the kernels ----------------------------------------------------------------------

    def worker(self, stage: Stage, pull: bool) -> tuple[Compiled, tuple[np.dtype, ...]]:
        """The kernel of a stage, and the dtypes of the totals that it stores."""
        if (stage, pull) not in self.workers:
            self.workers[stage, pull] = self._worker(stage, pull)
        return self.workers[stage, pull]

    def _worker(self, stage: Stage, pull: bool) -> tuple[Compiled, tuple[np.dtype, ...]]:
        d, first = self.declaration, not self.workers
        state = state_of(d)
        made = stage_plan(self.job, stage, "pull" if pull else "push")
        kernel = _StagePrinter(self.job, made, state).print()
        functors = functors_of(self.job, kernel)
        vertex = self.ids.type(0)
        example = state(
            *self.holding.fields.values(), *self.job.params.values(), *self.job.scalars.values(),
            self.graph[2], self.graph[10], self.graph[9], 0, self.job.graph.num_vertices, False,
        )  # fmt: skip
        if first:
            check_functors(d, functors, vertex, example)
        name_totals(self.job, kernel, vertex, example)
        key = (*kernel_key(self.job), "stage", *kernel.totals)
        return worker_of(kernel.text, key, kernel.names), kernel.totals


def _fill(front: tuple[np.ndarray, ...], *columns: list[int]) -> None:
    """Put vertices, or edges, into an empty frontier; the words about it are its last array."""
    for array, values in zip(front[:-1], columns, strict=True):
        array[: len(values)] = values
    front[-1][SIZE] = len(columns[0])


def _members(queue: np.ndarray, bits: np.ndarray, info: np.ndarray) -> Frontier:
    """The vertices of a frontier in ascending order."""
    if info[FORM] == BITS:
        found = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))
    else:
        found = np.sort(queue[: info[SIZE]])
    return [Local(v) for v in found.tolist()]


class _StagePrinter(ThreadsPrinter):
    """Prints a kernel of one stage, over a frontier that it is given."""

    signature = _SIGNATURE

    def __init__(self, job: Job, plan: KernelPlan, state: Any):
        super().__init__(job, plan, state)
        for name, functor in self.d.functors.items():
            function = globalized(self.d, name)
            if function is not functor.function:
                found = compiled(function, allocates=False)
                self.names[f"f_{name}"] = self.names[f"alone_{name}"] = found
        self.step = "superstep"

    def print(self) -> Kernel:
        """The kernel of the stage; every frontier is taken by the host."""
        (step,) = self.plan.body
        on_edges = self.plan.has_edges or getattr(step.stage, "on_edges", False)
        self.put(*_PROLOGUE, *(EDGE_PROLOGUE if on_edges else ()))
        for i, name in enumerate(self.d.scalars):
            self.put(f"scalar_{name}, partial_{name} = scalars[{i}], partials[{i + 1}]")
        self.put(*(f"field_{name} = fields[{i}]" for i, name in enumerate(self.d.fields)))
        self.emit(step.nodes)
        self.put(*(f"partial_{name}[8 * thread] = scalar_{name}" for name in self.d.scalars))
        self.put("found[1 + thread] = visited")
        self.put("if thread == 0: found[0] = changed")
        self.put("return False")
        return self.kernel()
