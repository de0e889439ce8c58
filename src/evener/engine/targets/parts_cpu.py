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
from evener.engine.codegen.analysis import pulls
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
from evener.engine.codegen.plan import KernelPlan
from evener.engine.codegen.print_parts_cpu import lower_parts
from evener.engine.codegen.printer import Kernel
from evener.engine.codegen.rewrite import far_is_global
from evener.engine.codegen.worker import worker_of
from evener.engine.deferred import LazyArray, new_array
from evener.engine.devices import cores_of, require_together
from evener.engine.job import Job, field_dtype
from evener.engine.memory.estimate import require_parts
from evener.engine.memory.growing import (
    bucket_bytes,
    bucket_rooms,
    edge_rooms,
    grown,
    joined_once,
    most_recorded,
    record_rooms,
    room,
    rooms_of,
    waiting_rooms,
)
from evener.engine.memory.hub import HubMemory, no_hub
from evener.engine.partition.divide import Part, Parts, divide, divide_by, fill, picked, put_back
from evener.engine.partition.partitioners import partition as assign
from evener.engine.records import RecordIsFull
from evener.engine.request import Request
from evener.engine.results.trace import MOST_ROWS, row_of_parts
from evener.errors import DeviceError
from evener.operators.cpu.frontier import BUFFER, EDGES, FORM, INFO_WORDS, SIZE
from evener.operators.cpu.gather import num_chunks
from evener.operators.cpu.vertices import partial_words
from evener.operators.shared import handshake
from evener.operators.shared.frontier import ALL
from evener.operators.shared.hub import APART
from evener.operators.shared.policies import Policy
from evener.operators.shared.world import FULL
from evener.programs.fields import neutral
from evener.programs.stages import Backwards, Edges, Gather, walk

_KEPT = 4  # kernels whose arrays are kept with the parts


def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns what there is to say about it."""
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
    return [lower_parts(job, request.direction, state, measure, single=single)]


def run_parts(
    job: Job,
    threads: list[int],
    partition: Any,
    direction: str,
    policy: Policy,
    limits: Sequence[int | None] = (),
) -> list[str]:
    """Divide the graph and run a job over its parts; returns what there is to say about it."""
    k, shares = len(threads), [count / sum(threads) for count in threads]
    if any(limit is not None for limit in limits):
        devices = job.names_of([f"cpu:{count}" for count in threads])
        part_of = assign(job.graph, partition, shares)
        job.left = require_parts(
            job.declaration, job.graph, part_of, limits, devices, direction
        )  # fmt: skip
    began, earlier = time.perf_counter(), seconds_compiling()
    require_together(threads)
    parts = None
    if job.graph.num_vertices:
        lists = {**lists_of(job, direction), "has_ghosts": not far_is_global(job.declaration)}
        parts = divide_by(job.graph, partition, shares, **lists)
    compiled = seconds_compiling() - earlier  # to divide a graph is compiled too, at first
    job.stats["partition_seconds"] = time.perf_counter() - began - compiled
    _execute(job, threads, parts, policy, direction)
    told = [" + ".join(f"{n:,}" for n in job.stats.get(what, ())) for what in ("owned", "ghosts")]
    return [
        f"Partition: {name_of(partition)}, {k} parts with {told[0] or 'no'} "
        f"vertices and {told[1] or 'no'} ghosts.",
        f"Threads: {' + '.join(map(str, threads))}. Direction: {direction}.",
    ]


def name_of(partition: Any) -> str:
    """What to call a partitioner."""
    name = partition if isinstance(partition, str) else getattr(partition, "__name__", "given")
    return "random" if name == "auto" else name


def lists_of(job: Job, direction: str) -> dict[str, bool]:
    """Which lists the parts of a graph need for a program, and in which order."""
    d = job.declaration
    slices = any(isinstance(s, Edges) and s.neighbours is not None for s in walk(d.loop))
    return {"pulls": pulls(d, direction), "in_order": slices, "weighted": d.uses_weights}


def execute_parts(
    job: Job, threads: list[int], part_of: np.ndarray, policy: Policy, direction: str = "auto"
) -> None:
    """Run a job over parts with so many threads each, changing its fields in place."""
    require_together(threads)
    parts = None
    if job.graph.num_vertices:
        lists = {**lists_of(job, direction), "has_ghosts": not far_is_global(job.declaration)}
        parts = divide(job.graph, part_of, len(threads), **lists)
    _execute(job, threads, parts, policy, direction)


def grown_apart(job: Job, parts: Parts, growth: int) -> int:
    """As `grown`, of all parts: nobody knows which was full."""
    largest = max(part.owned for part in parts.parts)
    left = [one for one in job.left if one is not None]
    return grown(job, largest, min(left, default=None), growth)


def _execute(
    job: Job, threads: list[int], parts: Parts | None, policy: Policy, direction: str
) -> None:
    d = job.declaration
    job.stats.update(supersteps=0, edges=0, threads=threads)
    for name, scalar in d.scalars.items():
        dtype = field_dtype(scalar.dtype, job.graph)
        job.scalars[name] = dtype.type(neutral(scalar.merge, dtype))
    if parts is None:
        job.fields = {name: np.asarray(field) for name, field in job.fields.items()}
        return
    growth = 1
    while True:
        run = _Run(job, parts, threads, policy, direction, growth=growth)
        job.stats["compile_seconds"] = run.compile_seconds
        started = time.perf_counter()
        try:
            run.go()
            break
        except RecordIsFull:
            growth = grown_apart(job, parts, growth)
            job.begin_again()
    job.stats["loop_seconds"] = time.perf_counter() - started
    run.collect(job.stats["loop_seconds"])


class _Run:
    """The arrays of all parts, and the kernel over them.

    Parts without threads are on other machines, which a hub leads to: here they have shadows.
    """

    def __init__(
        self, job: Job, parts: Parts, threads: list[int], policy: Policy, direction: str,
        hub: Callable[[Kernel], HubMemory] | None = None, growth: int = 1,
        known: KernelPlan | None = None,
    ):  # fmt: skip
        self.job, self.d, self.parts, self.threads = job, job.declaration, parts, threads
        self.policy, self.sync = policy, new_sync()
        self.hub_of = hub
        self.local = [p for p, count in enumerate(threads) if count > 0]
        for name, field in job.fields.items():
            if self.d.fields[name].replicated:
                job.fields[name] = np.asarray(field)  # all parts may work on this one
        with compiling():
            self.kernel = self._lower(direction, known)
        self.shares = self.kernel.plan.shares
        key = (
            *kernel_key(job), policy.measure, hub is not None, self.kernel.totals, self._is_single
        )  # fmt: skip
        self.worker = worker_of(self.kernel.text, key, self.kernel.names)
        # New memory costs more than many runs: what the last one worked in serves again, unless
        # it failed or another run has it now.
        dtypes = tuple(str(array.dtype) for array in job.fields.values())
        lefts = job.left or [None] * len(threads)
        self.rooms = [
            rooms_of(job, part.owned, left, growth)
            for part, left in zip(parts.parts, lefts, strict=True)
        ]
        self.key = (self.kernel.text, tuple(threads), dtypes, tuple(self.rooms))
        self.scratch: dict[Any, Any] = parts.kept.pop(self.key, {})
        self.fields = {name: self._spread(name) for name in self.d.fields}
        self._share(direction)
        owned = sum(parts.parts[p].owned for p in self.local)
        require_memory(owned * (2 * parts.parts[0].out[1].itemsize + 1), f"Running {self.d.name}")
        self.teams = [
            (count, new_sync(), self._arguments(p, count))
            for p, count in enumerate(threads)
            if count > 0
        ]
        count, sync, arguments = self.teams[0]
        examples = (0, count, sync, *arguments)
        began = time.perf_counter()
        with compiling():
            job.stats["from_cache"] = self.worker.find_for(*examples)
            if not job.stats["from_cache"]:
                what = f"compiling {self.d.name} for {len(threads)} parts"
                with progress.task(what), interrupts.kept():
                    check_functors(self.d, functors_of(job, self.kernel), *self._examples())
                    compile_kernel(self.d, self.worker, *examples)
        self.compile_seconds = time.perf_counter() - began

    def _again(self, name: str, p: int, make: Callable[[], Any]) -> Any:
        """Arrays of an earlier run, or new ones."""
        if (name, p) not in self.scratch:
            self.scratch[name, p] = make()
        return self.scratch[name, p]

    def _spread(self, name: str) -> np.ndarray:
        """A field in the slots of all parts, or as often as there are parts."""
        field = self.job.fields[name]
        if self.d.fields[name].replicated:
            return field if self._is_shared(name) else np.tile(field, len(self.threads))
        slots = int(self.parts.bases[-1])
        out = self._again(f"field {name}", 0, lambda: np.empty(slots, field.dtype))
        writes = field.few_writes() if isinstance(field, LazyArray) else None
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
        """What one part has of a field."""
        n = self.job.graph.num_vertices
        if self.d.fields[name].replicated:
            return array if self._is_shared(name) else array[p * n : (p + 1) * n]
        return array[self.parts.bases[p] : self.parts.bases[p + 1]]

    @property
    def _is_single(self) -> bool:
        """Whether each part has one thread."""
        return max(self.threads) == 1

    def _lower(self, direction: str, known: KernelPlan | None) -> Kernel:
        state = state_of(self.d)
        has_hub = self.hub_of is not None
        kernel = lower_parts(
            self.job, direction, state, self.policy.measure, has_hub, self._is_single, known
        )
        if kernel.plan.gathers:
            name_totals(self.job, kernel, *self._examples())
        return kernel

    def _examples(self) -> tuple[np.generic, Any]:
        """A vertex and a state, of the types that functors get in the kernel."""
        job, part = self.job, self.parts.parts[0]
        state = state_of(self.d)(
            *(np.empty(0, field.dtype) for field in job.fields.values()),
            *job.params.values(), *job.scalars.values(), self._weights(part.out), part.ids,
            job.graph.degrees, 0, job.graph.num_vertices, False,
        )  # fmt: skip
        return unsigned(part.out[1])[:0].dtype.type(0), state

    def _weights(self, lists: tuple[np.ndarray, ...]) -> np.ndarray:
        return lists[2] if self.d.uses_weights else np.empty(0, np.int32)

    # ---- what all parts share -------------------------------------------------------------

    def _share(self, direction: str) -> None:
        """Arrays that all parts see."""
        k, slots = len(self.threads), int(self.parts.bases[-1])
        graph, total = self.job.graph, sum(self.threads)
        ghosts = len(self.parts.home)
        self.copies = {
            name: self._again(f"copy {name}", 0, partial(np.empty_like, self.fields[name]))
            for name in self.kernel.plan.copied
        }
        self.olds = tuple(
            np.empty(ghosts, self.fields[name].dtype) for name in self.kernel.plan.shadowed
        )
        self.united = tuple(self.job.fields[name].copy() for name in self.kernel.plan.united)
        self.agreed = tuple(
            np.zeros(2 * k * APART, field_dtype(scalar.dtype, graph))
            for scalar in self.d.scalars.values()
        )
        make = self.hub_of or partial(no_hub, self.job, self.parts)
        self.hub = make(self.kernel)
        self.to_hub = (
            self.hub.machine_of, self.parts.ghosts.ravel(), np.zeros(2, np.int64),
            np.zeros(2 * k * APART, np.int64), *self.hub[1:7],
        )  # fmt: skip
        ids = unsigned(graph._indices).dtype
        words = [(part.held + 63) // 64 if pulls(self.d, direction) else 0
                 for part in self.parts.parts]  # fmt: skip
        self.words_from = np.concatenate([[0], np.cumsum(words)]).astype(np.int64)
        self.marks = self._again("marks", 0, lambda: np.empty(slots, np.uint8))
        self.marks[:] = 0
        self.traffic = np.zeros((3, k, k), np.int64)
        self.shared = (
            self.sync, np.zeros(2 * k * APART, np.int64), self.parts.bases,
            np.array([part.owned for part in self.parts.parts], np.int64), self.parts.ghosts,
            self.parts.home, self.marks,
            self._again("box", 0, lambda: np.empty(ghosts, ids)),
            np.zeros((k, INFO_WORDS), np.int64),
            self._again("bits", 0, lambda: np.zeros(self.words_from[-1], np.uint64)),
            self.words_from, np.zeros(k * k, np.int64), np.zeros((total, max(k, 8)), np.int64),
            self.traffic.ravel(),
        )  # fmt: skip

    # ---- what one part has ----------------------------------------------------------------

    def _arguments(self, p: int, threads: int) -> tuple[Any, ...]:
        """All that the kernel of one part works on."""
        job, d, kernel, part = self.job, self.d, self.kernel, self.parts.parts[p]
        n, m = part.owned, len(part.out[1])
        ids = unsigned(part.out[1]).dtype
        rows, columns = self._lists(part.out), self._lists(part.into)
        both: tuple[np.ndarray, ...] = columns
        stages = list(walk(d.loop))
        if job.graph.directed and any(isinstance(s, Gather) and s.along == "both" for s in stages):
            both = joined_once(self.parts, p, columns, rows)
        replays = any(isinstance(stage, Backwards) for stage in stages)
        totals = tuple(
            np.empty(n if stored else 0, dtype)
            for stored, dtype in zip(kernel.plan.stores_totals, kernel.totals, strict=True)
        )
        sums = tuple(
            np.empty(num_chunks(n), field_dtype(d.scalars[name].dtype, job.graph))
            for name in kernel.plan.summed
        )
        partials = tuple(
            np.zeros(partial_words(threads), field_dtype(s.dtype, job.graph))
            for s in d.scalars.values()
        )
        place = np.array(
            [p, len(self.threads), sum(self.threads), sum(self.threads[:p]),
             job.graph.num_vertices, job.graph.num_edges, self.policy.number,
             self.hub.machine_of[p], self.hub.machines, len(self.parts.home),
             self.hub.patience(handshake.CPU_PATIENCE)], np.int64,
        )  # fmt: skip
        trace = self._again("trace", p, lambda: np.zeros((MOST_ROWS + 1, 5 + threads), np.int64))
        told = self._again("told", p, lambda: np.zeros((MOST_ROWS + 1, 4), np.int64))
        ordered = self._again("ordered", p, lambda: bucket_rooms(
            n, m + len(self.parts.home), job.graph.degrees, ids,
            threads if kernel.plan.fuses else 0, self.rooms[p].bucketed,
        ))  # fmt: skip
        for array in (trace[0], told[0], ordered[0], ordered[-1]):
            array[...] = 0
        return (
            (*rows, *columns, self._again("degrees", p, lambda: job.graph.degrees[part.ids]),
             part.ids, *both),
            tuple(self._of(array, p, name) for name, array in self.fields.items()),
            tuple(job.params.values()),
            self._fronts(p, part, m, ids, replays),
            self.marks[self.parts.bases[p] : self.parts.bases[p + 1]],
            np.empty((threads, BUFFER), ids),
            (np.zeros(8 * threads, np.uint8), *partials),
            (*totals, np.empty(0)),
            (*(self._of(array, p, name) for name, array in self.copies.items()), np.empty(0)),
            (*sums, np.empty(0)),
            ordered,
            self._again("record", p, lambda: record_rooms(
                ids, replays, kernel.plan.has_edges, self.rooms[p].recorded,
                fixed=job.preallocation.fixed,
            )),
            edge_rooms(m, ids, threads, kernel.plan.has_edges),
            waiting_rooms(n, ids, threads, kernel.plan.orders),
            trace,
            (place, *self.shared, np.empty((threads, BUFFER), ids), told),
            tuple(self.fields.values()),
            (*self.copies.values(), np.empty(0)),
            (*self.olds, np.empty(0)),
            (*self.united, np.empty(0)),
            (*self.agreed, np.empty(0)),
            self.to_hub,
            (*self.hub.boxes, np.empty(0)),
            (*self.hub.copies, np.empty(0)),
            (*self.hub.agreed, np.empty(0)),
        )  # fmt: skip

    def _lists(self, lists: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        return unsigned(lists[0]), unsigned(lists[1]), self._weights(lists)

    def _fronts(
        self, p: int, part: Part, m: int, ids: np.dtype, replays: bool
    ) -> tuple[np.ndarray, ...]:
        """Two frontiers, everyone, and for `backwards` one more, as on one device."""
        n, words = part.owned, (part.owned + 63) // 64
        first, everyone = np.zeros(INFO_WORDS, np.int64), np.zeros(INFO_WORDS, np.int64)
        everyone[[SIZE, FORM, EDGES]] = n, ALL, m
        queues = self._again(
            "queues", p, lambda: (room(n, ids), room(n, ids), room(n if replays else 0, ids))
        )
        queue = queues[0]
        if self.job.frontier is None:
            first[:] = everyone
        else:
            mine = self.parts.members(self.job.frontier, p)
            queue[: len(mine)] = mine
            degrees = self.job.graph.degrees[part.ids[mine]]
            first[[SIZE, EDGES]] = len(mine), degrees.sum()

        def bits(wanted: bool = True) -> np.ndarray:
            return np.zeros(words if wanted else 0, np.uint64)

        def info() -> np.ndarray:
            return np.zeros(INFO_WORDS, np.int64)

        return (
            queue, bits(), first, queues[1], bits(), info(), bits(), everyone,
            queues[2], bits(replays), info(), bits(replays), info(),
        )  # fmt: skip

    # ---- running --------------------------------------------------------------------------

    def go(
        self, watch: Callable[[], None] | None = None, let_go: Callable[[], None] | None = None
    ) -> None:
        """Run all parts; the first that fails fails the run."""
        with told_as_mistakes(self.d):
            returned = run_teams(self.worker, self.teams, self.sync, watch, let_go)
        for p, codes in zip(self.local, returned, strict=True):
            if min(codes) < 0:
                raise DeviceError(f"partition {p} on cpu:{self.threads[p]} failed, so the run did.")
        if any(code == FULL for codes in returned for code in codes):
            raise RecordIsFull

    def collect(self, seconds: float) -> None:
        """Bring fields, scalars, stats and the trace home."""
        job = self.job
        for name, field in job.fields.items():
            whole = job.fields[name] = new_array(field)
            for p in self.local:
                part, mine = self.parts.parts[p], self._of(self.fields[name], p, name)
                if self.d.fields[name].replicated:
                    if mine is not whole:
                        whole[:] = mine
                    break
                put_back(whole, part, mine)
        arguments = [team[2] for team in self.teams]
        for name, found in zip(self.d.scalars, arguments[0][6][1:], strict=True):
            job.scalars[name] = found[0]
        traces, rows = [a[14] for a in arguments], [a[15][-1] for a in arguments]
        recorded = {p: most_recorded(self.scratch["record", p]) for p in self.local}
        for p, most in recorded.items():
            job.preallocation.remember(job, self.parts.parts[p].owned, most)
        taken = int(traces[0][0, 0])
        sent, useful, whole_bytes = (int(part.sum()) for part in self.traffic)
        job.stats.update(
            supersteps=taken + int(traces[0][0, 1]),
            edges=sum(int(trace[0, 5:].sum()) for trace in traces),
            owned=[part.owned for part in self.parts.parts],
            ghosts=[part.held - part.owned for part in self.parts.parts],
            bytes_sent=sent, bytes_useful=useful, bytes_of_all=whole_bytes,
            memory=self._memory(recorded),
        )  # fmt: skip
        kept = min(taken, MOST_ROWS)
        cut = [trace[1 : kept + 1].copy() for trace in traces]
        unit = seconds / max(1, int(max(part[0, 0] for part in rows)))
        told = []
        for part in rows:
            start = np.zeros((1, 4), np.int64)
            told.append(np.diff(np.concatenate([start, part[1 : kept + 1]]), axis=0))
        job.make_trace = lambda: _rows(cut, told, unit)
        for other in list(self.parts.kept.values()):  # only the last kernel keeps its fields
            for place in [place for place in list(other) if place[0].startswith("field ")]:
                other.pop(place, None)
        self.parts.kept[self.key] = self.scratch
        for other in list(self.parts.kept)[:-_KEPT]:
            self.parts.kept.pop(other, None)

    def _memory(self, recorded: dict[int, int]) -> list[int]:
        """Bytes that each part took: lists and tables, fields, what was written of the rooms."""
        k = len(self.threads)
        found = []
        for p, part in enumerate(self.parts.parts):
            fields = sum(
                self._of(array, p, name).nbytes // (k if self._is_shared(name) else 1)
                for name, array in [*self.fields.items(), *self.copies.items()]
            )
            ghosts = int(self.parts.ghosts[p, k] - self.parts.ghosts[p, 0])
            tables = ghosts * (self.parts.home.itemsize + sum(old.itemsize for old in self.olds))
            united = sum(old.nbytes for old in self.united) // k
            ids = part.out[1].itemsize
            fronts = part.owned * (2 * ids + 1) + ghosts * ids
            if p in self.local:
                record, fixed = self.scratch["record", p][0], self.job.preallocation.fixed
                entries = record.size if fixed else recorded[p]
                fronts += entries * (ids + (8 if self.kernel.plan.has_edges else 0))
                fronts += bucket_bytes(self.scratch["ordered", p], part.owned)
            found.append(self.parts.nbytes[p] + fields + tables + united + fronts)
        return found


def _rows(traces: list[np.ndarray], told: list[np.ndarray], unit: float) -> list[dict[str, Any]]:
    """A row for each superstep."""
    return [
        row_of_parts(
            int(traces[0][i, 0]),
            [int(trace[i, 1]) for trace in traces],
            [int(trace[i, 5:].sum()) for trace in traces],
            bool(traces[0][i, 3]),
            [float(trace[i, 4]) * unit for trace in traces],
            [float(part[i, 0]) * unit for part in told],
            np.array([part[i, 1:] for part in told]),
        )
        for i in range(len(traces[0]))
    ]
