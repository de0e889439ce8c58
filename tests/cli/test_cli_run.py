"""``evener run`` and ``evener warm``: every option, every algorithm, and what bad input gets."""

import inspect
import json
import re

import numpy as np
import polars
import pytest

import evener as ev
from commands import assert_one_error
from evener import algorithms
from evener.cli.generate import read_docstring
from evener.cli.options import options_of_function, read_labels
from processes import run_on_terminal
from tables import slow_but

RMAT = "rmat:scale=6,seed=1,weights=1-9"


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
    def walk(graph, source: "SomeLabels", *, steps: int = 3, deferred: bool = False, device="auto"):  # noqa: F821
        """Walk about.

        Parameters
        ----------
        steps
            How far.
        """

    source, steps, deferred = options_of_function(walk)
    assert (source.flag, source.required, source.kinds) == ("--source", True, {"SomeLabels"})
    assert (steps.default, steps.text) == (3, "how far")
    assert deferred.kinds == {"bool"}


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
    assert "million per second" in fields["edges"]
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
        "reached     2 of 5,000 vertices before it stopped at the target\n" in run("run", *words)[1]
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


def test_a_docstring_without_parameters():
    """That of a function just written, which the command must already run."""

    def reach():
        """The vertices that can be reached."""

    def bare():
        pass

    assert read_docstring(reach) == ("The vertices that can be reached.", {})
    assert read_docstring(bare) == ("", {})
