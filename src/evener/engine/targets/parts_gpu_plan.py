"""The kernel of a part on a GPU, and the arrays that it works on."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from evener.engine.codegen.functors import state_of
from evener.engine.codegen.print_parts_gpu import lower_grid_parts
from evener.engine.job import Job, field_dtype
from evener.engine.memory.hub import HubMemory, no_hub
from evener.engine.memory.parts_gpu import (
    PartsOnDevice,
    place_both,
    place_parts,
    spread_fields,
    words_of_bits,
)
from evener.engine.partition.divide import Parts
from evener.engine.results.trace import MOST_ROWS
from evener.engine.targets import gpu
from evener.engine.targets.grid import Lowered, lowered_once
from evener.operators.gpu.frontier import (
    EDGES,
    FORM,
    INFO_WORDS,
    SIZE,
    SYNC_WORDS,
    TURNS,
    WORK_WORDS,
)
from evener.operators.gpu.nearest import SHARED_WORDS
from evener.operators.gpu.record import TRACE_WORDS
from evener.operators.gpu.schedules import merge_path
from evener.operators.gpu.schedules.common import PIECE, PIECE_WORDS, room_for_pieces
from evener.operators.gpu.world import BOXED, ROW
from evener.operators.shared import handshake
from evener.operators.shared.frontier import ALL
from evener.operators.shared.hub import APART
from evener.operators.shared.policies import Policy

PLACE_WORDS = 16


# ---- the kernel --------------------------------------------------------------------------------


def lowered_parts(
    job: Job, direction: str, schedule: str, policy: Policy, hub: bool = False
) -> Lowered:
    """The kernel of a program for a part. With a ``hub`` there are parts on other machines too."""
    state = state_of(job.declaration)
    lower = partial(lower_grid_parts, job, direction, state, schedule, policy.measure, hub)
    more = ("parts", policy.measure, hub, job.graph.directed)
    return lowered_once(job, direction, schedule, more, lower)


# ---- memory ------------------------------------------------------------------------------------


class Shared(NamedTuple):
    """Arrays that the kernels of all parts have in common."""

    links: tuple[Any, ...]  # from sync to traffic, as `lower_grid_parts.LINKS`
    alls: dict[str, Any]
    copies: dict[str, Any]
    olds: tuple[Any, ...]
    united: tuple[Any, ...]
    agreed: tuple[Any, ...]
    hub: tuple[Any, ...]  # hub, boxes, far_copies, far_agreed, as `lower_exchange.EXTRA`


def share(
    room_for: Any, job: Job, lowered: Lowered, parts: Parts, at: PartsOnDevice, hub: HubMemory
) -> Shared:
    """The arrays that all parts see."""
    plan = lowered.plan
    cleared, scratch, named = room_for.cleared, room_for.scratch, room_for.named
    d, n, k = job.declaration, job.graph.num_vertices, len(parts.parts)
    slots, ghosts = int(parts.bases[-1]), len(parts.home)
    ids = next(iter(at.parts.values())).rows[1].dtype
    dtypes = {name: field.dtype for name, field in job.fields.items()}
    copies = 1 if plan.shares else k
    lengths = {name: copies * n if d.fields[name].replicated else slots for name in d.fields}
    links = (
        cleared(SYNC_WORDS, np.uint32), cleared(2 * k * APART, np.int64), at.bases,
        at.owned, at.ghosts, at.home, cleared(slots, np.uint32), scratch(max(1, ghosts), ids),
        cleared(k * BOXED, np.int64),
        scratch(int(words_of_bits(parts)[-1]) if lowered.pulls else 1, np.uint32), at.words_from,
        cleared(k * k, np.int64), cleared(max(32, k), np.int64), cleared(3 * k * k, np.int64),
    )  # fmt: skip
    return Shared(
        links,
        {name: named(f"field {name}", lengths[name], dtypes[name]) for name in d.fields},
        {name: scratch(lengths[name], dtypes[name]) for name in plan.copied},
        tuple(scratch(max(1, ghosts), dtypes[name]) for name in plan.shadowed),
        tuple(named(f"old {name}", n, dtypes[name]) for name in plan.united),
        tuple(
            cleared(2 * k * APART, field_dtype(scalar.dtype, job.graph))
            for scalar in d.scalars.values()
        ),
        _to_hub(room_for, at, hub, k),
    )


def _to_hub(room_for: Any, at: PartsOnDevice, hub: HubMemory, k: int) -> tuple[Any, ...]:
    def named(name: str, array: np.ndarray) -> Any:
        return room_for.named(f"hub {name}", array.size, array.dtype)

    def each(name: str, arrays: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        return tuple(named(f"{name} {i}", array) for i, array in enumerate(arrays))

    arrays = (
        named("machine_of", hub.machine_of), at.ghosts, room_for.cleared(2, np.int64),
        room_for.cleared(2 * k * APART, np.int64), *each("words", words_of(hub)),
    )  # fmt: skip
    return arrays, each("box", hub.boxes), each("copy", hub.copies), each("agreed", hub.agreed)


def words_of(hub: HubMemory) -> tuple[np.ndarray, ...]:
    """The arrays of the hub that are no boxes; a grid has its bits in words of 32."""
    return (*hub[1:6], hub.bits.view(np.uint32))


def hub_arrays(hub: HubMemory) -> dict[str, np.ndarray]:
    """The arrays of the hub by the names under which kernels know them."""
    found = {"hub machine_of": hub.machine_of}
    kinds = {"words": words_of(hub), "box": hub.boxes, "copy": hub.copies, "agreed": hub.agreed}
    for name, arrays in kinds.items():
        found |= {f"hub {name} {i}": array for i, array in enumerate(arrays)}
    return found


def arguments_of(
    room_for: Any, job: Job, lowered: Lowered, parts: Parts, at: PartsOnDevice, shared: Shared,
    p: int, room: int,
) -> tuple[Any, ...]:  # fmt: skip
    """All that the kernel of one part works on."""
    plan = lowered.plan
    d, part, here = job.declaration, parts.parts[p], at.parts[p]
    cleared, scratch = room_for.cleared, room_for.scratch
    n, m = max(1, part.owned), max(len(part.out[1]), len(part.into[1]))
    ids = here.rows[1].dtype
    has_both, has_edges = plan.has_both, plan.has_edges
    pieces = room_for_pieces(
        m * (1 + has_both), gpu.GATHER_PIECE if lowered.kernel.totals else PIECE
    )
    sums = merge_path.scratch_words(n, gpu.MAX_WARPS) if lowered.sums else 0
    words = (n + 31) // 32 if lowered.pulls else 1
    far = n if plan.fuses else 1
    kept = n if plan.replays else 1
    nothing = cleared(1, np.int32)
    rows, columns = here.rows, here.columns
    both = place_both(room_for.library, parts, p) if has_both else ()
    if not d.uses_weights:  # one dtype of weights, hence one kernel, for all graphs
        rows, columns = (*rows[:2], nothing), (*columns[:2], nothing)
        both = (*both[:2], nothing) if has_both else ()
    replayed_edges = room if plan.replays and has_edges else 0
    infos = room_for.named(f"infos {p}", 10 * INFO_WORDS, np.int64)
    first, last = int(parts.bases[p]), int(parts.bases[p + 1])
    bounds = words_of_bits(parts)[p : p + 2] if lowered.pulls else (0, 1)
    length = job.graph.num_vertices

    def mine(name: str, array: Any) -> Any:
        if not d.fields[name].replicated:
            return array[first:last]
        return array if plan.shares else array[p * length : (p + 1) * length]

    partials = tuple(
        cleared(gpu.MAX_BLOCKS, field_dtype(scalar.dtype, job.graph))
        for scalar in d.scalars.values()
    )
    return (
        cleared(SYNC_WORDS, np.uint32),
        (*rows, *columns, here.degrees, here.ids, *both),
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
            for stored, dtype in zip(plan.stores_totals, lowered.kernel.totals, strict=True)
        ),
        tuple(scratch(pieces, dtype) for dtype in lowered.kernel.totals),
        tuple(mine(name, array) for name, array in shared.copies.items()),
        (
            cleared(SHARED_WORDS, np.int64), scratch(far, ids), scratch(far, ids),
            cleared(far, np.uint32),
        ),
        (
            scratch(room if plan.replays else 1, ids),
            cleared(room + 1 if plan.replays else 2, np.int64),
            scratch(replayed_edges, here.rows[0].dtype), scratch(replayed_edges, np.uint8),
        ),
        gpu._edge_rooms(room_for, lowered, m, ids, here.rows[0].dtype) if has_edges else (nothing,),
        gpu._waiting_rooms(room_for, lowered, n, ids) if plan.orders else (nothing,),
        cleared(1, np.int64),
        cleared((MOST_ROWS + 1) * TRACE_WORDS, np.int64),
        (
            room_for.named(f"place {p}", PLACE_WORDS, np.int64), *shared.links,
            shared.links[9][int(bounds[0]) : int(bounds[1])],
            cleared((MOST_ROWS + 1) * ROW, np.int64),
        ),
        tuple(shared.alls.values()),
        tuple(shared.copies.values()),
        shared.olds,
        shared.united,
        shared.agreed,
        *shared.hub,
    )  # fmt: skip


def places_of(
    job: Job, parts: Parts, blocks: dict[int, int], width: int, policy: Policy, hub: HubMemory
) -> dict[int, np.ndarray]:
    """Where each part of this card is among the others, as the kernels read it."""
    k, total, before = len(parts.parts), sum(blocks.values()), 0
    graph, ghosts = job.graph, len(parts.home)
    found = {}
    for p, count in blocks.items():
        place = np.zeros(PLACE_WORDS, np.int64)
        place[:11] = [
            p, k, total * width, before * width, graph.num_vertices, graph.num_edges,
            policy.number, hub.machine_of[p], hub.machines, ghosts,
            hub.patience(handshake.GPU_PATIENCE),
        ]  # fmt: skip
        found[p] = place
        before += count
    return found


def frontiers_of(job: Job, parts: Parts, local: list[int]) -> dict[int, tuple[np.ndarray, Any]]:
    """The words of frontiers and the first queue of each part of this card."""
    found = {}
    for p in local:
        part = parts.parts[p]
        pools = np.zeros((10, INFO_WORDS), np.int64)
        pools[3, [SIZE, FORM, EDGES]] = part.owned, ALL, len(part.out[1])
        members = np.empty(0, _ids(part))
        if job.frontier is None:
            pools[0] = pools[3]
        else:
            members = parts.members(job.frontier, p).astype(_ids(part))
            pools[0, SIZE] = len(members)
        found[p] = (pools, members)
    return found


def _ids(part: Any) -> np.dtype:
    return np.dtype(f"u{part.out[1].dtype.itemsize}")


class SimulatedMemory:
    """Arrays in the host's memory: to compile, and to simulate."""

    library = np

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
    job: Job, lowered: Lowered, parts: Parts, width: int, policy: Policy, local: list[int],
    hub: HubMemory | None = None, room: int | None = None,
) -> list[tuple[Any, ...]]:  # fmt: skip
    """The arguments of some parts in the host's memory, for grids of one block so wide.

    They have ``room`` for so many recorded vertices, or for plenty.
    """
    plan = lowered.plan
    k, n = len(parts.parts), job.graph.num_vertices
    at = place_parts(np, parts, job.graph.degrees, local)
    hub = hub or no_hub(job, parts, lowered.kernel)
    fields = spread_fields(np, job, at, 1 if plan.shares else k)
    given = {f"field {name}": array for name, array in fields.items()}
    given |= {f"old {name}": fields[name][:n].copy() for name in plan.united}
    given |= hub_arrays(hub)
    for p, place in places_of(job, parts, dict.fromkeys(local, 1), width, policy, hub).items():
        given[f"place {p}"] = place
    for p, (pools, members) in frontiers_of(job, parts, local).items():
        given[f"infos {p}"] = pools.ravel()
        queue = given[f"queue {p}"] = np.zeros(max(1, parts.parts[p].owned), members.dtype)
        queue[: len(members)] = members
    memory = SimulatedMemory(given)
    shared = share(memory, job, lowered, parts, at, hub)
    room = room or 64 * n + 64
    return [arguments_of(memory, job, lowered, parts, at, shared, p, room) for p in local]
