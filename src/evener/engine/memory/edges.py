"""Where a GPU reads the edges of a graph: on the card, or in place in the host's memory.

Fields, frontiers and row starts are read at random and often, so they must be on the card. Edges
are read in order, a list at a time, which suits the bus: the card gets as many of their arrays as
fit, and the others are mapped. Kernels are the same.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from evener.device import cuda as device
from evener.device import format_bytes, require_memory
from evener.device.mapped_memory import bytes_to_map
from evener.engine.job import Job
from evener.engine.memory.estimate import require_within
from evener.engine.memory.gpu_graph import BOTH, Edges
from evener.errors import MemoryBudgetError
from evener.graph.csr import Graph
from evener.graph.gpu import NEIGHBOURS, STARTS, WEIGHTS, graph_cache
from evener.programs.stages import Advance, walk
from evener.programs.stages import Edges as EdgesStage

_always = contextvars.ContextVar("edges are mapped", default=False)


@contextlib.contextmanager
def edges_mapped() -> Iterator[None]:
    """A context in which a GPU reads all edges from the host's memory, for measurements.

    Examples
    --------
    >>> from evener.engine.memory.edges import edges_mapped
    >>> with edges_mapped():
    ...     pass
    """
    before = _always.set(True)
    try:
        yield
    finally:
        _always.reset(before)


class EdgeArray(NamedTuple):
    """An array of edges that a run needs, or the joined ones of both directions."""

    name: str  # for messages
    edges: Edges
    nbytes: int


class Placed(NamedTuple):
    """Where the edges are, and why."""

    arrays: tuple[EdgeArray, ...]
    mapped: tuple[EdgeArray, ...]
    left: int  # bytes on the card that remain free
    why: str

    @property
    def wanted(self) -> tuple[Edges, ...]:
        """All arrays of edges."""
        return tuple(one.edges for one in self.arrays)

    @property
    def in_host_memory(self) -> tuple[Edges, ...]:
        """The arrays that stay in the host's memory."""
        return tuple(one.edges for one in self.mapped)

    @property
    def mapped_bytes(self) -> int:
        """Bytes of the arrays in the host's memory."""
        return sum(one.nbytes for one in self.mapped)


def edge_arrays(job: Job, pulls: bool, both: bool) -> list[EdgeArray]:
    """The arrays of edges of a run, in the order of their priority for the card.

    Neighbours come before weights, which a stage may read less often, and out-lists before
    in-lists, unless no stage reads out-lists.
    """
    graph, weighted = job.graph, job.declaration.uses_weights
    sides = [("", graph)]
    if pulls and graph.directed:
        sides.append(("in-", graph.transpose()))
        if not any(isinstance(stage, Advance | EdgesStage) for stage in walk(job.declaration.loop)):
            sides.reverse()
    arrays = [
        EdgeArray(f"{side}neighbours", (owner, NEIGHBOURS), owner._indices.nbytes)
        for side, owner in sides
    ]
    arrays += [
        EdgeArray(f"{side}weights", (owner, WEIGHTS), owner._weights.nbytes)
        for side, owner in sides
        if weighted and owner._weights is not None
    ]
    if both:
        weights = 0 if graph._weights is None else graph._weights.nbytes
        nbytes = 2 * (graph._indices.nbytes + weights)
        arrays.insert(0, EdgeArray("edges of both directions", (graph, BOTH), nbytes))
    return [one for one in arrays if one.nbytes]


def start_bytes(graph: Graph, pulls: bool, both: bool, degree: bool) -> int:
    """Bytes of a graph that must be on the card: row starts, and degrees if they are read."""
    sides = 1 + (pulls and graph.directed)
    nbytes = sides * graph._indptr.nbytes + both * 8 * (graph.num_vertices + 1)
    return nbytes + degree * 8 * graph.num_vertices


def choose_mapped(arrays: Sequence[EdgeArray], besides: int, allowed: int) -> tuple[EdgeArray, ...]:
    """The arrays that do not fit into ``allowed`` bytes, which include those ``besides``.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.engine.memory.edges import EdgeArray, choose_mapped
    >>> path = ev.generate.path(3)
    >>> both = [EdgeArray(name, (path, name), 100) for name in ("neighbours", "weights")]
    >>> [[one.name for one in choose_mapped(both, 50, n)] for n in (250, 249, 149)]
    [[], ['weights'], ['neighbours', 'weights']]
    """
    left, mapped = allowed - besides, []
    for one in arrays:
        if one.nbytes <= left:
            left -= one.nbytes
        else:
            mapped.append(one)
    return tuple(mapped)


def place_edges(
    job: Job, arrays: Sequence[EdgeArray], besides: int, limit: int | None, ordinal: int
) -> Placed:
    """Place the edges; refuses what cannot fit, before anything is allocated.

    ``besides`` are the bytes that must be on the card, row starts included.
    """
    name = job.declaration.name
    free = device.free_memory() + bytes_there(job.graph, arrays, ordinal)
    aside = f"{name}, with all edges in the host's memory,"
    require_within(aside, [besides], [limit], [job.stats.get("device", "cuda")])
    if besides > free:
        raise MemoryBudgetError(
            f"Running {aside} needs about {format_bytes(besides)} on the GPU, but only "
            f"{format_bytes(free)} are free; use a smaller graph or device='cpu'."
        )
    allowed = free if limit is None else min(free, limit)
    needed = besides + sum(one.nbytes for one in arrays)
    whose = "memory_limit allows" if allowed == limit else "the GPU has"
    why = f"all need {format_bytes(needed)} on the card, and {whose} {format_bytes(allowed)}"
    mapped = choose_mapped(arrays, besides, allowed)
    if _always.get():
        mapped, why = tuple(arrays), "as asked for"
    return _checked(job, Placed(tuple(arrays), mapped, allowed - needed, why))


def bytes_there(graph: Graph, arrays: Sequence[EdgeArray], ordinal: int) -> int:
    """Bytes of a graph that are on a GPU already, out of those that a run needs."""
    owners = {id(one.edges[0]): one.edges[0] for one in arrays} | {id(graph): graph}
    keys = [(owner, what) for owner in owners.values() for what in (STARTS, "degrees")]
    keys += [one.edges for one in arrays]
    found = [graph_cache(owner).get((what, ordinal)) for owner, what in keys]
    return sum(_nbytes(one) for one in found)


def bytes_of_graph(graph: Graph, ordinal: int) -> int:
    """Bytes of a graph on a GPU, for all programs so far."""
    sides = [graph.__dict__.get("_transpose"), graph]
    found = [graph_cache(one) for one in sides if one is not None]
    names = (STARTS, NEIGHBOURS, WEIGHTS, BOTH, "degrees")
    return sum(_nbytes(one.get((what, ordinal))) for one in found for what in names)


def _nbytes(array: Any) -> int:
    if array is None:
        return 0
    if isinstance(array, tuple):
        return sum(map(_nbytes, array))
    return array.nbytes


def _checked(job: Job, placed: Placed) -> Placed:
    """Refuse edges that exceed the host's memory: pages of a file, or joined lists."""
    needed = 0
    for one in placed.mapped:
        owner, what = one.edges
        if what == BOTH:
            needed += 2 * one.nbytes  # while joining
        else:
            array = owner._weights if what == WEIGHTS else owner._indices
            assert array is not None
            needed += bytes_to_map(array)
    if needed:
        require_memory(needed, f"Running {job.declaration.name} with edges in the host's memory")
    return placed


def reasons_of(placed: Placed) -> list[str]:
    """The lines for `explain()`."""
    if not placed.mapped:
        return []
    names = " and ".join(f"{one.name} ({format_bytes(one.nbytes)})" for one in placed.mapped)
    return [f"The GPU read {names} from the host's memory: {placed.why}."]
