"""Ordinary tables: columns by name and number, headers, names, text, notes, other formats."""

import io
import sys
import warnings

import numpy as np
import polars as pl
import pytest

import evener as ev
from evener.errors import GraphFormatError, GraphWarning
from places import DATA

ROUTES = "airline,leaves,reaches,km,aircraft\nLX,ZRH,SFO,9400,77W\nLH,FRA,ZRH,300,320\n"


def load(folder, name, content, **options):
    """Load a file of this content; a note is an error unless the test expects it."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphWarning)
        return ev.load(path, **options)


def edges(graph):
    sources = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    ends = zip(graph.labels[sources].tolist(), graph.labels[graph.indices].tolist(), strict=True)
    if graph.weights is None:
        return sorted(ends)
    return sorted((u, v, w) for (u, v), w in zip(ends, graph.weights.tolist(), strict=True))


CASES = [
    # name, content, options, edges
    ("g.csv", ROUTES, {"src": "leaves", "dst": "reaches"}, [("FRA", "ZRH"), ("ZRH", "SFO")]),
    ("g.csv", ROUTES, {"src": 1, "dst": 2, "weight": "km"}, [("FRA", "ZRH", 300), ("ZRH", "SFO", 9400)]),
    ("g.csv", ROUTES, {"src": "1", "dst": " Reaches"}, [("FRA", "ZRH"), ("ZRH", "SFO")]),
    ("g.csv", ROUTES.replace("km", "distance"), {"src": 1, "dst": 2}, [("FRA", "ZRH", 300), ("ZRH", "SFO", 9400)]),
    ("g.csv", ROUTES.replace("km", "distance"), {"src": 1, "dst": 2, "weight": False}, [("FRA", "ZRH"), ("ZRH", "SFO")]),
    ("g.txt", ROUTES.replace(",", " "), {"src": "leaves", "dst": "reaches"}, [("FRA", "ZRH"), ("ZRH", "SFO")]),
    ("g.dat", ROUTES.replace(",", "\t"), {"src": 2, "dst": 1}, [("SFO", "ZRH"), ("ZRH", "FRA")]),
    ("g.csv", "LX,1,ZRH\nLH,2,FRA\n", {"src": 0, "dst": 2}, [("LH", "FRA"), ("LX", "ZRH")]),
    ("g.csv", "a,b\nc,d\n", {"header": False}, [("a", "b"), ("c", "d")]),
    ("g.csv", "a,b\nc,d\n", {"header": True}, [("c", "d")]),
    ("g.csv", "7,8\n1,2\n", {"header": True}, [(1, 2)]),
    ("g.txt", "7 8\n1 2\n", {"header": True}, [(1, 2)]),
    ("g.csv", "city,town,km\nBern,Thun,28\n", {}, [("Bern", "Thun", 28)]),  # a word above a number
    ("g.csv", "id,id,src,dst\n1,2,3,4\n", {"src": "src", "dst": "dst"}, [(3, 4)]),
    ("g.csv", "person,friend\nann,bob\n", {"src": "person"}, [("ann", "bob")]),
    ("g.csv", '"1","2"\n"2","3"\n', {}, [(1, 2), (2, 3)]),
    ("g.csv", '1,2\n' * 300 + '"2","3"\n', {"duplicates": "first"}, [(1, 2), (2, 3)]),
    ("g.csv", "src,dst\n", {}, []),
    ("g.txt", "source target\n", {}, []),
    ("g.tsv", "src\tdst\tweight\n", {}, []),
    ("g.csv", "person,friend\n", {"header": True}, []),
    ("g.csv", "# nothing\n", {}, []),
    ("g.txt", "alice bob\nbob carol\n", {}, [("alice", "bob"), ("bob", "carol")]),
    ("g.txt", "# people\n alice\tbob  \n\n% more\nbob \t carol\r\n", {}, [("alice", "bob"), ("bob", "carol")]),
    ("g.el", '"New York" Rome 3\nRome "New York" 4\n', {}, [("New York", "Rome", 3), ("Rome", "New York", 4)]),
    ("g.txt", "from to\nP1 P2\n", {}, [("P1", "P2")]),
    ("g.txt", "1 alice\n2 alice\n", {}, [("1", "alice"), ("2", "alice")]),
    ("g.txt", "Ann Lee\tBob Roe\nBob Roe\tAnn Lee\n", {"directed": True}, [("Ann Lee", "Bob Roe"), ("Bob Roe", "Ann Lee")]),
    ("g.wel", "1 2 7\n2 3 8\n", {"weight": False}, [(1, 2), (2, 3)]),
    ("g.gr", "p sp 2 1\na 1 2 3\n", {"weight": False}, [(1, 2)]),
    ("g.csv", "1,2,\n2,3,\n", {}, [(1, 2), (2, 3)]),  # a comma at the end of each line
    ("g.csv", "a;b;3,5\nb;c;4\n", {}, [("a", "b", 3.5), ("b", "c", 4)]),
    ("g.csv", '"Ulm, Donau";"Bonn, Rhein"\n"Bonn, Rhein";Rom\n', {}, [("Bonn, Rhein", "Rom"), ("Ulm, Donau", "Bonn, Rhein")]),
    ("g.txt", "New York, NY\tRome, IT\nRome, IT\tOslo, NO\n", {}, [("New York, NY", "Rome, IT"), ("Rome, IT", "Oslo, NO")]),
    ("g.csv", "1,2,a;b\n2,3,c;d\n", {"weight": False}, [(1, 2), (2, 3)]),
    ("g.csv", "a;b;3\nb;c;4\n", {}, [("a", "b", 3), ("b", "c", 4)]),
    ("g.csv", "src,dst,weight\na,b,inf\nb,c,-Infinity\n", {}, [("a", "b", np.inf), ("b", "c", -np.inf)]),
    ("g.csv", "a,b,9007199254740993\nb,c,1\n", {}, [("a", "b", 2**53 + 1), ("b", "c", 1)]),
    ("g.wel", "1 2 9007199254740993\n2 3 1\n", {}, [(1, 2, 2**53 + 1), (2, 3, 1)]),
    ("g.wel", "1 2 9007199254740994\n2 3 1.5\n", {}, [(1, 2, 2.0**53 + 2), (2, 3, 1.5)]),
    ("g.wel", "1 2 100000000000000000000000\n2 3 1.5\n", {"duplicates": "max"}, None),
]  # fmt: skip


def test_tables(tmp_path):
    for name, content, options, expected in CASES:
        try:
            found = edges(load(tmp_path, name, content, **options))
        except ev.GraphFormatError:
            assert expected is None, content
        else:
            assert found == expected, content


BAD = [
    ("g.csv", ROUTES, {"src": "leave", "dst": 2}, r"the columns .* \(did you mean 'leaves'\?\); give"),
    ("g.csv", ROUTES, {"src": "nosuch", "dst": 2}, "src is 'nosuch', but .* has the columns airline, leaves"),
    ("g.csv", ROUTES, {"src": 9, "dst": 2}, "src is column 9, but .* has columns 0 to 4"),
    ("g.csv", ROUTES, {}, "cannot tell which of its columns are the ends: airline, leaves"),
    ("g.csv", ROUTES, {"src": 1, "dst": 2, "weight": 4}, "line 2: the weight is '77W'; expected a number"),
    ("g.csv", "1,2,3,4\n", {}, r"the ends: 0 \(1\), 1 \(2\), 2 \(3\), 3 \(4\); choose them by src= and dst="),
    ("g.csv", "1,2,3,4\n", {"src": "a", "dst": 1}, "has no header; give the number of a column, from 0"),
    ("g.csv", "a,b\nc,d\n", {}, r"say header=True \(--header\) or header=False"),
    ("g.csv", "id,id,x\n1,2,3\n", {"src": "id", "dst": 2}, "has 2 columns 'id'; give src as a number from 0: 0, 1"),
    ("g.csv", "src,dst\na,b,c\n", {}, "line 2: has 3 columns below 2 names; expected a name for each"),
    ("g.csv", "src,dst\na,b\nc,d,e\n", {}, "line 3: has 3 columns; expected 2 as in the lines above"),
    ("g.csv", b"src,dst\nZ\xfcrich,Bern\n", {}, "is not UTF-8 text; convert it first"),
    ("g.csv", "a,b\nb,c\n".encode("utf-16"), {}, "is UTF-16 text; save it as UTF-8"),
    ("g.gml", 'graph [ node [ id 0 label "&#55296;" ] ]', {}, "cannot be encoded as UTF-8"),
    ("g.csv", "a,b,9007199254740993\nb,c,1.5\n", {}, "line 1: the weight is '9007199254740993', which loses digits"),
    ("g.csv", "a,b,1e400\nb,c,1\n", {}, "line 1: the weight is '1e400', too large for a float"),
    ("g.csv", "a,b,3\nb,c,x\n", {}, r"line 2: the weight is 'x'; .* weight=False \(--no-weight\)"),
    ("g.wel", "1 2 9007199254740993\n2 3 1.5\n", {}, "line 1: '9007199254740993' loses digits as a float"),
    ("g.wel", "1 2 12345678901234567890123\n2 3 1.5\n", {}, "line 1: '12345678901234567890123' is too"),
    ("g.wel", "1 2 -1e400\n", {}, "line 1: '-1e400' is too large for a float"),
    ("g.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1e309\n", {}, "line 3: '1e309' is too"),
    ("g.txt", "1 2\n3 4\n5 x\n", {}, "line 3: 'x' is not a vertex id"),
    ("g.txt", "1 2 3 4\n", {}, "has 4 columns .* choose them by src=, dst= and weight="),
    ("g.graph", "2 1 10\nx 2\n3 1\n", {}, "line 2: 'x' is not the weight of a vertex; expected a whole"),
    ("g.graph", "2 1 110\n1 -3 2\n1 3 1\n", {}, "line 2: '-3' is not the weight of a vertex"),
    ("g.csv", ",".join(["1"] * 20_000), {}, "line 1: has 20000 columns; .* at most 16384 columns"),
    ("g.csv", "1,2\n" + "x" * (17 << 20), {}, "line 2: the line is longer than 16.0 MiB"),
]  # fmt: skip


def test_bad_tables(tmp_path):
    for name, content, options, message in BAD:
        with pytest.raises((ev.GraphFormatError, ev.GraphError), match=message) as caught:
            load(tmp_path, name, content, **options)
        assert "\n" not in str(caught.value)


def test_options_that_do_not_fit(tmp_path):
    ev.generate.path(3).save(tmp_path / "g.mtx")
    with pytest.raises(ev.GraphError, match="not a table with columns; leave out src, header"):
        ev.load(tmp_path / "g.mtx", src=0, header=True)
    ev.generate.path(3).save(tmp_path / "g.parquet")
    with pytest.raises(ev.GraphError, match="a Parquet file, whose columns have names"):
        ev.load(tmp_path / "g.parquet", header=True)
    for option, value in [("src", -1), ("dst", 1.5), ("weight", True), ("src", [0])]:
        with pytest.raises(
            ev.GraphError, match=f"{option} is .* a column's name, or number from 0"
        ):
            ev.load(tmp_path / "g.csv", **{option: value})
    with pytest.raises(ev.GraphError, match="duplicates is 'last'; it must be one of 'keep'"):
        ev.load(tmp_path / "g.csv", duplicates="last")
    with pytest.raises(ev.GraphError, match="header is 1.5; it must be True or False"):
        ev.load(tmp_path / "g.csv", header=1.5)


def test_columns_of_parquet(tmp_path):
    frame = pl.DataFrame({"a": [1, 2], "b": [2, 3], "c": [3, 4], "km": [5, 6], "how": ["x", "y"]})
    frame.write_parquet(tmp_path / "g.parquet")
    found = ev.load(tmp_path / "g.parquet", src="b", dst=2, weight="km")
    assert edges(found) == [(2, 3, 5), (3, 4, 6)]
    with pytest.raises(ev.GraphFormatError, match="which of its columns are the ends: a, b, c, km"):
        ev.load(tmp_path / "g.parquet")
    frame.select("a", "b", "how").write_parquet(tmp_path / "g.parquet")
    with pytest.warns(GraphWarning, match="how is of type String and was ignored"):
        assert ev.load(tmp_path / "g.parquet").weights is None


def test_duplicates(tmp_path):
    rows = "0 1 5\n1 0 3\n0 1 7\n1 2 4\n"
    for how, directed, expected in [
        ("keep", None, [(0, 1, 5), (0, 1, 7), (1, 0, 3), (1, 2, 4)]),
        ("first", None, [(0, 1, 5), (1, 0, 3), (1, 2, 4)]),
        ("sum", None, [(0, 1, 12), (1, 0, 3), (1, 2, 4)]),
        ("keep", False, [(0, 1, 3), (1, 0, 3), (1, 2, 4), (2, 1, 4)]),
        ("first", False, [(0, 1, 5), (1, 0, 5), (1, 2, 4), (2, 1, 4)]),
        ("sum", False, [(0, 1, 15), (1, 0, 15), (1, 2, 4), (2, 1, 4)]),
    ]:
        assert edges(load(tmp_path, "g.wel", rows, duplicates=how, directed=directed)) == expected
    most = f"0 1 {2**31 - 1}\n" * 2  # the sum of 32-bit weights may be longer
    assert edges(load(tmp_path, "g.wel", most, duplicates="sum")) == [(0, 1, 2**32 - 2)]


def test_duplicates_in_every_format(tmp_path):
    """Parallel edges of an undirected graph are combined alike in both directions."""
    twice = ev.Graph.from_edges([0, 0, 1], [1, 1, 2], [7, 5, 9], directed=False)
    for suffix in (".wel", ".csv", ".mtx", ".gr", ".graph", ".e", ".parquet", ".evg"):
        twice.save(tmp_path / f"g{suffix}")
        found = ev.load(tmp_path / f"g{suffix}", duplicates="min")
        assert found.num_edges == 4, suffix
        assert found.weights.tolist() == [5, 5, 9, 9], suffix
        assert not found.directed, suffix


def test_missing_ends_are_left_out(tmp_path):
    rows = "src,dst,weight\na,b,1\n\\N,b,2\nb,\\N,\\N\nb,c,4\n"
    with pytest.warns(GraphWarning, match=r"2 rows with \\N as a vertex were ignored"):
        assert edges(ev_load(tmp_path, rows)) == [("a", "b", 1), ("b", "c", 4)]
    with (
        pytest.warns(GraphWarning),
        pytest.raises(ev.GraphFormatError, match="line 5: the weight is 'x'"),
    ):
        ev_load(tmp_path, rows.replace("b,c,4", "b,c,x"))


def ev_load(folder, content, name="g.csv", **options):
    (folder / name).write_text(content)
    return ev.load(folder / name, **options)


def test_text_in_the_third_column_is_left_out(tmp_path):
    for name, rows, expected in [
        ("g.csv", "a,b,friend\nb,c,friend\n", [("a", "b"), ("b", "c")]),
        ("g.csv", "1,2,friend\n2,3,friend\n", [(1, 2), (2, 3)]),
        ("g.csv", "src,dst,what\n1,2,friend\n2,3,friend\n", [(1, 2), (2, 3)]),
        ("g.txt", "1 2 friend\n2 3 foe\n", [(1, 2), (2, 3)]),
        ("g.txt", "a b friend\nb c foe\n", [("a", "b"), ("b", "c")]),
    ]:
        with pytest.warns(GraphWarning, match="holds text .'friend'. and was ignored"):
            assert edges(ev_load(tmp_path, rows, name)) == expected


def test_notes(tmp_path):
    def note(rows, **options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ev_load(tmp_path, rows, "g.txt", **options)
        assert all(one.filename == __file__ for one in caught)
        return " ".join(str(one.message) for one in caught)

    ring = [(i, (i + 1) % 150) for i in range(150)]
    listed = "".join(f"{u} {v}\n" for u, v in ring)
    both = listed + "".join(f"{v} {u}\n" for u, v in ring)
    once = "".join(f"{min(ends)} {max(ends)}\n" for ends in ring)
    assert note(listed) == ""
    assert "lists every edge in both directions; if it is undirected, say directed=False" in note(
        both
    )
    assert "lists every edge with the smaller id first" in note(once)
    assert "its comments call the graph undirected" in note("# Undirected graph\n" + listed)
    assert note(both, directed=True) == note(both, directed=False) == ""
    many = listed * 3
    assert "has 450 rows for 150 different pairs of vertices" in note(many)
    assert note(many, duplicates="first") == note(many, directed=False) == ""
    frame = pl.DataFrame({"a": [0] * 200, "b": [1] * 200})
    with pytest.warns(GraphWarning, match="the frame has 200 rows for 1 different pair of"):
        ev.Graph.from_frame(frame, "a", "b")
    assert ev.Graph.from_frame(frame, "a", "b", duplicates="first").num_edges == 1


def test_a_file_of_our_own_needs_no_notes(tmp_path):
    for graph in (ev.generate.rmat(7, seed=1), ev.Graph.from_edges([0] * 200, [1] * 200)):
        for suffix in (".el", ".csv", ".parquet", ".mtx", ".evg"):
            graph.save(tmp_path / f"g{suffix}")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                ev.load(tmp_path / f"g{suffix}")


def test_vertices_of_a_frame():
    frame = pl.DataFrame({"a": ["x", "y"], "b": ["y", "z"]})
    made = ev.Graph.from_frame(frame, "a", "b", vertices=["q", "x"])
    assert made.labels.tolist() == ["q", "x", "y", "z"]
    assert made.degrees.tolist() == [0, 1, 1, 0]
    pandas = pytest.importorskip("pandas")
    numbers = pandas.DataFrame({"a": [1, 2], "b": [2, 3]})
    made = ev.Graph.from_frame(numbers, "a", "b", vertices=pandas.Series([9, 2]), directed=False)
    assert made.labels.tolist() == [1, 2, 3, 9]
    empty = ev.Graph.from_frame(frame.clear(), "a", "b", vertices=["b", "a"])
    assert (empty.labels.tolist(), empty.num_edges) == (["a", "b"], 0)
    assert ev.Graph.from_frame(frame, "a", "b", vertices=[]).num_vertices == 3
    for wrong in ("xyz", 5, [3], [["x"]]):
        with pytest.raises(ev.GraphError):
            ev.Graph.from_frame(frame, "a", "b", vertices=wrong)


def test_a_weight_too_large_for_a_float_in_gml(tmp_path):
    pytest.importorskip("networkx")
    text = "graph [ node [id 0] node [id 1]\nedge [source 0 target 1 weight %s]]"
    path = tmp_path / "g.gml"
    path.write_text(text % "1.0e400")
    with pytest.raises(GraphFormatError, match=r"line 2: '1.0e400' is too large for a float"):
        ev.load(path)
    path.write_text(text % "+INF")
    assert np.isinf(ev.load(path).weights).all()


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".gexf"])
def test_formats_of_networkx(suffix, tmp_path):
    pytest.importorskip("networkx")
    path = tmp_path / f"g{suffix}"
    for labels in (None, ["Bern", "Thun", "Brig"], [7, 8, 9]):
        for directed in (False, True):
            whole = ev.Graph.from_edges(
                [0, 1], [1, 2], [1.5, 2.5], directed=directed, labels=labels
            )
            whole.save(path)
            found = ev.load(path)
            assert edges(found) == edges(whole)
            assert found.directed == directed
    assert ev.load(path, weight=False).weights is None
    assert not ev.load(path, directed=False).directed
    with pytest.raises(ev.GraphFormatError, match="no edge has an attribute 'km'"):
        ev.load(path, weight="km")
    with pytest.raises(ev.GraphError, match="not a table with columns"):
        ev.load(path, src="a")
    content = path.read_bytes()
    path.with_suffix("").write_bytes(content)
    assert edges(ev.load(path.with_suffix(""))) == edges(found)  # by its content
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ev.GraphFormatError, match="that NetworkX can read"):
        ev.load(path)


LARGE = 2**53 + 1  # the first whole number that no float is


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".gexf"])
@pytest.mark.parametrize("weights", [[LARGE, -7], [0.5, 1e-7], [float("inf"), -1e300], None])
@pytest.mark.parametrize("labels", [
    [7, 100, 3], [-7, 2**63 - 1, 0], ["[]", 'ü"&\n#[', "()"], ["05", "", "NAN"],
    ["9999999999999999999", "1", "2"],
], ids=str)  # fmt: skip
def test_saved_for_networkx_and_loaded_again(suffix, weights, labels, tmp_path):
    pytest.importorskip("networkx")
    saved = ev.Graph.from_edges([0, 1], [1, 2], weights, labels=labels)
    saved.save(tmp_path / f"g{suffix}")
    found = ev.load(tmp_path / f"g{suffix}")
    assert found.labels.tolist() == labels
    assert edges(found) == edges(saved)
    if weights is not None:
        assert found.weights.dtype.kind == saved.weights.dtype.kind


GEXF = """<gexf xmlns="http://www.gexf.net/1.2draft"><graph><attributes class="edge"><attribute
id="0" title="km" type="double"/></attributes><nodes><node id="a" weight="x"/><node id="b"/></nodes>
<edges><edge source="a" target="b" weight="%s"><attvalues><attvalue for="0" value="%s"/></attvalues>
</edge><edge source="b" target="b" weight="%s"/></edges></graph></gexf>"""
GRAPHML = """<graphml><key id="w" for="edge" attr.name="weight" attr.type="double"/><graph><node
id="a"/><node id="b"/><edge source="a" target="b"><data key="w">%s</data></edge><edge source="b"
target="b"><data key="w">%s</data></edge></graph></graphml>"""


def test_digits_that_networkx_would_lose(tmp_path):
    pytest.importorskip("networkx")
    gexf, graphml = tmp_path / "g.gexf", tmp_path / "g.graphml"
    gexf.write_text(GEXF % (LARGE, 1, 3))
    assert ev.load(gexf).weights.tolist() == [LARGE, LARGE, 3]
    gexf.write_text(GEXF % ("1.5", LARGE, 3))
    assert ev.load(gexf).weights.tolist() == [1.5, 1.5, 3.0]
    assert ev.load(gexf, weight="km").weights.tolist() == [LARGE, LARGE, 1]
    graphml.write_text(GRAPHML % (1, 2))
    assert ev.load(graphml).weights.dtype == np.float64  # as it says
    graphml.write_text(GRAPHML % (LARGE, LARGE))
    assert ev.load(graphml).weights.tolist() == [LARGE] * 3
    for path, text in ((gexf, GEXF % (LARGE, 1, 0.5)), (graphml, GRAPHML % (LARGE, 0.5))):
        path.write_text(text)
        with pytest.raises(GraphFormatError, match=f"{LARGE}, which loses digits as a float"):
            ev.load(path)


def test_without_networkx(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    (tmp_path / "g.gml").write_text("graph [ ]")
    with pytest.raises(ev.EvenerError, match=r"not installed: pip install evener\[networkx\]"):
        ev.load(tmp_path / "g.gml")


def test_standard_input_and_output(monkeypatch, capfdbinary):
    class Input:
        def __init__(self, content):
            self.buffer = io.BytesIO(content)

    monkeypatch.setattr(sys, "stdin", Input(b"a,b\nb,c\n"))
    graph = ev.load("-", format="csv")
    assert edges(graph) == [("a", "b"), ("b", "c")]
    graph.save("-", format="csv")
    assert capfdbinary.readouterr().out.startswith(b'"src","dst"\n"a","b"\n"b","c"\n# evener:')
    monkeypatch.setattr(sys, "stdin", Input(b""))
    with pytest.raises(ev.GraphFormatError, match="standard input is empty; expected a graph"):
        ev.load("-")
    for format in ("evg", "graphalytics"):
        with pytest.raises(ev.GraphError, match="is several files, but standard input is one"):
            ev.load("-", format=format)
        with pytest.raises(ev.GraphError, match="is several files, but standard output is one"):
            graph.save("-", format=format)


@pytest.mark.skipif(not DATA.is_dir(), reason="the folder of real graphs is not there")
def test_airports():
    path = DATA / "openflights-routes.dat.gz"
    with pytest.raises(ev.GraphFormatError, match=r"the ends: 0 \(2B\), 1 \(410\), 2 \(AER\)"):
        ev.load(path)
    routes = ev.load(path, src=2, dst=4, duplicates="first")
    assert (routes.num_vertices, routes.num_edges) == (3425, 37595)
    assert "ZRH" in routes.labels
    with pytest.warns(GraphWarning, match=r"423 rows with \\N as a vertex were ignored"):
        by_number = ev.load(path, src=3, dst=5, duplicates="first")
    assert by_number.labels.dtype == np.int64
