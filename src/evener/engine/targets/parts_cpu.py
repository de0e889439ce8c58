"""Device sets of CPU partitions: one compiled kernel, run by a team of threads for each part."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from evener import progress
from evener.device import interrupts, require_memory
from evener.device.compile import compiling, seconds_compiling
from evener.device.sync import new_sync
from evener.device.team import run_teams
from evener.device.tuples import named
from evener.engine.codegen.analysis import pulls
from evener.engine.codegen.arguments import Between, Common, HubArrays, Links, Place
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
from evener.engine.codegen.plan import KernelPlan
from evener.engine.codegen.print_parts_cpu import lower_parts_cpu
from evener.engine.codegen.printer import Kernel
from evener.engine.codegen.rewrite import far_is_global
from evener.engine.codegen.worker import worker_of
from evener.engine.deferred_arrays import DeferredArray, new_array
from evener.engine.devices import cores_of, require_together
from evener.engine.job import Job, field_dtype
from evener.engine.memory import cpu as memory
from evener.engine.memory.growable import bucket_bytes, capacity_of, most_recorded
from evener.engine.memory.hub import HubMemory, no_hub
from evener.engine.partition.divide import Parts, divide, fill, picked, put_back
from evener.engine.preallocation import RecordIsFull
from evener.engine.request import Request
from evener.engine.results.trace import MOST_ROWS, PartRows, rows_of_parts
from evener.engine.targets import sets
from evener.errors import DeviceError
from evener.operators.cpu.frontier import BUFFER, INFO_WORDS
from evener.operators.shared import handshake
from evener.operators.shared.between_machines import PART_WORDS
from evener.operators.shared.frontier import Frontier
from evener.operators.shared.policies import Policy
from evener.operators.shared.trace import FUSED, ROWS, VISITED
from evener.operators.shared.world import FULL

REPEATS_START = True
_KEPT = 4  # kernels whose arrays are kept with the parts


def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns the lines for `explain()`."""
    before = seconds_compiling()
    reasons = run_parts(
        job, cores_of(request.devices), request.partition, request.direction, request.policy,
        request.limits,
    )  # fmt: skip
    job.stats["compile_seconds"] = seconds_compiling() - before
    return reasons


def lower(job: Job, request: Request) -> list[Kernel]:
    """The kernel of a job, not compiled."""
    single = max(cores_of(request.devices)) == 1
    state, measure = state_of(job.declaration), request.policy.measure
    return [lower_parts_cpu(job, request.direction, state, measure, single=single)]


def run_parts(
    job: Job,
    threads: list[int],
    partition: Any,
    direction: str,
    policy: Policy,
    limits: Sequence[int | None] = (),
) -> list[str]:
    """Divide the graph and run a job over its parts; returns the lines for `explain()`."""
    require_together(threads)
    job.begin(threads=threads)
    if not job.graph.num_vertices:
        return sets.nothing_to_do(job, direction)
    shares = [count / sum(threads) for count in threads]
    parts = sets.divided(
        job, partition, shares, limits, [f"cpu:{count}" for count in threads], direction,
        has_ghosts=not far_is_global(job.declaration),
    )  # fmt: skip
    _execute(job, threads, parts, policy, direction)
    return [
        sets.partition_reason(partition, parts),
        f"Threads: {' + '.join(map(str, threads))}. Direction: {direction}.",
    ]


def execute_parts(
    job: Job, threads: list[int], part_of: np.ndarray, policy: Policy, direction: str = "auto"
) -> None:
    """Run a job over parts with ``threads`` each, changing its fields in place."""
    require_together(threads)
    job.begin(threads=threads)
    if not job.graph.num_vertices:
        sets.nothing_to_do(job, direction)
        return
    lists = {**sets.lists_of(job, direction), "has_ghosts": not far_is_global(job.declaration)}
    parts = divide(job.graph, part_of, len(threads), **lists)
    _execute(job, threads, parts, policy, direction)


def _execute(job: Job, threads: list[int], parts: Parts, policy: Policy, direction: str) -> None:
    growth = 1
    while True:
        teams = Teams(job, parts, threads, policy, direction, growth=growth)
        job.stats["compile_seconds"] = teams.compile_seconds
        started = time.perf_counter()
        try:
            teams.go()
            break
        except RecordIsFull:
            growth = sets.grown_parts(job, parts, growth)
            job.begin_again()
    job.stats["loop_seconds"] = time.perf_counter() - started
    rows = list(teams.rows(job.stats["loop_seconds"]).values())
    job.make_trace = lambda: rows_of_parts(rows)
    teams.collect()


class Teams:
    """The parts on CPUs: their arrays, and the kernel over them.

    Parts without threads are on other machines, which a hub connects: here they have shadows.
    """

    def __init__(
        self, job: Job, parts: Parts, threads: list[int], policy: Policy, direction: str,
        hub: HubMemory | None = None, growth: int = 1, known: KernelPlan | None = None,
    ):  # fmt: skip
        self.job, self.d, self.parts, self.threads = job, job.declaration, parts, threads
        self.policy, self.sync = policy, new_sync()
        self.local = [p for p, count in enumerate(threads) if count > 0]
        for name, field in job.fields.items():
            if self.d.fields[name].replicated:
                job.fields[name] = np.asarray(field)  # all parts may work on this one
        with compiling():
            self.kernel = self._lower(direction, known, hub is not None)
        self.hub = hub or no_hub(job, parts, self.kernel)
        self.shares = self.kernel.plan.shares
        key = (
            *kernel_key(job), policy.measure, hub is not None, self.kernel.totals, self._is_single
        )  # fmt: skip
        self.worker = worker_of(self.kernel.text, key, self.kernel.names)
        # New memory costs more than many runs: a run reuses the arrays of the last one, unless
        # that failed or another run has them now.
        dtypes = tuple(str(array.dtype) for array in job.fields.values())
        lefts = job.left or [None] * len(threads)
        self.rooms = [
            capacity_of(job, part.owned, left, growth)
            for part, left in zip(parts.parts, lefts, strict=True)
        ]
        self.key = (self.kernel.text, tuple(threads), dtypes, tuple(self.rooms))
        self.kept: dict[Any, Any] = parts.kept.pop(self.key, {})
        self.fields = {name: self._spread(name) for name in self.d.fields}
        owned = sum(parts.parts[p].owned for p in self.local)
        require_memory(owned * (2 * parts.parts[0].out[1].itemsize + 1), f"Running {self.d.name}")
        self.common = self._common(direction)
        self.arguments = {p: self._arguments(p) for p in self.local}
        self.teams = [(threads[p], new_sync(), one) for p, one in self.arguments.items()]
        self.compile_seconds = self._compile()

    def _lower(self, direction: str, known: KernelPlan | None, has_hub: bool) -> Kernel:
        state, measure = state_of(self.d), self.policy.measure
        kernel = lower_parts_cpu(
            self.job, direction, state, measure, has_hub, self._is_single, known
        )  # fmt: skip
        if kernel.plan.gathers:
            name_totals(self.job, kernel, *self._examples())
        return kernel

    def _compile(self) -> float:
        """Find or compile the kernel; returns the seconds that this took."""
        count, sync, arguments = self.teams[0]
        examples = (0, count, sync, *arguments)
        began = time.perf_counter()
        with compiling():
            self.job.stats["from_cache"] = self.worker.find_for(*examples) is not None
            if not self.job.stats["from_cache"]:
                what = f"compiling {self.d.name} for {len(self.threads)} parts"
                with progress.task(what), interrupts.kept():
                    functors = functors_of(self.job, self.kernel)
                    check_functors(self.d, functors, *self._examples())
                    compile_kernel(self.d, self.worker, *examples)
        return time.perf_counter() - began

    @property
    def _is_single(self) -> bool:
        """Whether each part has one thread."""
        return max(self.threads) == 1

    def _examples(self) -> tuple[np.generic, Any]:
        """A vertex and a state, of the types that functors get in the kernel."""
        job, part = self.job, self.parts.parts[0]
        weights = part.out[2] if self.d.uses_weights else np.empty(0, np.int32)
        state = state_of(self.d)(
            *(np.empty(0, field.dtype) for field in job.fields.values()),
            *job.params.values(), *job.scalars.values(), weights, part.ids,
            job.graph.degrees, 0, job.graph.num_vertices, False,
        )  # fmt: skip
        return unsigned(part.out[1])[:0].dtype.type(0), state

    # ---- fields ---------------------------------------------------------------------------

    def _again(self, name: str, p: int, make: Callable[[], Any]) -> Any:
        """The arrays of an earlier run, or new ones."""
        if (name, p) not in self.kept:
            self.kept[name, p] = make()
        return self.kept[name, p]

    def _spread(self, name: str) -> np.ndarray:
        """A field in the slots of all parts, or a copy for each part."""
        field = self.job.fields[name]
        if self.d.fields[name].replicated:
            return field if self._is_shared(name) else np.tile(field, len(self.threads))
        slots = int(self.parts.bases[-1])
        out = self._again(f"field {name}", 0, lambda: np.empty(slots, field.dtype))
        writes = field.few_writes() if isinstance(field, DeferredArray) else None
        if writes is None:
            return picked(np.asarray(field), self.parts, out)
        fill(out, field._fill)  # a tenth of the time
        for vertex, value in writes:
            out[self.parts.places_of(vertex)] = value
        return out

    def _is_shared(self, name: str) -> bool:
        """Whether all parts work on one copy of a field."""
        return self.shares and self.d.fields[name].replicated

    def _of(self, array: np.ndarray, p: int, name: str) -> np.ndarray:
        """The section of a field that belongs to one part."""
        n = self.job.graph.num_vertices
        if self.d.fields[name].replicated:
            return array if self._is_shared(name) else array[p * n : (p + 1) * n]
        return array[self.parts.bases[p] : self.parts.bases[p + 1]]

    # ---- arguments of kernels -------------------------------------------------------------

    def _common(self, direction: str) -> Common:
        """The arrays that all parts share."""
        k, slots, hub = len(self.threads), int(self.parts.bases[-1]), self.hub
        graph, ghosts, plan = self.job.graph, len(self.parts.home), self.kernel.plan
        ids = unsigned(graph._indices).dtype
        words = [(part.held + 63) // 64 if pulls(self.d, direction) else 0
                 for part in self.parts.parts]  # fmt: skip
        words_from = np.concatenate([[0], np.cumsum(words)]).astype(np.int64)
        links = Links(
            self.sync, np.zeros(2 * k * PART_WORDS, np.int64), self.parts.bases,
            np.array([part.owned for part in self.parts.parts], np.int64), self.parts.ghosts,
            self.parts.home, self._again("marks", 0, lambda: np.zeros(slots, np.uint8)),
            self._again("box", 0, lambda: np.empty(ghosts, ids)),
            np.zeros((k, INFO_WORDS), np.int64),
            self._again("bits", 0, lambda: np.zeros(words_from[-1], np.uint64)), words_from,
            np.zeros(k * k, np.int64), np.zeros((sum(self.threads), max(k, 8)), np.int64),
            np.zeros(3 * k * k, np.int64),
        )  # fmt: skip
        to_hub = HubArrays(
            hub.machine_of, self.parts.ghosts.ravel(), np.zeros(2, np.int64),
            np.zeros(2 * k * PART_WORDS, np.int64), hub.flags, hub.words, hub.far_sizes, hub.box,
            hub.marks, hub.bits,
        )  # fmt: skip

        if len(self.local) < k:  # no team clears those of shadows
            links.marks[:] = 0

        def copied(name: str) -> np.ndarray:
            return self._again(f"copy {name}", 0, partial(np.empty_like, self.fields[name]))

        agreed = {
            name: np.zeros(2 * k * PART_WORDS, field_dtype(scalar.dtype, graph))
            for name, scalar in self.d.scalars.items()
        }
        return Common(
            links,
            named("Fields", self.fields),
            named("Copies", {name: copied(name) for name in plan.copied}),
            named("Olds", {n: np.empty(ghosts, self.fields[n].dtype) for n in plan.shadowed}),
            named("United", {name: self.job.fields[name].copy() for name in plan.united}),
            named("Agreed", agreed),
            to_hub,
            named("Boxes", dict(zip(plan.carried, hub.boxes, strict=True))),
            named("FarCopies", dict(zip(plan.united, hub.copies, strict=True))),
            named("FarAgreed", dict(zip(agreed, hub.agreed, strict=True))),
        )

    def _arguments(self, p: int) -> Any:
        """The arguments of the kernel of one part."""
        job, part, threads = self.job, self.parts.parts[p], self.threads[p]

        def again(name: str, make: Callable[[], Any]) -> Any:
            return self._again(name, p, make)

        degrees = again("degrees", lambda: job.graph.degrees[part.ids])
        graph = memory.graph_arrays(
            job, self.kernel, self.parts, p, part.out, part.into, degrees, part.ids
        )
        region = memory.Region(part.owned, len(part.out[1]), graph, len(self.parts.home))
        copies = self.common.copies._asdict()
        arguments = memory.cpu_arguments(
            job, self.kernel, region, threads, self.rooms[p],
            {name: self._of(array, p, name) for name, array in self.fields.items()},
            {name: self._of(array, p, name) for name, array in copies.items()},
            self.common.links.marks[self.parts.bases[p] : self.parts.bases[p + 1]], again,
        )  # fmt: skip
        members, arcs = None, 0
        if job.frontier is not None:
            members = self.parts.members(job.frontier, p)
            arcs = job.graph.degrees[part.ids[members]].sum()
        memory.begin(arguments, region, members, arcs)
        rows = again("rows", lambda: np.zeros((MOST_ROWS + 1, 4), np.int64))
        rows[0] = 0
        return arguments._replace(between=self._between(p, rows))

    def _between(self, p: int, rows: np.ndarray) -> Between:
        """The arguments for exchanges of one part."""
        graph, links, ghosts = self.job.graph, self.common.links, self.parts.ghosts[p]
        place = Place(
            p, len(self.threads), sum(self.threads), sum(self.threads[:p]), graph.num_vertices,
            graph.num_edges, self.policy.number, int(self.hub.machine_of[p]), self.hub.machines,
            len(self.parts.home), self.hub.patience(handshake.CPU_PATIENCE),
        )  # fmt: skip
        box = Frontier(
            links.box[ghosts[0] : ghosts[-1]], np.empty(0, np.uint64), links.boxed[p]
        )  # fmt: skip
        bits = links.bits[links.words_from[p] : links.words_from[p + 1]]
        buffers = np.empty((self.threads[p], BUFFER), links.box.dtype)
        return Between(place, self.common, bits, rows, box, buffers)

    # ---- running --------------------------------------------------------------------------

    def go(
        self, watch: Callable[[], None] | None = None, let_go: Callable[[], None] | None = None
    ) -> None:
        """Run all parts; the first failure fails the run."""
        with raised_as_mistakes(self.d):
            returned = run_teams(self.worker, self.teams, self.sync, watch, let_go)
        for p, codes in zip(self.local, returned, strict=True):
            if min(codes) < 0:
                raise DeviceError(
                    f"partition {p} on cpu:{self.threads[p]} failed, so the run failed."
                )
        if any(code == FULL for codes in returned for code in codes):
            raise RecordIsFull

    def collect(self) -> None:
        """Collect fields, scalars and stats."""
        job, arguments = self.job, list(self.arguments.values())
        for name, field in job.fields.items():
            whole = job.fields[name] = new_array(field)
            for p in self.local:
                mine = self._of(self.fields[name], p, name)
                if self.d.fields[name].replicated:
                    if mine is not whole:
                        whole[:] = mine
                    break
                put_back(whole, self.parts.parts[p], mine)
        for name, words in arguments[0].partials._asdict().items():
            job.scalars[name] = words[0]
        recorded = {p: most_recorded(one.kept) for p, one in self.arguments.items()}
        for p, most in recorded.items():
            job.preallocation.remember(job, self.parts.parts[p].owned, most)
        heads = [one.trace[0] for one in arguments]
        sent, useful, whole_bytes = self.common.links.traffic.reshape(3, -1).sum(axis=1).tolist()
        job.stats.update(
            supersteps=int(heads[0][ROWS] + heads[0][FUSED]),
            edges=sum(int(head[VISITED:].sum()) for head in heads),
            bytes_sent=sent, bytes_useful=useful, bytes_of_all=whole_bytes,
            memory=self._memory(recorded), **sets.sizes_of(self.parts),
        )  # fmt: skip
        self._keep()

    def rows(self, seconds: float) -> dict[int, PartRows]:
        """The rows of the trace by part, copied: the next run reuses the tables."""
        kept = min(int(self.arguments[self.local[0]].trace[0, ROWS]), MOST_ROWS)
        cumulative = {p: one.between.rows for p, one in self.arguments.items()}
        unit = seconds / max(1, int(max(rows[0, 0] for rows in cumulative.values())))
        rows_of_part = {}
        for p, arguments in self.arguments.items():
            of_run = np.concatenate([np.zeros((1, 4), np.int64), cumulative[p][1 : kept + 1]])
            table = arguments.trace[1 : kept + 1].copy()
            rows_of_part[p] = PartRows(table, np.diff(of_run, axis=0), unit)
        return rows_of_part

    def _keep(self) -> None:
        """Leave the arrays to the next run; only the last kernel keeps its fields."""
        for other in list(self.parts.kept.values()):
            for place in [place for place in list(other) if place[0].startswith("field ")]:
                other.pop(place, None)
        self.parts.kept[self.key] = self.kept
        for key in list(self.parts.kept)[:-_KEPT]:
            self.parts.kept.pop(key, None)

    def _memory(self, recorded: dict[int, int]) -> list[int]:
        """Bytes of each part: lists and tables, fields, the written part of growable arrays."""
        k, common = len(self.threads), self.common
        sizes = []
        for p, part in enumerate(self.parts.parts):
            fields = sum(
                self._of(array, p, name).nbytes // (k if self._is_shared(name) else 1)
                for arrays in (common.fields, common.copies)
                for name, array in arrays._asdict().items()
            )
            ghosts = int(self.parts.ghosts[p, k] - self.parts.ghosts[p, 0])
            tables = ghosts * (self.parts.home.itemsize + sum(old.itemsize for old in common.olds))
            united = sum(old.nbytes for old in common.united) // k
            ids = part.out[1].itemsize
            fronts = part.owned * (2 * ids + 1) + ghosts * ids
            if p in self.local:
                arguments, fixed = self.arguments[p], self.job.preallocation.fixed
                entries = arguments.kept.queue.size if fixed else recorded[p]
                fronts += entries * (ids + (8 if self.kernel.plan.has_edges else 0))
                fronts += bucket_bytes(arguments.ordered, part.owned)
            sizes.append(self.parts.nbytes[p] + fields + tables + united + fronts)
        return sizes
