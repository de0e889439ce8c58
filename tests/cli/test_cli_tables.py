"""Tables and pipes on the command line: the same options on every command that reads a graph."""

import io
import json
import subprocess
import sys

import pytest

import evener as ev

ROUTES = "airline,leaves,reaches,km\nLX,ZRH,SFO,9400\nLH,FRA,ZRH,300\nLX,FRA,ZRH,310\n"
COLUMNS = ("--src", "leaves", "--dst", "reaches", "--weight", "km")


@pytest.fixture
def routes(tmp_path):
    file = tmp_path / "routes.csv"
    file.write_text(ROUTES)
    return file


def test_every_command_that_reads_a_graph_takes_columns(run, routes, tmp_path):
    options = (routes, *COLUMNS, "--duplicates", "min", "--header")
    code, out, err = run("info", *options, "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert (facts["num_edges"], facts["weights"]["min"], facts["format"]) == (2, 300, "csv")
    code, out, err = run("run", "sssp", *options, "--source", "FRA", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["top"][0]["distance"] == 9700
    code, out, err = run("convert", options[0], tmp_path / "routes.evg", *options[1:])
    assert (code, err) == (0, "")
    assert ev.load(tmp_path / "routes.evg").weights.tolist() == [300, 9400]
    code, out, err = run("plan", *options, "--device", "cpu:1", "--json")
    assert (code, err) == (0, "")


def test_options_are_refused_in_a_line(run, routes, tmp_path):
    ev.generate.path(3).save(tmp_path / "g.mtx")
    for words, message in [
        ((routes,), "cannot tell which of its columns are the ends: airline, leaves, reaches, km"),
        ((routes, "--src", "from", "--dst", "to"), "src is 'from', but"),
        ((routes, *COLUMNS, "--no-header"), "has no header"),
        ((routes, *COLUMNS, "--duplicates", "last"), "duplicates is 'last'"),
        ((tmp_path / "g.mtx", "--src", "0"), "not a table with columns"),
        (("path:num_vertices=3", "--duplicates", "first"), "is a generator"),
        ((routes, *COLUMNS, "--max-bytes", "much"), "'much' is not an amount of memory"),
    ]:
        code, out, err = run("info", *words)
        assert (code, out, err.count("\n")) == (2, "", 1), words
        assert message in err, words


def test_limits_are_raised_by_an_option(run, tmp_path):
    (tmp_path / "g.gr").write_text("p sp 40000000 0\n")
    code, _, err = run("info", tmp_path / "g.gr")
    assert (code, err.count("\n")) == (2, 1)
    assert "allow more by max_bytes= (--max-bytes)." in err
    assert run("info", tmp_path / "g.gr", "--max-bytes", "1GiB")[0] == 0


def test_notes_are_lines_on_standard_error(run, tmp_path):
    (tmp_path / "g.txt").write_text("a b friend\nb c foe\n")
    code, out, err = run("info", tmp_path / "g.txt")
    assert code == 0
    assert "arcs        2" in out
    assert err.startswith("evener: note: ")
    assert err.endswith(": column 2 holds text ('friend') and was ignored.\n")
    assert err.count("\n") == 1


def test_standard_input_and_output(run, monkeypatch):
    class Input:
        buffer = io.BytesIO(ROUTES.encode())

    monkeypatch.setattr(sys, "stdin", Input)
    code, out, err = run("info", "-", *COLUMNS, "--json")
    assert (code, json.loads(out)["num_edges"], err) == (0, 3, "")
    for words, message in [
        (("generate", "path", "-", "--num-vertices", "3"), "standard output has no suffix"),
        (("generate", "path", "-", "--num-vertices", "3", "--to", "evg"), "is several files"),
        (("convert", "path:num_vertices=3", "-", "--to", "el", "--json"), "would both go to standard"),
        (("run", "cc", "path:num_vertices=3", "-o", "-", "--json"), "would both write to standard"),
    ]:  # fmt: skip
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), words
        assert message in err, words


def test_pipelines():
    """Graphs and results through real pipes; a reader that goes away is no error."""

    def pipe(*commands):
        script = " | ".join(f"{sys.executable} -m evener {command}" for command in commands)
        run = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        return run.returncode, run.stdout, run.stderr

    code, out, err = pipe("generate path - --num-vertices 4 --to mtx", "run bfs - --source 1 -o -")
    assert (code, out.splitlines()[:2]) == (0, ["vertex,depth,parent", "0,1,1"])
    assert "standard output: 4 vertices" in err
    assert "algorithm   bfs" in err
    code, out, err = pipe("convert rmat:scale=12 - --to csv | head -1")
    assert out.splitlines() == ["src,dst"]
    assert "error" not in err
