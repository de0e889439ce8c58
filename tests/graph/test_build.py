"""Edge arrays to CSR: every option against a plain reference, every layout of the sort."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from evener.device import use_threads
from evener.errors import GraphError, MemoryBudgetError
from evener.graph import build
from evener.graph.arguments import WEIGHT_DTYPES
from evener.graph.csr import Graph
from graphs import DUPLICATES, Edges, assert_csr, assert_same, edges, reference_csr
from tables import slow_but

OPTIONS = {
    "directed": st.booleans(),
    "self_loops": st.sampled_from(["keep", "drop"]),
    "duplicates": st.sampled_from(DUPLICATES),
}
SMALL = settings(max_examples=60)


def made(given: Edges, **options) -> Graph:
    return Graph.from_edges(
        given.src, given.dst, given.weight, num_vertices=given.num_vertices, **options
    )


@given(edges(), st.fixed_dictionaries(OPTIONS))
def test_equals_reference(given, options):
    assert_csr(made(given, **options), reference_csr(given, **options))


@given(edges())
def test_equals_scipy(given):
    if given.weight is None:
        given = given._replace(weight=np.ones(len(given.src), np.int64))
    n = given.num_vertices
    matrix = sp.coo_array((given.weight, (given.src, given.dst)), shape=(n, n)).tocsr()
    graph = made(given, duplicates="sum")
    np.testing.assert_array_equal(graph.indptr, matrix.indptr)
    np.testing.assert_array_equal(graph.indices, matrix.indices)
    np.testing.assert_allclose(graph.weights, matrix.data, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("directed", [True, False])
def test_a_large_graph_equals_scipy(directed):
    # Over 2^20 arcs between fewer than 2^22 vertices, keys are made to fit 32 bits.
    n, m = (1 << 17) + 1, (1 << 20) + 7
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, n, (2, m), dtype=np.int32)
    weight = rng.integers(1, 9, m, dtype=np.int32)
    graph = Graph.from_edges(
        src, dst, weight, num_vertices=n, directed=directed, self_loops="drop", duplicates="sum"
    )
    layout = build._layout(n, m, weight)
    assert layout.num_buckets > 1
    assert layout.record_dtype == np.uint32
    keep = src != dst
    matrix = sp.coo_array((weight[keep], (src[keep], dst[keep])), shape=(n, n)).tocsr()
    if not directed:
        matrix = (matrix + matrix.T).tocsr()
    np.testing.assert_array_equal(graph.indptr, matrix.indptr)
    np.testing.assert_array_equal(graph.indices, matrix.indices)
    np.testing.assert_array_equal(graph.weights, matrix.data)


@given(edges())
def test_neighbour_lists_are_sorted(given):
    graph = made(given, directed=False)
    for v in range(graph.num_vertices):
        row = graph.indices[graph.indptr[v] : graph.indptr[v + 1]]
        assert (row[1:] >= row[:-1]).all()


@given(edges(), st.integers(1, 1000), st.fixed_dictionaries(OPTIONS))
@SMALL
def test_vertices_without_edges_count(given, more, options):
    given = given._replace(num_vertices=given.num_vertices + more)
    graph = made(given, **options)
    assert graph.num_vertices == given.num_vertices
    assert_csr(graph, reference_csr(given, **options))


# ---- every layout of the sort ---------------------------------------------------------------

SETTINGS = {
    "a bucket for each row": {"ARCS_PER_BUCKET": 1, "CHUNK": 3},
    "few buckets": {"ARCS_PER_BUCKET": 1, "MAX_BUCKETS": 4, "CHUNK": 5},
    "buckets by rows": {"ROWS_PER_BUCKET": 4, "CHUNK": 8},
    "a chunk for each arc": {"ARCS_PER_BUCKET": 16, "CHUNK": 1, "MAX_CHUNKS": 1000},
    "few chunks": {"ARCS_PER_BUCKET": 8, "CHUNK": 1, "MAX_CHUNKS": 3},
}


@pytest.fixture(params=SETTINGS)
def setting(request, monkeypatch):
    for name, value in SETTINGS[request.param].items():
        monkeypatch.setattr(build, name, value)


@pytest.fixture(params=[4, 8], ids=["32-bit records", "64-bit records"])
def records(request, monkeypatch):
    """Ask for the smallest records a layout may have."""
    true_layout = build._layout

    def wide_layout(*args):
        layout = true_layout(*args)
        size = max(request.param, layout.record_dtype.itemsize)
        return layout._replace(record_dtype=np.dtype(f"u{size}"))

    monkeypatch.setattr(build, "_layout", wide_layout)


@pytest.fixture(params=["arcs", "vertices"])
def wide(request, monkeypatch):
    """Use the types of graphs with more than 2^31 arcs, or as many vertices too."""
    monkeypatch.setattr(build, "offset_dtype", lambda _: np.dtype(np.int64))
    if request.param == "vertices":
        monkeypatch.setattr(build, "index_dtype", lambda _: np.dtype(np.int64))


@pytest.mark.usefixtures("setting", "records")
@given(edges(), st.fixed_dictionaries(OPTIONS))
@SMALL
def test_every_layout_equals_reference(given, options):
    assert_csr(made(given, **options), reference_csr(given, **options))


def test_the_settings_reach_many_buckets_and_chunks(monkeypatch):
    arcs = np.arange(64, dtype=np.int32)
    for name, value in SETTINGS["a bucket for each row"].items():
        monkeypatch.setattr(build, name, value)
    layout = build._layout(64, 64, None)
    assert (layout.num_buckets, layout.shift) == (64, 0)
    _, bounds = build._into_buckets(
        arcs, arcs, np.empty(0, np.uint32), layout, symmetric=False, drop_loops=False
    )
    assert bounds.tolist() == list(range(65))


@given(st.data())
@SMALL
def test_wide_ids_need_wide_records(data):
    n = data.draw(st.sampled_from([200_000, 1 << 18, (1 << 20) + 1]))
    ids = st.lists(st.sampled_from([0, 1, 65_535, 65_536, 131_073, n - 2, n - 1]), max_size=20)
    src, dst = data.draw(ids), data.draw(ids)
    m = min(len(src), len(dst))
    given = Edges(np.array(src[:m], np.int32), np.array(dst[:m], np.int32), None, n)
    assert build._layout(n, m, None).record_dtype == np.uint64
    options = data.draw(st.fixed_dictionaries(OPTIONS))
    assert_csr(made(given, **options), reference_csr(given, **options))


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("duplicates", DUPLICATES)
@pytest.mark.parametrize("dtype", slow_but([None, *WEIGHT_DTYPES], None, np.int32, np.float64))
def test_types_of_huge_graphs(dtype, duplicates, monkeypatch):
    true_layout = build._layout
    monkeypatch.setattr(  # ids of over 31 bits never come with 32-bit records
        build, "_layout", lambda *args: true_layout(*args)._replace(record_dtype=np.dtype("u8"))
    )
    monkeypatch.setattr(build, "ARCS_PER_BUCKET", 2)
    src = np.array([4, 0, 0, 2, 0, 4, 2, 3], np.int64)
    dst = np.array([1, 3, 1, 2, 3, 1, 2, 3], np.int64)
    given = Edges(src, dst, None if dtype is None else np.arange(8).astype(dtype), 6)
    for directed in (True, False):
        graph = made(given, directed=directed, duplicates=duplicates)
        assert_csr(graph, reference_csr(given, directed=directed, duplicates=duplicates))
        assert graph.indptr.dtype == build.offset_dtype(0)
        assert graph.indices.dtype == build.index_dtype(0)


def test_index_and_offset_dtypes_change_at_2_31():
    assert build.index_dtype(2**31 - 1) == build.offset_dtype(2**31 - 1) == np.int32
    assert build.index_dtype(2**31) == build.offset_dtype(2**31) == np.int64


@given(
    st.one_of(st.integers(0, 1 << 50), st.integers(0, 50).map(lambda b: 1 << b)),
    st.integers(0, 1 << 50),
    st.sampled_from([None, *WEIGHT_DTYPES]),
    st.integers(-1, 1),
)
def test_layouts_hold_every_key(num_vertices, num_arcs, dtype, off):
    n = max(0, num_vertices + off)
    layout = build._layout(n, num_arcs, None if dtype is None else np.empty(0, dtype))
    assert layout.bits + layout.shift <= 8 * layout.record_dtype.itemsize
    assert n <= 1 << layout.bits
    assert n <= layout.num_buckets << layout.shift
    assert (layout.num_buckets - 1) << layout.shift <= max(n - 1, 0)
    assert layout.payload_dtype.itemsize <= layout.record_dtype.itemsize
    assert layout.step == (1 if dtype is None else 2)
    # combining duplicates writes neighbours and weights into the memory of the records
    room = layout.step * layout.record_dtype.itemsize
    weight = 0 if dtype is None else layout.payload_dtype.itemsize
    assert build.index_dtype(n).itemsize + weight <= room


@pytest.mark.usefixtures("setting")
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 7, 8, 11, 12, 16, 17])
def test_around_powers_of_two(bits):
    for n in ((1 << bits) - 1, 1 << bits, (1 << bits) + 1):
        last = n - 1
        given = Edges(
            np.array([last, 0, last, 0, n // 2, last], np.int32),
            np.array([0, last, last, 0, last, n // 2], np.int32),
            np.arange(6, dtype=np.int32),
            n,
        )
        for duplicates in ("keep", "min"):
            graph = made(given, directed=False, duplicates=duplicates)
            assert_csr(graph, reference_csr(given, directed=False, duplicates=duplicates))


@given(edges(), st.fixed_dictionaries(OPTIONS))
@settings(max_examples=20)
def test_threads_do_not_change_the_result(given, options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "ARCS_PER_BUCKET", 4)
        patch.setattr(build, "CHUNK", 4)
        with use_threads(1):
            alone = made(given, **options)
        for threads in (2, 3):
            with use_threads(threads):
                assert_same(alone, made(given, **options))


# ---- inputs of every kind -------------------------------------------------------------------

SRC, DST = [0, 3, 3, 1, 0], [1, 2, 2, 1, 3]
WEIGHT = [1, 5, 2, 4, 3]
EXPECTED = ([0, 2, 3, 3, 5], [1, 3, 1, 2, 2], [1, 3, 4, 5, 2])


def assert_expected(graph):
    assert graph.indptr.tolist() == EXPECTED[0]
    assert graph.indices.tolist() == EXPECTED[1]
    if graph.weights is not None:
        assert graph.weights.tolist() == EXPECTED[2]


ID_DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", ID_DTYPES)
def test_id_dtypes(dtype, order):
    graph = Graph.from_edges(np.array(SRC, order + dtype), np.array(DST, "i4"))
    assert_expected(graph)
    assert graph.indices.dtype == graph.indptr.dtype == np.int32


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("b1", "i4"), ("i1", "i4"), ("i2", "i4"), ("i4", "i4"), ("i8", "i8"), ("u1", "i4"),
        ("u2", "i4"), ("u4", "i8"), ("u8", "i8"), ("f2", "f4"), ("f4", "f4"), ("f8", "f8"),
        ("g", "f8"),
    ],
)  # fmt: skip
def test_weight_dtypes(given, kept, order):
    values = [1, 1, 0, 1, 0] if given == "b1" else WEIGHT
    graph = Graph.from_edges(SRC, DST, np.array(values).astype(order + given))
    assert graph.weights.dtype == np.dtype(kept)
    if given != "b1":
        assert_expected(graph)


@pytest.mark.parametrize("order", ["<", ">"])
def test_large_unsigned_values_keep_their_value(order):
    big = np.array([2**32 - 1], order + "u4")
    assert Graph.from_edges([0], [1], big).weights.tolist() == [2**32 - 1]
    bigger = np.array([2**63 + 2048], order + "u8")
    assert Graph.from_edges([0], [1], bigger).weights.tolist() == [2.0**63 + 2048]
    assert Graph.from_edges([0], [1], np.array([7], order + "u8")).weights.dtype == np.int64
    with pytest.raises(GraphError, match="does not fit 63 bits"):
        Graph.from_edges(bigger, [0])
    with pytest.raises(MemoryBudgetError):  # its vertices are counted, not wrapped round
        Graph.from_edges(np.array([2**63 - 1], order + "u8"), [0])


def test_views_and_lists():
    assert_expected(Graph.from_edges(SRC, DST, WEIGHT))
    assert_expected(Graph.from_edges(tuple(SRC), tuple(DST), tuple(WEIGHT)))
    table = np.array([SRC, DST, WEIGHT], np.int32)
    assert_expected(Graph.from_edges(*table))
    assert_expected(Graph.from_edges(*np.asfortranarray(table)))
    assert_expected(Graph.from_edges(*(row[::-1] for row in table[:, ::-1])))
    records = np.array(list(zip(SRC, DST, WEIGHT, strict=True)), "i1,i8,f4")  # unaligned fields
    assert_expected(Graph.from_edges(records["f0"], records["f1"], records["f2"]))
    raw = b"-" + np.array(SRC, np.int64).tobytes()
    assert_expected(Graph.from_edges(np.frombuffer(raw, np.int64, offset=1), DST, WEIGHT))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_read_only_and_mapped_input(dtype, tmp_path):
    arrays = [np.array(values, dtype) for values in (SRC, DST, WEIGHT)]
    expected = Graph.from_edges(*arrays)
    compiled = len(build._scatter._worker.dispatcher.signatures)
    for array in arrays:
        array.flags.writeable = False
    assert_same(Graph.from_edges(*arrays), expected)
    mapped = []
    for i, array in enumerate(arrays):
        np.save(tmp_path / f"{i}.npy", array)
        mapped.append(np.load(tmp_path / f"{i}.npy", mmap_mode="r"))
    assert_same(Graph.from_edges(*mapped), expected)
    weight = np.array(WEIGHT, dtype)
    assert_same(Graph.from_edges(arrays[0], mapped[1], weight).transpose(), expected.transpose())
    assert len(build._scatter._worker.dispatcher.signatures) == compiled


def test_input_is_left_alone():
    src, dst, weight = (np.array(values, np.int32) for values in (SRC, DST, WEIGHT))
    graph = Graph.from_edges(src, dst, weight, directed=False, duplicates="sum")
    before = graph.weights.copy()
    assert (src.tolist(), dst.tolist(), weight.tolist()) == (SRC, DST, WEIGHT)
    src[:], dst[:], weight[:] = 0, 0, -1
    np.testing.assert_array_equal(graph.weights, before)


def test_too_big_is_refused_before_allocating():
    with pytest.raises(MemoryBudgetError, match=r"Building a graph needs about .* TiB"):
        Graph.from_edges([0], [1], num_vertices=10**13)
    assert build.build_bytes(10**6, 10**13, None) > 4 * 10**13


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [1]), "src has 2 entries and dst 1"),
        (([0], [1], [1, 2]), "weight has 2 entries for 1 edges"),
        (([-1], [1]), "an edge names vertex -1; indices start at 0"),
        (([0.5], [1]), "src holds float64 values"),
        (([0], [True]), "dst holds bool values"),
        ((["a"], ["b"]), "use Graph.from_frame"),
        (([[0]], [[1]]), r"src must be a flat array, not one of shape \(1, 1\)"),
        (([0], [1], 3), "weights must be a flat array"),
        (([0], [1], ["heavy"]), "weights of type .* cannot be used"),
        (([0], [1], [1j]), "weights of type complex128 cannot be used"),
        (([0], [1], [None]), "weights of type object cannot be used"),
    ],
)
def test_bad_arrays(arguments, message):
    with pytest.raises(GraphError, match=message):
        Graph.from_edges(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_vertices": 3}, "an edge names vertex 3, but there are 3 vertices"),
        ({"num_vertices": 0}, "an edge names vertex 3, but there are 0 vertices"),
        ({"num_vertices": -1}, "num_vertices is -1; it cannot be negative"),
        ({"num_vertices": 4.5}, "num_vertices is 4.5; it must be a whole number"),
        ({"self_loops": "yes"}, "self_loops is 'yes'; it must be 'keep' or 'drop'"),
        ({"duplicates": "mean"}, "duplicates is 'mean'; it must be one of 'keep', 'first'"),
        ({"labels": ["a", "b"]}, "an edge names vertex 3, but there are 2 vertices"),
        ({"labels": ["a"] * 4}, "label 'a' occurs twice"),
        ({"labels": range(5), "num_vertices": 4}, "5 labels were given for 4 vertices"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(GraphError, match=message) as caught:
        Graph.from_edges(SRC, DST, **options)
    assert str(caught.value).count("\n") == 0
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sums_that_do_not_fit_are_refused(dtype):
    limit = np.iinfo(dtype).max
    with pytest.raises(GraphError, match="does not fit"):
        Graph.from_edges([0, 0], [1, 1], np.array([limit, 1], dtype), duplicates="sum")
    fits = Graph.from_edges([0, 0], [1, 1], np.array([limit - 1, 1], dtype), duplicates="sum")
    assert fits.weights.tolist() == [limit]


def test_nan_weights_are_refused():
    with pytest.raises(GraphError, match="weight 1 is not a number"):
        Graph.from_edges([0, 0], [1, 1], [1.0, np.nan])
