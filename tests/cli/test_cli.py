"""The command line: what it prints, its exit codes, and what it leaves behind."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import evener as ev
from commands import assert_one_error
from evener.device import cuda, probe
from evener.device.probe import DeviceInfo
from evener.graph import generate

COMMANDS = (
    "run", "info", "convert", "generate", "devices", "plan", "show", "warm", "cache", "bench"
)  # fmt: skip


@pytest.fixture
def edge_list(tmp_path):
    file = tmp_path / "tiny.txt"
    file.write_text("# from to\n10 20\n20 20\n20 30\n")
    return file


# ---- help, versions, usage ------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [(), *((c,) for c in COMMANDS), *(("generate", kind) for kind in generate.KINDS)],
    ids=" ".join,
)
def test_help_has_an_example(run, words):
    code, out, err = run(*words, "--help")
    assert code == 0
    assert err == ""
    assert "example:\n  " in out
    assert " ".join(("evener", *words)) in out


def test_help_lists_the_commands_there_are(run):
    out = run("--help")[1]
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("    ")]
    assert listed == list(COMMANDS)


@pytest.mark.parametrize("kind", generate.KINDS)
def test_help_examples_of_kinds_run(run, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("evener.graph.generate.from_spec", lambda text: specs.append(text))
    monkeypatch.setattr("evener.cli.generate.write_graph", lambda *_: None)
    specs: list[str] = []
    example = run("generate", kind, "--help")[1].partition("example:\n")[2].split()
    assert run(*example[1:])[0] == 0
    assert specs[0].startswith(f"{kind}:")


def test_help_of_a_kind_has_options_and_defaults(run):
    out = " ".join(run("generate", "rmat", "--help")[1].split())
    assert "--scale N the graph has 2**scale vertices (required)" in out
    assert "--edge-factor N edges drawn per vertex (default: 16)" in out
    assert "--directed, --no-directed" in out
    assert "(default: no)" in out


def test_version(run):
    assert run("--version") == (0, f"evener {ev.__version__}\n", "")


@pytest.mark.parametrize("module", ["evener", "evener.cli"])
def test_as_a_module(module):
    entry = ["-m", module] if module == "evener" else ["-c", "import evener.cli as c; c.main()"]
    done = subprocess.run(
        [sys.executable, *entry, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"evener {ev.__version__}\n"


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from evener.cli import main; main(['--help']); main(['generate', '--help']);"
        "print([m for m in ('numba', 'polars', 'scipy', 'rich', 'cupy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "say"),
    [
        ((), "COMMAND"),
        (("fly", "bfs", "x.evg"), "'fly'"),
        (("info",), "GRAPH"),
        (("info", "a", "b"), "b"),
        (("info", "x.mtx", "--directed", "--undirected"), "not allowed with"),
        (("info", "x.mtx", "--chek"), "--chek"),
        (("convert", "x.mtx"), "OUT"),
        (("generate",), "KIND"),
        (("generate", "torus", "x.evg"), "'torus'"),
        (("generate", "rmat", "x.evg"), "--scale"),
        (("generate", "rmat", "x.evg", "--scale"), "--scale"),
        (("generate", "rmat", "x.evg", "--scale", "4", "--rows", "3"), "--rows"),
        (("generate", "rmat", "x.evg", "--scale", "4,seed=3"), "not one number"),
        (("devices", "--wide"), "--wide"),
        (("bench", "--trials", "many"), "--trials"),
    ],
)
def test_usage_errors(run, words, say):
    assert_one_error(run(*words), say, "--help")


@pytest.mark.parametrize(
    ("words", "say"),
    [
        (("rum", "bfs", "x.evg"), "no command 'rum' (did you mean 'run'?)"),
        (("run", "bsf", "x.evg"), "no algorithm 'bsf' (did you mean 'bfs'?)"),
        (("run", "components", "x.evg"), "did you mean 'connected_components'?"),
        (("run", "bfs", "x.evg", "--sorce", "3"), "--sorce (did you mean --source?)"),
        (("run", "bfs", "x.evg", "-source=3"), "-source (did you mean --source?)"),
        (("run", "bfs", "x.evg", "--source", "-3", "--tpo", "1"), "--tpo (did you mean --top?)"),
        (("run", "bfs", "x.evg", "--source", "3", "--device", "cuad"), "did you mean 'cuda'?"),
        (("run", "bfs", "x.evg", "--source", "3", "--device", "cpu+gpu"), "did you mean 'cuda'?"),
        (("info", "x.mtx", "--chek"), "--chek (did you mean --check?); see evener info --help."),
        (("info", "pth:num_vertices=3"), "no generator 'pth' (did you mean 'path'?)"),
        (("info", "path:num_vertces=3"), "'num_vertces' (did you mean 'num_vertices'?)"),
        (("generate", "rmta", "x.evg"), "no kind 'rmta' (did you mean 'rmat'?)"),
        (("generate", "rmat", "x.evg", "--scal", "3"), "--scal (did you mean --scale?)"),
        (("bench", "--algorithms", "bsf"), "no benchmark 'bsf' (did you mean 'bfs'?)"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(run, words, say):
    assert_one_error(run(*words), say)


# ---- info -----------------------------------------------------------------------------------


def test_info_json(run, edge_list):
    code, out, err = run("info", edge_list, "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert facts.pop("seconds") >= 0
    assert facts == {
        "path": str(edge_list),
        "format": "edgelist",
        "num_vertices": 3,
        "num_edges": 3,
        "directed": True,
        "weights": None,
        "labels": {"kind": "integers", "first": 10, "last": 30},
        "degrees": {"min": 0, "mean": 1.0, "max": 2},
        "self_loops": 1,
        "nbytes": ev.load(edge_list).nbytes,
        "checked": False,
    }


def test_info_for_people(run, edge_list):
    code, out, err = run("info", edge_list, "--check", "--undirected")
    assert (code, err) == (0, "")
    fields = dict(line.split("  ", 1) for line in out.splitlines())
    fields = {name: value.strip() for name, value in fields.items()}
    assert fields["vertices"] == "3"
    assert fields["arcs"] == "5"
    assert fields["directed"].startswith("no")
    assert fields["weights"] == "none"
    assert fields["labels"].startswith("10 to 30")
    assert fields["degrees"] == "1 to 3, mean 1.67"
    assert fields["self-loops"] == "1"
    assert fields["checked"].startswith("yes")


def test_info_of_a_generator(run):
    code, out, _ = run("info", "rmat:scale=6,seed=1,weights=1-255", "--json", "--check")
    facts = json.loads(out)
    assert code == 0
    assert facts["format"] == "generator"
    assert facts["num_vertices"] == 64
    assert facts["weights"]["dtype"] == "int32"
    assert 1 <= facts["weights"]["min"] <= facts["weights"]["max"] <= 255
    assert facts["checked"] is True


@pytest.mark.parametrize("option", [("--directed",), ("--format", "mtx")])
def test_a_generator_takes_no_options_of_files(run, option):
    assert_one_error(run("info", "rmat:scale=6", *option), "is a generator")


def test_a_file_named_like_a_generator_is_a_file(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "path:num_vertices=9").write_text("0 1\n")
    facts = json.loads(run("info", "path:num_vertices=9", "--json")[1])
    assert (facts["num_vertices"], facts["format"]) == (2, "edgelist")


@pytest.mark.parametrize(
    ("spec", "say"),
    [
        ("torus:n=3", "no generator 'torus'"),
        ("rmat", "needs scale"),
        ("rmat:scale=ten", "'ten'"),
        ("rmat:scale=70", "70"),
        ("rmat:scale=6,sed=1", "'sed'"),
        ("rmat:scale=40", "memory"),
    ],
)
def test_bad_generators(run, spec, say):
    assert_one_error(run("info", spec), say)


def test_info_of_an_empty_graph(run):
    code, out, _ = run("info", "path:num_vertices=0", "--check")
    assert code == 0
    assert "degrees     0 to 0" in out
    assert "labels      none" in out


def test_info_json_has_no_infinities(run, tmp_path):
    ev.Graph.from_edges([0, 1], [1, 0], [1.5, np.inf]).save(tmp_path / "far.evg")
    assert json.loads(run("info", tmp_path / "far.evg", "--json")[1])["weights"]["max"] == "inf"


def test_names_that_json_cannot_hold(run, tmp_path):
    g = ev.Graph.from_edges([0], [1], labels=["Zürich", "Köln"])
    g.save(tmp_path / "cities.evg")
    facts = json.loads(run("info", tmp_path / "cities.evg", "--json")[1])
    assert facts["labels"] == {"kind": "objects", "first": "Zürich", "last": "Köln"}


@pytest.mark.parametrize("as_json", [True, False])
def test_graphalytics_without_direction_is_read_as_listed(run, tmp_path, as_json):
    (tmp_path / "g.v").write_text("1\n2\n3\n")
    (tmp_path / "g.e").write_text("1 2\n2 3\n")
    code, out, _ = run("info", tmp_path / "g.e", *["--json"] * as_json)
    assert code == 0
    assert "does not say whether" in out
    if as_json:
        facts = json.loads(out)
        assert (facts["directed"], facts["num_edges"]) == (True, 2)
    code, out, _ = run("info", tmp_path / "g.e", "--undirected", "--json")
    assert json.loads(out)["num_edges"] == 4
    assert "note" not in json.loads(out)
    assert_one_error(run("convert", tmp_path / "g.e", tmp_path / "g.mtx"), "--undirected")


def test_missing_and_bad_files(run, tmp_path):
    assert_one_error(run("info", tmp_path / "missing.mtx"), "missing.mtx", "does not exist")
    bad = tmp_path / "bad.mtx"
    bad.write_text("this is no matrix\n")
    assert_one_error(run("info", bad), "bad.mtx")
    assert_one_error(run("info", bad, "--format", "mtz"), "mtz")
    assert_one_error(run("info", tmp_path), "folder")
    words = tmp_path / "words.txt"
    words.write_bytes(b"\xff\xfe zwei\n\x00\n")
    assert_one_error(run("info", words), "words.txt")


def test_check_finds_a_changed_array(run, tmp_path):
    folder = tmp_path / "path.evg"
    ev.generate.path(100).save(folder)
    (array,) = folder.glob("indices*")
    content = bytearray(array.read_bytes())
    content[40] ^= 1
    array.write_bytes(content)
    assert_one_error(run("info", folder), "checksum")
    assert_one_error(run("run", "bfs", folder, "--source", "0"), "checksum")
    assert run("info", folder, "--trusted")[0] == 0
    assert_one_error(run("info", folder, "--trusted", "--check"), "trusted skips the check")


def test_row_starts_are_always_checked(run, tmp_path):
    folder = tmp_path / "path.evg"
    ev.generate.path(100).save(folder)
    (array,) = folder.glob("indptr*")
    indptr = np.fromfile(array, np.int32)
    indptr[50] = 1 << 30
    indptr.tofile(array)
    assert_one_error(run("info", folder, "--trusted"), "row starts")


# ---- convert and generate -------------------------------------------------------------------


def test_convert(run, edge_list, tmp_path):
    target = tmp_path / "tiny.evg"
    code, out, err = run("convert", edge_list, target)
    assert (code, err) == (0, "")
    assert out.startswith(f"{target}: 3 vertices, 3 arcs, directed; loaded in ")
    assert ev.load(target).labels.tolist() == [10, 20, 30]


def test_convert_json_and_formats(run, edge_list, tmp_path):
    source = edge_list.rename(tmp_path / "tiny.data")
    target = tmp_path / "tiny.out"
    code, out, _ = run(
        "convert", source, target, "--from", "el", "--to", "mtx", "--undirected", "--json"
    )
    assert code == 0
    report = json.loads(out)
    assert (report["num_edges"], report["directed"]) == (5, False)
    assert report["loaded_seconds"] >= 0
    assert report["saved_seconds"] >= 0
    assert not ev.load(target, format="mtx").directed


def test_convert_a_generator(run, tmp_path):
    assert run("convert", "grid:rows=3,columns=4", tmp_path / "grid.graph")[0] == 0
    assert ev.load(tmp_path / "grid.graph").num_vertices == 12


def test_generate_is_the_generator(run, tmp_path):
    target = tmp_path / "kron.evg"
    code, out, err = run(
        "generate", "rmat", target, "--scale", "7", "--edge-factor", "4", "--seed", "-1",
        "--weights", "1-255", "--directed", "--no-permute",
    )  # fmt: skip
    assert (code, err) == (0, "")
    made = ev.load(target)
    assert f"{made.num_edges:,} arcs, directed; generated in " in out
    wanted = ev.generate.rmat(7, 4, seed=-1, weights=(1, 255), directed=True, permute=False)
    assert made.directed
    assert np.array_equal(made.indptr, wanted.indptr)
    assert np.array_equal(made.indices, wanted.indices)
    assert np.array_equal(made.weights, wanted.weights)


def test_generate_json(run, tmp_path):
    code, out, _ = run("generate", "star", tmp_path / "s.el", "--num-vertices", "5", "--json")
    assert code == 0
    assert json.loads(out)["num_edges"] == 8


@pytest.mark.parametrize(
    ("words", "say"),
    [
        (("--scale", "ten"), "'ten'"),
        (("--scale", "70"), "70"),
        (("--scale", "-3"), "-3"),
        (("--scale", "2.5"), "2.5"),
        (("--scale", "4", "--seed", "x"), "seed"),
        (("--scale", "4", "--weights", "9-1"), "weights"),
        (("--scale", "4", "--weights", "heavy"), "'heavy'"),
        (("--scale", "4", "--a", "7"), ""),
        (("--scale", "40"), "memory"),
    ],
)
def test_bad_numbers(run, tmp_path, words, say):
    assert_one_error(run("generate", "rmat", tmp_path / "x.evg", *words), say)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["nowhere/x.evg", "file/x.mtx", "x", "x.docx", "folder"])
def test_bad_targets_are_refused_before_any_work(run, tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    # Too large a graph for this test, but it is never begun.
    assert_one_error(run("generate", "rmat", target, "--scale", "28"), target)
    assert_one_error(run("convert", "rmat:scale=28", target), target)
    assert sorted(tmp_path.rglob("*")) == before


def test_read_only_folder(run, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert_one_error(run("convert", "path:num_vertices=3", tmp_path / "x.mtx"), "read-only")


def test_a_failed_convert_keeps_what_was_there(run, tmp_path):
    target = tmp_path / "old.mtx"
    ev.generate.path(3).save(target)
    before = target.read_bytes()
    bad = tmp_path / "bad.el"
    bad.write_text("0 1\n1 x\n")
    assert_one_error(run("convert", bad, target), "bad.el", "line 2")
    assert target.read_bytes() == before


# ---- devices --------------------------------------------------------------------------------


def test_devices(run, monkeypatch):
    monkeypatch.setenv("EVENER_THREADS", "3")
    code, out, err = run("devices")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert [rows[1][0], rows[2][0]] == ["python", "cpu"]
    assert rows[2][1] == "3"
    assert "rograms run on the CPU" in out


def a_gpu(ordinal, available=True):
    return DeviceInfo(f"cuda:{ordinal}", "cuda", "a GPU", 9, 1 << 30, available, "runs programs")


@pytest.mark.parametrize(
    ("gpus", "missing", "notes"),
    [
        ([], None, ["No CUDA GPU: a test.", "Programs run on the CPU."]),
        (
            [a_gpu(0)],
            None,
            ["Programs run on the CPU, on the GPU and on both: cpu, cuda:0, cpu+cuda:0."],
        ),
        (
            [a_gpu(0), a_gpu(1)],
            None,
            [
                "Programs run on the CPU, on one GPU or several, and on all together: "
                "cpu, cuda:0, cuda:0+cuda:1, cpu+cuda:0+cuda:1."
            ],
        ),
        (
            [a_gpu(0)],
            "CuPy is not installed.",
            ["No GPU is used: CuPy is not installed.", "Programs run on the CPU."],
        ),
        ([a_gpu(0, False)], None, ["No GPU responds.", "Programs run on the CPU."]),
    ],
    ids=["none", "one", "two", "no packages", "broken"],
)
def test_devices_says_where_programs_run(run, monkeypatch, gpus, missing, notes):
    cpu = [one for one in probe.list_devices() if one.kind != "cuda"]
    monkeypatch.setattr(probe, "list_devices", lambda: [*cpu, *gpus])
    monkeypatch.setattr(probe, "why_no_cuda", lambda: "No CUDA GPU: a test.")
    monkeypatch.setattr(cuda, "why_not", lambda: missing)
    assert json.loads(run("devices", "--json")[1])["notes"] == notes
    assert run("devices")[1].splitlines()[-len(notes) :] == notes


def test_devices_json(run):
    code, out, _ = run("devices", "--json")
    assert code == 0
    report = json.loads(out)
    cpu = report["devices"][1]
    assert cpu["kind"] == "cpu"
    assert cpu["memory_bytes"] > 0
    assert report["notes"]


def test_bad_threads_variable(run, monkeypatch):
    monkeypatch.setenv("EVENER_THREADS", "0")
    assert_one_error(run("devices"), "EVENER_THREADS")


def test_show_versions(capsys):
    ev.show_versions()
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["evener"] == ev.__version__
    assert lines["numpy"] == np.__version__
    assert {"python", "platform", "cores", "memory", "numba-cuda", "cupy"} <= lines.keys()
