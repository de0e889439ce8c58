"""What the readers accept: the variants that files in the wild come in, and real graphs."""

import json
import os

import numpy as np
import polars as pl
import pytest

import evener as ev
from places import DATA, needs_data

KNOWN = (
    json.loads((DATA / "known_answers.json").read_text())["structure"]["graphs"]
    if DATA.is_dir()
    else {}
)
# METIS and Matrix Market announce isolated vertices too.
ANNOUNCED = {"polblogs.graph": 1490, "rgg_n_2_15_s0.graph.gz": 32768}


@needs_data
@pytest.mark.parametrize("name", KNOWN)
def test_real_graphs(name):
    known = KNOWN[name]
    graph = ev.load(DATA / name)
    assert graph.num_vertices == ANNOUNCED.get(name, known["touched_vertices"])
    assert np.count_nonzero(graph.degrees + graph.in_degrees) == known["touched_vertices"]
    symmetric = ".mtx" in name  # there "rows" counts each edge once
    assert graph.num_edges == (2 * known["undirected_simple"] if symmetric else known["rows"])
    assert graph.directed == (".mtx" not in name and ".graph" not in name)
    sources = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    assert np.count_nonzero(sources == graph.indices) == known.get("selfloops", 0)
    if "min_id" in known and ".graph" not in name:
        assert graph.labels.min() == known["min_id"]
        assert graph.labels.max() == known["max_id"]
    largest = known.get("largest_wcc")
    if largest is not None:
        assert graph.largest_component().num_vertices == largest


@needs_data
def test_real_graphs_of_graphalytics():
    assert ev.load(DATA / "p2p-31" / "p2p-31.e.gz", directed=True).num_edges == 147892
    assert ev.load(DATA / "p2p-31" / "p2p-31", directed=True).num_vertices == 62586
    example = DATA / "graphalytics" / "example"
    assert ev.load(example / "example-directed.e", directed=True).num_edges == 17
    undirected = ev.load(example / "example-undirected.v", directed=False)
    assert (undirected.num_vertices, undirected.num_edges) == (9, 24)
    lists = ev.load(DATA / "graphalytics" / "bfs" / "dir-input")
    assert (lists.num_vertices, lists.num_edges) == (10, 17)


@pytest.mark.parametrize(
    "text",
    [
        "0 1 5\n1 2 7\n",
        "0 1 5\n1 2 7",
        "0\t1\t5\r\n1\t2\t7\r\n",
        "# comment\n% another\n\n0, 1, 5\n\n  1 ,2,\t7  \n# end",
        "source target weight\n0 1 5\n1 2 7\n",
        "  0   1   5\n\t1\t2\t7\n\n\n",
        "0 1 5\n#\n#\n#\n1 2 7\n",
    ],
)
@pytest.mark.parametrize("suffix", [".txt", ".el", ".wel", ".csv", ".tsv", ""])
def test_edge_lists_in_the_wild(text, suffix, tmp_path):
    path = tmp_path / f"g{suffix}"
    path.write_bytes(text.encode())
    graph = ev.load(path)
    assert graph.num_vertices == 3
    assert graph.indices.tolist() == [1, 2]
    assert graph.weights.tolist() == [5, 7]
    assert graph.weights.dtype == np.int32


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("from,to,km\nBern,Thun,28.5\nThun,Brig,60\n", {("Bern", "Thun"): 28.5, ("Thun", "Brig"): 60}),
        ('weight,target,source\n3,"a, b",c\n', {("c", "a, b"): 3}),
        ("alice;bob\nbob;carol\n", {("alice", "bob"): None, ("bob", "carol"): None}),
        ("id,src,dst,note\n7,1,2,x\n8,2,3,y\n", {(1, 2): None, (2, 3): None}),
        ("src,dst\n1,two\n3,four\n", {("1", "two"): None, ("3", "four"): None}),
        ("dst,src,weight\n1,0,4\n", {(0, 1): 4}),
        (",src,dst\n0,10,20\n1,20,30\n", {(10, 20): None, (20, 30): None}),
        ("id_1,id_2\n0,18427\n", {(0, 18427): None}),
        ("node_1 node_2\n0 1\n", {(0, 1): None}),
        ("San Juan Island,Los Angeles,5\nLos Angeles,Rome,3\n", {("San Juan Island", "Los Angeles"): 5, ("Los Angeles", "Rome"): 3}),
        ("weight,source,sink\n9,1,2\n", {(1, 2): 9}),
        ("src,dst,timestamp\n1,2,99\n", {(1, 2): None}),
        ("src,dst\n#tag,user\na,b\n", {("#tag", "user"): None, ("a", "b"): None}),
        ("src,dst\n007,7\n", {("007", "7"): None}),
        ('src,dst\n" a","a"\n', {(" a", "a"): None}),
        ("u,v\nv,w\nw,u\n", {("u", "v"): None, ("v", "w"): None, ("w", "u"): None}),
        ("src,dst\n1.0,2.0\n2.0,3.0\n", {(1, 2): None, (2, 3): None}),
        ("src,dst\na,b\n\nc,d\n", {("a", "b"): None, ("c", "d"): None}),
        ("\ufeffsrc,dst\n1,2\n", {(1, 2): None}),
    ],
)  # fmt: skip
def test_tables(text, edges, tmp_path):
    path = tmp_path / "g.csv"
    path.write_text(text)
    graph = ev.load(path)
    sources = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    weights = [None] * graph.num_edges if graph.weights is None else graph.weights.tolist()
    found = zip(graph.labels[sources].tolist(), graph.labels[graph.indices].tolist(), strict=True)
    assert dict(zip(found, weights, strict=True)) == edges


def test_wide_ids_and_weights(tmp_path):
    path = tmp_path / "g.el"
    path.write_text("5000000000 1 3000000000\n1 9223372036854775807 -1\n")
    graph = ev.load(path)
    assert graph.labels.tolist() == [1, 5000000000, 9223372036854775807]
    assert graph.weights.dtype == np.int64
    path.write_text("0 1 3\n1 2 0.25\n2 3 -1e-3\n3 4 inf\n")
    assert ev.load(path).weights.tolist() == [3, 0.25, -1e-3, np.inf]


def test_matrix_market_variants(tmp_path):
    path = tmp_path / "g.mtx"

    def load(kind, body):
        path.write_text(f"%%MatrixMarket matrix coordinate {kind}\n% note\n\n{body}")
        return ev.load(path)

    general = load("real general", "3 3 2\n1 2 4\n3 1 .5\n")
    assert general.directed
    assert general.labels.tolist() == [1, 2, 3]
    assert general.weights.tolist() == [4, 0.5]
    symmetric = load("pattern symmetric", "3 3 3\n2 1\n3 1\n2 2\n")
    assert not symmetric.directed
    assert symmetric.num_edges == 5
    assert symmetric.weights is None
    skew = load("integer skew-symmetric", "3 3 1\n2 1 7\n")
    assert skew.to_scipy().toarray().tolist() == [[0, -7, 0], [7, 0, 0], [0, 0, 0]]
    assert load("real symmetric", "3 3 0\n").num_vertices == 3


def test_metis_variants(tmp_path):
    path = tmp_path / "g.graph"
    path.write_text("% c\n3 2 011 2\n% c\n10 11 2 5\n12 13 1 5 3 6\n% c\n14 15 2 6\n")
    graph = ev.load(path)
    assert graph.to_scipy().toarray().tolist() == [[0, 5, 0], [5, 0, 6], [0, 6, 0]]
    path.write_text("3 1\n\n3\n2")
    assert ev.load(path).degrees.tolist() == [0, 1, 1]


def test_frames_by_name_and_type(tmp_path):
    path = tmp_path / "g.parquet"
    frame = pl.DataFrame({"weight": [1.5, 2.5], "target": ["b", "c"], "source": ["a", "b"]})
    frame.write_parquet(path)
    graph = ev.load(path)
    assert graph.labels.tolist() == ["a", "b", "c"]
    assert graph.weights.tolist() == [1.5, 2.5]
    for column, message in [
        (pl.Series("src", [1, None]), "has no value in row 2"),
        (pl.Series("src", [1, -2]), "vertex id -2"),
        (pl.Series("src", [1.5, 2.5]), "expected integers or strings"),
        (pl.Series("src", [1, 2**63], dtype=pl.UInt64), "2\\^63 or more"),
    ]:
        pl.DataFrame([column, pl.Series("dst", [1, 2])]).write_parquet(path)
        with pytest.raises(ev.GraphFormatError, match=message):
            ev.load(path)
    pl.DataFrame({"src": [1], "dst": [2], "weight": [float("nan")]}).write_parquet(path)
    with pytest.raises(ev.GraphFormatError, match="NaN"):
        ev.load(path)


def test_content_decides_where_the_name_does_not(tmp_path):
    for name, suffix in [("a", ".mtx"), ("b", ".gr"), ("c", ".parquet"), ("d.dat", ".el")]:
        ev.generate.path(4).save(tmp_path / f"g{suffix}")
        (tmp_path / f"g{suffix}").rename(tmp_path / name)
        assert ev.load(tmp_path / name).num_edges == 6


def test_gzip_of_several_members(tmp_path):
    import gzip

    path = tmp_path / "g.el.gz"
    path.write_bytes(gzip.compress(b"0 1\n") + gzip.compress(b"1 2\n"))
    assert ev.load(path).num_edges == 2


def test_pieces_of_a_large_file(tmp_path):
    """Rows that straddle the pieces of a mebibyte, with comments in between, all arrive."""
    rng = np.random.default_rng(11)
    ends = rng.integers(0, 50_000, (400_000, 2))
    lines = [f"{u} {v}" for u, v in ends]
    lines[1000:1000] = ["# a comment between", ""]
    lines[250_000:250_000] = ["", "% another"] * 10
    (tmp_path / "g.txt").write_text("\n".join(lines))
    graph = ev.load(tmp_path / "g.txt")
    labels, numbered = np.unique(ends, return_inverse=True)
    numbered = numbered.reshape(-1, 2)
    expected = ev.Graph.from_edges(numbered[:, 0], numbered[:, 1])
    assert graph.labels.tolist() == labels.tolist()
    np.testing.assert_array_equal(graph.indptr, expected.indptr)
    np.testing.assert_array_equal(graph.indices, expected.indices)


def test_names_of_files_are_not_patterns(tmp_path):
    ev.generate.path(4).save(tmp_path / "a[1].parquet")
    ev.generate.path(9).save(tmp_path / "a1.parquet")
    assert ev.load(tmp_path / "a[1].parquet").num_vertices == 4


def test_byte_order_mark_and_long_comments(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("\ufeff1 2\n2 3\n")
    assert ev.load(path).labels.tolist() == [1, 2, 3]
    comment = "c a line of comment\n" * 100_000
    (tmp_path / "g.gr").write_text(comment + "p sp 2 1\na 1 2 3\n")
    assert ev.load(tmp_path / "g.gr").num_edges == 1


def test_pipes_of_a_shell(tmp_path):
    """``evener info <(command)`` names a descriptor."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as file:
        file.write(b"0 1\n1 2\n")
    assert ev.load(f"/dev/fd/{reader}").num_edges == 2
    os.close(reader)


def test_parquet_of_mixed_ends(tmp_path):
    pl.DataFrame({"src": ["a"], "dst": [1]}).write_parquet(tmp_path / "g.parquet")
    with pytest.raises(ev.GraphFormatError, match="names at the other"):
        ev.load(tmp_path / "g.parquet")
    pl.DataFrame({"src": [1.0, 2.0], "dst": [2.0, 3.0]}).write_parquet(tmp_path / "g.parquet")
    assert ev.load(tmp_path / "g.parquet").labels.tolist() == [1, 2, 3]
