"""`run` and its `Result`: devices and options, arrays and labels, frames, traces, pickles."""

import json
import math
import pickle
import re
import sys

import numpy as np
import polars as pl
import pytest

import evener as ev
from evener.engine.results.result import Export, Result
from evener.engine.results.trace import MOST_ROWS, Trace
from evener.engine.run import run
from evener.errors import EvenerError, GraphError, ProgramError
from evener.graph.csr import Graph
from evener.programs import Field, Program, functor
from evener.programs.stages import compute
from programs.searches import Nearest, Search
from programs.stages import Labels

NAMED = Graph.from_edges([0, 1, 1, 3], [1, 2, 3, 4], [2, 3, 1, 1], labels=["a", "b", "c", "d", "e"])
NUMBERED = Graph.from_edges([0, 1], [1, 2], labels=[10, 20, 30, 40])


@pytest.fixture
def found():
    return run(Search, NAMED, source="b", device="python")


class Elsewhere:
    """An array as CuPy has them: NumPy gets it by ``get`` and in no other way."""

    def __init__(self, values):
        self._values, self.copies = np.asarray(values), 0
        self.dtype, self.shape = self._values.dtype, self._values.shape

    def get(self):
        self.copies += 1
        return self._values.copy()

    def __len__(self):
        return len(self._values)

    def __getitem__(self, index):
        return Elsewhere(self._values[index])

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


# ---- values ---------------------------------------------------------------------------------


def test_arrays_elsewhere_come_to_the_host_once(found):
    depth, parent = Elsewhere(found.depth), Elsewhere(found.parent)
    fields = {"depth": depth, "parent": lambda: parent}
    there = Result("Search", NAMED, fields, holds_vertices={"parent"}, untouched={"depth": -1})
    assert there.depth is depth
    assert (depth.copies, parent.copies) == (0, 0)
    assert (there["e"], there[["e", "b"]].tolist()) == (2, [2, 0])
    assert there.path_to("e") == ["b", "d", "e"]
    assert there.path_to("b") == ["b"]
    with pytest.raises(GraphError, match="not reached"):
        there.path_to("a")
    for name, array in there.to_numpy().items():
        assert isinstance(array, np.ndarray)
        assert array.tolist() == getattr(found, name).tolist()
    assert there.to_polars().equals(found.to_polars())
    assert there.top(2).equals(found.top(2))
    assert there.top(2, by="parent").equals(found.top(2, by="parent"))
    assert there._repr_html_().count("<tr>") == 6
    assert (depth.copies, parent.copies) == (1, 1)
    assert there.parent is parent
    there._set_field("depth", Elsewhere([7, 7, 7, 7, 7]))
    assert there["a"] == 7


def test_arrays_elsewhere_as_pandas(found):
    pandas = pytest.importorskip("pandas")
    fields = {"depth": Elsewhere(found.depth), "parent": Elsewhere(found.parent)}
    there = Result("Search", NAMED, fields, holds_vertices={"parent"})
    pandas.testing.assert_frame_equal(there.to_pandas(), found.to_pandas())


def test_fields_are_arrays(found):
    assert found.depth.tolist() == [-1, 0, 1, 1, 2]
    assert found.parent.tolist() == [-1, -1, 1, 1, 3]
    assert found.depth.dtype == found.parent.dtype == np.int32
    assert found.graph is NAMED
    assert {"depth", "parent", "explain"} <= set(dir(found))


def test_unknown_attribute(found):
    with pytest.raises(AttributeError, match="has no 'rank'; it has depth, parent"):
        found.rank  # noqa: B018


def test_by_label(found):
    assert (found["b"], found["e"], found["a"]) == (0, 2, -1)
    assert isinstance(found["b"], int)
    assert found[["e", "b"]].tolist() == [2, 0]
    with pytest.raises(GraphError, match="'z' is not in the graph"):
        found["z"]


def test_vertices_by_label_are_labels():
    r = run(Labels, NUMBERED, device="python")
    assert (r[30], r[40]) == (10, 40)
    assert r[[20, 40]] == [10, 40]
    assert r.label.tolist() == [0, 0, 0, 3]


def test_paths(found):
    assert found.path_to("e") == ["b", "d", "e"]
    assert found.path_to("b") == ["b"]
    with pytest.raises(GraphError, match="vertex 'a' was not reached"):
        found.path_to("a")
    with pytest.raises(GraphError, match="takes one vertex"):
        found.path_to(["a", "b"])
    with pytest.raises(ProgramError, match="Labels keeps no parents"):
        run(Labels, NUMBERED, device="python").path_to(10)
    loop = Result("Own", NUMBERED, {"parent": np.array([1, 0, -1, -1])})
    with pytest.raises(GraphError, match="form a cycle"):
        loop.path_to(10)


def test_integers_with_an_infinite_missing_become_floats():
    r = run(Nearest, NAMED, source="a", device="python")
    assert r.distance.dtype == np.float64
    assert run(Nearest, NAMED, source="e", device="python").distance.tolist() == [math.inf] * 4 + [
        0
    ]


@pytest.mark.parametrize(
    ("field", "array", "shown"),
    [
        (Field(np.int32, fill=7), [7, 1], [7, 1]),
        (Field(np.int32, fill=7, missing=-1), [7, 1], [-1, 1]),
        (Field(np.float64, fill=math.nan, missing=0.0), [math.nan, 1.5], [0.0, 1.5]),
        (Field(np.float32, merge="max", missing=0), [-math.inf, 2.5], [0, 2.5]),
        (Field(np.int64, merge="sum", missing=math.nan), [0, 3], [math.nan, 3]),
    ],
)
def test_missing(field, array, shown):
    given = np.array(array, field.dtype)
    np.testing.assert_array_equal(Export(field, given)(), shown)


def test_what_algorithms_add(found):
    assert found._attach(count=3) is found
    assert found.count == 3
    assert "count 3" in repr(found)
    found._set_field("score", np.arange(5.0))._set_field("root", found.parent, holds_vertices=True)
    assert found.score[2] == 2.0
    assert found.to_polars()["root"].to_list() == [None, None, "b", "b", "d"]
    assert pickle.loads(pickle.dumps(found)).count == 3


class Marked(Program):
    reached = Field(np.int64, merge="sum")

    @functor
    def mark(v, s):
        s.reached[v] = 7

    def start(self, source: ev.Vertex):
        return [source]

    loop = compute(mark)


class Nowhere(Program):
    value = Field(np.float64, fill=np.nan)

    @functor
    def mark(v, s):
        s.value[v] = 0.0

    def start(self, source: ev.Vertex):
        return [source]

    loop = compute(mark)


def test_what_was_reached(found):
    expected = [False, True, True, True, True]
    assert found.reached.dtype == bool
    assert found.reached.tolist() == expected
    assert pickle.loads(pickle.dumps(found)).reached.tolist() == expected
    for algorithm in (ev.bfs, ev.sssp, ev.sswp):
        assert algorithm(NAMED, "b", device="python").reached.tolist() == expected
    bounded = ev.bfs(NAMED, "b", cutoff=1, device="python")
    assert bounded.reached.tolist() == [False, True, True, True, False]
    assert run(Nowhere, NAMED, source="c", device="python").reached.tolist() == [0, 0, 1, 0, 0]


def test_only_a_search_reaches(found):
    for r in (ev.pagerank(NAMED, device="python"), ev.connected_components(NAMED, device="python")):
        with pytest.raises(AttributeError, match="the result has no 'reached'; it has "):
            r.reached  # noqa: B018
        assert len(r.top()) == 5
    own = run(Marked, NAMED, source="c", device="python")  # the program's own field goes first
    assert own.reached.tolist() == [0, 0, 7, 0, 0]


def test_a_misspelt_field_gets_a_suggestion(found):
    with pytest.raises(AttributeError, match=r"no 'dept' \(did you mean 'depth'\?\); it has depth"):
        found.dept  # noqa: B018
    with pytest.raises(AttributeError, match=r"no 'path' \(did you mean 'path_to'\?\)"):
        found.path  # noqa: B018
    with pytest.raises(AttributeError, match="and methods such as top and to_polars"):
        found.plot  # noqa: B018


def test_a_table_in_a_missing_folder_names_the_folder(found, tmp_path):
    for write in (found.to_csv, found.to_parquet):
        with pytest.raises(ev.GraphError, match="cannot be written: there is no folder .*reports"):
            write(tmp_path / "reports" / "hops.x")


def test_files(found, tmp_path):
    found.to_parquet(tmp_path / "r.parquet")
    assert pl.read_parquet(tmp_path / "r.parquet").equals(found.to_polars())
    for name in ("r.csv", "r.csv.gz", "r.data"):
        found.to_csv(tmp_path / name)
        assert pl.read_csv(tmp_path / name).rows() == found.to_polars().rows()
    found.to_csv(str(tmp_path / "r.csv"))  # again, over the first
    objects = Graph.from_edges([0], [1], labels=[(0, 0), (0, 1)])
    run(Search, objects, source=(0, 0), device="python").to_csv(tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text().splitlines()[1] == '"(0, 0)",0,'
    with pytest.raises(GraphError, match="cannot be written"):
        found.to_csv(tmp_path / "no" / "folder.csv")


# ---- tables ---------------------------------------------------------------------------------


def test_to_polars(found):
    frame = found.to_polars()
    assert frame.columns == ["vertex", "depth", "parent"]
    assert frame.schema["parent"] == pl.String
    assert frame.row(0) == ("a", -1, None)
    assert frame.row(4) == ("e", 2, "d")


def test_to_polars_with_numbers_and_objects():
    frame = run(Search, NUMBERED, source=10, device="python").to_polars()
    assert frame.schema["vertex"] == frame.schema["parent"] == pl.Int64
    assert frame["parent"].to_list() == [None, 10, 20, None]
    pairs = Graph.from_edges([0], [1], labels=[(1, 2), (3, 4)])
    frame = run(Search, pairs, source=[(1, 2)], device="python").to_polars()
    assert frame["vertex"].to_list() == [(1, 2), (3, 4)]


def test_to_pandas(found):
    frame = found.to_pandas()
    assert frame["vertex"].tolist() == ["a", "b", "c", "d", "e"]
    assert frame["parent"].tolist()[2:] == ["b", "b", "d"]
    numbers = run(Search, NUMBERED, source=10, device="python").to_pandas()
    assert str(numbers["parent"].dtype) == "Int64"
    assert numbers["parent"].isna().tolist() == [True, False, False, True]


def test_to_pandas_without_pandas(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(EvenerError, match="to_pandas needs pandas; install it"):
        found.to_pandas()


def test_to_numpy(found):
    assert list(found.to_numpy()) == ["depth", "parent"]
    assert found.to_numpy()["depth"] is found.depth


def test_top(found):
    assert found.top(3)["vertex"].to_list() == ["e", "c", "d"]
    assert found.top(1, by="parent")["vertex"].to_list() == ["e"]
    assert len(found.top()) == 4  # "a" was not reached
    assert len(found.top(0)) == 0
    for k in ("x", -1, 1.5, None):
        with pytest.raises(GraphError, match="k is .*; it must be a whole number from 0"):
            found.top(k)
    with pytest.raises(ProgramError, match="has no 'rank'; it has depth, parent"):
        found.top(by="rank")
    score = Result("Own", NUMBERED, {"score": np.array([0.5, np.nan, 2.0, -1.0])})
    assert score.top()["vertex"].to_list() == [30, 10, 40, 20]


def test_a_program_without_fields():
    class Nothing(Program):
        @functor
        def rest(v, s):
            pass

        loop = compute(rest)

    r = run(Nothing, NUMBERED, device="python")
    assert r.to_polars().columns == ["vertex"]
    with pytest.raises(ProgramError, match="declares no fields"):
        r[10]


# ---- showing, pickling, tracing -------------------------------------------------------------


def test_repr(found):
    assert repr(found) == "Result(Search on python: depth, parent; 5 vertices)"
    shown = found._repr_html_()
    assert "<th>parent</th>" in shown
    assert "<td>d</td>" in shown
    hostile = Graph.from_edges([0], [1], labels=["<b>", "c"])
    shown = run(Search, hostile, source="<b>", device="python")._repr_html_()
    assert "<b>" not in shown
    assert "<td>&lt;b&gt;</td>" in shown


def test_html_shows_the_top_rounded(found):
    def rows(r):
        return re.findall("<tr><td>(.*?)</td></tr>", r._repr_html_())

    assert [row.split("</td><td>")[:2] for row in rows(found)] == [
        ["e", "2"], ["c", "1"], ["d", "1"], ["b", "0"],
    ]  # fmt: skip
    many = Result("Own", ev.generate.path(50), {"score": np.arange(50) / 7})
    assert len(rows(many)) == 10
    assert rows(many)[0] == "49</td><td>7"
    assert rows(many)[1] == "48</td><td>6.85714"
    components = ev.connected_components(Graph.from_edges([0, 2, 3], [1, 3, 4]), device="python")
    assert rows(components) == ["2</td><td>3", "0</td><td>2"]


def test_stats_and_explanation(found):
    assert found.stats["device"] == "python"
    assert found.stats["supersteps"] == len(found.trace) == 3
    assert found.stats["edges"] == 3
    assert found.stats["setup_seconds"] >= 0
    assert found.stats["run_seconds"] > 0
    assert "Search ran on python: as asked for." in found.explain()
    assert "Supersteps: 3." in found.explain()
    assert "trace" not in found.explain()


def test_explanation_of_a_trace_that_was_cut():
    made = []

    def rows(count):
        def make():
            made.append(count)
            return [{"superstep": i, "seconds": 0.0} for i in range(count)]

        return Trace("Search", "cpu", make)

    def explained(supersteps, count):
        stats = {"supersteps": supersteps}
        return Result("Search", NAMED, {}, stats=stats, trace=rows(count)).explain()

    assert explained(50_000, MOST_ROWS).endswith("The trace has only the first 16,384 rows.")
    assert made == [MOST_ROWS]
    assert "trace" not in explained(50_000, 50_000)  # as the interpreter has it
    assert "trace" not in explained(50_000, 1)  # a fused loop
    made.clear()
    assert "trace" not in explained(MOST_ROWS, MOST_ROWS)
    assert made == []  # rows of shorter runs are not made for this


@pytest.mark.parametrize("device", ["cpu", "cpu:1+cpu:1"])
def test_a_long_trace_is_cut(device):
    r = ev.bfs(ev.generate.path(MOST_ROWS + 3), 0, device=device)
    assert r.stats["supersteps"] > len(r.trace) == MOST_ROWS
    assert "The trace has only the first 16,384 rows." in r.explain().splitlines()


def test_pickle(found):
    again = pickle.loads(pickle.dumps(found))
    assert again.depth.tolist() == found.depth.tolist()
    assert again.path_to("e") == ["b", "d", "e"]
    assert again.explain() == found.explain()
    assert again.trace.to_frame().equals(found.trace.to_frame())


def test_trace(found, tmp_path):
    frame = found.trace.to_frame()
    assert frame.columns == ["superstep", "frontier", "edges", "direction", "seconds"]
    assert frame["frontier"].to_list() == [1, 2, 1]
    assert frame["direction"].to_list() == ["push"] * 3
    assert found.trace[0]["edges"] == 2
    assert "3 supersteps" in repr(found.trace)
    found.trace.to_chrome(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert [bar["name"] for bar in bars] == ["superstep 0", "superstep 1", "superstep 2"]
    assert bars[1]["ts"] == pytest.approx(bars[0]["dur"])


def test_empty_trace(tmp_path):
    trace = Trace("None", "python", [])
    assert trace.to_frame().height == 0
    trace.to_chrome(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())
