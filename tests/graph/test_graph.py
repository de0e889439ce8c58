"""`Graph`: what it holds, its other forms, how it shows and travels."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from evener.errors import GraphError
from evener.graph.csr import Graph
from graphs import DEGENERATE, assert_same, graphs

SOME = settings(max_examples=50)


@pytest.fixture(params=DEGENERATE)
def make(request):
    return DEGENERATE[request.param]


@pytest.fixture(params=[True, False], ids=["directed", "undirected"])
def graph(make, request):
    return make(directed=request.param)


def arcs(graph):
    """The arcs as tuples in stored order."""
    src = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    weights = [None] * graph.num_edges if graph.weights is None else graph.weights.tolist()
    return list(zip(src.tolist(), graph.indices.tolist(), weights, strict=True))


def order(arc):
    return arc[0], arc[1], arc[2] or 0


# ---- what it holds --------------------------------------------------------------------------


def test_shape_of_the_arrays(graph):
    assert len(graph.indptr) == graph.num_vertices + 1
    assert graph.indptr[0] == 0
    assert graph.indptr[-1] == graph.num_edges == len(graph.indices)
    assert graph.weights is None or len(graph.weights) == graph.num_edges
    assert len(graph.labels) == graph.num_vertices
    assert graph.degrees.sum() == graph.in_degrees.sum() == graph.num_edges
    assert graph.indptr.dtype == graph.indices.dtype == np.int32


def test_arrays_cannot_be_written(graph):
    arrays = [graph.indptr, graph.indices, graph.degrees, graph.in_degrees, graph.labels]
    arrays += [] if graph.weights is None else [graph.weights]
    for array in arrays:
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("name", ["directed", "indptr", "num_vertices", "num_edges", "weights"])
def test_attributes_cannot_be_set(name):
    with pytest.raises(AttributeError):
        setattr(Graph.from_edges([0], [1]), name, True)


def test_undirected_graphs_are_symmetric(make):
    graph = make(directed=False)
    assert sorted(arcs(graph), key=order) == sorted(
        ((v, u, w) for u, v, w in arcs(graph)), key=order
    )


def test_empty_graph():
    graph = Graph.from_edges([], [])
    assert (graph.num_vertices, graph.num_edges) == (0, 0)
    assert graph.indptr.tolist() == [0]
    assert graph.transpose().num_vertices == graph.symmetrize().num_vertices == 0
    assert graph.largest_component().num_vertices == 0
    assert graph.subgraph([]).num_vertices == 0
    assert graph.degree_spread() == (0, 0.0, 0)
    assert graph.to_scipy().shape == (0, 0)
    with pytest.raises(GraphError, match="which has no vertices"):
        graph.index_of(0)


def test_whole_numbers_beside_decimals_keep_their_digits():
    for weights in ([2**53 + 1, 0.5], (np.int64(2**53 + 1), np.float32(0.5)), [-(2**63) - 1, 1]):
        with pytest.raises(GraphError, match=r"holds -?\d+, which loses digits as a float|object"):
            Graph.from_edges([0, 1], [1, 2], weights)
    kept = Graph.from_edges([0, 1, 2], [1, 2, 3], [2**54, 0.5, float("inf")])
    assert kept.weights.tolist() == [2**54, 0.5, float("inf")]


def test_weights_without_edges_keep_their_type():
    for dtype in (np.int32, np.float64):
        graph = Graph.from_edges([], [], np.empty(0, dtype), num_vertices=2)
        assert graph.weights.dtype == graph.transpose().weights.dtype == dtype


def test_self_loops_are_stored_once():
    graph = Graph.from_edges([0, 0, 1], [0, 1, 1], directed=False)
    assert arcs(graph) == [(0, 0, None), (0, 1, None), (1, 0, None), (1, 1, None)]
    assert Graph.from_edges([0], [0], directed=False, self_loops="drop").num_edges == 0


def test_parallel_arcs_keep_their_order():
    graph = DEGENERATE["parallel arcs"](directed=True)
    assert arcs(graph)[:3] == [(0, 1, 5), (0, 1, 2), (0, 1, 2)]
    graph = DEGENERATE["parallel arcs"](directed=False)
    assert arcs(graph)[:4] == [(0, 1, 5), (0, 1, 2), (0, 1, 9), (0, 1, 2)]


@given(graphs())
def test_degrees(graph):
    matrix = graph.to_scipy()
    matrix.data[:] = 1
    assert graph.degrees.tolist() == matrix.sum(axis=1).tolist()
    assert graph.in_degrees.tolist() == matrix.sum(axis=0).tolist()
    assert graph.degrees.dtype == graph.in_degrees.dtype == graph.indptr.dtype
    low, mean, high = graph.degree_spread()
    if graph.num_vertices:
        assert (low, high) == (graph.degrees.min(), graph.degrees.max())
        assert mean == pytest.approx(graph.degrees.mean())


def test_labels_and_indices():
    graph = DEGENERATE["gaps"]()
    assert graph.labels.tolist() == [40, 7, -2]
    assert graph.index_of(-2) == 2
    assert graph.index_of([-2, 40]).tolist() == [2, 0]
    assert Graph.from_edges([0], [1]).labels.tolist() == [0, 1]
    with pytest.raises(GraphError, match="vertex 5 is not in the graph; its labels look like"):
        graph.index_of(5)


def test_constructor_checks_labels():
    plain = Graph.from_edges([0], [1])
    with pytest.raises(GraphError, match="3 labels were given for 2 vertices"):
        Graph(plain.indptr, plain.indices, labels=["a", "b", "c"])
    named = Graph(plain.indptr, plain.indices, labels=["a", "b"])
    assert named.index_of("b") == 1


# ---- other forms ----------------------------------------------------------------------------


def test_transpose_is_computed_once(make):
    graph = make(directed=True)
    assert graph.transpose() is graph.transpose()
    assert graph.transpose().transpose() is graph
    undirected = make(directed=False)
    assert undirected.transpose() is undirected


@given(graphs())
def test_transpose(graph):
    turned = graph.transpose()
    assert sorted(arcs(turned), key=order) == sorted(
        ((v, u, w) for u, v, w in arcs(graph)), key=order
    )
    assert turned.degrees.tolist() == graph.in_degrees.tolist()
    if graph.directed:  # turned twice anew, it is what it was, parallel arcs included
        again = Graph(turned.indptr, turned.indices, turned.weights).transpose()
        assert_same(again, graph)


@given(graphs(), st.sampled_from(["first", "min", "max", "sum"]))
def test_symmetrize(graph, duplicates):
    both = graph.symmetrize(duplicates=duplicates)
    assert not both.directed
    if not graph.directed:
        assert both is graph
        return
    assert both is graph.symmetrize(duplicates=duplicates)
    src, dst, weight = zip(*arcs(graph), strict=True) if graph.num_edges else ((), (), ())
    expected = Graph.from_edges(
        src, dst, None if graph.weights is None else np.array(weight, graph.weights.dtype),
        num_vertices=graph.num_vertices, directed=False, duplicates=duplicates,
    )  # fmt: skip
    assert_same(both, expected)


def test_symmetrize_takes_the_lighter_arc_unless_told_otherwise():
    graph = Graph.from_edges([0, 1, 1], [1, 0, 2], [4, 3, 9], labels="abc")
    assert arcs(graph.symmetrize()) == [(0, 1, 3), (1, 0, 3), (1, 2, 9), (2, 1, 9)]
    assert arcs(graph.symmetrize(duplicates="sum"))[0] == (0, 1, 7)
    assert graph.symmetrize().labels.tolist() == ["a", "b", "c"]
    with pytest.raises(GraphError, match="duplicates is 'mean'"):
        graph.symmetrize(duplicates="mean")


@given(graphs(), st.randoms(use_true_random=False))
def test_subgraph(graph, random):
    chosen = random.sample(range(graph.num_vertices), random.randint(0, graph.num_vertices))
    part = graph.subgraph(chosen)
    assert part.labels.tolist() == chosen
    assert part.directed == graph.directed
    named = [(part.labels[u], part.labels[v], w) for u, v, w in arcs(part)]
    expected = [arc for arc in arcs(graph) if arc[0] in chosen and arc[1] in chosen]
    assert sorted(named, key=order) == sorted(expected, key=order)
    assert (part.weights is None) == (graph.weights is None)


def test_subgraph_by_labels():
    graph = Graph.from_edges([0, 1, 2], [1, 2, 0], [1, 2, 3], labels=["x", "y", "z"])
    part = graph.subgraph(["z", "x"])
    assert part.labels.tolist() == ["z", "x"]
    assert arcs(part) == [(0, 1, 3)]
    assert graph.subgraph("y").num_vertices == 1
    with pytest.raises(GraphError, match="a vertex occurs twice"):
        graph.subgraph(["x", "x"])
    with pytest.raises(GraphError, match="vertex 'w' is not in the graph"):
        graph.subgraph(["w"])


def test_subgraph_of_many_rows():
    n = 40_000  # several chunks
    graph = Graph.from_edges(np.arange(n - 1), np.arange(1, n), np.arange(n - 1))
    part = graph.subgraph(np.arange(n)[::-1])
    assert part.degrees[:-1].tolist() == [0] + [1] * (n - 2)
    assert part.weights.tolist() == list(range(n - 2, -1, -1))


@given(graphs())
@SOME
def test_largest_component(graph):
    part = graph.largest_component()
    if graph.num_vertices == 0:
        assert part is graph
        return
    ones = sp.csr_array((np.ones(graph.num_edges), graph.indices, graph.indptr), shape=[
        graph.num_vertices] * 2)  # fmt: skip
    count, component = connected_components(ones, directed=True, connection="weak")
    members = [np.flatnonzero(component == i).tolist() for i in range(count)]
    largest = max(members, key=lambda m: (len(m), -m[0]))
    assert part.labels.tolist() == largest
    assert part.num_edges == sum(graph.degrees[v] for v in largest)


def test_largest_component_crosses_arcs_of_weight_zero():
    assert DEGENERATE["path of zero weights"]().largest_component().num_vertices == 7
    assert DEGENERATE["two components"]().largest_component().labels.tolist() == [0, 1, 2]


# ---- showing and pickling -------------------------------------------------------------------


def test_repr():
    assert repr(Graph.from_edges([0, 0], [1, 2], [1.0, 2.0])) == (
        "Graph(3 vertices, 2 arcs, directed, float64 weights; degrees 0..2, mean 0.7; 40 B)"
    )
    assert repr(Graph.from_edges([], [])) == (
        "Graph(0 vertices, 0 arcs, directed; degrees 0..0, mean 0.0; 4 B)"
    )


def test_html(graph):
    html = graph._repr_html_()
    assert f"<td>{graph.num_edges:,}</td>" in html
    assert html.count("<tr>") == html.count("</tr>") == 7


def test_html_escapes_labels():
    html = Graph.from_edges([0], [1], labels=["<script>", "a&b"])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_nbytes():
    graph = Graph.from_edges([0, 0], [1, 2], np.array([1.0, 2.0]), labels=[5, 3, 9])
    assert graph.nbytes == 4 * 4 + 2 * 4 + 2 * 8 + 3 * 8


def test_pickle_and_copy(graph):
    graph.transpose()
    for again in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph)):
        assert_same(again, graph)
        assert not again.indices.flags.writeable
        assert again.transpose().transpose() is again


def test_a_pickle_holds_no_cached_forms():
    graph = Graph.from_edges(np.arange(1000), np.arange(1000)[::-1])
    before = len(pickle.dumps(graph))
    graph.transpose(), graph.symmetrize(), graph.labels, graph.in_degrees
    assert len(pickle.dumps(graph)) == before


def test_graphs_over_read_only_and_mapped_arrays(tmp_path):
    source = DEGENERATE["parallel arcs"]()
    mapped = []
    for name in ("indptr", "indices", "weights"):
        np.save(tmp_path / f"{name}.npy", getattr(source, name))
        mapped.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    graph = Graph(*mapped)
    assert_same(graph, source)
    assert_same(graph.transpose(), source.transpose())
    assert_same(graph.symmetrize(), source.symmetrize())
    assert_same(graph.subgraph([2, 0]), source.subgraph([2, 0]))
    assert_same(pickle.loads(pickle.dumps(graph)), source)
