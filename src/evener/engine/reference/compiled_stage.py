"""A compiled part among interpreted ones: a kernel for each stage, called stage by stage.

Sets such as ``cpu+python`` are for debugging. The loop and the exchanges are those of the reference
(`evener.engine.reference.parts`), so one part can be interpreted, with ``breakpoint()`` in a
functor, while another runs the same stage as the ``cpu`` does: with the same operators, functors
and threads.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evener import progress
from evener.device import compiled, interrupts
from evener.device.compile import Compiled
from evener.device.once import once
from evener.device.sync import new_sync
from evener.device.team import run_together
from evener.device.tuples import named
from evener.engine.codegen.arguments import GraphArrays, StageArguments, StageNumbers
from evener.engine.codegen.functors import (
    check_functors,
    compile_kernel,
    functors_of,
    kernel_key,
    name_totals,
    raised_as_mistakes,
    state_of,
    unsigned,
)
from evener.engine.codegen.passes import stage_plan
from evener.engine.codegen.plan import KernelPlan
from evener.engine.codegen.print_cpu import EDGE_PROLOGUE, GRAPH, CpuPrinter
from evener.engine.codegen.printer import Kernel
from evener.engine.codegen.rewrite import globalized
from evener.engine.codegen.worker import worker_of
from evener.engine.job import Job, field_dtype
from evener.engine.memory.growable import new_edge_fronts, new_info
from evener.engine.reference.exchange import Holding, Local
from evener.engine.reference.stages import Frontier, Outcome, Part
from evener.operators.cpu.frontier import BUFFER, FORM, SIZE
from evener.operators.cpu.vertices import partial_words
from evener.operators.shared import frontier as operators
from evener.operators.shared.frontier import BITS
from evener.programs.stages import Advance, Stage

_PROLOGUE = (
    "team = Team(thread, threads, sync, buffers[thread])",
    *GRAPH,
    *(f"{name} = told.{name}" for name in StageNumbers._fields),
    "stamp, left, before, calls, visited, pulled = 0, 0, 0, 0, 0, False",
)


@dataclass
class CompiledPart(Part):
    """A part with compiled stages; the fields of ``s`` are those of its ``holding``."""

    job: Job = dataclasses.field(kw_only=True)
    holding: Holding = dataclasses.field(kw_only=True)
    number: int = dataclasses.field(kw_only=True)
    threads: int = dataclasses.field(kw_only=True)
    workers: dict[tuple[Stage, bool], Any] = dataclasses.field(default_factory=dict)

    def run(self, stage: Stage, frontier: Frontier, pull: bool = False) -> Outcome:
        """Run any stage but a loop, as `evener.engine.reference.stages.run_stage` does."""
        if not self.vertices:  # kernels need arrays that are not empty
            return Outcome([] if stage.makes else None)
        on_edges = stage.on_edges
        to_edges = on_edges or (isinstance(stage, Advance) and stage.emit == "edges")
        rooms = new_edge_fronts(len(self.graph.out.indices), self.ids, self.threads, to_edges)
        current, following = self.frontier(), self.frontier()
        if on_edges:
            columns = ([src for src, _, _ in frontier], [edge for _, _, edge in frontier])
            _fill(rooms.current.info, rooms.current[:2], columns)
        elif stage.takes:
            _fill(current.info, (current.queue,), (frontier,))
        worker, totals = self.worker(stage, pull)
        arguments = StageArguments(
            self.graph,
            named("Fields", self.holding.fields),
            named("Params", self.job.params),
            named("Scalars", self.job.scalars),
            StageNumbers(self.s.superstep, bool(self.s.changed), self.job.graph.num_vertices),
            current,
            following,
            np.zeros(self.held, np.uint8),
            np.empty((self.threads, BUFFER), self.ids),
            np.zeros(8 * self.threads, np.uint8),
            named("Partials", self.partials()),
            tuple(np.empty(len(self.vertices), dtype) for dtype in totals),
            rooms,
            np.zeros(1, np.int64),
            np.zeros(self.threads, np.int64),
        )
        self.run_kernel(worker, arguments)
        outcome = Outcome(
            calls=int(arguments.calls_of_threads.sum()), changed=bool(arguments.has_changed[0])
        )
        if stage.into is not None and frontier:
            outcome.value = getattr(arguments.partials, stage.into.name)[0]
        elif stage.makes:
            outcome.frontier = self.edges_of(rooms.following) if to_edges else _members(following)
        return outcome

    def run_kernel(self, worker: Compiled, arguments: StageArguments) -> None:
        """Run a kernel on the threads of this part; compile it first if needed."""
        if worker.find_for(0, self.threads, new_sync(), *arguments) is None:
            began = time.perf_counter()
            what = f"compiling a stage of {self.declaration.name}"
            with progress.task(what), interrupts.kept():
                compile_kernel(self.declaration, worker, 0, self.threads, new_sync(), *arguments)
            self.job.stats["compile_seconds"] += time.perf_counter() - began
        with raised_as_mistakes(self.declaration):
            run_together(worker, self.threads, new_sync(), *arguments)

    # ---- arguments of kernels -------------------------------------------------------------

    @property
    def ids(self) -> np.dtype:
        """The dtype of vertex numbers: as on the ``cpu``."""
        return unsigned(self.job.graph._indices).dtype

    @property
    def held(self) -> int:
        """Owned vertices and ghosts."""
        return len(self.holding.globals)

    def arrays(self, along: str) -> tuple[operators.Adjacency, np.ndarray]:
        """Neighbour lists as arrays, and their weights where the program reads them."""
        side = self.side(along)
        uses = self.declaration.uses_weights and side.weights is not None
        weights = side.weights if uses else np.empty(0, np.int32)
        assert weights is not None
        starts, neighbours = np.array(side.indptr, np.uint64), np.array(side.neighbours, self.ids)
        return operators.Adjacency(starts, neighbours), weights

    @once
    def graph(self) -> GraphArrays:
        """The graph arguments of kernels."""
        sides = [self.arrays(along) for along in ("out", "in", "both")]
        numbers = np.array(self.holding.globals, self.job.graph._indices.dtype)
        degree = self.s.degree  # type: ignore[attr-defined]
        return GraphArrays(*sides[0], *sides[1], *sides[2], degree, numbers)

    def frontier(self) -> operators.Frontier:
        """An empty frontier with room for ghosts."""
        bits = np.zeros((self.held + 63) // 64, np.uint64)
        return operators.Frontier(np.empty(self.held, self.ids), bits, new_info(0))

    def partials(self) -> dict[str, np.ndarray]:
        """The partial results of threads, by scalar."""
        words, graph = partial_words(self.threads), self.job.graph
        return {
            name: np.zeros(words, field_dtype(scalar.dtype, graph))
            for name, scalar in self.declaration.scalars.items()
        }

    def edges_of(self, room: operators.EdgeFrontier) -> Frontier:
        """The edges of a frontier, as the interpreter has them."""
        size, neighbours = room.info[SIZE], self.out.neighbours
        pairs = zip(room.src[:size].tolist(), room.edge[:size].tolist(), strict=True)
        return sorted((Local(src), neighbours[edge], edge) for src, edge in pairs)

    # ---- the kernels ----------------------------------------------------------------------

    def worker(self, stage: Stage, pull: bool) -> tuple[Compiled, tuple[np.dtype, ...]]:
        """The kernel of a stage, and the dtypes of the totals that it stores."""
        if (stage, pull) not in self.workers:
            self.workers[stage, pull] = self._worker(stage, pull)
        return self.workers[stage, pull]

    def _worker(self, stage: Stage, pull: bool) -> tuple[Compiled, tuple[np.dtype, ...]]:
        d, first = self.declaration, not self.workers
        state = state_of(d)
        plan = stage_plan(self.job, stage, "pull" if pull else "push")
        kernel = _StagePrinter(self.job, plan, state).print()
        functors = functors_of(self.job, kernel)
        vertex = self.ids.type(0)
        example = state(
            *self.holding.fields.values(), *self.job.params.values(), *self.job.scalars.values(),
            self.graph.weight_out, self.graph.ids, self.graph.degree, 0,
            self.job.graph.num_vertices, False,
        )  # fmt: skip
        if first:
            check_functors(d, functors, vertex, example)
        name_totals(self.job, kernel, vertex, example)
        key = (*kernel_key(self.job), "stage", *kernel.totals)
        return worker_of(kernel.text, key, kernel.names), kernel.totals


def _fill(info: np.ndarray, arrays: Sequence[np.ndarray], columns: Sequence[list[int]]) -> None:
    """Write vertices, or edges, into an empty frontier."""
    for array, values in zip(arrays, columns, strict=True):
        array[: len(values)] = values
    info[SIZE] = len(columns[0])


def _members(frontier: operators.Frontier) -> Frontier:
    """The vertices of a frontier in ascending order."""
    if frontier.info[FORM] == BITS:
        bits = frontier.bits.view(np.uint8)
        members = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    else:
        members = np.sort(frontier.queue[: frontier.info[SIZE]])
    return [Local(v) for v in members.tolist()]


class _StagePrinter(CpuPrinter):
    """Prints a kernel of one stage, over a frontier from the host."""

    signature = ("thread", "threads", "sync", *StageArguments._fields)

    def __init__(self, job: Job, plan: KernelPlan, state: Any):
        super().__init__(job, plan, state)
        for name, functor in self.d.functors.items():
            function = globalized(self.d, name)
            if function is not functor.function:
                rewritten = compiled(function, allocates=False)
                self.names[f"f_{name}"] = self.names[f"alone_{name}"] = rewritten
        self.step = "superstep"

    def print(self) -> Kernel:
        """The kernel of the stage; the host takes every frontier."""
        (step,) = self.plan.body
        on_edges = self.plan.has_edges or getattr(step.stage, "on_edges", False)
        self.put(*_PROLOGUE, *(EDGE_PROLOGUE if on_edges else ()))
        for name in self.d.scalars:
            self.put(f"scalar_{name}, partial_{name} = scalars.{name}, partials.{name}")
        self.put(*(f"field_{name} = fields.{name}" for name in self.d.fields))
        self.emit(step.nodes)
        self.put(*(f"partial_{name}[8 * thread] = scalar_{name}" for name in self.d.scalars))
        self.put("calls_of_threads[thread] = visited")
        self.put("if thread == 0: has_changed[0] = changed")
        self.put("return False")
        return self.kernel()
