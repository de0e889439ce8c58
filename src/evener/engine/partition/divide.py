"""The parts of a graph: local numbers, ghosts, neighbour lists, and the owners of ghosts.

A part owns vertices, numbered ``0..owned-1`` in the order of the graph. Its *ghosts* follow, one
for each neighbour that another part owns: first those of part 0, then those of part 1, each in the
order of the graph. So the vertices that one part holds of another are contiguous ghosts, and
`Parts.home` has their places at the owner: both sides know the list, and values travel without
indices.

All parts lie in one array, one after the other (`Parts.bases`); a *slot* is a place in it. Parts
are made one after the other, each by all cores; that takes a table of the vertices besides the
parts themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evener.device import bucket_cursors, parallel, require_memory
from evener.device.once import once
from evener.engine.partition.partitioners import partition as assign
from evener.graph.csr import Graph

_ROWS = 1 << 12  # vertices that a thread takes at a time
_FILLED = 1 << 17  # elements that a thread fills at a time
_FILLED_BY_ONE = 1 << 23  # bytes
_KEPT = 2  # divisions of a graph that are kept with it

Arrays = tuple[np.ndarray, ...]


@dataclass
class Part:
    """The vertices and neighbour lists of one part."""

    ids: np.ndarray  # of owned vertices, then of ghosts
    owned: int
    out: Arrays  # indptr, indices in local numbers, weights
    into: Arrays  # in-edges; `out` if no stage pulls

    @property
    def held(self) -> int:
        """Owned vertices and ghosts."""
        return len(self.ids)


@dataclass(eq=False)
class Parts:
    """A graph in parts."""

    parts: list[Part]
    bases: np.ndarray  # the first slot of each part, and behind the last
    ghosts: np.ndarray  # [p, q]: number of the first ghost of p that q owns, counted over all parts
    home: np.ndarray  # the slot of each ghost at its owner
    kept: dict[Any, Any] = field(default_factory=dict)  # arrays of the last run, to reuse
    on_gpus: dict[Any, Any] = field(default_factory=dict)  # their arrays on GPUs

    @once
    def slot_of(self) -> np.ndarray:
        """The slot of each vertex at its owner."""
        slots = np.empty(sum(part.owned for part in self.parts), np.int64)
        for part, base in zip(self.parts, self.bases[:-1], strict=True):
            put_back(slots, part, np.arange(base, base + part.owned))
        return slots

    def members(self, vertices: np.ndarray, p: int) -> np.ndarray:
        """The local numbers of those vertices that a part owns, in ascending order."""
        slots = self.slot_of[vertices]
        here = slots[(slots >= self.bases[p]) & (slots < self.bases[p + 1])]
        return np.sort(here - self.bases[p])

    def places_of(self, vertex: int) -> list[int]:
        """The slots of a vertex: at its owner, and of its ghosts.

        Examples
        --------
        >>> from evener import generate
        >>> from evener.engine.partition.divide import divide_by
        >>> parts = divide_by(generate.path(4), "static", [1, 1], pulls=False, in_order=False)
        >>> parts.places_of(2)
        [1, 7]
        """
        owners = [_where(part.ids[: part.owned], vertex) for part in self.parts]
        owner = next(p for p, at in enumerate(owners) if at is not None)
        slots = []
        for p, (part, at) in enumerate(zip(self.parts, owners, strict=True)):
            low, high = part.owned + self.ghosts[p, owner : owner + 2] - self.ghosts[p, 0]
            ghost = _where(part.ids[low:high], vertex)
            at = at if ghost is None else low + ghost
            if at is not None:
                slots.append(int(self.bases[p] + at))
        return slots

    @property
    def nbytes(self) -> list[int]:
        """Bytes of each part."""
        return [_nbytes(part) for part in self.parts]


def divide(
    graph: Graph, part_of: np.ndarray, k: int, *, pulls: bool, in_order: bool,
    has_ghosts: bool = True, weighted: bool = True,
) -> Parts:  # fmt: skip
    """The parts of a graph; the last divisions are kept with it.

    ``pulls`` includes in-edges. With ``in_order`` neighbour lists keep the order of the graph;
    otherwise owned neighbours come first. Without ghosts the lists hold global numbers.
    ``weighted`` includes weights.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.partition.divide import divide
    >>> from evener.graph.csr import Graph
    >>> path = Graph.from_edges([0, 1, 2], [1, 2, 3])
    >>> parts = divide(path, np.array([0, 1, 1, 0]), 2, pulls=False, in_order=False)
    >>> [part.ids.tolist() for part in parts.parts], parts.home.tolist()
    ([[0, 3, 1], [1, 2, 3]], [3, 1])
    """
    key = (hashlib.sha256(part_of.tobytes()).hexdigest(), k, pulls, in_order, has_ghosts, weighted)
    kept: dict[Any, Parts] = graph.__dict__.setdefault("_parts", {})
    parts = kept.get(key)
    if parts is None:
        for other in list(kept)[: max(0, len(kept) + 1 - _KEPT)]:
            kept.pop(other, None)  # another thread may have done so
        part_of = part_of.astype(np.uint8 if k < 256 else np.int64)
        parts = kept[key] = _divide(graph, part_of, k, pulls, in_order, has_ghosts, weighted)
    return parts


def divide_by(
    graph: Graph, partition: Any, shares: Sequence[float], *, cpu: int = 0, **lists: bool
) -> Parts:  # fmt: skip
    """The parts by a partitioner; those of a named one are looked up before they are made.

    ``lists`` are the options of `divide`.

    Examples
    --------
    >>> from evener import generate
    >>> from evener.engine.partition.divide import divide_by
    >>> path = generate.path(4)
    >>> divide_by(path, "static", [1, 1], pulls=False, in_order=False).parts[1].ids.tolist()
    [1, 3, 0, 2]
    """
    key = (partition, tuple(shares), cpu, *sorted(lists.items()))
    named: dict[Any, Parts] = graph.__dict__.setdefault("_parts_by_name", {})
    known = named.get(key) if isinstance(partition, str) else None
    if known is not None:
        return known
    part_of = assign(graph, partition, shares, cpu=cpu)
    parts = divide(graph, part_of, len(shares), **lists)
    if isinstance(partition, str):
        kept = list(graph.__dict__["_parts"].values())
        for other in [name for name, one in list(named.items()) if one not in kept]:
            named.pop(other, None)
        named[key] = parts
    return parts


def _divide(
    graph: Graph, part_of: np.ndarray, k: int, pulls: bool, in_order: bool, has_ghosts: bool,
    weighted: bool,
) -> Parts:  # fmt: skip
    n = graph.num_vertices
    require_memory(2 * graph.nbytes + 16 * n, f"Dividing the graph into {k} parts")
    chunks = max(1, -(-n // _ROWS))
    counts = np.zeros((chunks, k), np.int64)
    _count_owned(chunks, part_of, counts)
    starts, cursors = bucket_cursors(counts)
    order, local = np.empty(n, np.int64), np.empty(n, np.int64)
    _number_owned(chunks, part_of, cursors, starts, order, local)
    sides = [graph, graph.transpose()] if pulls else [graph]
    if sides[-1] is graph:
        sides = sides[:1]
    parts, ghosts = [], np.zeros((k, k + 1), np.int64)
    number = np.arange(n, dtype=graph._indices.dtype)  # stays so without ghosts
    seen = np.zeros(n, np.uint8)
    for p in range(k):
        mine = order[starts[p] : starts[p + 1]]
        ids = mine.astype(graph._indices.dtype)
        if has_ghosts:
            for side in sides:
                _see(max(1, -(-len(mine) // _ROWS)), mine, side._indptr, side._indices, seen)
            counts[:] = 0
            _count_ghosts(chunks, part_of, p, seen, counts)
            bounds, cursors = bucket_cursors(counts)
            ghosts[p] = bounds + (ghosts[p - 1, k] if p else 0)
            ids = np.concatenate([ids, np.empty(bounds[-1], ids.dtype)])
            _number_ghosts(chunks, part_of, p, seen, cursors, len(mine), local, number, ids)
        in_order = in_order or not has_ghosts
        lists = [_lists(s, mine, number, len(mine), in_order, weighted) for s in sides]
        parts.append(Part(ids, len(mine), lists[0], lists[-1]))
    bases = np.concatenate([[0], np.cumsum([part.held for part in parts])]).astype(np.int64)
    home = np.empty(ghosts[-1, k], np.int64)
    for p, part in enumerate(parts):
        away = part.ids[part.owned :]
        home[ghosts[p, 0] : ghosts[p, k]] = bases[part_of[away]] + local[away]
    return Parts(parts, bases, ghosts, home.astype(np.uint32) if bases[-1] < 1 << 32 else home)


def _lists(
    graph: Graph, mine: np.ndarray, number: np.ndarray, owned: int, in_order: bool, weighted: bool
) -> Arrays:
    """The neighbour lists of some vertices in local numbers, and their weights."""
    indptr = np.zeros(len(mine) + 1, graph._indptr.dtype)
    np.cumsum(graph.degrees[mine], out=indptr[1:])
    indices = np.empty(int(indptr[-1]), graph._indices.dtype)
    values = np.empty(0, np.int32) if graph._weights is None else graph._weights
    values = values if weighted else values[:0]
    weights = np.empty(len(indices) if len(values) else 0, values.dtype)
    _fill_lists(
        max(1, -(-len(mine) // _ROWS)), mine, graph._indptr, graph._indices, values, number,
        np.int64(owned), in_order, indptr, indices, weights,
    )  # fmt: skip
    return indptr, indices, weights


def _where(ascending: np.ndarray, value: int) -> int | None:
    """The place of a value in ascending order, if it is there."""
    at = int(np.searchsorted(ascending, ascending.dtype.type(value)))
    return at if at < len(ascending) and ascending[at] == value else None


def _nbytes(part: Part) -> int:
    arrays = [part.ids, *part.out, *(part.into if part.into is not part.out else ())]
    return sum(array.nbytes for array in arrays)


def picked(values: np.ndarray, parts: Parts, out: np.ndarray | None = None) -> np.ndarray:
    """The values of vertices in the slots of all parts, in ``out`` if it is passed.

    Examples
    --------
    >>> import numpy as np
    >>> from evener import generate
    >>> from evener.engine.partition.divide import divide_by, picked
    >>> parts = divide_by(generate.path(4), "static", [1, 1], pulls=False, in_order=False)
    >>> picked(np.array([5, 6, 7, 8]), parts).tolist()
    [5, 7, 6, 8, 6, 8, 5, 7]
    """
    slots = np.empty(int(parts.bases[-1]), values.dtype) if out is None else out
    for part, base in zip(parts.parts, parts.bases[:-1], strict=True):
        mine = slots[base : base + part.held]
        _pick(max(1, -(-part.held // _ROWS)), values, part.ids, mine)
    return slots


def fill(array: np.ndarray, value: Any) -> None:
    """Fill an array; a large one with all cores."""
    if array.nbytes < _FILLED_BY_ONE:
        array.fill(value)
    else:
        _fill(-(-len(array) // _FILLED), array, array.dtype.type(value))


def put_back(whole: np.ndarray, part: Part, mine: np.ndarray) -> None:
    """Write the values of a part's owned vertices into the array of all vertices."""
    _put(max(1, -(-part.owned // _ROWS)), mine[: part.owned], part.ids, whole)


# ---- compiled -------------------------------------------------------------------------------


@parallel
def _pick(chunk, values, ids, found):
    for i in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(found))):
        found[i] = values[ids[i]]


@parallel
def _fill(chunk, found, value):
    for i in range(chunk * _FILLED, min((chunk + 1) * _FILLED, len(found))):
        found[i] = value


@parallel
def _put(chunk, values, ids, whole):
    for i in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(values))):
        whole[ids[i]] = values[i]


@parallel
def _count_owned(chunk, part_of, counts):
    for v in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(part_of))):
        counts[chunk, part_of[v]] += 1


@parallel
def _number_owned(chunk, part_of, cursors, starts, order, local):
    for v in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(part_of))):
        p = part_of[v]
        at = cursors[chunk, p]
        cursors[chunk, p] += 1
        order[at] = v
        local[v] = at - starts[p]


@parallel
def _see(chunk, mine, indptr, indices, seen):
    # Threads may write the same byte; they all write 1.
    for i in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(mine))):
        for e in range(indptr[mine[i]], indptr[mine[i] + 1]):
            if seen[indices[e]] == 0:
                seen[indices[e]] = 1


@parallel
def _count_ghosts(chunk, part_of, p, seen, counts):
    for v in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(part_of))):
        if seen[v] and part_of[v] != p:
            counts[chunk, part_of[v]] += 1


@parallel
def _number_ghosts(chunk, part_of, p, seen, cursors, owned, local, number, ids):
    """Number the vertices that were seen, and clear the marks."""
    for v in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(part_of))):
        if part_of[v] == p:
            number[v] = local[v]
        elif seen[v]:
            at = cursors[chunk, part_of[v]]
            cursors[chunk, part_of[v]] += 1
            number[v] = owned + at
            ids[owned + at] = v
        seen[v] = 0


@parallel
def _fill_lists(
    chunk, mine, indptr, indices, weights, number, owned, in_order, starts, out, out_weights
):  # fmt: skip
    for i in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(mine))):
        at, behind = np.int64(starts[i]), np.int64(starts[i + 1])
        for e in range(indptr[mine[i]], indptr[mine[i] + 1]):
            v = number[indices[e]]
            place = at
            if in_order or v < owned:
                at += 1
            else:  # from the end, hence reversed below
                behind -= 1
                place = behind
            out[place] = v
            if len(weights):
                out_weights[place] = weights[e]
        last = np.int64(starts[i + 1]) - 1
        while behind < last:
            out[behind], out[last] = out[last], out[behind]
            if len(weights):
                out_weights[behind], out_weights[last] = out_weights[last], out_weights[behind]
            behind += 1
            last -= 1
