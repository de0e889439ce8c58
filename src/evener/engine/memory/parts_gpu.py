"""Parts of a graph on a GPU: their tables, kept there, and the arrays of a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import cuda as device
from evener.engine.codegen.functors import unsigned
from evener.engine.deferred import LazyArray
from evener.engine.job import Job
from evener.engine.memory.gpu import Layout
from evener.engine.memory.growing import joined
from evener.engine.partition.divide import Parts


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
    """Where the bits of each part begin, and where they end."""
    words = [(part.held + 31) // 32 for part in parts.parts]
    return np.concatenate([[0], np.cumsum(words)]).astype(np.int64)


def place_parts(library: Any, parts: Parts, degrees: np.ndarray, local: list[int]) -> PartsOnDevice:
    """Upload the parts of this card once, and keep them as long as the division of the graph."""
    key = ("placed", "host" if library is np else device.current(), tuple(local))
    if library is np or key not in parts.on_gpus:
        parts.on_gpus[key] = _place(library, parts, degrees, local)
    return parts.on_gpus[key]


def is_placed(parts: Parts, local: list[int]) -> bool:
    """Whether they are on the current GPU."""
    return ("placed", device.current(), tuple(local)) in parts.on_gpus


def _place(library: Any, parts: Parts, degrees: np.ndarray, local: list[int]) -> PartsOnDevice:
    def put(array: np.ndarray) -> Any:
        return library.asarray(array)

    def lists(given: tuple[np.ndarray, ...]) -> tuple[Any, Any, Any]:
        return put(unsigned(given[0])), put(unsigned(given[1])), put(given[2])

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
    """The in-edges and then the out-edges of each vertex of a part, kept as the part is."""
    key = ("both", "host" if library is np else device.current(), p)
    if key not in parts.on_gpus:
        part = parts.parts[p]
        lists = [tuple(map(unsigned, side[:2])) + side[2:] for side in (part.into, part.out)]
        parts.on_gpus[key] = tuple(library.asarray(array) for array in joined(*lists))
    return parts.on_gpus[key]


class PartsLayout(Layout):
    """Places for the arrays of all parts; some have memory of their own in each run."""

    def named(self, region: str, length: int, dtype: Any) -> device.Span:
        """An array that is made for each run, under this name."""
        return device.Span(np.dtype(dtype), length, 0, region)


# ---- fields ------------------------------------------------------------------------------------


def spread_fields(library: Any, job: Job, at: PartsOnDevice, copies: int) -> dict[str, Any]:
    """The fields in the slots of all parts; so many copies of those that are replicated."""
    made = {}
    for name, field in job.fields.items():
        slots = len(at.ids)
        if job.declaration.fields[name].replicated:
            made[name] = library.tile(_made(library, field), copies)
        elif isinstance(field, LazyArray) and field.is_uniform:
            made[name] = library.full(slots, field._fill, field.dtype)
        else:
            made[name] = _made(library, field)[at.ids]
    return made


def gather_fields(library: Any, job: Job, at: PartsOnDevice, fields: dict[str, Any]) -> dict:
    """The fields as the user knows the vertices."""
    n = job.graph.num_vertices
    return {
        name: field[:n] if job.declaration.fields[name].replicated else field[at.slot_of]
        for name, field in fields.items()
    }


def _made(library: Any, field: Any) -> Any:
    return field.made_by(library) if isinstance(field, LazyArray) else library.array(field)
