"""``evener run``: files that it reads and writes, programs of one's own, and bad input."""

import json
import os
from pathlib import Path

import polars
import pytest

import evener as ev
from commands import assert_one_error
from evener.engine.partition.partitioners import PARTITIONERS
from evener.engine.request import DIRECTIONS
from evener.operators.gpu.schedules import SCHEDULES
from evener.operators.shared import policies
from places import EXAMPLES

RMAT = "rmat:scale=6,seed=1,weights=1-9"


# ---- files ----------------------------------------------------------------------------------

READERS = {
    ".csv": polars.read_csv,
    ".tsv": lambda path: polars.read_csv(path, separator="\t"),
    ".parquet": polars.read_parquet,
    ".json": polars.read_json,
    ".jsonl": polars.read_ndjson,
    ".ndjson": polars.read_ndjson,
    ".csv.gz": polars.read_csv,
    ".tsv.zst": lambda path: polars.read_csv(path, separator="\t"),
}


@pytest.mark.parametrize("suffix", READERS)
def test_output(run, towns, tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    code, text, _ = run("run", "bfs", towns, "--source", "Bonn", "--device", "python", "-o", out)
    assert code == 0
    assert f"written     {out}" in text
    assert READERS[suffix](out).rows() == [
        ("Bonn", 0, None), ("Ulm, Donau", 1, "Bonn"), ("Trier", 2, "Ulm, Donau"),
        ("7", 3, "Trier"),
    ]  # fmt: skip


def test_output_to_several_files(run, towns, tmp_path):
    words = ["run", "bfs", towns, "--source", "Bonn", "--device", "python"]
    table, frame = tmp_path / "out.csv", tmp_path / "out.parquet"
    code, text, _ = run(*words, "-o", table, "-o", frame)
    assert code == 0
    assert f"written     {table}, {frame}" in text
    assert polars.read_csv(table).rows() == polars.read_parquet(frame).rows()
    code, text, err = run(*words, "-o", "-", "-o", frame, "--force")
    assert (code, text.split("\n", 1)[0]) == (0, "vertex,depth,parent")
    assert "supersteps" in err
    code, text, _ = run(*words, "-o", table, "-o", frame, "--force", "--json")
    assert json.loads(text)["output"] == [str(table), str(frame)]
    assert_one_error(run(*words, "--force", "-o", table, "-o", f"{tmp_path}/./out.csv"), "twice")
    assert_one_error(run(*words, "-o", tmp_path / "new.csv", "-o", frame), f"{frame} exists")
    assert not (tmp_path / "new.csv").exists()


def test_labels_of_other_types_are_written_as_text(run, tmp_path, monkeypatch):
    graph = ev.Graph.from_edges([0], [1], labels=[(1, 2), (3, 4)])
    monkeypatch.setattr("evener.graph.generate.from_spec", lambda _: graph)
    out = tmp_path / "out.csv"
    code, text, _ = run("run", "cc", RMAT, "--device", "python", "-o", out, "--json")
    assert code == 0
    assert polars.read_csv(out)["vertex"].to_list() == ["(1, 2)", "(3, 4)"]
    assert len(json.loads(text)["top"]) == 1


def test_trace(run, tmp_path):
    words = ["run", "bfs", "path:num_vertices=5", "--source", "0", "--device", "python", "--trace"]
    assert run(*words, tmp_path / "t.json")[0] == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 5
    assert run(*words, tmp_path / "t.csv")[0] == 0
    assert polars.read_csv(tmp_path / "t.csv")["frontier"].to_list() == [1, 1, 1, 1, 1]
    words[words.index("python")] = "python+python"
    assert run(*words, tmp_path / "t.json")[0] == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X" and "all" in event["args"]]
    assert bars[0]["args"]["all"]["redundant_work"] == 1
    assert run(*words, tmp_path / "t.csv")[0] == 0
    assert polars.read_csv(tmp_path / "t.csv")["redundant_work"].to_list()[0] == 1


def test_a_file_is_replaced_by_force_only(run, tmp_path):
    out = tmp_path / "out.json"
    out.write_text("before")
    words = ["run", "bfs", "path:num_vertices=3", "--source", "0", "--device", "python", "-o"]
    # Refused before any work: the graph is not even looked for.
    missing = ["run", "bfs", "missing.evg", *words[3:]]
    assert_one_error(run(*missing, out), f"{out} exists", "--force")
    assert_one_error(run(*words, out), f"{out} exists", "--force")
    assert out.read_text() == "before"
    link = tmp_path / "link.json"
    link.symlink_to(out)
    assert_one_error(run(*words, link), f"{link} exists")
    assert run(*words, link, "--force")[0] == 0
    assert link.is_symlink()  # what it names was replaced
    assert json.loads(out.read_text())
    dangling = tmp_path / "dangling.json"
    dangling.symlink_to(tmp_path / "new.json")
    assert run(*words, dangling)[0] == 0
    assert dangling.is_symlink()
    assert (tmp_path / "new.json").exists()
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert_one_error(run(*words, loop, "--force"), f"{loop} cannot be written")


def test_output_replaces_a_file_only_when_whole(run, tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    out.write_text("before")
    monkeypatch.setattr(polars.DataFrame, "write_csv", lambda *_, **__: 1 / 0)
    code = run("run", "bfs", RMAT, "--source", "0", "--device", "python", "--force", "-o", out)[0]
    assert code == 1
    assert out.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.csv"]


# ---- programs of one's own ------------------------------------------------------------------


def test_program_in_a_file(facts):
    target = f"{EXAMPLES / 'widest_path.py'}:Widest"
    report = facts(target, "path:num_vertices=3,weights=4-4", "--source", "0", "--device", "python")
    assert report["algorithm"] == "Widest"
    assert [row["width"] for row in report["top"]] == ["inf", 4.0, 4.0]


def test_program_parameters(facts, run):
    target = f"{EXAMPLES / 'widest_path.py'}:Gentlest"
    words = [target, RMAT, "--source", "0", "--device", "python"]
    assert facts(*words, "--delta", "2")["parameters"] == {"source": 0, "delta": 2.0}
    assert "--delta X" in run("run", target, "--help")[1]
    assert_one_error(run("run", *words, "--delta", "two"), "--delta", "'two'")
    assert_one_error(run("run", *words[:2]), "--source")


def test_program_in_a_module(facts, tmp_path, monkeypatch):
    (tmp_path / "hop_counts.py").write_text((EXAMPLES / "k_hop.py").read_text())
    monkeypatch.chdir(tmp_path)
    report = facts(
        "hop_counts:KHop", "path:num_vertices=9", "--source", "0", "--k", "3", "--device", "python"
    )
    assert report["top"][0] == {"vertex": 3, "hop": 3}
    assert report["edges_traversed"] == 7


def test_programs_that_are_not_there(run, tmp_path):
    assert_one_error(run("run", "nowhere.py:X", RMAT), "nowhere.py", "does not exist")
    base = "evener.programs.gas:GasProgram"
    assert_one_error(run("run", base, RMAT), "has no program 'GasProgram'; it has none")
    assert_one_error(run("run", "no_such_module:X", RMAT), "no_such_module", "cannot be imported")
    file = EXAMPLES / "widest_path.py"
    assert_one_error(run("run", f"{file}:Narrowest", RMAT), "'Narrowest'", "Widest, Gentlest")
    broken = tmp_path / "broken.py"
    broken.write_text("import evener as ev\n1 / 0\n")
    assert_one_error(run("run", f"{broken}:X", RMAT), "ZeroDivisionError")


def test_a_parameter_named_like_an_option(run, tmp_path):
    file = tmp_path / "clash.py"
    file.write_text(
        "import numpy as np\nimport evener as ev\n"
        "class Clash(ev.Program):\n"
        "    f = ev.Field(np.int64, fill=0, merge='sum')\n"
        "    json = ev.Param(np.float64, 1.0)\n"
        "    @ev.functor\n"
        "    def grow(v, s):\n"
        "        s.f[v] += 1\n"
        "    loop = ev.stages.compute(grow)\n"
    )
    assert_one_error(run("run", f"{file}:Clash", RMAT), "'json'", "rename")


# ---- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "say"),
    [
        (["bsf", RMAT], "no algorithm 'bsf'"),
        (["0.85", RMAT], "no algorithm '0.85'"),
        (["bfs", RMAT], "--source"),
        (["bfs", RMAT, "--source", "64"], "--source: vertex 64 is not in the graph"),
        (["bfs", RMAT, "--source", "1,x"], "--source: vertex 'x' is not in the graph"),
        (["bfs", RMAT, "--source", "0", "--target", "99"], "--target: vertex 99"),
        (["bfs", RMAT, "--source", "0", "--cutoff", "near"], "'near' is not a whole number"),
        (["bfs", RMAT, "--source", "0", "--cutoff", "-1"], "cutoff"),
        (["bfs", RMAT, "--source", "0", "--damping", "1"], "--damping"),
        (["bfs", "missing.evg", "--source", "0"], "missing.evg"),
        (["bfs", "rmat:scale=x", "--source", "0"], "'x'"),
        (["bfs", RMAT, "--source", "0", "--device", "tpu"], "no device 'tpu'"),
        (["bfs", RMAT, "--source", "0", "--device", "cpu:0"], "'cpu:0'"),
        (["bfs", RMAT, "--source", "0", "--device", "cpu+tpu"], "no device 'tpu'"),
        (["bfs", "missing.evg", "--source", "0", "--device", "cpu:99999"], "this machine grants "),
        (["bfs", RMAT, "--source", "0", "--device", "python+cuda"], "python combines with"),
        (["bfs", RMAT, "--source", "0", "--direction", "up"], "direction is 'up'"),
        (["bfs", RMAT, "--source", "0", "--exchange", "gossip"], "exchange is 'gossip'"),
        (["bfs", RMAT, "--source", "0", "--schedule", "gantt"], "schedule is for a GPU"),
        (["bfs", RMAT, "--source", "0", "--partition", "random"], "partition='random'"),
        (
            ["bfs", RMAT, "--source", "0", "--device", "cpu+python", "--partition", "halves"],
            "there is no partitioner 'halves'",
        ),
        (["bfs", RMAT, "--source", "0", "--top", "-1"], "--top"),
        (["bfs", RMAT, "--source", "0", "--top", "few"], "'few'"),
        (["bfs", RMAT, "--source", "0", "-o", "out.xlsx"], ".parquet"),
        (["bfs", RMAT, "--source", "0", "-o", "no/such/folder/x.csv"], "no folder"),
        (["bfs", RMAT, "--source", "0", "-o", ""], "-o is empty"),
        (["bfs", RMAT, "--source", "0", "--trace", "trace"], "traces are written as"),
        (["bfs", RMAT, "--source", "0", "--trace", ""], "--trace is empty"),
        (["bfs", RMAT, "--source", "0", "-o", "a.json", "--trace", "./a.json"], "both name"),
        (["bfs", RMAT, "--source", "0", "--device", ""], "no device ''"),
        (["bfs", RMAT, "--source", "0", "--directed"], "is a generator"),
        (["sssp", "rmat:scale=5", "--source", "0"], "needs weights"),
        (["sssp", RMAT, "--source", "0", "--delta", "wide"], "delta"),
        (["pagerank", RMAT, "--damping", "1.5"], "damping is 1.5"),
        (["pagerank", RMAT, "--damping", "much"], "'much' is not a number"),
        (["pagerank", RMAT, "--dtype", "int8"], "float32 or float64"),
        (["pagerank", RMAT, "--source", "0"], "--source"),
        (["bc", RMAT, "--sources", "3", "--seed", "-1"], "seed is -1"),
        (["circuit", RMAT, "--fixed", "3"], "--fixed is '3'; expected vertices and numbers"),
        (["circuit", RMAT, "--fixed", "3=high"], "--fixed"),
        (["circuit", RMAT, "--fixed", "99=1"], "--fixed: vertex 99"),
        (["heat", RMAT, "--initial", "3:1"], "1.5, or 3=1.5,7=0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(run, words, say, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_one_error(run("run", *words), say)
    assert os.listdir(tmp_path) == []


def test_output_that_cannot_be_written(run, tmp_path):
    words = ["run", "bfs", RMAT, "--source", "0", "--device", "python"]
    (tmp_path / "folder.csv").mkdir()
    assert_one_error(run(*words, "-o", tmp_path / "folder.csv"), "it is a folder")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if not os.access(locked, os.W_OK):  # root may
        assert_one_error(run(*words, "-o", locked / "x.csv"), "read-only")
        assert_one_error(run(*words, "--trace", locked / "x.json"), "read-only")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a folder that holds no new files")
def test_nothing_is_written_where_the_trace_cannot_be(run, tmp_path):
    words = ["run", "bfs", "missing.evg", "--source", "0", "-o", tmp_path / "half.csv"]
    assert_one_error(run(*words, "--trace", "/proc/x.json"), "/proc/x.json cannot be written")
    assert os.listdir(tmp_path) == []


def test_graphalytics_without_direction(run, tmp_path):
    (tmp_path / "g.v").write_text("1\n2\n")
    (tmp_path / "g.e").write_text("1 2\n")
    words = ["run", "bfs", tmp_path / "g.e", "--source", "1", "--device", "python"]
    assert_one_error(run(*words), "--undirected")
    assert run(*words, "--directed")[0] == 0


def test_help_names_all_choices(run):
    code, out, _ = run("run", "--help")
    assert code == 0
    words = {word.strip(",()") for word in out.split()}
    assert {*policies.NAMES, *SCHEDULES, *PARTITIONERS, *DIRECTIONS} <= words
