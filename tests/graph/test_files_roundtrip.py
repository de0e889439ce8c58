"""Every format gives back the graph that was saved."""

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evener as ev
from evener.graph.csr import Graph

# What a format keeps of a graph beyond its arcs.
NAMED = (".csv", ".tsv", ".parquet", ".evg")  # names as labels
GAPS = (".el", ".wel", ".txt", ".csv", ".tsv", ".parquet", ".evg", ".e", ".adjlist")
UNWEIGHTED = (".adjlist",)
UNDIRECTED_ONLY = (".graph",)
WHOLE_WEIGHTS = (".graph",)
SUFFIXES = (*GAPS, ".mtx", ".gr", ".graph")
WEIGHTS = [None, np.int32, np.int64, np.float32, np.float64]


@st.composite
def graphs(draw, suffix):
    n = draw(st.integers(0, 12))
    m = draw(st.integers(0, 30)) if n else 0
    ids = st.integers(0, max(n - 1, 0))
    src = draw(st.lists(ids, min_size=m, max_size=m))
    dst = draw(st.lists(ids, min_size=m, max_size=m))
    dtype = None if suffix in UNWEIGHTED else draw(st.sampled_from(WEIGHTS))
    weight = None
    if dtype is not None:
        if np.issubdtype(dtype, np.integer) or suffix in WHOLE_WEIGHTS:
            dtype = dtype if np.issubdtype(dtype, np.integer) else np.int64
            limits = np.iinfo(dtype)
            values = st.integers(limits.min, limits.max)
        else:
            values = st.floats(allow_nan=False, width=np.dtype(dtype).itemsize * 8)
        weight = np.array(draw(st.lists(values, min_size=m, max_size=m)), dtype)
    directed = suffix not in UNDIRECTED_ONLY and draw(st.booleans())
    labels = draw(labels_of(n, suffix))
    # Parallel arcs whose weights differ may come back in another order: combine them.
    return Graph.from_edges(
        src, dst, weight, num_vertices=n, directed=directed, duplicates="first", labels=labels
    )


def labels_of(n, suffix):
    kinds = [st.none(), st.integers(0, 5).map(lambda start: list(range(start, start + n)))]
    if suffix in (".evg", ".e"):  # formats that list vertices keep any numbers, in any order
        kinds.append(st.lists(st.integers(0, 10**12), min_size=n, max_size=n, unique=True))
    if suffix == ".evg":
        kinds.append(st.lists(st.text(max_size=5), min_size=n, max_size=n, unique=True))
    return st.one_of(kinds)


def assert_same(loaded, saved):
    assert loaded.directed == saved.directed
    np.testing.assert_array_equal(loaded.indptr, saved.indptr)
    np.testing.assert_array_equal(loaded.indices, saved.indices)
    assert loaded.labels.tolist() == saved.labels.tolist()
    if saved.weights is None:
        assert loaded.weights is None
    else:
        assert loaded.weights is not None
        assert loaded.weights.dtype == saved.weights.dtype
        np.testing.assert_array_equal(loaded.weights, saved.weights)


@pytest.mark.parametrize("compression", ["", ".gz", ".zst"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip(suffix, compression, tmp_path):
    if suffix == ".evg" and compression:
        pytest.skip("an .evg folder is mapped into memory, so it is never compressed")
    path = tmp_path / f"g{suffix}{compression}"

    @settings(max_examples=40 if not compression else 8, suppress_health_check=list(HealthCheck))
    @given(graphs(suffix))
    def check(graph):
        graph.save(path)
        assert_same(ev.load(path), graph)

    check()


@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s in NAMED])
def test_names_as_labels(suffix, tmp_path):
    names = ["Zürich", 'with "quotes"', "a b", "x,y", "tab\tbed"]
    graph = Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 0], [1.5, 2, 3, 4, 5], labels=names)
    graph.save(tmp_path / f"g{suffix}")
    loaded = ev.load(tmp_path / f"g{suffix}")
    edges = {(u, v): w for u, v, w in zip(*ends(graph), graph.weights.tolist(), strict=True)}
    assert edges == {
        (u, v): w for u, v, w in zip(*ends(loaded), loaded.weights.tolist(), strict=True)
    }


def ends(graph):
    sources = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    return graph.labels[sources].tolist(), graph.labels[graph.indices].tolist()


@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s in GAPS and s not in (".e", ".evg")])
def test_labels_with_gaps(suffix, tmp_path):
    graph = Graph.from_edges([0, 1, 2], [1, 2, 0], labels=[7, 1000, 10**12])
    graph.save(tmp_path / f"g{suffix}")
    assert_same(ev.load(tmp_path / f"g{suffix}"), graph)


@pytest.mark.parametrize("suffix", [".mtx", ".gr", ".graph"])
def test_numbered_formats_warn_that_labels_go(suffix, tmp_path):
    graph = Graph.from_edges([0], [1], directed=False, labels=["a", "b"])
    with pytest.warns(UserWarning, match="labels are not kept"):
        graph.save(tmp_path / f"g{suffix}")
    assert ev.load(tmp_path / f"g{suffix}").num_edges == 2


@pytest.mark.parametrize("suffix", [".el", ".e", ".adjlist"])
def test_names_are_refused_where_only_numbers_go(suffix, tmp_path):
    with pytest.raises(ev.GraphError, match="hold whole numbers only"):
        Graph.from_edges([0], [1], labels=["a", "b"]).save(tmp_path / f"g{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_saving_twice_gives_the_same_bytes(tmp_path):
    graph = ev.generate.rmat(6, seed=3, weights=(1, 9))
    for name in ("a.el.gz", "b.el.gz"):
        graph.save(tmp_path / name)
    assert (tmp_path / "a.el.gz").read_bytes() == (tmp_path / "b.el.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.el.gz").read_bytes()).startswith(b"0 ")


class TestEvg:
    """The native folder."""

    def test_arrays_are_mapped_not_read(self, tmp_path):
        graph = ev.generate.rmat(8, seed=1)
        graph.save(tmp_path / "g.evg")
        loaded = ev.load(tmp_path / "g.evg")
        import mmap

        base = loaded.indices
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        assert isinstance(getattr(base, "obj", base), mmap.mmap)

    def test_saving_over_the_graph_one_has_open(self, tmp_path):
        path = tmp_path / "g.evg"
        ev.generate.path(5).save(path)
        opened = ev.load(path)
        opened.save(path)
        assert_same(ev.load(path), opened)
        ev.generate.star(7).save(path)
        assert opened.num_vertices == 5
        assert opened.indices.tolist() == ev.generate.path(5).indices.tolist()
        assert ev.load(path).num_vertices == 7
        assert len(list(path.iterdir())) == 3

    def test_a_changed_array_is_found(self, tmp_path):
        path = tmp_path / "g.evg"
        ev.generate.rmat(8, seed=1).save(path)
        file = next(path.glob("indices.*"))
        content = bytearray(file.read_bytes())
        content[100] ^= 1
        file.write_bytes(content)
        for _ in range(2):  # that it was checked does not make it known
            with pytest.raises(ev.GraphFormatError, match="does not match its checksum"):
                ev.load(path)
        assert ev.load(path, trusted=True).num_vertices == 256
        with pytest.raises(ev.GraphError, match="trusted skips the check that verify asks for"):
            ev.load(path, trusted=True, verify=True)

    def test_is_never_pickled(self, tmp_path):
        graph = Graph.from_edges([0], [1], labels=[("a", 1), ("b", 2)])
        with pytest.raises(ev.GraphError, match="cannot be written"):
            graph.save(tmp_path / "g.evg")
        assert list(tmp_path.iterdir()) == []

    def test_other_folders_are_left_alone(self, tmp_path):
        (tmp_path / "g.evg").mkdir()
        (tmp_path / "g.evg" / "precious").write_text("x")
        with pytest.raises(ev.GraphError, match="is not an .evg folder"):
            ev.generate.path(3).save(tmp_path / "g.evg")

    def test_direction_on_request(self, tmp_path):
        Graph.from_edges([0, 1], [1, 2]).save(tmp_path / "g.evg")
        assert ev.load(tmp_path / "g.evg", directed=False).num_edges == 4
        ev.generate.path(3).save(tmp_path / "h.evg")
        assert ev.load(tmp_path / "h.evg", directed=True).directed


def test_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    for suffix in (".el", ".csv", ".parquet", ".gr", ".mtx", ".evg", ".e"):
        path = tmp_path / f"g{suffix}"
        old = ev.generate.path(4)
        old.save(path)
        before = sorted(p.name for p in tmp_path.rglob("*"))
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", fail)  # the disk is full at the last moment
            with pytest.raises(ev.GraphError, match="cannot be written: No space left"):
                ev.generate.star(9).save(path)
        assert sorted(p.name for p in tmp_path.rglob("*")) == before, suffix
        assert ev.load(path).num_edges == old.num_edges


def fail(_):
    raise OSError(28, "No space left on device")


def test_direction_of_edge_lists(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("0 1 5\n1 0 3\n1 2 4\n")
    listed = ev.load(path)
    assert listed.directed
    assert listed.num_edges == 3
    undirected = ev.load(path, directed=False)
    assert undirected.num_edges == 4
    assert undirected.weights.tolist() == [3, 3, 4, 4]


def test_names_keep_direction_and_their_form(tmp_path):
    graph = Graph.from_edges([0, 1], [1, 2], directed=False, labels=["#a", " b", "007"])
    for suffix in NAMED:
        graph.save(tmp_path / f"g{suffix}")
        loaded = ev.load(tmp_path / f"g{suffix}")
        assert not loaded.directed
        assert sorted(loaded.labels) == sorted(graph.labels)
        assert loaded.num_edges == 4


def test_isolated_vertices_that_go_are_told(tmp_path):
    graph = Graph.from_edges([0], [1], labels=["a", "b", "c"])
    for suffix in (".csv", ".parquet"):
        with pytest.warns(UserWarning, match="isolated vertices are lost .1 here"):
            graph.save(tmp_path / f"g{suffix}")


def test_labels_that_would_not_load_are_not_saved(tmp_path):
    negative = Graph.from_edges([0], [1], labels=[-1, 5])
    for suffix in (".csv", ".parquet", ".el"):
        with pytest.raises(ev.GraphError, match="the graph has a label -1"):
            negative.save(tmp_path / f"g{suffix}")
    with pytest.raises(ev.GraphError, match="UTF-8"):
        Graph.from_edges([0], [1], labels=["\ud800", "b"]).save(tmp_path / "g.evg")
    assert list(tmp_path.iterdir()) == []


class TestWhatIsReplaced:
    """Saving replaces plain files, and nothing else."""

    def test_links_stay_links(self, tmp_path):
        (tmp_path / "real.el").write_text("0 1\n")
        (tmp_path / "link.el").symlink_to("real.el")
        ev.generate.path(4).save(tmp_path / "link.el")
        assert (tmp_path / "link.el").is_symlink()
        assert ev.load(tmp_path / "real.el").num_edges == 6

    def test_permissions_stay(self, tmp_path):
        path = tmp_path / "g.el"
        path.write_text("0 1\n")
        path.chmod(0o600)
        ev.generate.path(4).save(path)
        assert path.stat().st_mode & 0o777 == 0o600

    def test_pipes_and_devices_are_left_alone(self, tmp_path):
        import os

        os.mkfifo(tmp_path / "pipe.el")
        with pytest.raises(ev.GraphError, match="is not a regular file"):
            ev.generate.path(4).save(tmp_path / "pipe.el")
        assert (tmp_path / "pipe.el").is_fifo()


def test_saving_repairs_a_damaged_folder(tmp_path):
    path = tmp_path / "g.evg"
    graph = ev.generate.path(9)
    graph.save(path)
    file = next(path.glob("indices.*"))
    file.write_bytes(b"\xff" * file.stat().st_size)
    graph.save(path)
    assert_same(ev.load(path, verify=True), graph)
