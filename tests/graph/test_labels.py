"""Labels: the two-way table, and how labels are made from the ends of edges."""

import datetime
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evener.errors import GraphError
from evener.graph import relabel as module
from evener.graph.arguments import as_ids, extent
from evener.graph.labels import Labels
from evener.graph.relabel import relabel, relabel_any

LABELS = {
    "range": (Labels(4), [0, 1, 2, 3], "range"),
    "1-based": (Labels.of([1, 2, 3]), [1, 2, 3], "range"),
    "negative start": (Labels.of([-2, -1, 0]), [-2, -1, 0], "range"),
    "gaps": (Labels.of([2, 5, 90]), [2, 5, 90], "integers"),
    "unsorted": (Labels.of([7, -3, 2, 1]), [7, -3, 2, 1], "integers"),
    "descending": (Labels.of([3, 2, 1]), [3, 2, 1], "integers"),
    "ends of the range of integers": (
        Labels.of([2**63 - 1, -(2**63)]), [2**63 - 1, -(2**63)], "integers",
    ),
    "unsigned": (Labels.of(np.array([9, 4], np.uint8)), [9, 4], "integers"),
    "strings": (Labels.of(["b", "a", "ü"]), ["b", "a", "ü"], "objects"),
    "array of strings": (Labels.of(np.array(["b", "aa"])), ["b", "aa"], "objects"),
    "tuples": (Labels.of([(1, 2), (3, 4)]), [(1, 2), (3, 4)], "objects"),
    "tuples of one": (Labels.of([(1,), (2,)]), [(1,), (2,)], "objects"),
    "frozen sets": (Labels.of([frozenset("a"), frozenset()]), [frozenset("a"), frozenset()],
                    "objects"),
    "mixed": (Labels.of(["a", 1, (2, 3), None]), ["a", 1, (2, 3), None], "objects"),
    "too long for 64 bits": (Labels.of([2**70, 1]), [2**70, 1], "objects"),
    "floats": (Labels.of([0.5, 2.0]), [0.5, 2.0], "objects"),
}  # fmt: skip


@pytest.fixture(params=LABELS)
def case(request):
    return LABELS[request.param]


def test_kind_and_values(case):
    labels, values, kind = case
    assert labels.size == len(values)
    assert labels.kind == kind
    assert labels.is_range == (kind == "range")
    assert labels.array().tolist() == values
    assert labels.take(np.array([1, 0])).tolist() == [values[1], values[0]]


def test_one_label_gives_an_int(case):
    labels, values, _ = case
    for i, value in enumerate(values):
        found = labels.index_of(value)
        assert (type(found), found) == (int, i)


def test_several_labels_give_an_array(case):
    labels, values, _ = case
    found = labels.index_of(values[::-1])
    assert found.dtype == np.int64
    assert found.tolist() == list(range(len(values)))[::-1]
    assert labels.index_of(labels.array()).tolist() == list(range(len(values)))
    assert labels.index_of([values[0]] * 2).tolist() == [0, 0]
    assert labels.index_of([]).tolist() == []


@pytest.mark.parametrize("unknown", [99, -1000, "zebra", 2**80, 1.5, (8, 8), b"b"])
def test_unknown_labels(case, unknown):
    labels, values, _ = case
    with pytest.raises(GraphError, match="not in the graph"):
        labels.index_of(unknown)
    with pytest.raises(GraphError, match="not in the graph"):
        labels.index_of([values[0], unknown])


def test_booleans_are_no_integers():
    for table in (Labels(3), Labels.of([1, 9])):
        for unknown in (True, [True], np.array([True])):
            with pytest.raises(GraphError, match="not in the graph, whose labels are integers"):
                table.index_of(unknown)


def test_unhashable_labels_are_unknown():
    with pytest.raises(GraphError, match=r"vertex \['a'\] is not in the graph"):
        Labels.of(["a", "b"]).index_of([["a"]])
    with pytest.raises(GraphError, match="is not in the graph"):
        Labels.of([(1, 2)]).index_of(([], 2))


def test_numpy_scalars_and_arrays_of_no_dimension():
    labels = Labels.of([10, 20])
    assert labels.index_of(np.int16(20)) == 1
    assert labels.index_of(np.array(20)) == 1
    assert Labels.of(["a", "b"]).index_of(np.str_("b")) == 1
    assert Labels.of(["a", "b"]).index_of(np.array("b")) == 1


def test_tuples_and_sets_of_labels_are_sequences_unless_they_are_labels():
    strings = Labels.of(["a", "b", ("a", "b")])
    assert strings.index_of(("b", "a")).tolist() == [1, 0]
    assert strings.index_of(("a", "b")) == 2
    assert strings.index_of({"b"}).tolist() == [1]
    tuples = Labels.of([(1, 2), (3, 4)])
    assert tuples.index_of(((3, 4), (1, 2))).tolist() == [1, 0]
    with pytest.raises(GraphError, match=r"vertex \(2, 1\) is not in the graph"):
        tuples.index_of((2, 1))
    nothing = strings.subset(np.empty(0, np.int64))
    with pytest.raises(GraphError, match="which has no vertices"):
        nothing.index_of(("a", "b"))
    assert Labels(3).index_of((2, 0)).tolist() == [2, 0]
    assert Labels(3).index_of(range(1, 3)).tolist() == [1, 2]


def test_large_integers_are_found_exactly():
    # Neighbours beyond 2^53 are one and the same float.
    values = [2**60 + 1, 2**60, 5]
    labels = Labels.of(values)
    for dtype in (np.int64, np.uint64):
        assert labels.index_of(np.array(values, dtype)).tolist() == [0, 1, 2]
    for table in (labels, Labels.of([-1, 0])):  # 2^64-1 must not pass for -1
        with pytest.raises(GraphError, match="vertex 18446744073709551615 is not in the graph"):
            table.index_of(np.array([2**64 - 1], np.uint64))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (Labels(0), "vertex 7 is not in the graph, which has no vertices."),
        (Labels.of([1, 2]), "vertex 7 is not in the graph, whose labels are 1..2."),
        (Labels.of(["x"]), "vertex 7 is not in the graph; its labels look like 'x'."),
    ],
)
def test_messages(labels, message):
    with pytest.raises(GraphError) as caught:
        labels.index_of(7)
    assert str(caught.value) == message


def test_a_misspelt_label_gets_a_suggestion():
    with pytest.raises(GraphError, match=r"'Bon' is not in the graph \(did you mean 'Bonn'\?\);"):
        Labels.of(["Ulm", 7, "Bonn"]).index_of(["Ulm", "Bon"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 5, 1], "label 1 occurs twice"),
        (["a", "b", "a"], "label 'a' occurs twice"),
        ([2**63 - 1, -(2**63), 2**63 - 1], "label 9223372036854775807 occurs twice"),
        ([["a"], ["b"]], "labels must be hashable"),
        (np.zeros((2, 2), int), r"labels must be a flat sequence, not one of shape \(2, 2\)"),
        (np.array([2**63], np.uint64), r"a label is 2\^63 or more"),
    ],
)
def test_bad_labels(values, message):
    with pytest.raises(GraphError, match=message):
        Labels.of(values)


def test_subset(case):
    labels, values, _ = case
    part = labels.subset(np.array([len(values) - 1, 0]))
    assert part.array().tolist() == [values[-1], values[0]]
    assert part.index_of(values[0]) == 1


def test_pickle(case):
    labels, values, kind = case
    again = pickle.loads(pickle.dumps(labels))
    assert (again.kind, again.array().tolist()) == (kind, values)


def test_labels_do_not_follow_the_callers_array():
    for values in (np.array([5, 3, 9]), np.array(["a", "b", "c"], object)):
        labels = Labels.of(values)
        expected = values.tolist()
        values[:] = values[0]
        assert labels.array().tolist() == expected


# ---- from the ends of edges -----------------------------------------------------------------


def assert_relabelled(src, dst, result):
    """The labels are the values that occur, ascending, and every end has its own."""
    new_src, new_dst, labels = result
    values = np.unique(np.concatenate([src, dst])) if len(src) else []
    np.testing.assert_array_equal(labels.array(), values)
    np.testing.assert_array_equal(labels.take(new_src), src)
    np.testing.assert_array_equal(labels.take(new_dst), dst)


IDS = st.one_of(
    st.integers(0, 20),
    st.integers(-5, 5),
    st.integers(10**6, 10**6 + 9),
    st.integers(-(2**63), 2**63 - 1),
)


@given(st.lists(st.tuples(IDS, IDS), max_size=50))
def test_relabel_equals_unique(pairs):
    src, dst = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    assert_relabelled(src, dst, relabel(src, dst))


@given(st.lists(st.tuples(st.integers(-9, 300), st.integers(-9, 300)), min_size=1, max_size=200))
def test_relabel_in_chunks_of_any_dtype(pairs):
    src, dst = np.array(pairs, np.int32).T.copy()
    assert_relabelled(src, dst, relabel(src, dst))
    assert_relabelled(src, dst, relabel(src.astype(np.int64), dst))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_contiguous_ids_come_back_as_they_are(dtype):
    src, dst = np.array([2, 0], dtype), np.array([1, 2], dtype)
    new_src, new_dst, labels = relabel(src, dst)
    assert new_src is src
    assert new_dst is dst
    assert (labels.kind, labels.start, labels.size) == ("range", 0, 3)


def test_one_based_ids_become_a_range():
    src, dst, labels = relabel(np.array([1, 3]), np.array([2, 1]))
    assert (src.tolist(), dst.tolist()) == ([0, 2], [1, 0])
    assert (labels.kind, labels.start) == ("range", 1)


@pytest.mark.parametrize("far", [70_000, 10**9, 2**62])
def test_gaps_by_table_and_by_sorting(far):
    # up to 2^16 and some, gaps are counted in a table; beyond, sorted
    src, dst = np.array([far, 3, 5]), np.array([5, -far, far])
    assert_relabelled(src, dst, relabel(src, dst))


def test_many_chunks(monkeypatch):
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 10**6, (2, module._CHUNK + 17))
    assert_relabelled(src, dst, relabel(src, dst))
    monkeypatch.setattr(module, "_SPARSE_RANGE", 0)
    sparse = relabel(src, dst)  # by sorting
    assert_relabelled(src, dst, sparse)


def test_extent():
    array = np.array([5, -7, 3])
    assert extent(array, np.array([9], np.int32)) == (-7, 9)
    rng = np.random.default_rng(4)
    long = rng.integers(-(10**9), 10**9, module._CHUNK + 1)
    long[-1] = -(10**10)
    assert extent(long) == (-(10**10), long.max())


def test_as_ids():
    for code, kept in (("i1", "i4"), ("u2", "i4"), ("i4", "i4"), ("u4", "i8"), ("u8", "i8")):
        for order in "<>":
            ids = as_ids(np.arange(6).astype(order + code)[::2], "src")
            assert (ids.dtype, ids.tolist()) == (np.dtype(kept), [0, 2, 4])
            assert ids.flags.c_contiguous


TEXT = st.text(max_size=3)


@given(st.lists(st.tuples(TEXT, TEXT), max_size=30))
def test_relabel_any_strings(pairs):
    for dtype in (object, np.str_):
        table = np.array(pairs, dtype).reshape(-1, 2)
        src, dst = table.T
        new_src, new_dst, labels = relabel_any(src, dst)
        assert labels.array().tolist() == sorted({*src.tolist(), *dst.tolist()})
        assert labels.take(new_src).tolist() == src.tolist()
        assert labels.take(new_dst).tolist() == dst.tolist()


def test_relabel_any_takes_polars_strings():
    import polars as pl

    src, dst, labels = relabel_any(pl.Series(["b", "a"]), pl.Series(["c", "b"]))
    assert (src.tolist(), dst.tolist()) == ([1, 0], [2, 1])
    assert labels.array().tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("dtype", ["i1", "u2", ">i4", "u8", "f4", "f8", object])
def test_relabel_any_numbers(dtype):
    src, dst = np.array([30, 10, 30], dtype), np.array([10, 10, 20], dtype)
    new_src, new_dst, labels = relabel_any(src, dst)
    assert (new_src.tolist(), new_dst.tolist()) == ([2, 0, 2], [0, 0, 1])
    assert labels.array().tolist() == [10, 20, 30]
    assert labels.kind == "integers"


def test_relabel_any_mixes_kinds_of_numbers():
    _, _, labels = relabel_any(np.array([1, -4], np.int8), np.array([2.0**40, 3]))
    assert labels.array().tolist() == [-4, 1, 3, 2**40]


def test_relabel_any_dates():
    days = np.array(["2024-02-01", "2023-12-24"], "datetime64[D]")
    _, _, labels = relabel_any(days, days[::-1])
    assert labels.array().tolist() == [datetime.date(2023, 12, 24), datetime.date(2024, 2, 1)]
    instants = np.array([2, 1], "datetime64[ns]")
    src, dst, labels = relabel_any(instants, instants[::-1])
    assert (src.tolist(), dst.tolist(), labels.size) == ([0, 1], [1, 0], 2)


def test_relabel_any_objects_in_order_of_appearance():
    src, dst = np.empty(2, object), np.empty(2, object)
    src[:], dst[:] = [("z", 1), "y"], [7, ("z", 1)]
    new_src, new_dst, labels = relabel_any(src, dst)
    assert (new_src.tolist(), new_dst.tolist()) == ([0, 2], [1, 0])
    assert labels.array().tolist() == [("z", 1), 7, "y"]
    _, _, labels = relabel_any(np.array([5, 3]), np.array(["a", "b"]))
    assert labels.array().tolist() == [5, "a", 3, "b"]


def test_relabel_any_refuses_booleans():
    flags = np.array([True, False])
    with pytest.raises(GraphError, match="dst holds booleans, which cannot name vertices"):
        relabel_any(np.arange(2), flags)


def test_relabel_any_nothing():
    for dtype in (np.float32, object, np.str_, np.int64):
        src, dst, labels = relabel_any(np.empty(0, dtype), np.empty(0, dtype))
        assert (len(src), len(dst), labels.size) == (0, 0, 0)
        assert src.dtype == dst.dtype == np.int32


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, np.nan], "src has no value in row 1; every edge needs both ends."),
        (["a", None], "src has no value in row 1"),
        (np.array(["a", np.nan], object), "src has no value in row 1"),
        (np.array([(1, 2), None, 3], object)[:2], "src has no value in row 1"),
        (np.array(["2024-01-01", "NaT"], "datetime64[D]"), "src has no value in row 1"),
        (np.array([5, np.nan], object), "src has no value in row 1"),
        ([1.0, 1.5], "src holds 1.5, which is not a whole number."),
        ([1.0, np.inf], "src holds inf, which is not a whole number."),
        ([1.0, 2.0**63], "which is not a whole number."),
        (
            np.array([0, 2**63], np.uint64),
            "src holds 9223372036854775808, which does not fit 63 bits.",
        ),
        (np.array(["a", [1]], object), r"src holds \[1\], which is not hashable."),
    ],
)
def test_relabel_any_refuses(values, message):
    values = np.asarray(values)
    with pytest.raises(GraphError, match=message):
        relabel_any(values, values)
    with pytest.raises(GraphError, match=message.replace("src", "column 'b'")):
        relabel_any(values[:1].repeat(2), values, names=("column 'a'", "column 'b'"))
