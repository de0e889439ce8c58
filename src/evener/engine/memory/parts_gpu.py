"""Parts of a graph on a GPU: their tables, which stay there, and arguments of kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from evener.device import cuda as device
from evener.device.tuples import named
from evener.engine.codegen.arguments import (
    Between,
    Common,
    GpuArguments,
    HubArrays,
    Links,
    Place,
)
from evener.engine.codegen.functors import unsigned
from evener.engine.deferred_arrays import DeferredArray
from evener.engine.job import Job, field_dtype
from evener.engine.memory.gpu import Lists, Lowered, first_frontier, gpu_arguments, put_first
from evener.engine.memory.growable import joined
from evener.engine.memory.hub import HubMemory, no_hub
from evener.engine.memory.layout import HostMemory
from evener.engine.partition.divide import Parts
from evener.engine.results.trace import MOST_ROWS
from evener.operators.gpu.frontier import SYNC_WORDS
from evener.operators.gpu.world import BOXED, ROW
from evener.operators.shared import handshake
from evener.operators.shared.between_machines import PART_WORDS
from evener.operators.shared.policies import Policy


class PartOnDevice(NamedTuple):
    """One part on a GPU: row starts, neighbours, weights; the same of in-edges; degrees; ids."""

    rows: tuple[Any, Any, Any]
    columns: tuple[Any, Any, Any]
    degrees: Any
    ids: Any


class PartsOnDevice(NamedTuple):
    """All parts of a card, and the tables that they share."""

    parts: dict[int, PartOnDevice]  # by number
    bases: Any
    owned: Any
    ghosts: Any  # flat
    home: Any
    words_from: Any  # of bits, in words of 32
    ids: Any  # of all slots
    slot_of: Any  # where the owner of each vertex has it


def words_of_bits(parts: Parts) -> np.ndarray:
    """The first word of bits of each part, and the end of the last."""
    words = [(part.held + 31) // 32 for part in parts.parts]
    return np.concatenate([[0], np.cumsum(words)]).astype(np.int64)


def place_parts(library: Any, parts: Parts, degrees: np.ndarray, local: list[int]) -> PartsOnDevice:
    """Upload the parts of this card once, and keep them as long as the division of the graph."""
    key = ("placed", "host" if library is np else device.current(), tuple(local))
    if library is np or key not in parts.on_gpus:
        parts.on_gpus[key] = _place(library, parts, degrees, local)
    return parts.on_gpus[key]


def is_placed(parts: Parts, local: list[int]) -> bool:
    """Whether the parts are on the current GPU."""
    return ("placed", device.current(), tuple(local)) in parts.on_gpus


def _place(library: Any, parts: Parts, degrees: np.ndarray, local: list[int]) -> PartsOnDevice:
    def put(array: np.ndarray) -> Any:
        return library.asarray(array)

    def lists(side: tuple[np.ndarray, ...]) -> tuple[Any, Any, Any]:
        return put(unsigned(side[0])), put(unsigned(side[1])), put(side[2])

    placed = {}
    for p in local:
        part = parts.parts[p]
        rows = lists(part.out)
        columns = rows if part.into is part.out else lists(part.into)
        placed[p] = PartOnDevice(rows, columns, put(degrees[part.ids]), put(part.ids))
    return PartsOnDevice(
        placed, put(parts.bases), put(np.array([part.owned for part in parts.parts], np.int64)),
        put(parts.ghosts.ravel()), put(parts.home), put(words_of_bits(parts)),
        put(np.concatenate([part.ids for part in parts.parts])), put(parts.slot_of),
    )  # fmt: skip


def place_both(library: Any, parts: Parts, p: int) -> tuple[Any, Any, Any]:
    """The in-edges and then the out-edges of each vertex of a part, kept with the parts."""
    key = ("both", "host" if library is np else device.current(), p)
    if key not in parts.on_gpus:
        part = parts.parts[p]
        lists = [tuple(map(unsigned, side[:2])) + side[2:] for side in (part.into, part.out)]
        parts.on_gpus[key] = tuple(library.asarray(array) for array in joined(*lists))
    return parts.on_gpus[key]


# ---- arguments of kernels ----------------------------------------------------------------------


def common_arrays(
    layout: Any, job: Job, lowered: Lowered, parts: Parts, at: PartsOnDevice, hub: HubMemory
) -> Common:
    """The arrays that all parts of a card share."""
    plan, d = lowered.plan, job.declaration
    cleared, scratch, own = layout.cleared, layout.scratch, layout.named
    n, k = job.graph.num_vertices, len(parts.parts)
    slots, ghosts = int(parts.bases[-1]), len(parts.home)
    ids = next(iter(at.parts.values())).rows[1].dtype
    dtypes = {name: field.dtype for name, field in job.fields.items()}
    copies = 1 if plan.shares else k
    lengths = {name: copies * n if d.fields[name].replicated else slots for name in d.fields}
    bits = int(words_of_bits(parts)[-1]) if lowered.pulls else 1
    links = Links(
        cleared(SYNC_WORDS, np.uint32), cleared(2 * k * PART_WORDS, np.int64), at.bases,
        at.owned, at.ghosts, at.home, cleared(slots, np.uint32), scratch(max(1, ghosts), ids),
        cleared(k * BOXED, np.int64), scratch(bits, np.uint32), at.words_from,
        cleared(k * k, np.int64), cleared(max(32, k), np.int64), cleared(3 * k * k, np.int64),
    )  # fmt: skip
    agreed = {
        name: cleared(2 * k * PART_WORDS, field_dtype(scalar.dtype, job.graph))
        for name, scalar in d.scalars.items()
    }
    there = spans_of_hub(layout, hub)
    to_hub = HubArrays(
        there["machine_of"], at.ghosts, cleared(2, np.int64), cleared(2 * k * PART_WORDS, np.int64),
        *(there[name] for name in _WORDS_OF_HUB),
    )  # fmt: skip

    def far(kind: str, names: Iterable[str]) -> dict[str, Any]:
        return {name: there[f"{kind} {i}"] for i, name in enumerate(names)}

    fields = {name: own(f"field {name}", lengths[name], dtypes[name]) for name in d.fields}
    return Common(
        links,
        named("Fields", fields),
        named("Copies", {name: scratch(lengths[name], dtypes[name]) for name in plan.copied}),
        named("Olds", {name: scratch(max(1, ghosts), dtypes[name]) for name in plan.shadowed}),
        named("United", {name: own(f"old {name}", n, dtypes[name]) for name in plan.united}),
        named("Agreed", agreed),
        to_hub,
        named("Boxes", far("boxes", plan.carried)),
        named("FarCopies", far("copies", plan.united)),
        named("FarAgreed", far("agreed", d.scalars)),
    )  # fmt: skip


_WORDS_OF_HUB = ("flags", "words", "far_sizes", "box", "marks", "bits")


def arrays_of_hub(hub: HubMemory) -> dict[str, np.ndarray]:
    """The arrays of the hub by name; a grid has its bits in words of 32."""
    arrays = {name: getattr(hub, name) for name in ("machine_of", *_WORDS_OF_HUB)}
    arrays["bits"] = hub.bits.view(np.uint32)
    for kind in ("boxes", "copies", "agreed"):
        arrays |= {f"{kind} {i}": array for i, array in enumerate(getattr(hub, kind))}
    return arrays


def spans_of_hub(layout: Any, hub: HubMemory) -> dict[str, Any]:
    """The arrays of the hub as arguments of kernels."""
    return {
        name: layout.named(f"hub {name}", array.size, array.dtype)
        for name, array in arrays_of_hub(hub).items()
    }


def part_arguments(
    layout: Any, job: Job, lowered: Lowered, parts: Parts, at: PartsOnDevice, common: Common,
    p: int, place: Place, room: int,
) -> GpuArguments:  # fmt: skip
    """The arguments of the kernel of one part."""
    d, here, n = job.declaration, at.parts[p], job.graph.num_vertices
    first, last = int(parts.bases[p]), int(parts.bases[p + 1])
    low, high = words_of_bits(parts)[p : p + 2].tolist() if lowered.pulls else (0, 1)

    def mine(arrays: Any) -> dict[str, Any]:
        return {name: own(name, array) for name, array in arrays._asdict().items()}

    def own(name: str, array: Any) -> Any:
        if not d.fields[name].replicated:
            return array[first:last]
        return array if lowered.plan.shares else array[p * n : (p + 1) * n]

    rows = layout.cleared((MOST_ROWS + 1) * ROW, np.int64)
    both = place_both(layout.library, parts, p) if lowered.plan.has_both else None
    return gpu_arguments(
        layout, job, lowered, Lists(here.rows, here.columns, both, here.degrees, here.ids),
        mine(common.fields), mine(common.copies), parts.parts[p].owned, room,
        common.links.marks[first:last],
        Between(place, common, common.links.bits[low:high], rows),
    )  # fmt: skip


def places_of(
    job: Job, parts: Parts, blocks: dict[int, int], width: int, policy: Policy, hub: HubMemory
) -> dict[int, Place]:
    """The place of each part of this card among all; a block has ``width`` threads."""
    total, before, graph = sum(blocks.values()), 0, job.graph
    places = {}
    for p, count in blocks.items():
        places[p] = Place(
            p, len(parts.parts), total * width, before * width, graph.num_vertices,
            graph.num_edges, policy.number, int(hub.machine_of[p]), hub.machines,
            len(parts.home), hub.patience(handshake.GPU_PATIENCE),
        )  # fmt: skip
        before += count
    return places


def frontier_of(job: Job, parts: Parts, p: int) -> np.ndarray:
    """The bytes of a part's first frontier; see `evener.engine.memory.gpu.first_frontier`."""
    part = parts.parts[p]
    members = None if job.frontier is None else parts.members(job.frontier, p)
    ids = np.dtype(f"u{part.out[1].dtype.itemsize}")
    return first_frontier(part.owned, len(part.out[1]), members, ids)


def simulated_arguments(
    job: Job, lowered: Lowered, parts: Parts, width: int, policy: Policy, local: list[int],
    hub: HubMemory | None = None, room: int | None = None,
) -> list[GpuArguments]:  # fmt: skip
    """The arguments of some parts in the host's memory, for grids of one block.

    A block has ``width`` threads. ``room`` is for recorded vertices, by default plenty.
    """
    plan = lowered.plan
    k, n = len(parts.parts), job.graph.num_vertices
    at = place_parts(np, parts, job.graph.degrees, local)
    hub = hub or no_hub(job, parts, lowered.kernel)
    fields = spread_fields(np, job, at, 1 if plan.shares else k)
    memory = HostMemory(
        **{f"field {name}": array for name, array in fields.items()},
        **{f"old {name}": fields[name][:n].copy() for name in plan.united},
        **{f"hub {name}": array for name, array in arrays_of_hub(hub).items()},
    )
    common = common_arrays(memory, job, lowered, parts, at, hub)
    places = places_of(job, parts, dict.fromkeys(local, 1), width, policy, hub)
    room = room or 64 * n + 64
    all_arguments = []
    for p in local:
        arguments = part_arguments(
            memory, job, lowered, parts, at, common, p, places[p], room
        )  # fmt: skip
        put_first(arguments, frontier_of(job, parts, p))
        all_arguments.append(arguments)
    return all_arguments


# ---- fields ------------------------------------------------------------------------------------


def spread_fields(library: Any, job: Job, at: PartsOnDevice, copies: int) -> dict[str, Any]:
    """The fields in the slots of all parts; replicated ones ``copies`` times."""
    spread = {}
    for name, field in job.fields.items():
        slots = len(at.ids)
        if job.declaration.fields[name].replicated:
            spread[name] = library.tile(_on_device(library, field), copies)
        elif isinstance(field, DeferredArray) and field.is_uniform:
            spread[name] = library.full(slots, field._fill, field.dtype)
        else:
            spread[name] = _on_device(library, field)[at.ids]
    return spread


def gather_fields(library: Any, job: Job, at: PartsOnDevice, fields: dict[str, Any]) -> dict:
    """The fields in the user's order of vertices."""
    n = job.graph.num_vertices
    return {
        name: field[:n] if job.declaration.fields[name].replicated else field[at.slot_of]
        for name, field in fields.items()
    }


def _on_device(library: Any, field: Any) -> Any:
    return field.to_array(library) if isinstance(field, DeferredArray) else library.array(field)
