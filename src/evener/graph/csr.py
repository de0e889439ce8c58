"""`Graph`: an immutable graph as compressed sparse rows in NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evener.device import parallel
from evener.device.once import once
from evener.errors import GraphError
from evener.graph import build, describe, queries, subgraphs
from evener.graph.arguments import (
    as_indices,
    as_weights,
    count_vertices,
    require_combination,
    same_dtype,
)
from evener.graph.labels import Labels

if TYPE_CHECKING:
    import networkx
    import scipy.sparse

_ROWS = 1 << 14  # rows a thread takes at a time


class Graph:
    """A graph of vertices ``0..n-1`` with sorted neighbour lists; made by `from_edges` or a loader.

    The constructor takes finished CSR arrays unchecked: ``indptr`` with n+1 ascending row starts,
    ``indices`` ascending within each row, ``weights`` aligned with ``indices`` or None. With
    ``directed=False`` every edge must be present in both directions.

    Examples
    --------
    >>> import evener as ev
    >>> g = ev.Graph.from_edges([0, 0, 1], [1, 2, 2], directed=False)
    >>> g
    Graph(3 vertices, 6 arcs, undirected; degrees 2..2, mean 2.0; 40 B)
    >>> g.indices.tolist()
    [1, 2, 0, 2, 0, 1]
    """

    def __init__(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        directed: bool = True,
        labels: Labels | Sequence[Any] | np.ndarray | None = None,
    ):
        self._indptr = indptr
        self._indices = indices
        self._weights = weights
        self._directed = bool(directed)
        if labels is None:
            labels = Labels(len(indptr) - 1)
        self._labels = labels if isinstance(labels, Labels) else Labels.of(labels)
        if self._labels.size != self.num_vertices:
            raise GraphError(
                f"{self._labels.size} labels were given for {self.num_vertices} vertices."
            )

    # ---- building -------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        src: Any,
        dst: Any,
        weight: Any = None,
        *,
        num_vertices: int | None = None,
        directed: bool = True,
        self_loops: str = "keep",
        duplicates: str = "keep",
        labels: Labels | Sequence[Any] | np.ndarray | None = None,
    ) -> Graph:
        """Build a graph from arrays of edge ends.

        Parameters
        ----------
        src, dst
            Indices of the ends of each edge, whole numbers from 0.
        weight
            One number for each edge, or None. int32, int64, float32 and float64 are kept;
            other dtypes become the nearest of these.
        num_vertices
            By default the number of labels, else the largest index plus one.
        directed
            False stores every edge in both directions (a self-loop once).
        self_loops
            ``"keep"`` or ``"drop"``.
        duplicates
            ``"keep"`` parallel arcs, or combine them: ``"first"`` in the order given, ``"min"``,
            ``"max"`` or ``"sum"`` of the weights. Without weights the last four are equivalent.
            A sum that overflows the dtype is an error.
        labels
            The label of each vertex, in index order.

        Examples
        --------
        >>> import evener as ev
        >>> g = ev.Graph.from_edges([0, 0, 2], [1, 1, 0], [5, 3, 1], duplicates="min")
        >>> g.weights.tolist()
        [3, 1]
        """
        src, dst = as_indices(src, "src"), as_indices(dst, "dst")
        if len(src) != len(dst):
            raise GraphError(f"src has {len(src)} entries and dst {len(dst)}; they must match.")
        weights = None if weight is None else as_weights(weight)
        if weights is not None and len(weights) != len(src):
            raise GraphError(f"weight has {len(weights)} entries for {len(src)} edges.")
        if self_loops not in ("keep", "drop"):
            raise GraphError(f"self_loops is {self_loops!r}; it must be 'keep' or 'drop'.")
        require_combination(duplicates)
        if labels is not None and not isinstance(labels, Labels):
            labels = Labels.of(labels)
        n = count_vertices(src, dst, num_vertices, labels)
        src, dst = same_dtype(src, dst)
        csr = build.build_csr(
            src, dst, weights, n,
            symmetric=not directed, drop_loops=self_loops == "drop", duplicates=duplicates,
        )  # fmt: skip
        return cls(*csr, directed=directed, labels=labels)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        src: str,
        dst: str,
        weight: str | None = None,
        *,
        directed: bool = True,
        duplicates: str = "keep",
        vertices: Any = None,
    ) -> Graph:
        """Build a graph from two columns of a pandas, polars or pyarrow table.

        Every value in the two columns becomes a vertex and its label; ``vertices``, a sequence or
        column of labels, adds vertices without edges. ``duplicates`` is as in `from_edges`.

        Examples
        --------
        >>> import evener as ev
        >>> import polars as pl
        >>> roads = pl.DataFrame({"a": ["Bern", "Thun"], "b": ["Thun", "Brig"], "km": [28, 60]})
        >>> g = ev.Graph.from_frame(roads, "a", "b", "km", directed=False)
        >>> g.labels.tolist()
        ['Bern', 'Brig', 'Thun']
        >>> ev.Graph.from_frame(roads, "a", "b", vertices=["Genf", "Thun"]).labels.tolist()
        ['Bern', 'Brig', 'Genf', 'Thun']
        """
        from evener.graph.convert import from_frame

        options = {"directed": directed, "duplicates": duplicates, "vertices": vertices}
        return from_frame(frame, src, dst, weight, **options)

    @classmethod
    def from_scipy(cls, matrix: Any, *, directed: bool = True) -> Graph:
        """Build a graph from a square SciPy sparse matrix or array, with an arc per stored entry.

        The entries become the weights; a boolean matrix gives a graph without weights. With
        ``directed=False`` an entry without a mirror image gets one; an entry and its mirror image
        must be equal.

        Examples
        --------
        >>> import evener as ev
        >>> import scipy.sparse as sp
        >>> ev.Graph.from_scipy(sp.csr_array([[0, 2], [0, 0]])).weights.tolist()
        [2]
        """
        from evener.graph.convert import from_scipy

        return from_scipy(matrix, directed=directed)

    @classmethod
    def from_networkx(cls, G: networkx.Graph, *, weight: str | None = "weight") -> Graph:
        """Build a graph from a NetworkX graph; its nodes become the labels.

        Edges without the attribute ``weight`` get weight 1; if no edge has it, the graph has no
        weights.

        Examples
        --------
        >>> import evener as ev
        >>> import networkx as nx
        >>> ev.Graph.from_networkx(nx.path_graph(3)).degrees.tolist()
        [1, 2, 1]
        """
        from evener.graph.convert import from_networkx

        return from_networkx(G, weight=weight)

    # ---- arrays and counts ----------------------------------------------------------------

    @property
    def num_vertices(self) -> int:
        """Number of vertices, including isolated ones."""
        return len(self._indptr) - 1

    @property
    def num_edges(self) -> int:
        """Number of stored arcs; an undirected edge is stored in both directions."""
        return len(self._indices)

    @property
    def directed(self) -> bool:
        """False if every edge is stored in both directions."""
        return self._directed

    @property
    def indptr(self) -> np.ndarray:
        """Row starts: vertex v has the neighbours ``indices[indptr[v]:indptr[v + 1]]``."""
        return _read_only(self._indptr)

    @property
    def indices(self) -> np.ndarray:
        """The sorted neighbour lists of all vertices, one after another."""
        return _read_only(self._indices)

    @property
    def weights(self) -> np.ndarray | None:
        """Weights aligned with `indices`, or None."""
        return None if self._weights is None else _read_only(self._weights)

    @once
    def labels(self) -> np.ndarray:
        """The label of each vertex in index order; 0..n-1 if the graph was made without labels."""
        return _read_only(self._labels.array())

    @once
    def degrees(self) -> np.ndarray:
        """Out-degree of each vertex."""
        return _read_only(np.diff(self._indptr))

    @once
    def _least_degree(self) -> int:
        return int(self.degrees.min(initial=self.num_edges))

    @once
    def in_degrees(self) -> np.ndarray:
        """In-degree of each vertex."""
        if not self.directed:
            return self.degrees
        counts = np.bincount(self._indices, minlength=self.num_vertices)
        return _read_only(counts.astype(self._indptr.dtype, copy=False))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of this graph, without cached forms such as the transpose."""
        weights = 0 if self._weights is None else self._weights.nbytes
        return self._indptr.nbytes + self._indices.nbytes + weights + self._labels.nbytes

    def index_of(self, labels: Any) -> Any:
        """The index of a vertex by label: an int for one label, an array for several.

        Examples
        --------
        >>> import evener as ev
        >>> g = ev.Graph.from_edges([0], [1], labels=["a", "b"])
        >>> g.index_of("b"), g.index_of(["b", "a"]).tolist()
        (1, [1, 0])
        """
        return self._labels.index_of(labels)

    neighbors = queries.neighbors
    degree = queries.degree
    degree_spread = queries.degree_spread
    edges = queries.edges

    # ---- other forms ----------------------------------------------------------------------

    def transpose(self) -> Graph:
        """The graph with every arc reversed; computed once. An undirected graph returns itself.

        Examples
        --------
        >>> import evener as ev
        >>> ev.Graph.from_edges([0, 0], [1, 2]).transpose().degrees.tolist()
        [0, 1, 1]
        """
        return self._transpose if self.directed else self

    def _transposing_bytes(self) -> int:
        """Bytes that computing the transpose takes, with its arrays; 0 if it is cached."""
        if not self.directed or "_transpose" in self.__dict__:
            return 0
        building = build.build_bytes(self.num_edges, self.num_vertices, self._weights)
        return building + self._indices.nbytes  # the sources of all arcs

    @once
    def _transpose(self) -> Graph:
        csr = build.build_csr(self._indices, self._sources(), self._weights, self.num_vertices)
        turned = Graph(*csr, directed=True, labels=self._labels)
        turned.__dict__["_transpose"] = self
        return turned

    def symmetrize(self, *, duplicates: str = "min") -> Graph:
        """The undirected graph with an edge for every arc; an undirected graph returns itself.

        Arcs in both directions between two vertices become one edge; ``duplicates`` chooses its
        weight as in `from_edges`: by default the smaller one.

        Examples
        --------
        >>> import evener as ev
        >>> g = ev.Graph.from_edges([0, 1, 1], [1, 0, 2], [4, 3, 9]).symmetrize()
        >>> g.num_edges, g.weights.tolist()
        (4, [3, 3, 9, 9])
        """
        if not self.directed:
            return self
        cached: dict[str, Graph] = self.__dict__.setdefault("_symmetrized", {})
        if duplicates not in cached:
            cached[duplicates] = Graph.from_edges(
                self._sources(), self._indices, self._weights, num_vertices=self.num_vertices,
                directed=False, duplicates=duplicates, labels=self._labels,
            )  # fmt: skip
        return cached[duplicates]

    subgraph = subgraphs.subgraph
    largest_component = subgraphs.largest_component
    ego = subgraphs.ego
    simplify = subgraphs.simplify

    def to_scipy(self) -> scipy.sparse.csr_array:
        """The adjacency matrix as a SciPy array; entries are 1 if the graph has no weights.

        Examples
        --------
        >>> import evener as ev
        >>> ev.Graph.from_edges([0], [1], [7]).to_scipy().toarray().tolist()
        [[0, 7], [0, 0]]
        """
        from evener.graph.convert import to_scipy

        return to_scipy(self)

    def to_networkx(self) -> networkx.Graph:
        """A NetworkX graph with the same labels and weights; a multigraph if any arcs are parallel.

        Examples
        --------
        >>> import evener as ev
        >>> sorted(ev.Graph.from_edges([0, 1], [1, 2]).to_networkx().edges)
        [(0, 1), (1, 2)]
        """
        from evener.graph.convert import to_networkx

        return to_networkx(self)

    def save(self, path: Any, *, format: str | None = None) -> None:
        """Write the graph to a file that `evener.load` reads; the suffix names the format.

        The file is replaced atomically: a failed save leaves the previous file in place.

        Examples
        --------
        >>> import evener as ev
        >>> ev.generate.path(3).save(tmp_path / "path.mtx")
        >>> ev.load(tmp_path / "path.mtx").num_edges
        4
        """
        from evener.graph.files import save

        save(self, path, format=format)

    def _sources(self) -> np.ndarray:
        """The source of each arc, aligned with `indices`."""
        out = np.empty(self.num_edges, self._indices.dtype)
        _expand(max(1, -(-self.num_vertices // _ROWS)), self._indptr, out)
        return out

    # ---- showing and pickling -------------------------------------------------------------

    def __repr__(self) -> str:
        return describe.one_line(self)

    def _repr_html_(self) -> str:
        return describe.html_table(self)

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = (self._indptr, self._indices, self._weights)
        plain = tuple(None if a is None else np.ascontiguousarray(a) for a in arrays)
        return _unpickle, (*plain, self.directed, self._labels)


def require_graph(value: Any) -> None:
    """Raise GraphError, which says how to make a graph, unless this is a `Graph`.

    Examples
    --------
    >>> from evener.graph.csr import require_graph
    >>> require_graph("roads.gr")
    Traceback (most recent call last):
    evener.errors.GraphError: the graph is of type str; it must be a Graph, made by evener.load, ...
    """
    if not isinstance(value, Graph):
        raise GraphError(
            f"the graph is of type {type(value).__name__}; it must be a Graph, made by "
            "evener.load, evener.generate, or Graph.from_edges, from_networkx, from_scipy or "
            "from_frame."
        )


def _unpickle(
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray | None,
    directed: bool,
    labels: Labels,
) -> Graph:
    return Graph(indptr, indices, weights, directed=directed, labels=labels)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


@parallel
def _expand(chunk, indptr, out):
    for row in range(chunk * _ROWS, min((chunk + 1) * _ROWS, len(indptr) - 1)):
        for i in range(indptr[row], indptr[row + 1]):
            out[i] = row
