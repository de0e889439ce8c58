"""Several parts of a graph on one GPU: a kernel for each part, all at once, each with a share of
the card's blocks. They meet in the card's memory; the host only starts them and waits.
"""

from __future__ import annotations

import linecache
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from evener.device import cuda as device
from evener.device.states import state_type
from evener.device.warp import BLOCK
from evener.engine import gpu
from evener.engine.check_functors import check_functors, total_dtype
from evener.engine.gpu_parts_memory import (
    PartsLayout,
    PartsOnDevice,
    gather_fields,
    place_parts,
    spread_fields,
    words_of_bits,
)
from evener.engine.job import Job, field_dtype
from evener.engine.lower import pulls
from evener.engine.lower_grid import MORE_ROOM
from evener.engine.lower_grid_parts import lower_grid_parts
from evener.engine.memory import require_parts
from evener.engine.native import OFFERED, _examples, _functors
from evener.engine.partitioners import partition as assign
from evener.engine.parts import Parts, divide
from evener.errors import DeviceError
from evener.operators.frontier import ALL
from evener.operators.grid import exchange
from evener.operators.grid.frontier import (
    CANCEL,
    EDGES,
    FORM,
    INFO_WORDS,
    SIZE,
    SYNC_WORDS,
    TURNS,
    WORK_WORDS,
)
from evener.operators.grid.nearest import SHARED_WORDS
from evener.operators.grid.record import FUSED, STATUS, TRACE_WORDS, VISITED
from evener.operators.policies import Policy
from evener.operators.schedules import SCHEDULES, merge_path
from evener.operators.schedules.common import PIECE, PIECE_WORDS, room_for_pieces
from evener.programs.fields import neutral
from evener.programs.stages import Backwards, Edges, Repeat, walk

PLACE_WORDS = 8
FEW_ROWS = gpu.FEW_ROWS


class Plan(NamedTuple):
    """A kernel for parts, and what it works with."""

    key: Any
    kernel: Any  # the plain function
    functors: dict[str, Any]
    dtypes: tuple[np.dtype, ...]  # of the totals of each gather
    stored: tuple[bool, ...]
    copied: tuple[str, ...]
    shadowed: tuple[str, ...]
    united: tuple[str, ...]
    pulls: bool
    ordered: bool
    replays: bool
    sums: bool
    blocks_each: int


class Launch(NamedTuple):
    """The kernels of all parts with their arguments, but for where the memory of a run is."""

    kernel: device.GridKernel
    packed: list[device.Packed]
    blocks: list[int]
    layout: PartsLayout
    arguments: list[tuple[Any, ...]]
    places: np.ndarray
    traffic: device.Span


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
    """Divide the graph and run a job over its parts on a GPU; returns what there is to say."""
    k = len(ordinals)
    if len(set(ordinals)) > 1:
        raise DeviceError(
            "this version has parts on one GPU only; name the same one for each part, as in "
            f"'cuda:{ordinals[0]}+cuda:{ordinals[0]}'."
        )
    if k > exchange.MOST_PARTS:
        raise DeviceError(f"one GPU can have at most {exchange.MOST_PARTS} parts, not {k}.")
    job.stats.update(supersteps=0, edges=0)
    gpu._reset_scalars(job)
    if job.graph.num_vertices == 0:
        job.fields = {name: np.asarray(field) for name, field in job.fields.items()}
        return [f"Direction: {direction}. There was nothing to do."]
    began = time.perf_counter()
    part_of = assign(job.graph, partition, [1 / k] * k)
    if limits:
        names = [f"cuda:{ordinal}" for ordinal in ordinals]
        require_parts(job.declaration, job.graph, part_of, limits, names, direction)
    parts = _divide(job, part_of, k, direction)
    job.stats["partition_seconds"] = time.perf_counter() - began
    with device.on(ordinals[0]):
        began = time.perf_counter()
        plan = make_plan(job, direction, schedule, policy)
        room = max(part.owned for part in parts.parts) + 1
        while True:
            launch = _launch(job, plan, parts, room, policy)
            job.stats["compile_seconds"] = time.perf_counter() - began
            if _run(job, plan, parts, launch, device_arrays) != MORE_ROOM:
                break
            room *= 4
    owned, ghosts = ([f"{n:,}" for n in job.stats[what]] for what in ("owned", "ghosts"))
    name = partition if isinstance(partition, str) else getattr(partition, "__name__", "given")
    return [
        f"Partition: {'random' if name == 'auto' else name}, {k} parts with {' + '.join(owned)} "
        f"vertices and {' + '.join(ghosts)} ghosts.",
        f"Direction: {direction}. Schedule: {'dynamic' if schedule == 'auto' else schedule}.",
        f"Each part ran as one kernel, of {' + '.join(map(str, launch.blocks))} blocks, all at "
        "once on the GPU.",
    ]


def _divide(job: Job, part_of: np.ndarray, k: int, direction: str) -> Parts:
    d = job.declaration
    slices = any(isinstance(s, Edges) and s.neighbours is not None for s in walk(d.loop))
    return divide(job.graph, part_of, k, pulls=pulls(d, direction), in_order=slices)


def ptx_of(
    job: Job, part_of: np.ndarray, k: int, direction: str, schedule: str, policy: Policy,
    capability: tuple[int, int],
) -> str:  # fmt: skip
    """The PTX of the kernel of a part; no GPU is needed."""
    gpu._reset_scalars(job)
    plan = make_plan(job, direction, schedule, policy)
    parts = _divide(job, part_of, k, direction)
    arguments = simulated_arguments(job, plan, parts, 64, policy)
    described = device.describe(arguments[0])
    return device.compile_ptx(plan.kernel, described, capability, plan.blocks_each)


# ---- the kernel --------------------------------------------------------------------------------

_plans: dict[Any, Plan] = {}


def make_plan(job: Job, direction: str, schedule: str, policy: Policy) -> Plan:
    """The kernel of a program, made once for each list of dtypes."""
    if schedule != "auto" and schedule not in SCHEDULES:
        known = ", ".join(map(repr, SCHEDULES))
        raise DeviceError(f"there is no schedule {schedule!r}; there are 'auto', {known}.")
    graph = job.graph
    arrays: list[Any] = [graph._indptr, graph._indices, *job.fields.values()]
    if job.declaration.uses_weights:
        arrays.append(graph._weights)
    dtypes = tuple(array.dtype for array in arrays)
    key = (job.program, direction, schedule, policy.measure, graph.directed, dtypes)
    if key not in _plans:
        _plans[key] = _make_plan(job, direction, schedule, policy, key)
    return _plans[key]


def _make_plan(job: Job, direction: str, schedule: str, policy: Policy, key: Any) -> Plan:
    d = job.declaration
    example = gpu._example(job)
    state = state_type((*d.fields, *d.params, *d.scalars, *OFFERED))
    kernel = lower_grid_parts(job, direction, state, schedule, policy.measure)
    totals = []
    for number, stage in enumerate(kernel.gathers):
        dtype = total_dtype(d, _functors(job, kernel), stage, *_examples(example))
        own = stage.combine_is_functor
        kernel.names[f"neutral_of_{number}"] = dtype.type(
            0 if own else neutral(stage.combine, dtype)
        )
        totals.append(dtype)
    file = f"<evener kernel {hash(kernel.text) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(kernel.text), None, kernel.text.splitlines(True), file)
    scope = {**kernel.names, "__name__": __name__}
    exec(compile(kernel.text, file, "exec"), scope)
    scope["worker"] = device.inlined(scope["worker"])
    stages = list(walk(d.loop))
    takes = any(map(gpu._takes_frontier, stages))
    return Plan(
        key,
        scope["kernel"],
        _functors(job, kernel),
        tuple(totals),
        tuple(number in kernel.totals for number in range(len(totals))),
        tuple(kernel.copied),
        tuple(kernel.shadowed),
        tuple(kernel.united),
        pulls(d, direction),
        any(isinstance(stage, Repeat) and stage.order is not None for stage in stages),
        any(isinstance(stage, Backwards) for stage in stages),
        schedule == "merge_path",
        gpu.BLOCKS_FOR_FRONTIERS if takes else gpu.BLOCKS_FOR_ALL,
    )


# ---- memory ------------------------------------------------------------------------------------


class Shared(NamedTuple):
    """Arrays that the kernels of all parts have in common."""

    links: tuple[Any, ...]  # from sync to traffic, as `lower_grid_parts.LINKS`
    alls: dict[str, Any]
    copies: dict[str, Any]
    olds: tuple[Any, ...]
    united: tuple[Any, ...]
    agreed: tuple[Any, ...]


def share(room_for: Any, job: Job, plan: Plan, parts: Parts, at: PartsOnDevice) -> Shared:
    """The arrays that all parts see."""
    cleared, scratch, named = room_for.cleared, room_for.scratch, room_for.named
    d, n, k = job.declaration, job.graph.num_vertices, len(parts.parts)
    slots, ghosts = int(parts.bases[-1]), len(parts.home)
    ids = at.parts[0].rows[1].dtype
    dtypes = {name: field.dtype for name, field in job.fields.items()}
    lengths = {name: k * n if d.fields[name].replicated else slots for name in d.fields}
    links = (
        cleared(SYNC_WORDS, np.uint32), cleared(2 * k * exchange.APART, np.int64), at.bases,
        at.owned, at.ghosts, at.home, cleared(slots, np.uint32), scratch(max(1, ghosts), ids),
        cleared(k * exchange.BOXED, np.int64),
        scratch(int(words_of_bits(parts)[-1]) if plan.pulls else 1, np.uint32), at.words_from,
        cleared(k * k, np.int64), cleared(max(32, k), np.int64), cleared(3 * k * k, np.int64),
    )  # fmt: skip
    return Shared(
        links,
        {name: named(f"field {name}", lengths[name], dtypes[name]) for name in d.fields},
        {name: scratch(lengths[name], dtypes[name]) for name in plan.copied},
        tuple(scratch(max(1, ghosts), dtypes[name]) for name in plan.shadowed),
        tuple(named(f"old {name}", n, dtypes[name]) for name in plan.united),
        tuple(
            cleared(2 * k * exchange.APART, field_dtype(scalar.dtype, job.graph))
            for scalar in d.scalars.values()
        ),
    )


def arguments_of(
    room_for: Any, job: Job, plan: Plan, parts: Parts, at: PartsOnDevice, shared: Shared, p: int,
    room: int,
) -> tuple[Any, ...]:  # fmt: skip
    """All that the kernel of one part works on."""
    d, part, here = job.declaration, parts.parts[p], at.parts[p]
    cleared, scratch = room_for.cleared, room_for.scratch
    n, m = max(1, part.owned), max(len(part.out[1]), len(part.into[1]))
    ids = here.rows[1].dtype
    pieces = room_for_pieces(m, gpu.GATHER_PIECE if plan.dtypes else PIECE)
    sums = merge_path.scratch_words(n, gpu.MAX_WARPS) if plan.sums else 0
    words = (n + 31) // 32 if plan.pulls else 1
    far = n if plan.ordered else 1
    kept = n if plan.replays else 1
    nothing = cleared(1, np.int32)
    rows, columns = here.rows, here.columns
    if not d.uses_weights:  # one dtype of weights, hence one kernel, for all graphs
        rows, columns = (*rows[:2], nothing), (*columns[:2], nothing)
    infos = room_for.named(f"infos {p}", 10 * INFO_WORDS, np.int64)
    first, last = int(parts.bases[p]), int(parts.bases[p + 1])
    bounds = words_of_bits(parts)[p : p + 2] if plan.pulls else (0, 1)
    length = job.graph.num_vertices

    def mine(name: str, array: Any) -> Any:
        replicated = d.fields[name].replicated
        return array[p * length : (p + 1) * length] if replicated else array[first:last]

    partials = tuple(
        cleared(gpu.MAX_BLOCKS, field_dtype(scalar.dtype, job.graph))
        for scalar in d.scalars.values()
    )
    return (
        cleared(SYNC_WORDS, np.uint32),
        (*rows, *columns, here.degrees, here.ids),
        tuple(mine(name, array) for name, array in shared.alls.items()),
        tuple(job.params.values()),
        (
            room_for.named(f"queue {p}", n, ids), cleared(words, np.uint32), scratch(n, ids),
            cleared(words, np.uint32), scratch(kept, ids), cleared(words, np.uint32),
            cleared(words, np.uint32),
        ),
        tuple(infos[first * INFO_WORDS : last * INFO_WORDS] for first, last in gpu._POOLS),
        cleared(TURNS * WORK_WORDS, np.int64),
        shared.links[6][first:last],
        scratch(max(pieces * PIECE_WORDS, sums), np.int64),
        partials,
        tuple(
            scratch(n if stored else 1, dtype)
            for stored, dtype in zip(plan.stored, plan.dtypes, strict=True)
        ),
        tuple(scratch(pieces, dtype) for dtype in plan.dtypes),
        tuple(mine(name, array) for name, array in shared.copies.items()),
        (
            cleared(SHARED_WORDS, np.int64), scratch(far, ids), scratch(far, ids),
            cleared(far, np.uint32),
        ),
        (
            scratch(room if plan.replays else 1, ids),
            cleared(room + 1 if plan.replays else 2, np.int64),
        ),
        cleared((gpu.TRACE_ROWS + 1) * TRACE_WORDS, np.int64),
        (
            room_for.named(f"place {p}", PLACE_WORDS, np.int64), *shared.links,
            shared.links[9][int(bounds[0]) : int(bounds[1])],
            cleared((gpu.TRACE_ROWS + 1) * exchange.ROW, np.int64),
        ),
        tuple(shared.alls.values()),
        tuple(shared.copies.values()),
        shared.olds,
        shared.united,
        shared.agreed,
    )  # fmt: skip


def places_of(job: Job, parts: Parts, blocks: list[int], width: int, policy: Policy) -> np.ndarray:
    """Where each part is among the others, as the kernels read it."""
    k, total = len(parts.parts), sum(blocks)
    graph = job.graph
    return np.array(
        [
            [p, k, total * width, sum(blocks[:p]) * width, graph.num_vertices, graph.num_edges,
             policy.number, total]
            for p in range(k)
        ], np.int64,
    )  # fmt: skip


def frontiers_of(job: Job, parts: Parts, slot_of: np.ndarray) -> list[tuple[np.ndarray, Any]]:
    """The words of frontiers and the first queue of each part."""
    found = []
    slots = None if job.frontier is None else slot_of[job.frontier]
    for p, part in enumerate(parts.parts):
        pools = np.zeros((10, INFO_WORDS), np.int64)
        pools[3, [SIZE, FORM, EDGES]] = part.owned, ALL, len(part.out[1])
        members = np.empty(0, _ids(part))
        if slots is None:
            pools[0] = pools[3]
        else:
            here = slots[(slots >= parts.bases[p]) & (slots < parts.bases[p + 1])]
            members = np.sort(here - parts.bases[p]).astype(_ids(part))
            pools[0, SIZE] = len(members)
        found.append((pools, members))
    return found


def _ids(part: Any) -> np.dtype:
    return np.dtype(f"u{part.out[1].dtype.itemsize}")


class SimulatedMemory:
    """Arrays in the host's memory: to compile, and to simulate."""

    def __init__(self, given: dict[str, np.ndarray]):
        self.given = given

    def cleared(self, length: int, dtype: Any) -> Any:
        """An array of zeros."""
        return np.zeros(length, dtype)

    def scratch(self, length: int, dtype: Any) -> Any:
        """An array of anything."""
        return np.empty(length, dtype)

    def named(self, region: str, length: int, dtype: Any) -> Any:
        """An array that is given, or zeros."""
        if region not in self.given:
            self.given[region] = np.zeros(length, dtype)
        return self.given[region]


def simulated_arguments(
    job: Job, plan: Plan, parts: Parts, width: int, policy: Policy
) -> list[tuple[Any, ...]]:
    """The arguments of all parts in the host's memory, for grids of one block so wide."""
    k, n = len(parts.parts), job.graph.num_vertices
    at = place_parts(np, parts, job.graph.degrees)
    fields = spread_fields(np, job, at, k)
    given = {f"field {name}": array for name, array in fields.items()}
    given |= {f"old {name}": fields[name][:n].copy() for name in plan.united}
    for p, place in enumerate(places_of(job, parts, [1] * k, width, policy)):
        given[f"place {p}"] = place
    for p, (pools, members) in enumerate(frontiers_of(job, parts, at.slot_of)):
        given[f"infos {p}"] = pools.ravel()
        queue = given[f"queue {p}"] = np.zeros(max(1, parts.parts[p].owned), members.dtype)
        queue[: len(members)] = members
    memory = SimulatedMemory(given)
    shared = share(memory, job, plan, parts, at)
    room = 64 * n + 64
    return [arguments_of(memory, job, plan, parts, at, shared, p, room) for p in range(k)]


# ---- running -----------------------------------------------------------------------------------


def _launch(job: Job, plan: Plan, parts: Parts, room: int, policy: Policy) -> Launch:
    """The launches of all parts, made once for each division of a graph."""
    key = ("launch", device.current(), room, plan.key, policy.number)
    if key not in parts.on_gpus:
        layout = PartsLayout()
        at = place_parts(layout.library, parts, job.graph.degrees)
        shared = share(layout, job, plan, parts, at)
        arguments = [
            arguments_of(layout, job, plan, parts, at, shared, p, room)
            for p in range(len(parts.parts))
        ]
        try:
            kernel = gpu._grid_kernel(
                plan.kernel, device.describe(arguments[0]), plan.blocks_each, device.current()
            )
        except device.CompileError:
            example = gpu._example(job)
            check_functors(job.declaration, plan.functors, *_examples(example))
            raise
        blocks = divide_blocks(kernel.blocks, [len(part.out[1]) for part in parts.parts])
        places = places_of(job, parts, blocks, BLOCK, policy)
        packed = [device.pack(given) for given in arguments]
        traffic = shared.links[13]
        parts.on_gpus[key] = Launch(kernel, packed, blocks, layout, arguments, places, traffic)
    return parts.on_gpus[key]


def divide_blocks(blocks: int, sizes: list[int]) -> list[int]:
    """Blocks of each part in proportion to its size, and at least one.

    Examples
    --------
    >>> from evener.engine.gpu_parts import divide_blocks
    >>> divide_blocks(132, [300, 100, 0])
    [97, 33, 1]
    """
    k, total = len(sizes), max(1, sum(sizes))
    if blocks < k:
        raise DeviceError(f"this GPU can run {blocks} blocks at once, too few for {k} parts.")
    return [1 + (blocks - k) * size // total for size in sizes]


def _run(job: Job, plan: Plan, parts: Parts, launch: Launch, device_arrays: bool) -> int:
    """Run the kernels; returns how they ended, and if that was well the job has all they found."""
    library, layout = device.library(), launch.layout
    k = len(parts.parts)
    at = place_parts(library, parts, job.graph.degrees)
    memory = {region: device.allocate(max(1, size)) for region, size in layout.sizes.items()}
    device.clear(memory["cleared"].ptr, layout.sizes["cleared"])
    fields = spread_fields(library, job, at, k)
    n = job.graph.num_vertices
    olds = {name: fields[name][:n].copy() for name in plan.united}
    addresses = {region: piece.ptr for region, piece in memory.items()}
    addresses |= {f"field {name}": field.data.ptr for name, field in fields.items()}
    addresses |= {f"old {name}": old.data.ptr for name, old in olds.items()}
    places = library.asarray(launch.places)
    kept = []
    if "slots" not in parts.on_gpus:
        parts.on_gpus["slots"] = at.slot_of.get()
    for p, (pools, members) in enumerate(frontiers_of(job, parts, parts.on_gpus["slots"])):
        infos, queue = library.asarray(pools), library.empty(max(1, parts.parts[p].owned), "u8")
        if len(members):
            queue.view(members.dtype)[: len(members)] = library.asarray(members)
        kept += [infos, queue]
        addresses[f"infos {p}"], addresses[f"queue {p}"] = infos.data.ptr, queue.data.ptr
        addresses[f"place {p}"] = places[p].data.ptr
    started, cancels = [], []
    for p, packed in enumerate(launch.packed):
        words = packed.words.copy()
        for region, found in packed.addresses.items():
            words[found] += addresses[region]
        words[packed.values] = [device.bits_of(value) for value in job.params.values()]
        started.append(words)
        sync = launch.arguments[p][0]
        cancels.append(addresses[sync.region] + sync.address + CANCEL * sync.dtype.itemsize)
    seconds = launch.kernel.run_beside(started, launch.blocks, cancels)
    return _collect(job, parts, launch, at, fields, addresses, seconds, device_arrays)


def _collect(
    job: Job, parts: Parts, launch: Launch, at: PartsOnDevice, fields: dict[str, Any],
    addresses: dict[str, int], seconds: float, device_arrays: bool,
) -> int:  # fmt: skip
    """Bring fields, scalars, stats and the trace home."""

    def fetched(span: device.Span, count: int) -> np.ndarray:
        nbytes = min(count, span.size) * span.dtype.itemsize
        return device.download(addresses[span.region] + span.address, nbytes).view(span.dtype)

    traces = [arguments[15] for arguments in launch.arguments]
    heads = [fetched(trace, FEW_ROWS * TRACE_WORDS) for trace in traces]
    ended = max(int(head[STATUS]) for head in heads)
    if ended == MORE_ROOM:
        return ended
    taken = int(heads[0][0])
    rows = min(taken, gpu.TRACE_ROWS) + 1
    if rows > FEW_ROWS:
        heads = [fetched(trace, rows * TRACE_WORDS) for trace in traces]
    told = [fetched(arguments[16][-1], rows * exchange.ROW) for arguments in launch.arguments]
    for name, partial in zip(job.declaration.scalars, launch.arguments[0][9], strict=True):
        job.scalars[name] = fetched(partial, 1)[0]
    found = gather_fields(device.library(), job, at, fields)
    job.fields = found if device_arrays else {name: f.get() for name, f in found.items()}
    sent, useful, whole = fetched(launch.traffic, launch.traffic.size).reshape(3, -1).sum(axis=1)
    job.stats.update(
        device_seconds=seconds, supersteps=taken + int(heads[0][FUSED]),
        edges=sum(int(head[VISITED]) for head in heads),
        owned=[part.owned for part in parts.parts],
        ghosts=[part.held - part.owned for part in parts.parts],
        blocks=launch.blocks,
        bytes_sent=int(sent), bytes_useful=int(useful), bytes_of_all=int(whole),
    )  # fmt: skip
    tables = [head.reshape(-1, TRACE_WORDS)[1:rows] for head in
              (head[: rows * TRACE_WORDS] for head in heads)]  # fmt: skip
    unit = seconds / max(1, *(int(part[0]) for part in told))
    for part in told:
        part[: exchange.ROW] = 0  # where the cycles of the whole run were
    links = [np.diff(part.reshape(-1, exchange.ROW)[:rows], axis=0) for part in told]
    job.make_trace = lambda: trace_rows(tables, links, unit)
    return ended


def trace_rows(
    tables: list[np.ndarray], links: list[np.ndarray], unit: float
) -> list[dict[str, Any]]:
    """A row for each superstep, with lists of one entry for each part."""
    made = []
    for i, first in enumerate(tables[0]):
        spent = [float(table[i, 3]) * unit for table in tables]
        talking = [max(0.0, float(part[i, 0])) * unit for part in links]
        made.append({
            "superstep": int(first[0]),
            "frontier": sum(int(table[i, 1]) for table in tables),
            "edges": sum(int(table[i, 4]) for table in tables),
            "direction": "pull" if first[2] else "push",
            "seconds": max(spent),
            "compute_seconds": [max(0.0, a - b) for a, b in zip(spent, talking, strict=True)],
            "communication_seconds": talking,
            "bytes": sum(int(part[i, 1]) for part in links),
            "useful_bytes": sum(int(part[i, 2]) for part in links),
        })  # fmt: skip
    return made
