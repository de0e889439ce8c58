"""Graphs from and to frames, SciPy and NetworkX."""

import decimal
import fractions
import subprocess
import sys

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from evener.errors import GraphError
from evener.graph.csr import Graph
from graphs import DEGENERATE, assert_same, graphs

SOME = settings(max_examples=50)

# ---- frames ---------------------------------------------------------------------------------

FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow table": pa.table,
    "pyarrow batch": pa.RecordBatch.from_pydict,
}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


def named_arcs(graph):
    """The arcs as (label, label, weight)."""
    labels = graph.labels.tolist()
    src = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr)).tolist()
    weights = [None] * len(src) if graph.weights is None else graph.weights.tolist()
    return [
        (labels[u], labels[v], w)
        for u, v, w in zip(src, graph.indices.tolist(), weights, strict=True)
    ]


@pytest.mark.parametrize(
    ("src", "dst", "labels"),
    [
        ([0, 2, 2], [1, 0, 1], [0, 1, 2]),
        ([1, 3, 3], [2, 1, 2], [1, 2, 3]),
        ([-5, 900, 900], [7, -5, 7], [-5, 7, 900]),
        ([10**17 + 1, 10**17, 10**17], [3, 10**17 + 1, 3], [3, 10**17, 10**17 + 1]),
        ([1.0, 4.0, 4.0], [2.0, 1.0, 2.0], [1, 2, 4]),
        (["b", "c", "c"], ["a", "b", "a"], ["a", "b", "c"]),
        ([b"b", b"c", b"c"], [b"a", b"b", b"a"], [b"a", b"b", b"c"]),
    ],
)
@pytest.mark.parametrize("directed", [True, False])
def test_frames(frame, src, dst, labels, directed):
    table = frame({"from": src, "to": dst, "km": [1.5, 2.5, 3.5]})
    graph = Graph.from_frame(table, "from", "to", "km", directed=directed)
    assert graph.labels.tolist() == labels
    expected = list(zip(src, dst, [1.5, 2.5, 3.5], strict=True))
    if not directed:
        expected += [(v, u, w) for u, v, w in expected]
    assert sorted(named_arcs(graph)) == sorted(expected)
    assert Graph.from_frame(table, "from", "to").weights is None


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64", "uint8"])
def test_frame_weights(frame, dtype):
    table = frame({"a": [0, 1], "b": [1, 2], "w": np.array([3, 4], dtype)})
    graph = Graph.from_frame(table, "a", "b", "w")
    assert graph.weights.dtype == (np.int32 if dtype == "uint8" else dtype)
    assert graph.weights.tolist() == [3, 4]


def test_frames_without_rows(frame):
    for column in (np.empty(0, np.int64), np.empty(0, np.float64), pa.array([], pa.string())):
        table = frame({"a": column, "b": column})
        assert Graph.from_frame(table, "a", "b", directed=False).num_vertices == 0
        assert Graph.from_frame(table, "a", "b").num_edges == 0


def test_columns_of_a_frame_may_be_one(frame):
    graph = Graph.from_frame(frame({"a": [4, 9]}), "a", "a", "a")
    assert named_arcs(graph) == [(4, 4, 4), (9, 9, 9)]


def test_frame_of_missing_columns(frame):
    table = frame({"a": [0], "b": [1]})
    for columns in (("x", "b"), ("a", "x"), ("a", "b", "x")):
        with pytest.raises(GraphError, match=r"there is no column 'x'; there are 'a', 'b'\."):
            Graph.from_frame(table, *columns)


@pytest.mark.parametrize("values", [[1, None], [1.0, None], ["a", None]])
def test_frame_of_missing_ends(frame, values):
    table = frame({"a": values, "b": [values[0]] * 2})
    with pytest.raises(GraphError, match=r"column 'a' has no value in row 1; every edge needs"):
        Graph.from_frame(table, "a", "b")
    with pytest.raises(GraphError, match="column 'a' has no value in row 1"):
        Graph.from_frame(table, "b", "a")


@pytest.mark.parametrize("values", [[1, None], [1.0, None], [1.0, float("nan")]])
def test_frame_of_missing_weights(frame, values):
    table = frame({"a": [0, 1], "w": values})
    with pytest.raises(GraphError, match=r"column 'w' has no value in row 1; every edge needs"):
        Graph.from_frame(table, "a", "a", "w")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([True, False], "column 'a' holds booleans, which cannot name vertices"),
        ([0.5, 1.0], "column 'a' holds 0.5, which is not a whole number"),
    ],
)
def test_frame_of_bad_ends(frame, values, message):
    with pytest.raises(GraphError, match=message):
        Graph.from_frame(frame({"a": values}), "a", "a")


def test_frame_of_bad_weights(frame):
    with pytest.raises(GraphError, match="column 'w' holds 'heavy', which is not a number"):
        Graph.from_frame(frame({"a": [0], "w": ["heavy"]}), "a", "a", "w")


def test_pandas_nullable_and_categories():
    table = pd.DataFrame(
        {
            "a": pd.array([5, 3], dtype="Int64"),
            "b": pd.array([3, 8], dtype="UInt8"),
            "w": pd.array([1, 2], dtype="Int32"),
            "c": pd.Categorical(["y", "x"]),
            "o": pd.Series([5, 3], dtype=object),
        }
    )
    assert named_arcs(Graph.from_frame(table, "a", "b", "w")) == [(3, 8, 2), (5, 3, 1)]
    assert named_arcs(Graph.from_frame(table, "o", "b", "w")) == [(3, 8, 2), (5, 3, 1)]
    assert Graph.from_frame(table, "c", "c").labels.tolist() == ["x", "y"]
    table["a"] = pd.array([5, None], dtype="Int64")
    with pytest.raises(GraphError, match="column 'a' has no value in row 1"):
        Graph.from_frame(table, "a", "b")
    table["c"] = pd.array(["x", None], dtype="string")
    with pytest.raises(GraphError, match="column 'c' has no value in row 1"):
        Graph.from_frame(table, "c", "c")


def test_pandas_objects():
    table = pd.DataFrame({"a": [(1, 2), "z"], "b": ["z", 3], "w": [decimal.Decimal("0.5"), 2]})
    graph = Graph.from_frame(table, "a", "b", "w")
    assert named_arcs(graph) == [((1, 2), "z", 0.5), ("z", 3, 2.0)]
    with pytest.raises(GraphError, match="there are 2 columns 'a'; the name must be unique"):
        Graph.from_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]), "a", "a")


def test_no_frame():
    for thing in ([(0, 1)], {"a": [0]}, None, 3):
        with pytest.raises(GraphError, match="takes a pandas, polars or pyarrow table, not"):
            Graph.from_frame(thing, "a", "a")


# ---- SciPy ----------------------------------------------------------------------------------

FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("format", FORMATS)
def test_every_sparse_format(format, kind):
    dense = np.array([[0, 2, 0], [1, 0, 0], [0, 5, 7]], np.float32)
    make = sp.coo_array if kind == "array" else sp.coo_matrix
    matrix = make(dense).asformat(format)
    graph = Graph.from_scipy(matrix)
    assert graph.directed
    assert graph.weights.dtype == np.float32
    np.testing.assert_array_equal(graph.to_scipy().toarray(), dense)
    np.testing.assert_array_equal(matrix.toarray(), dense)


@given(graphs())
def test_scipy_round_trip(graph):
    matrix = graph.to_scipy()
    assert isinstance(matrix, sp.csr_array)
    assert matrix.nnz == graph.num_edges
    again = Graph.from_scipy(matrix, directed=graph.directed)
    parallel = len({*zip(graph._sources().tolist(), graph.indices.tolist(), strict=True)})
    if parallel == graph.num_edges:
        np.testing.assert_array_equal(again.indptr, graph.indptr, strict=True)
        np.testing.assert_array_equal(again.indices, graph.indices, strict=True)
        weights = np.ones(graph.num_edges, np.int64) if graph.weights is None else graph.weights
        np.testing.assert_array_equal(again.weights, weights, strict=True)
        assert again.directed == graph.directed
    else:
        assert again.num_edges == parallel
        if graph.weights is None:  # parallel arcs have become their number
            assert again.weights.sum() == graph.num_edges


@given(graphs())
@SOME
def test_boolean_matrices_have_no_weights(graph):
    matrix = graph.to_scipy().astype(bool)
    matrix.data[:] = True
    again = Graph.from_scipy(matrix, directed=graph.directed)
    assert again.weights is None
    matrix.sum_duplicates()
    assert again.indices.tolist() == matrix.indices.tolist()
    assert again.indptr.tolist() == matrix.indptr.tolist()


def test_duplicate_entries_are_summed():
    matrix = sp.coo_array(([1, 2, 3], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert Graph.from_scipy(matrix).weights.tolist() == [3, 3]
    assert matrix.nnz == 3
    rows = sp.csr_array((np.array([1, 2], np.int8), [1, 1], [0, 2, 2]), shape=(2, 2))
    assert Graph.from_scipy(rows).weights.tolist() == [3]


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_explicit_zeros_stay(format):
    matrix = sp.coo_array(([0.0, 2.0], ([0, 1], [1, 0])), shape=(2, 2)).asformat(format)
    assert Graph.from_scipy(matrix).weights.tolist() == [0.0, 2.0]


def test_unsorted_rows_are_sorted_and_the_matrix_is_left_alone():
    data, indices, indptr = np.array([1, 2, 3]), np.array([2, 0, 1]), np.array([0, 3, 3, 3])
    matrix = sp.csr_array((data, indices, indptr), shape=(3, 3))
    graph = Graph.from_scipy(matrix)
    assert (graph.indices.tolist(), graph.weights.tolist()) == ([0, 1, 2], [2, 3, 1])
    assert (matrix.indices.tolist(), matrix.data.tolist()) == ([2, 0, 1], [1, 2, 3])


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_graph_and_matrix_share_nothing(format):
    graph = Graph.from_scipy(sp.eye_array(4, format="csr"))
    matrix = sp.eye_array(4, format=format)
    other = Graph.from_scipy(matrix)
    matrix.data[:] = 9
    if format != "coo":
        matrix.indices[:] = 0
    assert_same(graph, other)
    for own in (graph, DEGENERATE["path"]()):
        back = own.to_scipy()
        before = own.indices.tolist(), own.indptr.tolist()
        back.data[:], back.indices[:], back.indptr[1:] = 5, 0, 1
        assert (own.indices.tolist(), own.indptr.tolist()) == before
        assert own.weights is None or own.weights.tolist() == [1.0] * 4


def test_symmetric_matrices_are_taken_as_they_are():
    matrix = sp.coo_array(([1, 1, 4], ([0, 1, 2], [1, 0, 2])), shape=(3, 3))
    graph = Graph.from_scipy(matrix, directed=False)
    assert not graph.directed
    assert named_arcs(graph) == [(0, 1, 1), (1, 0, 1), (2, 2, 4)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([4, 4, 7], [(0, 1, 4), (1, 0, 4), (1, 2, 7), (2, 1, 7)]),  # one has no mirror image
    ],
)
def test_other_matrices_are_symmetrized(data, expected):
    matrix = sp.coo_array((data, ([0, 1, 1], [1, 0, 2])), shape=(3, 3))
    graph = Graph.from_scipy(matrix, directed=False)
    assert not graph.directed
    assert named_arcs(graph) == expected


def test_matrices_that_contradict_themselves_are_refused():
    with pytest.raises(GraphError, match="an entry and its mirror image differ"):
        Graph.from_scipy(sp.csr_array([[0, 1], [3, 0]]), directed=False)


def test_matrices_of_no_size():
    assert Graph.from_scipy(sp.csr_array((0, 0))).num_vertices == 0
    assert Graph.from_scipy(sp.csc_array((5, 5), dtype=bool), directed=False).num_vertices == 5


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (sp.csr_array((2, 3)), "the matrix is 2 x 3; an adjacency matrix is square"),
        (sp.coo_array([0, 1]), "the matrix is 2; an adjacency matrix is square"),
        (sp.csr_array([[1j]]), "weights of type complex128 cannot be used"),
        (np.eye(2), "from_scipy takes a sparse matrix, not ndarray"),
        ([[0, 1], [1, 0]], "from_scipy takes a sparse matrix, not list"),
        (sp.csr_array(([1], [7], [0, 1, 1]), shape=(2, 2)), "is inconsistent: .* index 7"),
    ],
)
def test_bad_matrices(matrix, message):
    with pytest.raises(GraphError, match=message):
        Graph.from_scipy(matrix)


# ---- NetworkX -------------------------------------------------------------------------------


@given(graphs())
def test_networkx_round_trip(graph):
    again = Graph.from_networkx(graph.to_networkx())
    assert (again.num_vertices, again.num_edges) == (graph.num_vertices, graph.num_edges)
    assert again.directed == graph.directed
    assert again.labels.tolist() == graph.labels.tolist()
    assert again.indices.tolist() == graph.indices.tolist()
    if graph.weights is None or not graph.num_edges:
        assert again.weights is None
    else:
        assert again.weights.dtype.kind == graph.weights.dtype.kind
        for v in range(graph.num_vertices):  # NetworkX may list parallel edges in another order
            row = slice(graph.indptr[v], graph.indptr[v + 1])
            ends = [
                sorted(zip(g.indices[row].tolist(), g.weights[row].tolist(), strict=True))
                for g in (graph, again)
            ]
            assert ends[0] == ends[1]


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("directed", [True, False])
def test_to_networkx(name, directed):
    graph = DEGENERATE[name](directed=directed)
    made = graph.to_networkx()
    assert made.is_directed() == directed
    assert made.is_multigraph() == (name == "parallel arcs")
    assert list(made) == graph.labels.tolist()
    assert not made or type(next(iter(made))) in (int, str)
    loops = nx.number_of_selfloops(made)
    listed = graph.num_edges if directed else (graph.num_edges - loops) // 2 + loops
    assert made.number_of_edges() == listed
    for _, _, attributes in made.edges(data=True):
        if graph.weights is None:
            assert attributes == {}
        else:
            assert type(attributes["weight"]) in (int, float)
    if name != "empty":
        matrix = nx.to_scipy_sparse_array(made, dtype=float)
        np.testing.assert_array_equal(matrix.toarray(), graph.to_scipy().toarray())


@given(
    st.sampled_from([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(-3, 9)), max_size=20),
)
@SOME
def test_from_networkx_equals_its_matrix(kind, triples):
    G = kind()
    G.add_nodes_from("ab")
    G.add_weighted_edges_from(triples)
    graph = Graph.from_networkx(G)
    assert graph.directed == G.is_directed()
    assert graph.labels.tolist() == list(G)
    if triples:
        matrix = nx.to_scipy_sparse_array(G)
        np.testing.assert_array_equal(graph.to_scipy().toarray(), matrix.toarray())


def test_networkx_weights():
    G = nx.DiGraph([(0, 1, {"weight": 2.5}), (1, 2)])
    assert Graph.from_networkx(G).weights.tolist() == [2.5, 1.0]
    assert Graph.from_networkx(G, weight=None).weights is None
    assert Graph.from_networkx(G, weight="km").weights is None
    G = nx.DiGraph([("a", "b", {"km": np.int16(7)}), ("b", "c", {"km": True})])
    graph = Graph.from_networkx(G, weight="km")
    assert (graph.weights.dtype, graph.weights.tolist()) == (np.int64, [7, 1])
    G = nx.DiGraph([(0, 1, {"weight": 2**70}), (1, 2, {"weight": fractions.Fraction(1, 2)})])
    assert Graph.from_networkx(G).weights.tolist() == [2.0**70, 0.5]


@pytest.mark.parametrize("value", ["heavy", None, 1j, [1]])
def test_networkx_weights_that_are_no_numbers(value):
    G = nx.Graph([(0, 1, {"weight": value})])
    with pytest.raises(GraphError, match=r"edge attribute 'weight' holds .*, which is not a num"):
        Graph.from_networkx(G)


def test_networkx_weights_too_large():
    with pytest.raises(GraphError, match="'weight' holds a number too large for a float"):
        Graph.from_networkx(nx.Graph([(0, 1, {"weight": 10**400})]))


def test_networkx_nodes_of_every_kind():
    G = nx.Graph([((0, 1), "x"), ("x", 3), (3, frozenset({1}))])
    graph = Graph.from_networkx(G)
    assert graph.labels.tolist() == [(0, 1), "x", 3, frozenset({1})]
    assert [graph.index_of(node) for node in G] == [0, 1, 2, 3]
    assert set(graph.to_networkx().edges) == set(G.edges)
    grid = nx.grid_2d_graph(3, 3)
    assert nx.utils.graphs_equal(Graph.from_networkx(grid).to_networkx(), grid)
    assert Graph.from_networkx(nx.Graph([(5, 2), (2, 9)])).labels.tolist() == [5, 2, 9]


def test_no_networkx_graph():
    for thing in ([(0, 1)], np.eye(2), None):
        with pytest.raises(GraphError, match="takes a NetworkX graph, not"):
            Graph.from_networkx(thing)


def test_without_networkx():
    script = (
        "import sys; sys.modules['networkx'] = None\n"
        "from evener.errors import EvenerError\n"
        "from evener.graph.csr import Graph\n"
        "try: Graph.from_edges([0], [1]).to_networkx()\n"
        "except EvenerError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install evener[networkx]" in run.stdout
