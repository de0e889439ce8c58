"""``evener run`` and ``evener warm``: every option, every algorithm, and what bad input gets."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars
import pytest

import evener as ev
from commands import assert_one_error
from evener import algorithms
from evener.cli import main, warm
from evener.cli.options import options_of_function, read_labels
from evener.cli.targets import Target
from evener.cli.warm import _warm, example_graphs
from evener.device.kept_files import cache_folder
from evener.engine.partition.partitioners import PARTITIONERS
from evener.engine.request import DIRECTIONS
from evener.engine.results.result import Result
from evener.graph.files import load
from evener.operators.gpu.schedules import SCHEDULES
from evener.operators.gpu.schedules.virtual_warp import WIDTHS
from evener.operators.shared import policies
from places import EXAMPLES
from processes import run_on_terminal
from tables import slow_but

RMAT = "rmat:scale=6,seed=1,weights=1-9"


@pytest.fixture
def run(capsys):
    """Run a command in this process: (exit code, standard output, standard error)."""

    def call(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def facts(run):
    """Run ``evener run … --json``, which must succeed."""

    def call(*words):
        code, out, err = run("run", *words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


@pytest.fixture
def towns(tmp_path):
    """Labels that are names, one of them with a comma."""
    graph = ev.Graph.from_edges(
        [0, 1, 2], [1, 2, 3], [4, 2, 3], directed=False, labels=["Bonn", "Ulm, Donau", "Trier", "7"]
    )
    graph.save(tmp_path / "towns.evg")
    return tmp_path / "towns.evg"


# ---- algorithms -----------------------------------------------------------------------------

NEEDED = {
    "bfs": ["--source", "3"],
    "sssp": ["--source", "3"],
    "sswp": ["--source", "3"],
    "circuit": ["--fixed", "3=0,4=5"],
    "heat": ["--initial", "3=9", "--max-iterations", "60"],
    "neural": ["--initial", "3=9,4=-1", "--max-iterations", "5000"],
}


DEVICES = ["python", "cpu:2", "python+python"]
# Each algorithm on one of them, where others compile or interpret it too.
ONE = {
    "betweenness": "python+python", "bfs": "cpu:2", "circuit": "python",
    "connected_components": "cpu:2", "heat": "python", "neural": "python+python",
    "pagerank": "cpu:2", "sssp": "cpu:2", "sswp": "python+python",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:heat did not converge")
@pytest.mark.parametrize(
    "where",
    slow_but([(n, d) for n in algorithms.__all__ for d in DEVICES], *ONE.items()),
    ids="-".join,
)
def test_algorithms_give_what_the_function_gives(run, tmp_path, where):
    name, device = where
    out = tmp_path / "out.parquet"
    words = [name, RMAT, *NEEDED.get(name, []), "--device", device, "-o", out, "--json"]
    code, text, _ = run("run", *words)
    assert code == 0
    graph = ev.generate.rmat(6, seed=1, weights=(1, 9))
    arguments = {
        "bfs": {"source": 3}, "sssp": {"source": 3}, "sswp": {"source": 3},
        "circuit": {"fixed": {3: 0.0, 4: 5.0}}, "heat": {"initial": {3: 9.0}, "max_iterations": 60},
        "neural": {"initial": {3: 9.0, 4: -1.0}, "max_iterations": 5000},
    }.get(name, {})  # fmt: skip
    expected = getattr(ev, name)(graph, **arguments, device="python").to_polars()
    found = polars.read_parquet(out)
    assert found.columns == expected.columns
    for column in set(expected.columns) - {"parent"}:  # any shortest-path parent will do
        assert np.allclose(found[column], expected[column], atol=1e-5)
    report = json.loads(text)
    assert (report["algorithm"], report["device"]) == (name, device)
    assert report["edges"] > 0


def test_every_parameter_is_an_option(run):
    for name in algorithms.__all__:
        out = run("run", name, "--help")[1]
        parameters = inspect.signature(getattr(algorithms, name)).parameters
        for parameter in set(parameters) - {"graph", "options"}:
            assert f"--{parameter.replace('_', '-')}" in out


@pytest.mark.parametrize("name", algorithms.__all__)
def test_help_examples_run(run, name):
    code, out, err = run("run", name, "--help")
    assert (code, err) == (0, "")
    example = out.partition("example:\n")[2].split()
    assert example[:3] == ["evener", "run", name]
    words = [word.replace("scale=10", "scale=5") for word in example[1:]]
    assert run(*words, "--device", "python")[0] == 0


@pytest.mark.parametrize(("short", "name"), [("cc", "connected_components"), ("pr", "pagerank")])
def test_short_names(facts, short, name):
    assert facts(short, RMAT, "--device", "python")["algorithm"] == name


def test_options_before_the_algorithm(facts):
    report = facts(
        "--device", "python", "--top", "1", "bfs", "--source", "0", "path:num_vertices=4"
    )
    assert report["top"] == [{"vertex": 3, "depth": 3, "parent": 2}]


# ---- options of algorithms ------------------------------------------------------------------


def test_vertices_by_label(facts, towns):
    def top(*words):
        return facts("bfs", towns, *words, "--device", "python", "--top", "1")["top"][0]

    assert top("--source", "Bonn") == {"vertex": "7", "depth": 3, "parent": "Trier"}
    assert top("--source", "Ulm, Donau")["depth"] == 2
    assert top("--source", "Bonn,Trier")["depth"] == 1
    assert top("--source", "7")["vertex"] == "Bonn"
    assert top("--source", "Bonn", "--target", "Ulm, Donau")["depth"] == 1
    assert top("--source", "Bonn", "--cutoff", "2")["depth"] == 2


def test_labels_of_the_file(facts, tmp_path):
    (tmp_path / "g.txt").write_text("10 20\n20 30\n")
    report = facts(
        "bfs", tmp_path / "g.txt", "--source", "20", "--undirected", "--device", "python"
    )
    assert [row["vertex"] for row in report["top"]] == [10, 30, 20]
    assert report["parameters"] == {"source": 20}
    assert report["graph"]["num_edges"] == 4


def test_format_of_the_file(facts, tmp_path):
    (tmp_path / "data").write_text("1,2\n2,3\n")
    report = facts("cc", tmp_path / "data", "--format", "csv", "--device", "python")
    assert (report["count"], report["graph"]["directed"]) == (1, True)


def test_pagerank_options(facts):
    def rank(*words):
        return facts("pagerank", "star:num_vertices=5", "--device", "python", *words)["top"][0]

    plain = rank()
    assert rank("--damping", "0.1")["rank"] < plain["rank"]
    assert rank("--damping", "0.0", "--personalization", "3=1,4=3")["vertex"] == 4
    assert rank("--dtype", "float32")["rank"] != plain["rank"]
    assert rank("--tol", "0.5")["rank"] != plain["rank"]


def test_flags(facts):
    graph = "path:num_vertices=5"
    plain = facts("bc", graph, "--device", "python")["top"][0]["score"]
    raw = facts("bc", graph, "--device", "python", "--no-normalized")["top"][0]["score"]
    assert (plain, raw) == (pytest.approx(2 / 3), 4)


def test_sources_are_a_number_or_labels(facts):
    words = ["bc", "path:num_vertices=9", "--device", "python"]
    assert facts(*words, "--sources", "3")["parameters"] == {"sources": 3}
    assert facts(*words, "--sources", "3,5")["parameters"] == {"sources": [3, 5]}
    assert facts(*words, "--sources", "3,")["parameters"] == {"sources": [3]}
    assert facts(*words, "--sources", "3", "--seed", "7")["parameters"]["seed"] == 7


def test_numbers_or_words(facts):
    words = ["sssp", RMAT, "--source", "0", "--device", "python"]
    assert facts(*words, "--delta", "auto")["parameters"]["delta"] == "auto"
    assert facts(*words, "--delta", "2.5")["parameters"]["delta"] == 2.5


def test_values_of_vertices(facts, towns):
    report = facts("heat", towns, "--initial", "Trier=8,7=4", "--device", "python")
    assert report["top"][0]["temperature"] == pytest.approx(3, abs=1e-3)
    assert report["converged"] is True
    assert facts("heat", towns, "--initial", "2.5", "--device", "python")["supersteps"] == 1


def test_a_list_with_a_comma_in_a_label(towns):
    graph = ev.load(towns)
    assert read_labels(graph, "Ulm, Donau", "--source") == "Ulm, Donau"
    assert read_labels(graph, "Bonn, Trier", "--source") == ["Bonn", "Trier"]


def test_options_follow_the_signature():
    def walk(graph, source: "SomeLabels", *, steps: int = 3, lazy: bool = False, device="auto"):  # noqa: F821
        """Walk about.

        Parameters
        ----------
        steps
            How far.
        """

    source, steps, lazy = options_of_function(walk)
    assert (source.flag, source.required, source.kinds) == ("--source", True, {"SomeLabels"})
    assert (steps.default, steps.text) == (3, "how far")
    assert lazy.kinds == {"bool"}


# ---- options of the engine ------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--device", "cpu"],
        ["--device", "cpu:1", "--direction", "pull"],
        ["--device", "python", "--direction", "push", "--exchange", "refined"],
        ["--device", "python+python", "--partition", "static"],
        ["--device", "python+python", "--partition", "random"],
        ["--device", "python", "--schedule", "auto", "--partition", "auto"],
    ],
    ids=" ".join,
)
def test_engine_options(facts, words):
    assert facts("bfs", "path:num_vertices=6", "--source", "1", *words)["top"][0]["depth"] == 4


def test_a_wrong_device_in_the_environment_is_named(run, monkeypatch):
    monkeypatch.setenv("EVENER_DEVICE", "bogus")
    assert_one_error(run("run", "cc", RMAT), "EVENER_DEVICE is 'bogus': there is no device")


def test_device_from_the_environment(facts, monkeypatch):
    monkeypatch.setenv("EVENER_DEVICE", "python")
    assert facts("bfs", RMAT, "--source", "0")["device"] == "python"


# ---- what is printed ------------------------------------------------------------------------


def test_for_people(run):
    code, out, err = run("run", "bfs", RMAT, "--source", "3", "--device", "python", "--top", "2")
    assert (code, err) == (0, "")
    head, _, table = out.partition("\n\n")
    fields = {line[:12].strip(): line[12:] for line in head.splitlines()}
    assert fields["algorithm"] == "bfs (source=3)"
    assert fields["graph"].startswith(f"{RMAT}: 64 vertices, ")
    assert fields["device"] == "python"
    assert [part.split()[0] for part in fields["seconds"].split(", ")] == [
        "load", "setup", "compile", "run",
    ]  # fmt: skip
    assert int(fields["supersteps"]) > 1
    assert "visited" in fields["edges"]
    assert "million a second" in fields["edges"]
    assert "million" in fields["TEPS"]
    assert table.split()[:3] == ["vertex", "depth", "parent"]
    assert len(table.splitlines()) == 3


def test_json(facts):
    report = facts("sssp", "path:num_vertices=4,weights=2-2", "--source", "0", "--device", "python")
    seconds = report.pop("seconds")
    assert set(seconds) == {"load", "setup", "compile", "run"}
    assert report.pop("edges_per_second") == pytest.approx(report["edges"] / seconds["run"])
    assert report.pop("edges") > 0
    assert report.pop("teps") == pytest.approx(report.pop("edges_traversed") / seconds["run"])
    assert report.pop("supersteps") > 0
    assert report.pop("top")[0] == {"vertex": 3, "distance": 6.0, "parent": 2}
    assert report == {
        "algorithm": "sssp",
        "parameters": {"source": 0},
        "graph": {
            "path": "path:num_vertices=4,weights=2-2",
            "num_vertices": 4,
            "num_edges": 6,
            "directed": False,
        },
        "device": "python",
        "threads": None,
        "reached": 4,
        "output": None,
        "trace": None,
    }


def test_what_was_reached(run, facts, tmp_path):
    ev.Graph.from_edges([0, 1], [1, 2], [3, 4], num_vertices=5000).save(tmp_path / "g.evg")
    for name in ("bfs", "sssp", "sswp", "examples/widest_path.py:Widest"):
        words = [name, tmp_path / "g.evg", "--source", "0", "--device", "python"]
        assert facts(*words)["reached"] == 3
        assert "reached     3 of 5,000 vertices\n" in run("run", *words)[1]
    words = ["bfs", tmp_path / "g.evg", "--source", "0", "--target", "1", "--device", "python"]
    assert (
        "reached     2 of 5,000 vertices, before it stopped at the target\n"
        in run("run", *words)[1]
    )
    words = ["cc", tmp_path / "g.evg", "--device", "python"]
    assert facts(*words)["reached"] is None
    assert "\nreached" not in run("run", *words)[1]


def test_the_path_to_a_target(run, facts, towns, tmp_path):
    for name, length in (("bfs", 2), ("sssp", 6)):
        words = [name, towns, "--source", "Bonn", "--target", "Trier", "--device", "python"]
        report = facts(*words)
        assert report["path"] == ["Bonn", "Ulm, Donau", "Trier"]
        assert report["path_length"] == length
        told = "2 hops" if name == "bfs" else "2 hops, length 6"
        line = f"path        Bonn → Ulm, Donau → Trier ({told})\n"
        assert line in run("run", *words)[1]
    ev.Graph.from_edges([0], [1]).save(tmp_path / "arc.evg")
    words = ["bfs", tmp_path / "arc.evg", "--source", "1", "--target", "0", "--device", "python"]
    assert facts(*words)["path"] is None
    assert "path        none: the target was not reached\n" in run("run", *words)[1]
    assert "path" not in facts("bfs", towns, "--source", "Bonn", "--device", "python")


def test_top_is_of_what_was_reached(facts, tmp_path):
    graph = ev.Graph.from_edges([0, 1], [1, 2], [3, 4], num_vertices=50)
    graph.save(tmp_path / "g.evg")
    top = facts("sssp", tmp_path / "g.evg", "--source", "0", "--device", "python")["top"]
    assert [row["distance"] for row in top] == [7, 3, 0]


def test_teps_counts_the_arcs_of_what_was_reached(facts, tmp_path):
    graph = ev.Graph.from_edges([0, 1, 5, 6], [1, 2, 6, 7], [3, 4, 5, 6])
    graph.save(tmp_path / "g.evg")
    for name in ("bfs", "sssp", "sswp"):
        report = facts(name, tmp_path / "g.evg", "--source", "0", "--device", "python")
        assert report["edges_traversed"] == 2
    report = facts("pagerank", tmp_path / "g.evg", "--device", "python")
    assert report["edges_traversed"] == 4 * report["supersteps"]


def test_edges_are_counted_alike_in_and_out_of_loops(facts):
    for words in (["cc"], ["sssp", "--source", "3"], ["pagerank"]):
        counts = {facts(*words, RMAT, "--device", d)["edges"] for d in ("python", "cpu:1")}
        assert len(counts) == 1


def test_top_of_components_is_the_largest(facts, tmp_path):
    graph = ev.Graph.from_edges([5, 6, 1], [6, 7, 2], labels=list("abcdefgh"))
    graph.save(tmp_path / "g.evg")
    report = facts("cc", tmp_path / "g.evg", "--top", "2", "--device", "python")
    assert report["top"] == [
        {"component": "f", "vertices": 3},
        {"component": "b", "vertices": 2},
    ]
    assert report["count"] == 5


def test_no_top(run):
    out = run("run", "bfs", RMAT, "--source", "0", "--top", "0", "--device", "python")[1]
    assert "\n\n" not in out


def test_empty_graph(run):
    for device in ("python", "cpu"):
        code, out, err = run("run", "pagerank", "path:num_vertices=0", "--device", device)
        assert (code, err) == (0, "")
        assert "0 vertices" in out


def test_the_run_beside_a_set_does_not_warn_again(run, tmp_path):
    words = ["run", "pagerank", RMAT, "--max-iterations", "2", "--device", "python+python"]
    code, _, err = run(*words, "--trace", tmp_path / "t.json")
    assert code == 0
    assert err.count("did not converge") == err.count("\n") == 1


def test_not_converged_is_a_warning(run):
    words = ["run", "pagerank", RMAT, "--max-iterations", "1", "--device", "python"]
    code, out, err = run(*words)
    assert code == 0
    assert err.startswith("evener: warning: pagerank did not converge")
    assert err.count("\n") == 1
    assert "converged   no" in out


@pytest.mark.parametrize("device", ["python", "python+python"])
def test_long_runs_show_progress(device):
    program = f"""
        from evener import progress
        from evener.cli import main
        progress._SHOW_AFTER_SECONDS = 0.05
        main(["run", "pagerank", "rmat:scale=11,seed=1", "--device", "{device}", "--json"])
    """
    code, out, err = run_on_terminal(program)
    assert code == 0
    assert json.loads(out)["device"] == device
    assert "running" in err
    assert re.search(r"superstep \d+, 2,048 in the frontier", err)


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
    words[words.index("python")] = "cpu:1+cpu:1"
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
        (["bfs", RMAT, "--source", "0", "--device", "python+cuda"], "python goes together with"),
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
    schedules = {name for name in SCHEDULES if ":" not in name}
    assert {*policies.NAMES, *schedules, *PARTITIONERS, *DIRECTIONS} <= words
    assert f"W = {', '.join(map(str, WIDTHS[:-1]))} or {WIDTHS[-1]}" in " ".join(out.split())


# ---- warm -----------------------------------------------------------------------------------


def test_warm_compiles_loading_of_names_gaps_and_parallel_rows(monkeypatch, tmp_path):
    read = []
    monkeypatch.setattr(
        warm, "load", lambda path, **how: read.append((path, how)) or load(path, **how)
    )
    warm._warm_loading([], tmp_path)
    kinds = {g._labels.kind for g in warm._labelled()}
    assert kinds == {"objects", "integers"}
    assert {how.get("verify") for path, how in read if path.suffix == ".evg"} == {True}


# A program that does not read weights has one kernel, others one for each dtype; a search that is
# bounded is another program.
WARMED = [("neural", 3, 12), pytest.param("bfs", 2, 24, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("name", "kernels", "calls"), WARMED)
def test_warm_then_nothing_is_compiled(tmp_path, name, kernels, calls):
    environment = {**os.environ, "EVENER_CACHE": str(tmp_path)}

    def warm():
        command = [sys.executable, "-m", "evener", "warm", name, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        report = json.loads(done.stdout)
        assert report["cache"] == str(tmp_path)
        return {row["algorithm"]: (row["compiled"], row["found"]) for row in report["warmed"]}

    assert warm() == {name: (kernels, calls - kernels)}
    assert warm() == {name: (0, calls)}


def test_warm_counts_kernels_of_gpus_and_what_finds_parents(tmp_path):
    asked = []

    def call(graph, device):
        (tmp_path / f"kernel-{graph.directed}.cubin").touch()  # of two kinds

        def parent():
            asked.append(graph)
            kind = None if graph.weights is None else graph.weights.dtype
            (tmp_path / f"adopt-{kind}.bin").touch()  # of four
            return np.zeros(graph.num_vertices)

        return Result("SSSP", graph, {"parent": parent}, stats={"compile_seconds": 1.0})

    graphs = example_graphs()
    target = Target("sssp", "", [], call)
    warmed = _warm(target, "cuda", graphs, tmp_path)
    assert (warmed.compiled, warmed.found) == (5, 3)
    assert warmed.seconds >= len(asked) == len(graphs)
    warmed = _warm(target, "cuda", graphs, tmp_path)
    assert (warmed.compiled, warmed.found) == (0, 8)


def test_warm_for_people(run):
    code, out, err = run("warm", "bfs", "--device", "cpu:1")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split("  ")[0] == "algorithm"
    assert out.splitlines()[1].split()[:2] == ["bfs", "cpu:1"]
    assert str(cache_folder()) in out


def test_warm_knows_every_kind_of_graph():
    kinds = {
        (g.directed, None if g.weights is None else str(g.weights.dtype)) for g in example_graphs()
    }
    assert len(kinds) == 8
    assert {str(g.indices.dtype) for g in example_graphs()} == {"int32"}


def test_warm_of_bad_input(run, tmp_path, monkeypatch):
    assert_one_error(run("warm", "bsf"), "no algorithm 'bsf'")
    assert_one_error(run("warm", "--device", "tpu"), "no device 'tpu'")
    assert_one_error(run("warm", "--device", "python"), "nothing to compile")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path / "file"))
    assert_one_error(run("warm", "bfs"), "EVENER_CACHE")
