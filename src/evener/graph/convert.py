"""Conversion from and to other libraries; `Graph`'s methods document each function.

Nothing here imports a library to recognise its objects: a frame is anything with columns that have
``to_numpy``, a NetworkX graph anything that lists nodes and edges.
"""

from __future__ import annotations

import numbers
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from evener.errors import EvenerError, GraphError
from evener.graph.arguments import as_weights, require_digits
from evener.graph.csr import Graph
from evener.graph.labels import Labels, as_label_array
from evener.graph.load_warnings import warn_about_parallel_arcs
from evener.graph.relabel import relabel_any

if TYPE_CHECKING:
    import networkx
    import scipy.sparse

_ABSENT = object()


def from_frame(
    frame: Any,
    src: str,
    dst: str,
    weight: str | None = None,
    *,
    directed: bool = True,
    duplicates: str = "keep",
    vertices: Any = None,
) -> Graph:
    """See `Graph.from_frame`."""
    sources, targets = _column(frame, src), _column(frame, dst)
    names = (f"column {src!r}", f"column {dst!r}")
    weights = None if weight is None else _weight_column(_column(frame, weight), weight)
    rows = len(sources)
    if vertices is not None:  # relabelled with the edges, as if each had a loop
        further = _further_labels(vertices, sources if rows else None)
        sources, targets = (_joined(end, further) for end in (sources, targets))
    sources, targets, labels = relabel_any(sources, targets, names)
    graph = Graph.from_edges(
        sources[:rows], targets[:rows], weights,
        directed=directed, duplicates=duplicates, labels=labels,
    )  # fmt: skip
    if duplicates == "keep" and directed:
        warn_about_parallel_arcs(graph, "the frame")
    return graph


def _further_labels(vertices: Any, like: np.ndarray | None) -> np.ndarray:
    """The labels in ``vertices`` as an array of the same kind as the ends."""
    if hasattr(vertices, "to_numpy"):
        vertices = vertices.to_numpy()
    if isinstance(vertices, str | bytes) or not hasattr(vertices, "__iter__"):
        raise GraphError(f"vertices is {vertices!r}; it must be a sequence of labels.")
    array = vertices if isinstance(vertices, np.ndarray) else as_label_array(list(vertices))
    if array.ndim != 1:
        raise GraphError(f"vertices must be a flat sequence, not one of shape {array.shape}.")
    if (
        like is not None
        and len(array)
        and (like.dtype.kind in "iuf") != (array.dtype.kind in "iuf")
    ):
        raise GraphError(
            f"vertices holds labels such as {array[:1].tolist()[0]!r}, but the edges have labels "
            f"such as {like[:1].tolist()[0]!r}; labels must be of one kind."
        )
    return array


def _joined(ends: np.ndarray, further: np.ndarray) -> np.ndarray:
    if len(ends) == 0:
        return further
    if ends.dtype.kind in "iuf" or ends.dtype == further.dtype:
        return np.concatenate((ends, further))
    return np.concatenate((ends.astype(object), further.astype(object)))


def _column(frame: Any, name: str) -> np.ndarray:
    names = getattr(frame, "column_names", None)  # pyarrow: its `columns` are the data
    if names is None:
        names = getattr(frame, "columns", None)
    if names is None or not hasattr(frame, "__getitem__"):
        raise GraphError(
            f"from_frame takes a pandas, polars or pyarrow table, not {type(frame).__name__}."
        )
    found = list(names).count(name)
    if found == 0:
        raise GraphError(f"there is no column {name!r}; there are {', '.join(map(repr, names))}.")
    if found > 1:
        raise GraphError(f"there are {found} columns {name!r}; the name must be unique.")
    try:
        column = frame[name]
        try:
            values = column.to_numpy()
        except ValueError:  # pyarrow copies a chunk only if asked to
            values = column.to_numpy(zero_copy_only=False)
    except (TypeError, AttributeError):  # for instance polars' LazyFrame
        raise GraphError(
            f"the columns of a {type(frame).__name__} cannot be read; collect it into a table."
        ) from None
    if values.ndim != 1:
        raise GraphError(f"column {name!r} holds records; expected one value per row.")
    return values


def _weight_column(values: np.ndarray, name: str) -> np.ndarray:
    if values.dtype.kind == "O":
        values = _numbers(values.tolist(), f"column {name!r}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        row = int(np.argmax(np.isnan(values)))
        raise GraphError(f"column {name!r} has no value in row {row}; every edge needs a weight.")
    return as_weights(values)


def _numbers(values: list[Any], name: str) -> np.ndarray:
    """Convert Python numbers to an array: integers if all are integers, else floats."""
    for value in values:
        if not isinstance(value, numbers.Real | Decimal):
            raise GraphError(f"{name} holds {value!r}, which is not a number.")
    try:
        if all(isinstance(value, numbers.Integral) for value in values):
            return np.array(values, np.int64)
    except OverflowError:
        pass
    try:
        floats = np.array([float(value) for value in values], np.float64)
    except OverflowError:
        raise GraphError(f"{name} holds a number too large for a float.") from None
    require_digits(values, floats, name)
    return floats


def from_scipy(matrix: Any, *, directed: bool = True) -> Graph:
    """See `Graph.from_scipy`."""
    import scipy.sparse

    if not scipy.sparse.issparse(matrix):
        raise GraphError(f"from_scipy takes a sparse matrix, not {type(matrix).__name__}.")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        shape = " x ".join(map(str, matrix.shape))
        raise GraphError(f"the matrix is {shape}; an adjacency matrix is square.")
    # Even sorted rows are rebuilt from edges: a matrix may hold indices that are out of range.
    try:
        entries = matrix.tocoo(copy=False)
    except ValueError as error:
        raise GraphError(f"the matrix is inconsistent: {error}.") from None
    weights = None if matrix.dtype == np.bool_ else entries.data
    graph = Graph.from_edges(
        entries.row, entries.col, weights, num_vertices=matrix.shape[0], duplicates="sum"
    )
    if directed:
        return graph
    if _is_symmetric(graph):
        return Graph(graph._indptr, graph._indices, graph._weights, directed=False)
    undirected = graph.symmetrize()
    largest = graph.symmetrize(duplicates="max").weights
    if largest is not None and not np.array_equal(undirected.weights, largest):  # type: ignore[arg-type]
        raise GraphError(
            "the matrix is not symmetric: an entry and its mirror image differ; "
            "use directed=True, or matrix.maximum(matrix.T)."
        )
    return undirected


def _is_symmetric(graph: Graph) -> bool:
    mirror = graph.transpose()
    return (
        np.array_equal(graph.indptr, mirror.indptr)
        and np.array_equal(graph.indices, mirror.indices)
        and (
            graph.weights is None
            or mirror.weights is None
            or np.array_equal(graph.weights, mirror.weights, equal_nan=True)
        )
    )


def to_scipy(graph: Graph) -> scipy.sparse.csr_array:
    """See `Graph.to_scipy`; the matrix is a copy that the caller may change."""
    import scipy.sparse

    n, m = graph.num_vertices, graph.num_edges
    data = np.ones(m, np.int64) if graph.weights is None else graph.weights
    return scipy.sparse.csr_array((data, graph.indices, graph.indptr), shape=(n, n), copy=True)


def from_networkx(G: networkx.Graph, *, weight: str | None = "weight") -> Graph:
    """See `Graph.from_networkx`."""
    if not (hasattr(G, "is_directed") and hasattr(G, "edges")):
        raise GraphError(f"from_networkx takes a NetworkX graph, not {type(G).__name__}.")
    nodes = list(G)
    index = {node: i for i, node in enumerate(nodes)}
    ends = np.empty((G.number_of_edges(), 2), np.int64)
    values = []
    for i, (u, v, value) in enumerate(G.edges(data=weight, default=_ABSENT)):
        ends[i] = index[u], index[v]
        values.append(value)
    weights = None
    if weight is not None and any(value is not _ABSENT for value in values):
        weights = _numbers(
            [1 if value is _ABSENT else value for value in values], f"edge attribute {weight!r}"
        )
    return Graph.from_edges(
        ends[:, 0], ends[:, 1], weights,
        directed=G.is_directed(), labels=Labels.of(nodes),
    )  # fmt: skip


def to_networkx(graph: Graph) -> networkx.Graph:
    """See `Graph.to_networkx`."""
    try:
        import networkx
    except ImportError:
        raise EvenerError(
            "to_networkx needs NetworkX, which is not installed: pip install evener[networkx]."
        ) from None
    src, dst = graph._sources(), graph.indices
    parallel = bool(((src[1:] == src[:-1]) & (dst[1:] == dst[:-1])).any())
    kind = {
        (True, False): networkx.DiGraph,
        (True, True): networkx.MultiDiGraph,
        (False, False): networkx.Graph,
        (False, True): networkx.MultiGraph,
    }[graph.directed, parallel]
    weights = graph.weights
    if not graph.directed:  # both directions are stored, but NetworkX takes one
        once = src <= dst
        src, dst = src[once], dst[once]
        weights = None if weights is None else weights[once]
    converted = kind()
    labels = graph.labels.tolist()
    converted.add_nodes_from(labels)
    ends = ((labels[u], labels[v]) for u, v in zip(src.tolist(), dst.tolist(), strict=True))
    if weights is None:
        converted.add_edges_from(ends)
    else:
        converted.add_weighted_edges_from(
            (u, v, w) for (u, v), w in zip(ends, weights.tolist(), strict=True)
        )
    return converted
