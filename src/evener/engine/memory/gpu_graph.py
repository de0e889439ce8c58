"""Graphs on a GPU, and fields in the order of their vertices there.

A graph is uploaded once and stays on the GPU for its lifetime. Arrays of edges that do not fit the
card are mapped: they stay in the host's memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evener.device import cuda as device
from evener.device.mapped_memory import map_array
from evener.engine.codegen.functors import unsigned
from evener.engine.deferred_arrays import DeferredArray
from evener.engine.memory.growable import joined
from evener.graph.csr import Graph
from evener.graph.gpu import ROWS, WEIGHTS, graph_cache

BOTH = "both"  # the joined lists of in- and out-edges
BY_DEGREE = "by degree"  # with vertices in the order of their degrees
LAUNCH = "launch"  # of a kernel on a graph
MAPPED = "mapped"  # prefix of arrays in the host's memory

# Sorting vertices by degree pays for a gather over all of them if the graph is large and skewed:
# by the largest degree as a multiple of the mean.
RELABEL_ARCS, RELABEL_SKEW = 1 << 20, 32
_BYTES_TO_RELABEL = 32  # for each arc, at most, while sorting


class OnDevice(NamedTuple):
    """A graph on a GPU: ``order`` has the vertex at each place, ``place`` its inverse."""

    rows: tuple[Any, Any, Any]  # row starts, neighbours, weights
    columns: tuple[Any, Any, Any]  # the same of the transpose
    degrees: Any
    both: tuple[Any, Any, Any] | None = None  # in-edges, then out-edges, of each vertex
    order: Any = None
    place: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, each counted once."""
        arrays = [
            *self.rows,
            *self.columns,
            *(self.both or ()),
            self.degrees,
            self.order,
            self.place,
        ]
        return sum({id(a): a.nbytes for a in arrays if a is not None}.values())


def once(library: Any, graph: Graph, what: Any, make: Any) -> Any:
    """A value made once per graph on the current GPU, but each time in the host's memory."""
    if library is np:
        return make()
    cache, key = graph_cache(graph), (what, device.current())
    if key not in cache:
        cache[key] = make()
    return cache[key]


def is_kept(graph: Graph, what: Any, ordinal: int) -> bool:
    """Whether such a value exists."""
    return (what, ordinal) in graph_cache(graph)


Edges = tuple[Graph, str]  # an array of edges: the graph, and `NEIGHBOURS`, `WEIGHTS` or `BOTH`


def place_graph(
    library: Any, graph: Graph, pulls: bool, degree: bool, both: bool, *, weights: bool = True,
    mapped: tuple[Edges, ...] = (),
) -> OnDevice:  # fmt: skip
    """The graph in its own order; transpose, degrees and joined lists only if needed.

    Arrays of edges that are ``mapped`` stay in the host's memory.
    """
    rows = _arrays(library, graph, weights, mapped)
    columns = _arrays(library, graph.transpose(), weights, mapped) if pulls else rows
    degrees = _degrees(library, graph) if degree else None
    return OnDevice(rows, columns, degrees, _both(library, graph, mapped) if both else None)


def _arrays(
    library: Any, graph: Graph, weights: bool = True, mapped: tuple[Edges, ...] = ()
) -> tuple[Any, Any, Any]:
    host = dict(zip(ROWS, _on_host(graph), strict=True))
    if not weights:
        host[WEIGHTS] = np.empty(0, np.int32)
    starts, indices, values = (
        _array(library, graph, what, array, _is_among(graph, what, mapped))
        for what, array in host.items()
    )
    return starts, indices, values


def _array(library: Any, graph: Graph, what: str, array: np.ndarray, is_mapped: bool) -> Any:
    if array.size == 0:
        return library.asarray(array)
    if is_mapped and library is not np:
        return once(library, graph, (MAPPED, what), lambda: map_array(array))
    return once(library, graph, what, lambda: library.asarray(array))


def _is_among(graph: Graph, what: str, mapped: tuple[Edges, ...]) -> bool:
    return any(other is graph and name == what for other, name in mapped)


def _on_host(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    weights = np.empty(0, np.int32) if graph._weights is None else graph._weights
    return unsigned(graph._indptr), unsigned(graph._indices), weights


def _both(library: Any, graph: Graph, mapped: tuple[Edges, ...] = ()) -> tuple[Any, Any, Any]:
    is_mapped = _is_among(graph, BOTH, mapped) and library is not np

    def make() -> tuple[Any, ...]:
        starts, *edges = joined(_on_host(graph.transpose()), _on_host(graph))
        place = map_array if is_mapped else library.asarray
        return (library.asarray(starts), *map(place, edges))

    return once(library, graph, (MAPPED, BOTH) if is_mapped else BOTH, make)


def move_edges(graph: Graph, wanted: tuple[Edges, ...], mapped: tuple[Edges, ...]) -> None:
    """Drop wanted arrays that are in the wrong place, host or card, for the current GPU.

    Launches hold addresses of arrays, so they are dropped too; all is made again when needed.
    """
    ordinal, moved = device.current(), False
    for owner, what in wanted:
        wrong = what if _is_among(owner, what, mapped) else (MAPPED, what)
        moved |= graph_cache(owner).pop((wrong, ordinal), None) is not None
    if moved:
        transpose = graph.__dict__.get("_transpose", graph)  # if it exists
        for cache in (graph_cache(graph), graph_cache(transpose)):
            for key in [key for key in cache if key[0] == LAUNCH and key[1] == ordinal]:
                del cache[key]
            cache.pop((BY_DEGREE, ordinal), None)


def _degrees(library: Any, graph: Graph) -> Any:
    return once(library, graph, "degrees", lambda: library.asarray(graph.degrees))


def is_skewed(graph: Graph) -> bool:
    """Whether degree order pays for a gather over all vertices."""
    if graph.num_edges < RELABEL_ARCS or graph._indices.dtype.itemsize > 4:
        return False
    cache = graph_cache(graph)
    if "largest" not in cache:
        cache["largest"] = int(graph.degrees.max())
    return cache["largest"] * graph.num_vertices >= RELABEL_SKEW * graph.num_edges


def bytes_to_relabel(graph: Graph) -> int:
    """Bytes that relabelling needs at most, besides the neighbours."""
    weights = 0 if graph._weights is None else graph._weights.nbytes
    return _BYTES_TO_RELABEL * graph.num_edges + weights


def place_by_degree(library: Any, graph: Graph) -> OnDevice:
    """The in-edges of a graph, its vertices in the order of their out-degrees, largest first.

    The values that a gather reads most often are then close together, a warp's lists are about
    equally long, and the longest come first.
    """
    return once(library, graph, BY_DEGREE, lambda: _relabel(library, graph))


def _relabel(library: Any, graph: Graph) -> OnDevice:
    indptr, indices, weights = _arrays(library, graph.transpose())
    degrees = _degrees(library, graph)
    n, m = graph.num_vertices, graph.num_edges
    order = library.argsort(-degrees)
    place = library.empty(n, np.int64)
    place[order] = library.arange(n)
    starts = indptr.astype(np.int64)
    lengths = library.diff(starts)[order]
    moved = library.zeros(n + 1, np.int64)
    moved[1:] = library.cumsum(lengths)
    rows = library.searchsorted(starts, library.arange(m), side="right") - 1
    keys = place[rows]
    del rows
    keys <<= 32
    keys |= place[indices]
    if len(weights):
        by_key = library.argsort(keys)
        keys, weights = keys[by_key], weights[by_key]
    else:
        keys.sort()
    side = (moved.astype(indptr.dtype), keys.astype(indices.dtype), weights)
    return OnDevice(side, side, degrees[order], None, order, place)


# ---- fields ------------------------------------------------------------------------------------


def fill_fields(
    library: Any, fields: dict[str, Any], at: OnDevice, fixed: set[str]
) -> dict[str, Any]:  # fmt: skip
    """The fields on the GPU, with their initial values.

    ``fixed`` fields are indexed by the user's ids, whatever the order of vertices.
    """
    arrays = {}
    for name, field in fields.items():
        deferred = isinstance(field, DeferredArray)
        array = field.to_array(library) if deferred else library.array(field)
        uniform = deferred and field.is_uniform
        if at.order is not None and name not in fixed and not uniform:
            array = array[at.order]
        arrays[name] = array
    return arrays


def in_users_order(fields: dict[str, Any], at: OnDevice, fixed: set[str]) -> dict[str, Any]:
    """The fields in the user's order of vertices."""
    if at.place is None:
        return fields
    return {name: f if name in fixed else f[at.place] for name, f in fields.items()}
