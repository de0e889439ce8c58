"""Bad files and bad requests: the error names the file, the line, what is wrong and expected."""

import gzip
import tracemalloc

import numpy as np
import polars as pl
import pytest

import evener as ev

BAD = [
    # name, content, part of the message
    ("g.el", "0 1\n1 x\n", "line 2: 'x' is not a vertex id; expected a whole number"),
    ("g.el", "0 1\n-1 2\n", "line 2: vertex id '-1' is negative"),
    ("g.el", "0 1\n\n# c\n1\n", "line 4: a number is missing; expected source and target"),
    ("g.el", "0 1\n1 2 3\n", "line 2: '3' is one column too many"),
    ("g.el", "0 1 2\n1 2\n", "line 2: a number is missing; expected source, target and weight"),
    ("g.el", "0 9223372036854775808\n", "line 1: '9223372036854775808' is too large"),
    ("g.el", "0 99999999999999999999999\n", "is too large; expected a number below 2^63"),
    ("g.wel", "0 1 nan\n", "line 1: 'nan' is not a weight; expected a number"),
    ("g.wel", "0 1 2.5\n0 2 heavy\n", "line 2: 'heavy' is not a weight"),
    ("g.wel", "0 1 99999999999999999999\n", "line 1: '99999999999999999999' is too large"),
    ("g.el", "0 1.5\n", "line 1: '1.5' is not a vertex id"),
    ("g.el", "", "is empty; expected a graph"),
    ("g.el", "1 2 3 4\n", "line 1: has 4 columns"),
    ("g.el", b"\x00\x01\x02\x03", "is not a text file"),
    ("g.el", '# evener: {"directed": 1}\n0 1\n', "line 1: Evener's note is damaged"),
    ("g.csv", "src,dst,weight\n0,1,x\n", "line 2: 'x' is not a weight"),
    ("g.csv", "src,dst\na,b\nc\n", "line 3: column dst is empty"),
    ("g.csv", "src,dst,weight\n1,,5\n2,,7\n", "line 2: column dst is empty"),
    ("g.csv", "src,dst,weight\n1,2,5\n2,,7\n", "column dst is empty|a number is missing"),
    ("g.csv", "src,dst\n1,2\nsrc,dst\n3,4\n", "line 3: repeats the header"),
    ("g.csv", "person,friend\nann,bob\n", "line 1: cannot tell whether 'person,friend' names"),
    ("g.csv", "a,b,c,source\n1,2,3,4\n", "cannot tell which of its columns are the ends: a, b, c, source"),
    ("g.csv", "src,dst\r1,2\r3,4\r", "a carriage return within the line"),
    ("g.txt", "1 2\r3\n", "a carriage return within the line"),
    ("g.txt", "target source\n1 2\n", "in this order"),
    ("g.csv", "name\nx\n", "has one column"),
    ("g.csv", 'src,dst,weight\n"a","b",NaN\n', "the weight in row 1 is 'NaN'; expected a number"),
    ("g.mtx", "hello\n", "line 1: expected a header like '%%MatrixMarket"),
    ("g.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1\n", "expected a square matrix"),
    ("g.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n", "declares 2 entries but has 1"),
    ("g.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 1\n", "line 3: vertex 3 is out of range; the file declares vertices 1..2"),
    ("g.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1\n", "line 3: vertex 0 is out of range"),
    ("g.mtx", "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1 1\n", "entries are 'complex'"),
    ("g.mtx", "%%MatrixMarket matrix array real general\n2 2\n1\n1\n1\n1\n", "a 'coordinate' matrix"),
    ("g.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 1.5\n", "declares integer entries"),
    ("g.mtx", "%%MatrixMarket matrix coordinate real general\n", "no line with the size"),
    ("g.gr", "p sp 2 1\na 1 3 5\n", "line 2: vertex 3 is out of range"),
    ("g.gr", "p sp 2 2\na 1 2 5\n", "declares 2 arcs but lists 1"),
    ("g.gr", "p sp 2 1\nb 1 2 5\n", "line 2: a line cannot begin with 'b' here"),
    ("g.gr", "a 1 2 5\n", "line 1: expected 'p sp vertices arcs'"),
    ("g.gr", "c nothing\n", "has no line 'p sp vertices arcs'"),
    ("g.gr", "p sp -2 1\na 1 2 5\n", "line 1: '-2' is not a count"),
    ("g.graph", "3 2\n2\n1 3\n", "declares 3 vertices but has 2 lines"),
    ("g.graph", "2 1\n2\n1\n1\n", "line 4: there is more here than the header declares"),
    ("g.graph", "2 5\n2\n1\n", "declares 5 edges, so 10 neighbours, but lists 2"),
    ("g.graph", "2 1\n2\n3\n", "line 3: neighbour 3 is out of range; expected 1..2"),
    ("g.graph", "3 1\n2\n3\n\n", "expected every edge in both directions|lists edge .* differently"),
    ("g.graph", "2 1 7\n2\n1\n", "line 1: format is '7'"),
    ("g.graph", "2 1 1\n2 5\n1 6\n", "lists edge 1 2 differently in its two directions"),
    ("g.graph", "2 1 1\n2\n1\n", "line 2: the last neighbour has no weight"),
    ("g.graph", "2 1 1\n2 5\n1\n", "line 3: the last neighbour has no weight"),
    ("g.graph", "2 1 10\n\n7 1\n", "line 2: a weight of the vertex is missing; .* begins with a number"),
    ("g.graph", "2 1 10\n5 2\n\n", "line 3: a weight of the vertex is missing"),
    ("g.graph", "2 1 110 2\n1 2\n7 1 1 1\n", "line 2: a weight of the vertex is missing; .* with 3 numbers"),
    ("g.graph", "2 1\n2,,1\n1\n", "line 2: there is no neighbour before a comma"),
    ("g.graph", "% only a comment\n", "has no header"),
    ("g.parquet", "PAR1 no", "is not a Parquet file"),
    ("g.parquet", b"PAR1" + b"\0" * 60 + b"PAR1", "is not a Parquet file that polars can read"),
    ("g.adjlist", "0 1 x\n", "line 1: 'x' is not a vertex id"),
    ("g.el.gz", b"plain text\n", "is named .gz but is not gzip data"),
    ("g.el.gz", gzip.compress(b"0 1\n" * 1000)[:40], "is damaged or cut short.*expected complete gzip data"),
    ("g.el.zst", b"\x28\xb5\x2f\xfd\0\0\0\0", "expected complete zstd data"),
    ("g.el.gz", gzip.compress(b""), "is empty once decompressed"),
]  # fmt: skip


IDS = [f"{number}-{name}" for number, (name, *_) in enumerate(BAD)]


@pytest.mark.parametrize(("name", "content", "message"), BAD, ids=IDS)
def test_bad_file(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ev.GraphFormatError, match=message.replace("^", r"\^")) as caught:
        ev.load(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(ev.GraphFormatError, match="does not exist"):
        ev.load(tmp_path / "none.el")
    with pytest.raises(FileNotFoundError):
        ev.load(tmp_path / "none.evg")
    with pytest.raises(ev.GraphFormatError, match="is a folder"):
        ev.load(tmp_path)
    (tmp_path / "g.evg").write_text("x")
    with pytest.raises(ev.GraphFormatError, match="is not a folder"):
        ev.load(tmp_path / "g.evg")
    (tmp_path / "h.evg").mkdir()
    with pytest.raises(ev.GraphFormatError, match="has no meta.json"):
        ev.load(tmp_path / "h.evg")


def test_unreadable_file(tmp_path, monkeypatch):
    path = tmp_path / "g.el"
    path.write_text("0 1\n")

    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(ev.GraphFormatError, match="cannot be read: Permission denied"):
        ev.load(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("g.gr", "p sp 999999999999999 1\na 1 2 3\n"),
        ("g.mtx", "%%MatrixMarket matrix coordinate pattern general\n999999999999 999999999999 1\n1 2\n"),
        ("g.el", '0 1\n# evener: {"directed": true, "num_vertices": 999999999999999, "first": 0, "weights": null}\n'),
    ],
)  # fmt: skip
def test_announced_sizes_beyond_what_is_expected(name, content, tmp_path):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ev.MemoryBudgetError, match="vertices, which take .* allow more by max_byt"):
        ev.load(path)
    with pytest.raises(ev.MemoryBudgetError, match="max_bytes allows 1.0 TiB"):
        ev.load(path, max_bytes="1TiB")
    with pytest.raises(ev.MemoryBudgetError, match="memory is available"):
        ev.load(path, max_bytes=1 << 62)


def test_an_announcement_out_of_proportion_is_allowed_on_request(tmp_path):
    (tmp_path / "g.gr").write_text("p sp 40000000 0\n")
    with pytest.raises(ev.MemoryBudgetError, match="g.gr declares 40000000 vertices, which take"):
        ev.load(tmp_path / "g.gr")
    assert ev.load(tmp_path / "g.gr", max_bytes="400MB").num_vertices == 40_000_000
    (tmp_path / "h.gr").write_text("p sp 1000000 0\n")  # few enough for any file
    assert ev.load(tmp_path / "h.gr").num_vertices == 1_000_000
    with pytest.raises(ev.MemoryBudgetError, match="max_bytes allows 1000 B"):
        ev.load(tmp_path / "h.gr", max_bytes=1000)
    with pytest.raises(ev.EvenerError, match="'much' is not an amount of memory"):
        ev.load(tmp_path / "h.gr", max_bytes="much")


def test_decompression_out_of_proportion(tmp_path, monkeypatch):
    monkeypatch.setattr("evener.graph.files.source._MOST_ANYWAY", 1 << 20)
    text = b"0 1\n" * (1 << 20)
    for suffix, compressed in ((".gz", gzip.compress(text)), (".zst", zstd(text))):
        path = tmp_path / f"bomb.el{suffix}"
        path.write_bytes(compressed)
        with pytest.raises(ev.MemoryBudgetError, match="once decompressed, and a file of .* may t"):
            ev.load(path)
        assert ev.load(path, max_bytes="1GiB", duplicates="first").num_edges == 1


def test_a_bomb_is_refused_before_it_grows(tmp_path):
    """A few hundred bytes of zstd stand for many megabytes, which come in bounded pieces."""
    path = tmp_path / "bomb.el.zst"
    path.write_bytes(zstd(b"\n" * (128 << 20)))
    tracemalloc.start()
    with pytest.raises(ev.MemoryBudgetError, match=r"holds \d+\.\d MiB or more once decompressed"):
        ev.load(path, max_bytes=50 << 20)
    assert tracemalloc.get_traced_memory()[1] < 110 << 20  # a piece is 16 MiB, and is put together
    tracemalloc.stop()


def zstd(content):
    import zstandard

    return zstandard.ZstdCompressor().compress(content)


def test_rows_out_of_proportion(tmp_path, monkeypatch):
    monkeypatch.setattr("evener.graph.files.source._MOST_ANYWAY", 1 << 20)
    path = tmp_path / "g.parquet"
    pl.DataFrame({"src": [0] * 300_000, "dst": [1] * 300_000}).write_parquet(path)
    with pytest.raises(ev.MemoryBudgetError, match="declares 300000 rows, which take"):
        ev.load(path)
    assert ev.load(path, max_bytes="1GiB", duplicates="first").num_edges == 1


def test_a_long_line_is_one_line(tmp_path):
    """A comment that fills a block must not show what is behind it as another line."""
    head = "%%MatrixMarket matrix coordinate pattern general\n"
    for length in ((1 << 18) - 1, 1 << 18, (1 << 18) + 1, 3 << 18):
        hidden = "%" + "x" * (length - len(head)) + "9 9 1\n"
        (tmp_path / "g.mtx").write_text(f"{head}{hidden}2 2 1\n1 2\n")
        assert ev.load(tmp_path / "g.mtx").num_vertices == 2
        (tmp_path / "g.graph").write_text(f"%{'x' * length}7 7\n2 1\n2\n1\n")
        assert ev.load(tmp_path / "g.graph").num_vertices == 2
    name = "y" * 200_000
    (tmp_path / "g.csv").write_text(f'src,dst\n"{name}",b\n')
    assert ev.load(tmp_path / "g.csv").labels.tolist() == ["b", name]


def test_lines_that_say_nothing_take_little_memory(tmp_path):
    """Beside what the file itself takes; most of it is that of one array or one text."""
    nothing = b"\n" * 500_000 + b"#\n" * 250_000 + b" \r\n" * 200_000
    for name, first, last in (("g.csv", b"src,dst\n", b"a,b\n"), ("g.txt", b"src dst\n", b"a b\n")):
        (tmp_path / name).write_bytes(first + nothing + last + nothing)
        assert ev.load(tmp_path / name).labels.tolist() == ["a", "b"]
        tracemalloc.start()
        assert ev.load(tmp_path / name).num_edges == 1
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 20 * len(nothing)
    (tmp_path / "g.graph").write_bytes(b"%\n" * 500_000 + b"2 1\n2\n1\n" + b"\n" * 1_000_000)
    ev.load(tmp_path / "g.graph")
    tracemalloc.start()
    assert ev.load(tmp_path / "g.graph").num_edges == 2
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


def test_much_of_nothing(tmp_path):
    """Twenty million blank lines, and as many members of a compressed file as fit 4 MB."""
    for name, rows in (("g.txt", b"0 1\n"), ("g.csv", b"0,1\n"), ("g.gr", b"p sp 2 1\na 1 2 1\n")):
        (tmp_path / name).write_bytes(b"\n" * 20_000_000 + rows)
        assert ev.load(tmp_path / name).num_edges == 1
    member = gzip.compress(b"0 1\n", mtime=0)
    (tmp_path / "g.el.gz").write_bytes(member * (4_000_000 // len(member)))
    assert ev.load(tmp_path / "g.el.gz", duplicates="first").num_edges == 1


def test_decompression_stops_at_the_memory_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr("evener.graph.files.source.available_memory", lambda: 1 << 20)
    path = tmp_path / "bomb.el.gz"
    path.write_bytes(gzip.compress(b"0 1\n" * (1 << 22)))
    with pytest.raises(ev.MemoryBudgetError, match="once decompressed"):
        ev.load(path)


def test_formats_that_are_not_there(tmp_path):
    with pytest.raises(ev.GraphError, match="format is 'dot'; it must be one of"):
        ev.load(tmp_path / "g.el", format="dot")
    with pytest.raises(ev.GraphError, match="has no suffix that names a graph format"):
        ev.generate.path(3).save(tmp_path / "g.xyz")
    with pytest.raises(ev.GraphError, match="there is no folder"):
        ev.generate.path(3).save(tmp_path / "no" / "g.el")
    with pytest.raises(ev.GraphError, match="undirected graphs"):
        ev.Graph.from_edges([0], [1]).save(tmp_path / "g.graph")
    with pytest.raises(ev.GraphError, match="whole-number weights"):
        ev.Graph.from_edges([0], [1], [1.5], directed=False).save(tmp_path / "g.graph")
    with pytest.raises(ev.GraphError, match="hold no weights"):
        ev.Graph.from_edges([0], [1], [1.5]).save(tmp_path / "g.adjlist")
    assert list(tmp_path.iterdir()) == []


class TestGraphalytics:
    """The pair of files, and the word on direction that must come from somewhere."""

    def write(self, tmp_path, vertices="1\n2\n3\n", edges="1 2 0.5\n", properties=None):
        (tmp_path / "g.v").write_text(vertices)
        (tmp_path / "g.e").write_text(edges)
        if properties is not None:
            (tmp_path / "g.properties").write_text(properties)
        return tmp_path / "g.e"

    def test_direction_must_be_said(self, tmp_path):
        path = self.write(tmp_path)
        with pytest.raises(ev.GraphFormatError, match="pass directed=True or directed=False"):
            ev.load(path)
        assert ev.load(path, directed=False).num_edges == 2
        assert ev.load(tmp_path / "g.v", directed=True).num_edges == 1
        assert ev.load(tmp_path / "g", directed=True).num_vertices == 3

    def test_properties(self, tmp_path):
        assert not ev.load(self.write(tmp_path, properties="graph.g.directed = false\n")).directed
        with pytest.raises(ev.GraphFormatError, match="directed must be true or false"):
            ev.load(self.write(tmp_path, properties="graph.g.directed = maybe\n"))

    def test_bad_pairs(self, tmp_path):
        with pytest.raises(ev.GraphFormatError, match="line 1: vertex 9 is not listed"):
            ev.load(self.write(tmp_path, edges="1 9 1\n"), directed=True)
        with pytest.raises(ev.GraphFormatError, match="label 1 occurs twice"):
            ev.load(self.write(tmp_path, vertices="1\n1\n2\n"), directed=True)
        (tmp_path / "g.v").unlink()
        with pytest.raises(ev.GraphFormatError, match="is a .v and an .e file"):
            ev.load(tmp_path / "g.e", directed=True)


def test_tampered_evg(tmp_path):
    path = tmp_path / "g.evg"
    ev.generate.path(10, weights=(1, 5)).save(path)
    meta = (path / "meta.json").read_bytes()
    (path / "meta.json").write_bytes(meta.replace(b'"directed": false', b'"directed": true'))
    with pytest.raises(ev.GraphFormatError, match="meta.json does not match its checksum"):
        ev.load(path)
    (path / "meta.json").write_bytes(meta)
    weights = next(path.glob("weights*"))
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(ev.GraphFormatError, match="has 68 bytes; expected 72"):
        ev.load(path)
    weights.unlink()
    with pytest.raises(ev.GraphFormatError, match="is missing"):
        ev.load(path)


def test_line_numbers_in_large_files(tmp_path):
    """Faults are found in the right line whichever piece of the file they are in."""
    rng = np.random.default_rng(5)
    lines = [f"{u} {v}" for u, v in rng.integers(0, 10**6, (300_000, 2))]
    for bad in (0, 77_777, 299_999):
        damaged = [*lines[:bad], "1 oops", *lines[bad + 1 :]]
        (tmp_path / "g.el").write_text("# head\n" + "\n".join(damaged))
        with pytest.raises(ev.GraphFormatError, match=f"line {bad + 2}: 'oops'"):
            ev.load(tmp_path / "g.el")
