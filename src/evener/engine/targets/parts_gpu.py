"""Several parts of a graph on one GPU: a kernel for each part, all at once.

Each has a share of the card's blocks. They meet in the card's memory; the host only starts them
and waits.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from evener.device import cuda as device
from evener.device import format_bytes
from evener.device.download import downloaded
from evener.device.warp import BLOCK
from evener.engine.codegen.arguments import Common, GpuArguments
from evener.engine.codegen.functors import state_of
from evener.engine.codegen.print_parts_gpu import lower_parts_gpu
from evener.engine.codegen.print_resume import MORE_ROOM
from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job
from evener.engine.memory.gpu import Lowered
from evener.engine.memory.hub import HubMemory, no_hub
from evener.engine.memory.layout import Layout
from evener.engine.memory.parts_gpu import (
    arrays_of_hub,
    common_arrays,
    frontier_of,
    gather_fields,
    is_placed,
    part_arguments,
    place_parts,
    places_of,
    simulated_arguments,
    spread_fields,
)
from evener.engine.partition.divide import Parts, divide
from evener.engine.partition.partitioners import partition as assign
from evener.engine.preallocation import entry_bytes
from evener.engine.request import Request
from evener.engine.results.trace import MOST_ROWS, PartRows, rows_of_parts
from evener.engine.targets import gpu_kernel, sets
from evener.engine.targets.gpu import FEW_ROWS, clear
from evener.engine.targets.gpu_kernel import lowered_once, ready
from evener.errors import DeviceError, MemoryBudgetError
from evener.operators.gpu.trace import NEEDED, PASSED, STATUS, TRACE_WORDS
from evener.operators.gpu.world import MOST_PARTS, ROW
from evener.operators.shared.policies import Policy
from evener.operators.shared.trace import FUSED, ROWS, VISITED

REPEATS_START = True
_Function = TypeVar("_Function", bound=Callable[..., Any])
_one_run = threading.RLock()


def one_at_a_time(run: _Function) -> _Function:
    """Let Python threads take turns: launches that wait for each other need a whole card."""

    @functools.wraps(run)
    def alone(*args: Any, **options: Any) -> Any:
        with _one_run:
            return run(*args, **options)

    return cast(_Function, alone)


def require_few_parts(ordinals: Sequence[int | None]) -> None:
    """Refuse more parts on one GPU than a warp has lanes for."""
    most = max(ordinals.count(one) for one in ordinals if one is not None)
    if most > MOST_PARTS:
        raise DeviceError(f"one GPU can have at most {MOST_PARTS} parts, not {most}.")


@one_at_a_time
def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns the lines for `explain()`."""
    from evener.engine.targets import hybrid  # circular imports

    ordinals = [one.number or 0 for one in request.devices]
    options = (
        request.partition, request.direction, request.schedule, request.policy, request.limits,
    )  # fmt: skip
    if max(hybrid.machines_of(ordinals)) > 0:
        return hybrid.run_hybrid(job, [0] * len(ordinals), ordinals, *options)
    return run_gpu_parts(job, ordinals, *options, request.device_arrays)


def run_gpu_parts(
    job: Job,
    ordinals: Sequence[int],
    partition: Any,
    direction: str,
    schedule: str,
    policy: Policy,
    limits: Sequence[int | None] = (),
    device_arrays: bool = False,
) -> list[str]:
    """Divide the graph and run a job over its parts on one GPU; returns as `run` does."""
    k = len(ordinals)
    require_few_parts(ordinals)
    job.begin()
    if job.graph.num_vertices == 0:
        return sets.nothing_to_do(job, direction)
    names = [f"cuda:{ordinal}" for ordinal in ordinals]
    parts = sets.divided(job, partition, [1 / k] * k, limits, names, direction)
    with device.on(ordinals[0]):
        began = time.perf_counter()
        lowered = lowered_parts(job, direction, schedule, policy)
        largest = max(part.owned for part in parts.parts)
        most = most_recorded_on(job, lowered, parts, list(range(k)))
        room = job.preallocation.first(job, largest, most) if lowered.plan.replays else 1
        while True:
            card = Card(job, lowered, parts, list(range(k)), policy, room)
            job.stats["compile_seconds"] = time.perf_counter() - began
            card.prepare()
            card.start()
            card.wait()
            if card.ended != MORE_ROOM:
                break
            needed = max(card.needed, room + 1)
            room = job.preallocation.more(job, largest, room, needed, most, times=4)
        results = gather_fields(device.library(), job, card.at, card.fields)
        job.fields = (
            results if device_arrays else {name: downloaded(f) for name, f in results.items()}
        )
        for name, value in card.scalars().items():
            job.scalars[name] = value
        job.stats.update(card.stats(), blocks=card.blocks, **sets.sizes_of(parts))
        rows = list(card.rows().values())
        job.make_trace = lambda: rows_of_parts(rows)
    return [
        sets.partition_reason(partition, parts),
        f"Direction: {direction}. Schedule: {'dynamic' if schedule == 'auto' else schedule}.",
        f"Each part ran as one kernel, of {' + '.join(map(str, card.blocks))} blocks, all at "
        "once on the GPU.",
    ]


def most_recorded_on(job: Job, lowered: Lowered, parts: Parts, local: list[int]) -> int | None:
    """The largest record that the memory limits of these parts allow, or None."""
    entry = entry_bytes(job, lowered.plan.has_edges)
    limited = [p for p in local if job.left and job.left[p] is not None]
    # The estimate includes each vertex once.
    return min((parts.parts[p].owned + (job.left[p] or 0) // entry for p in limited), default=None)


def lowered_parts(
    job: Job, direction: str, schedule: str, policy: Policy, hub: bool = False
) -> Lowered:
    """The kernel of a part. With a ``hub`` there are parts on other machines too."""
    state = state_of(job.declaration)
    lower = partial(lower_parts_gpu, job, direction, state, schedule, policy.measure, hub)
    more = ("parts", policy.measure, hub, job.graph.directed)
    return lowered_once(job, direction, schedule, more, lower)


def lower(job: Job, request: Request) -> list[Kernel]:
    """The kernel of a job, not compiled."""
    return [_lower(job, request, hub=False)]


def lower_beside_others(job: Job, request: Request) -> Kernel:
    """The kernel of a GPU's part besides parts on other machines, not compiled."""
    return _lower(job, request, hub=True)


def _lower(job: Job, request: Request, hub: bool) -> Kernel:
    gpu_kernel.require_schedule(request.schedule)
    state, measure = state_of(job.declaration), request.policy.measure
    return lower_parts_gpu(job, request.direction, state, request.schedule, measure, hub)


def ptx(job: Job, request: Request, capability: tuple[int, int]) -> str:
    """The PTX of a job's kernel; no GPU is needed."""
    k = len(request.devices)
    part_of = assign(job.graph, request.partition, [1 / k] * k)
    hub = not request.all_cards
    return ptx_of(
        job, part_of, k, request.direction, request.schedule, request.policy, capability, hub
    )


def ptx_of(
    job: Job, part_of: np.ndarray, k: int, direction: str, schedule: str, policy: Policy,
    capability: tuple[int, int], hub: bool = False,
) -> str:  # fmt: skip
    """The PTX of the kernel of a part; no GPU is needed."""
    job.begin()
    lowered = lowered_parts(job, direction, schedule, policy, hub)
    parts = divide(job.graph, part_of, k, **sets.lists_of(job, direction))
    arguments = simulated_arguments(job, lowered, parts, 64, policy, list(range(k)))
    return gpu_kernel.ptx_of(lowered, arguments[0], capability)


# ---- launches ----------------------------------------------------------------------------------


class Launch(NamedTuple):
    """The kernels of a card's parts with their arguments, except for addresses of memory."""

    kernel: device.GridKernel
    blocks: dict[int, int]  # by part
    arguments: dict[int, GpuArguments]
    packed: dict[int, device.Packed]
    sizes: dict[str, int]  # of the pieces of memory

    @property
    def common(self) -> Common:
        """The arrays that all parts share."""
        return next(iter(self.arguments.values())).between.common


def _launch(
    job: Job, lowered: Lowered, parts: Parts, local: list[int], policy: Policy, room: int,
    hub: HubMemory, among: int,
) -> Launch:  # fmt: skip
    """The launch of the parts of a card, made once for each division of a graph."""
    key = ("launch", device.current(), tuple(local), room, among, lowered.key)
    if key not in parts.on_gpus:
        layout = Layout()
        if not is_placed(parts, local):
            lists = sum(parts.nbytes[p] for p in local)
            _require(job, lists * (1 + lowered.plan.has_both))
        at = place_parts(layout.library, parts, job.graph.degrees, local)
        common = common_arrays(layout, job, lowered, parts, at, hub)
        # Only the types matter here: the number of blocks depends on the kernel.
        places = places_of(job, parts, dict.fromkeys(local, 1), BLOCK, policy, hub)
        arguments = {
            p: part_arguments(layout, job, lowered, parts, at, common, p, places[p], room)
            for p in local
        }
        kernel = ready(job, lowered, arguments[local[0]], device.current())
        sizes = [len(parts.parts[p].out[1]) for p in local]
        blocks = dict(zip(local, divide_blocks(kernel.blocks // among, sizes), strict=True))
        packed = {p: device.pack(one) for p, one in arguments.items()}
        parts.on_gpus[key] = Launch(kernel, blocks, arguments, packed, layout.sizes)
    return parts.on_gpus[key]


def divide_blocks(blocks: int, sizes: list[int]) -> list[int]:
    """Blocks of each part in proportion to its size, and at least one.

    Examples
    --------
    >>> from evener.engine.targets.parts_gpu import divide_blocks
    >>> divide_blocks(132, [300, 100, 0])
    [97, 33, 1]
    """
    k, total = len(sizes), max(1, sum(sizes))
    if blocks < k:
        raise DeviceError(f"this GPU can run {blocks} blocks at once, too few for {k} parts.")
    return [1 + (blocks - k) * size // total for size in sizes]


class NoRoom(MemoryBudgetError):
    """A GPU has too little memory for its parts, found before anything ran."""


def _require(job: Job, needed: int) -> None:
    """Refuse what does not fit, before anything is allocated."""
    free = device.free_memory()
    if needed > free:
        raise NoRoom(
            f"Running {job.declaration.name} over parts needs about {format_bytes(needed)} on the "
            f"GPU, but only {format_bytes(free)} are free; put a larger share on the CPU, as in "
            "device='cpu+cuda' with partition='high:alpha=0.5'."
        )


class Card:
    """Parts on the current GPU, with its blocks divided ``among`` this number of machines."""

    def __init__(
        self, job: Job, lowered: Lowered, parts: Parts, local: list[int], policy: Policy, room: int,
        hub: HubMemory | None = None, among: int = 1,
    ):  # fmt: skip
        self.job, self.lowered, self.parts, self.local = job, lowered, parts, local
        self.ordinal = device.current()
        self.hub = hub or no_hub(job, parts, lowered.kernel)
        self.launch = _launch(job, lowered, parts, local, policy, room, self.hub, among)
        self.places = places_of(job, parts, self.launch.blocks, BLOCK, policy, self.hub)
        self.at = place_parts(device.library(), parts, job.graph.degrees, local)
        self.blocks = list(self.launch.blocks.values())
        self.running: device.Running | None = None
        self.needed = 0
        self.copies = 1 if lowered.plan.shares else len(parts.parts)  # of replicated fields

    @property
    def nbytes(self) -> int:
        """Bytes of a run besides the lists of the parts."""
        n, slots = self.job.graph.num_vertices, int(self.parts.bases[-1])
        nbytes = sum(self.launch.sizes.values())
        for name, field in self.job.fields.items():
            replicated = self.job.declaration.fields[name].replicated
            nbytes += (self.copies * n if replicated else slots) * field.dtype.itemsize
        return nbytes

    def here(self) -> Any:
        """A context in which this GPU is the current one."""
        return device.on(self.ordinal)

    def prepare(self) -> None:
        """Allocate and fill the memory of a run."""
        job, launch, library = self.job, self.launch, device.library()
        _require(job, self.nbytes)
        memory = {region: device.allocate(size) for region, size in launch.sizes.items()}
        clear(memory, launch.sizes)
        self.fields = spread_fields(library, job, self.at, self.copies)
        n = job.graph.num_vertices
        own = {f"field {name}": field for name, field in self.fields.items()}
        own |= {f"old {name}": self.fields[name][:n].copy() for name in self.lowered.plan.united}
        own["hub machine_of"] = library.asarray(self.hub.machine_of)
        self.kept = own, memory  # until the kernels have ended
        hub = {f"hub {name}": array for name, array in arrays_of_hub(self.hub).items()}
        arrays = {**hub, **own}
        self.addresses = {name: device.address_of(array) for name, array in arrays.items()}
        self.addresses |= {region: piece.ptr for region, piece in memory.items()}
        params = job.params.values()
        self.words = []
        for p, arguments in launch.arguments.items():
            device.upload(self._address(arguments.infos.made), frontier_of(job, self.parts, p))
            if self.lowered.plan.replays:  # the first bound of the record is 0
                bounds = arguments.kept.bounds
                device.clear(self._address(bounds), bounds.dtype.itemsize)
            values = (*params, *self.places[p])
            self.words.append(launch.packed[p].placed(self.addresses, values))
        self.syncs = [self._address(one.sync) for one in launch.arguments.values()]

    def start(self) -> None:
        """Start the kernels."""
        group = int(self.hub.machine_of[self.local[0]])
        self.running = self.launch.kernel.start_beside(self.words, self.blocks, group)

    def _address(self, span: device.Span) -> int:
        return self.addresses[span.region] + span.address

    def _fetched(self, span: device.Span, count: int) -> np.ndarray:
        nbytes = min(count, span.size) * span.dtype.itemsize
        return device.download(self._address(span), nbytes).view(span.dtype)

    def is_done(self) -> bool:
        """Whether the kernels have ended; an error of the GPU is raised."""
        return self.running is None or self.running.is_done()

    def ask_to_stop(self) -> None:
        """Stop the kernels, and those of all other machines, at the next superstep."""
        device.ask_to_stop(self.syncs)

    def wait_for_stop(self) -> None:
        """Wait for kernels that were asked to stop, within a time limit."""
        if self.running is not None:
            device.wait_for_the_end(self.running.stops)

    def wait(self) -> None:
        """Wait until the kernels have ended."""
        if self.running is None:  # another card failed first
            return
        self.seconds = self.running.wait(self.syncs)
        traces = [one.trace for one in self.launch.arguments.values()]
        self.heads = [self._fetched(trace, FEW_ROWS * TRACE_WORDS) for trace in traces]
        self.ended = max(int(head[STATUS]) for head in self.heads)
        self.needed = max(int(head[NEEDED]) for head in self.heads)  # room for records, if more

    # ---- results --------------------------------------------------------------------------

    def scalars(self) -> dict[str, Any]:
        """The final values of scalars."""
        partials = self.launch.arguments[self.local[0]].partials
        return {name: self._fetched(span, 1)[0] for name, span in partials._asdict().items()}

    def stats(self) -> dict[str, Any]:
        """Supersteps, calls of functors, bytes."""
        traffic = self.launch.common.links.traffic
        sent, useful, whole = self._fetched(traffic, traffic.size).reshape(3, -1).sum(axis=1)
        return {
            "device_seconds": self.seconds,
            "supersteps": int(self.heads[0][ROWS]) + int(self.heads[0][FUSED]),
            "edges": sum(int(head[VISITED]) for head in self.heads),
            "bytes_sent": int(sent), "bytes_useful": int(useful), "bytes_of_all": int(whole),
            "memory": [self.parts.nbytes[p] + self.nbytes // len(self.local) for p in self.local],
        }  # fmt: skip

    def rows(self) -> dict[int, PartRows]:
        """The rows of the trace, by part."""
        rows = min(int(self.heads[0][ROWS]), MOST_ROWS) + 1
        heads, arguments = self.heads, self.launch.arguments.values()
        if rows > FEW_ROWS:
            heads = [self._fetched(one.trace, rows * TRACE_WORDS) for one in arguments]
        cumulative = [self._fetched(one.between.rows, rows * ROW) for one in arguments]
        unit = self.seconds / max(1, *(int(part[0]) for part in cumulative))
        for part in cumulative:
            part[:ROW] = 0  # this held the cycles of the whole run
        tables = [head[: rows * TRACE_WORDS].reshape(-1, TRACE_WORDS)[1:] for head in heads]
        return {
            p: PartRows(table[:, :PASSED], np.diff(part.reshape(-1, ROW), axis=0), unit)
            for p, table, part in zip(self.local, tables, cumulative, strict=True)
        }
