"""The benchmark on tiny graphs: files, parsing, statistics, agreement, reports; never times."""

import importlib.util
import json
import stat
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import evener as ev
from evener.algorithms.betweenness import verify as verify_betweenness
from evener.bench import brandes, cases, contenders, findings, gapbs, harness, matrix, peers, report
from evener.cli import main
from evener.errors import EvenerError, GraphError
from places import ROOT


@pytest.fixture
def bench(capsys):
    """Run ``evener bench`` and return exit code, standard output and error."""

    def call(*words):
        code = main(["bench", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# ---- statistics and files of results --------------------------------------------------------


def test_summary():
    found = harness.summary([5.0, 1.0, 2.0, 4.0, 3.0])
    assert found == {"median_s": 3, "min_s": 1, "q1_s": 2, "q3_s": 4, "max_s": 5}
    assert harness.summary([2.0])["q1_s"] == harness.summary([2.0])["q3_s"] == 2.0
    with pytest.raises(EvenerError, match="no times"):
        harness.summary([])


def test_turns_are_taken():
    order = []
    harness.interleaved({name: lambda name=name: order.append(name) for name in "ab"}, 2)
    assert "".join(order) == "ababab"


def test_scripts():
    assert (
        harness.run_script("import os, json; print(json.dumps(os.environ['A']))", {"A": "b"}) == "b"
    )
    with pytest.raises(EvenerError, match="ZeroDivisionError"):
        harness.run_script("1 / 0")


def test_results_are_written_whole(tmp_path):
    path = tmp_path / "results.json"
    harness.write_results(path, harness.preamble("some", 3))
    found = json.loads(path.read_text())
    assert found["seed"] == 3
    assert found["machine"]["cores"] >= 1
    assert found["versions"]["numpy"] == np.__version__
    with pytest.raises(TypeError):
        harness.write_results(path, {"a": object()})
    assert list(tmp_path.iterdir()) == [path]
    assert json.loads(path.read_text()) == found


def test_lines_of_tables(capsys):
    good = harness.ratio_case("fast", [1.0, 1.0], [2.0], 0.6, "other")
    bad = harness.limit_case("large", 3.0, 2.0, "3 ×")
    assert good["holds"]
    assert good["ratio"] == 0.5
    assert not bad["holds"]
    harness.print_cases([good, bad])
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith("ok")
    assert out[1].endswith("MISSED")


# ---- cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("kron14", "rmat:scale=14,edge_factor=16,seed=5"),
        ("uniform8x4", "uniform:scale=8,edge_factor=4,seed=5"),
        ("grid30x20", "grid:rows=30,columns=20,removed=0.05,seed=5"),
        ("rmat:scale=4", "rmat:scale=4,seed=5"),
        ("rmat:seed=2,scale=4", "rmat:seed=2,scale=4"),
        ("roads.gr", "roads.gr"),
    ],
)
def test_names_of_graphs(name, spec):
    assert cases.spec_of(name, 5) == spec


def test_graphs_have_whole_weights_and_no_labels(tmp_path):
    path = tmp_path / "named.csv"
    path.write_text("src,dst\nx,y\ny,z\n")
    graph = cases.make_graph(str(path), 1)
    assert graph.labels.tolist() == [0, 1, 2]
    assert graph.weights.dtype == np.int32
    assert graph.weights.min() >= 1
    given = ev.Graph.from_edges([7, 8], [8, 9], [0.5, 2.5])
    given.save(tmp_path / "given.evg")
    assert cases.make_graph(str(tmp_path / "given.evg"), 1).weights.tolist() == [0.5, 2.5]


def test_sources_are_repeatable_and_in_the_largest_component():
    graph = cases.make_graph("kron8x2", 3)
    sources = cases.choose_sources(graph, 6, 3)
    assert sources == cases.choose_sources(graph, 6, 3)
    assert sources[:2] == cases.choose_sources(graph, 2, 3)
    assert len(set(sources)) == 6
    component = ev.connected_components(graph, device="python").component
    assert len({component[source] for source in sources}) == 1
    assert all(graph.degrees[source] > 0 for source in sources)
    arcs = cases.reached_arcs(graph, sources[:1])[sources[0]]
    assert arcs == graph.degrees[component == component[sources[0]]].sum()


# ---- answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["kron6", "grid7", "uniform6x2", "rmat:scale=6,directed=true"])
def test_fast_check_of_betweenness_is_the_exact_one(spec):
    graph = cases.make_graph(spec, 2)
    sources = cases.choose_sources(graph, 4, 2)
    result = ev.betweenness(graph, sources=sources, device="python")
    verify_betweenness(graph, result, sources=sources)
    brandes.check_betweenness(graph, result, sources)
    result.score[np.argmax(result.score)] *= 1.001
    with pytest.raises(AssertionError, match="Brandes"):
        brandes.check_betweenness(graph, result, sources)


def test_check_of_betweenness_counts_beyond_floats():
    grid = ev.generate.grid(530)  # from corner to corner there are more than 2^1050
    sources = [0, 5]
    brandes.check_betweenness(grid, ev.betweenness(grid, sources=sources, device="cpu"), sources)


@pytest.mark.parametrize("name", cases.ALGORITHMS)
def test_a_wrong_answer_stops_the_benchmark(name, monkeypatch):
    graph = cases.make_graph("kron6", 1)
    algorithm = cases.ALGORITHMS[name]
    sources = cases.choose_sources(graph, max(1, algorithm.sources), 1)

    def spoiled(*arguments):
        result = algorithm.run(*arguments)
        first = next(iter(result._fields))
        array = result._fields[first]
        result._fields[first] = np.where(np.arange(len(array)) == sources[0], 3, array)
        return result

    trial = contenders.Evener(graph, "python").prepare(algorithm._replace(run=spoiled))
    with pytest.raises(contenders.WrongAnswerError, match=f"{name} on python"):
        trial(sources)


def test_findings():
    assert findings.depths([0, 3, np.inf, 1.7e308, -1]) == {"reached": 2, "sum": 3}
    assert findings.agree({"reached": 3, "sum": 9.0}, {"reached": 3, "sum": 9.1}) is False
    assert findings.agree(findings.near_top([1.0, 9.0, 5.0], [1]), {"top": 2})
    assert findings.agree(findings.near_top([1.0, 9.0, 5.0]), {"top": 2}) is False


@pytest.mark.parametrize("adapter", peers.PEERS, ids=lambda adapter: adapter.name)
@pytest.mark.parametrize("spec", ["kron7", "grid9", "rmat:scale=7,directed=true"])
def test_peers_agree(adapter, spec):
    pytest.importorskip(adapter.package)
    graph = cases.make_graph(spec, 1)
    sources = cases.choose_sources(graph, 4, 1)
    pair = [contenders.Evener(graph, "python"), peers.Peer(adapter, graph, 2)]
    for algorithm in cases.ALGORITHMS.values():
        group = sources[: algorithm.sources]
        if not hasattr(adapter, algorithm.name):
            continue
        cells, skipped = matrix.measure(graph, algorithm, pair, [group], 1)
        assert skipped == []
        assert cells[1]["agrees"] in ((True, None) if algorithm.name == "bc" else (True,))
        assert "convert_s" in cells[1]


def test_peers_that_cannot_take_part_say_why():
    graph = cases.make_graph("kron6", 1)

    class Small(peers.SciPy):
        name, most_arcs = "Small", 10

    class Broken(peers.SciPy):
        name = "Broken"

        def bfs(self, source):
            return lambda: 1 / 0, findings.depths

    class Missing(peers.SciPy):
        name, package = "Missing", "no_such_package"

    found = [peers.Peer(adapter, graph, 1) for adapter in (Small, Broken, Missing, peers.SciPy)]
    ours = contenders.Evener(graph, "python")
    cells, skipped = matrix.measure(graph, cases.ALGORITHMS["bfs"], [ours, *found], [[1]], 1)
    assert [cell["contender"] for cell in cells] == ["evener python", "SciPy"]
    why = {line["contender"]: line["why"] for line in skipped}
    assert "10 arcs" in why["Small"]
    assert "ZeroDivisionError" in why["Broken"]
    assert why["Missing"] == "no_such_package is not installed"
    skipped = matrix.measure(graph, cases.ALGORITHMS["bc"], [ours, found[3]], [[1, 2]], 1)[1]
    assert skipped[0]["why"] == "SciPy has no such routine"


def test_slow_peers_have_fewer_trials():
    def turn(seconds, budget):
        contender = contenders.Evener(ev.generate.path(2), "python")
        contender.budget_s = budget
        timing = contenders.Timing(seconds, seconds, {})
        return matrix._Turn(contender, lambda _: timing, timing, 4)

    assert turn(1.0, None).trials == 4
    assert turn(3.0, 10.0).trials == 3
    slow = turn(11.0, 10.0)
    assert slow.take(0, []).run_s == 11.0
    assert slow.take(1, []) is None


# ---- GAPBS ----------------------------------------------------------------------------------


def read_serialized(path: Path):
    content = path.read_bytes()
    directed, arcs, vertices = struct.unpack("<?qq", content[:17])
    at, weighted, parts = 17, path.suffix == ".wsg", []
    for _ in range(1 + directed):
        starts = np.frombuffer(content, "<i8", vertices + 1, at)
        at += starts.nbytes
        ends = np.frombuffer(content, "<i4", arcs * (1 + weighted), at)
        at += ends.nbytes
        parts.append((starts, ends.reshape(arcs, -1)))
    assert at == len(content)
    return directed, parts


@pytest.mark.parametrize("suffix", [".sg", ".wsg"])
@pytest.mark.parametrize("directed", [False, True])
def test_serialized_graphs(tmp_path, suffix, directed):
    graph = ev.generate.rmat(6, 4, weights=(1, 255), seed=1, directed=directed)
    path = tmp_path / f"graph{suffix}"
    gapbs.write_serialized(graph, path)
    found, parts = read_serialized(path)
    assert found == directed
    for rows, (starts, ends) in zip([graph, graph.transpose()], parts, strict=False):
        assert starts.tolist() == rows.indptr.tolist()
        assert ends[:, 0].tolist() == rows.indices.tolist()
        if suffix == ".wsg":
            assert ends[:, 1].tolist() == rows.weights.tolist()


def test_weights_that_gapbs_cannot_hold(tmp_path):
    graph = ev.generate.path(3, weights=(0.5, 1.5))
    with pytest.raises(contenders.Skipped, match="32-bit"):
        gapbs.write_serialized(graph, tmp_path / "graph.wsg")


OUTPUT = """\
Read Time:           0.00103
Graph has 64 nodes and 151 undirected edges for degree: 2
Trial Time:          0.00091
Trial Time:          0.00017
"""


def test_outputs_of_gapbs():
    assert gapbs.trial_times(OUTPUT) == [0.00091, 0.00017]
    assert gapbs.findings(OUTPUT + "BFS Tree has 40 nodes and 290 edges\n", ()) == {"reached": 40}
    clusters = "\n2 biggest clusters\n0:60\n7:4\nThere are 3 components\n"
    assert gapbs.findings(OUTPUT + clusters, ()) == {"components": 3}
    assert gapbs.findings(OUTPUT + "12:0.5\n7:0.25\n9:1e-3\n", (12,)) == {"top": 7}
    assert gapbs.findings(OUTPUT, ()) == {}


@pytest.fixture
def build(tmp_path):
    """A folder of programs that answer as GAPBS does, and keep what they were called with."""
    folder = tmp_path / "gapbs"
    folder.mkdir()
    for program in gapbs.PROGRAMS.values():
        script = folder / program
        log = f'echo "$0 $* threads $OMP_NUM_THREADS" >> {folder}/log'
        sources = "".join(f"Source: {v}\\n" for v in (1, 2, 3, 4))
        answer = f"printf '{sources}Trial Time: 0.5\\nTrial Time: 0.25\\n'"
        script.write_text(f"#!/bin/sh\n{log}\n{answer}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder


def test_how_gapbs_is_called(build, bench, tmp_path):
    out = tmp_path / "results.json"
    words = ("--graphs", "grid6", "--trials", "2", "--sources", "2", "--device", "cpu:2")
    code, _, err = bench(*words, "--gapbs", build, "-o", out)
    assert code == 0, err
    calls = [line.split() for line in (build / "log").read_text().splitlines()]
    by_program = {}
    for call in calls:
        assert call[-2:] == ["threads", "2"]
        by_program.setdefault(Path(call[0]).name, []).append(" ".join(call[3:-2]))
    results = json.loads(out.read_text())
    first, second = results["graphs"][0]["sources"]
    assert by_program["bfs"][1:] == [f"-n 2 -r {v} -a" for v in (first, second)]
    assert by_program["sssp"][-1] == f"-n 2 -r {second} -d 4 -a"
    assert set(by_program["pr"]) == {"-i 20 -t 0 -n 1 -a"}
    assert set(by_program["cc"]) == {"-n 2 -a"}
    assert by_program["bc"][0] == "-i 4 -n 1 -l"
    cells = {(cell["algorithm"], cell["contender"]): cell for cell in results["cells"]}
    assert cells["bc", "evener cpu:2"]["sources"] == [[1, 2, 3, 4]]
    assert cells["bfs", "GAPBS"]["run"]["median_s"] == 0.25
    assert cells["sssp", "GAPBS"]["delta"] == 4


def test_gapbs_that_is_not_there_or_fails(build, bench, tmp_path):
    code, _, err = bench("--graphs", "grid6", "--gapbs", tmp_path)
    assert code == 2
    assert "no program 'bfs'" in err
    (build / "bfs").write_text("#!/bin/sh\necho 'Unrecognized suffix' >&2\nexit 3\n")
    code, _, err = bench("--graphs", "grid6", "--algorithms", "bfs", "--gapbs", build)
    assert code == 2
    assert "code 3" in err
    assert "Unrecognized suffix" in err


# ---- the command ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "say"),
    [
        (("--graphs", "kron6", "--algorithms", "dfs"), "there is no benchmark 'dfs'"),
        (("--graphs", "kron6", "--algorithms", ","), "--algorithms is empty"),
        (("--graphs", ""), "--graphs is empty"),
        (("--graphs", "torus:rows=3"), "torus:rows=3"),
        (("--graphs", "uniform4x0"), "no edges"),
        (("--graphs", "kron6", "--device", "abacus"), "no device 'abacus'"),
        (("--graphs", "kron6", "--device", ","), "--device is empty"),
        (("--graphs", "kron6", "--trials", "0"), "trials is 0"),
        (("--graphs", "kron6", "--sources", "-1"), "sources is -1"),
        (
            ("--graphs", "kron6", "--seed", "-1"),
            "seed is -1; it must be a whole number of at least 0",
        ),
        (("--graphs", "kron6", "-o", "no/such/folder/out.json"), "no folder"),
        (("--graphs", "kron6", "-o", "."), "it is a folder"),
        (("--graphs", "kron6", "-o", ""), "-o is empty"),
        (("--graphs", "kron6,nosuch"), "nosuch does not exist"),
        (("--graphs", "kron6,nosuch.e"), "nosuch.e does not exist"),
        (("--graphs", "kron6,rmat:scal=4"), "rmat takes no 'scal'"),
        (("--graphs", "kron6", "--gapbs", "/nonexist"), "/nonexist has no program 'bfs'"),
    ],
)
def test_bad_input(bench, words, say):
    code, out, err = bench(*words)
    assert (code, out) == (2, "")
    assert say in err
    assert err.count("\n") == 1  # nothing was measured before


def test_results_are_replaced_by_force_only(bench, tmp_path):
    out = tmp_path / "results.json"
    out.write_text("hours of measuring")
    words = ["--graphs", "kron5", "--algorithms", "bfs", "--trials", "1", "--device", "python"]
    code, _, err = bench(*words, "-o", str(out))
    assert code == 2
    assert f"{out} exists" in err
    assert out.read_text() == "hours of measuring"
    assert bench(*words, "-o", str(out), "--force")[0] == 0
    assert json.loads(out.read_text())["cells"]


def test_json_and_table(bench, tmp_path):
    words = ("--graphs", "kron6,rmat:scale=5,edge_factor=4", "--algorithms", "bfs,cc")
    words = (*words, "--trials", "2", "--device", "cpu,python")
    code, out, err = bench(*words, "--json")
    assert code == 0
    results = json.loads(out)
    assert [graph["name"] for graph in results["graphs"]] == ["kron6", "rmat:scale=5,edge_factor=4"]
    assert len(results["cells"]) == 8
    for cell in results["cells"]:
        assert cell["verified"]
        assert cell["wall"]["median_s"] >= cell["run"]["median_s"] > 0
        assert {"compile_s", "setup_s", "first_call_s", "arcs_per_second"} <= cell.keys()
        assert ("ratio" in cell) == (cell["device"] == "python")
    assert "kron6 bfs" in err
    out = bench(*words)[1].splitlines()
    assert out[0].split()[:3] == ["graph", "algorithm", "contender"]
    assert len(out) == 9


# ---- the scripts beside the package ---------------------------------------------------------


@pytest.fixture
def engine():
    path = ROOT / "benchmarks" / "engine.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_the_engine", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:pagerank did not converge")
def test_loops_by_hand_do_the_work_of_the_program(engine):
    case = engine.functor_overhead(8, 1)[0]
    assert case["peer"]["name"] == "the loops by hand"


def test_busy_neighbours_leave(engine, monkeypatch):
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1]
    )
    assert [case["limit"] for case in engine.busy_neighbour(8, 1)] == [2.2, 2.2]
    assert len(started) == 4
    assert all(process.poll() is not None for process in started)


@pytest.mark.slow
def test_memory_and_first_calls_are_measured(engine, monkeypatch):
    monkeypatch.setattr(engine, "ALGORITHMS", {"cc": cases.ALGORITHMS["cc"]})
    monkeypatch.setattr(engine, "MEMORY_CASES", engine.MEMORY_CASES[:1])
    for case in [*engine.memory(10), *engine.first_calls(1)]:
        assert case["value"] > 0


# ---- the page -------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    options = matrix.Options(cases.parse_algorithms("bfs,bc"), ["kron6"], ("python",), 1, 1)
    found = matrix.run_matrix(options)
    found["cells"].append(
        {**found["cells"][0], "contender": "GAPBS", "verified": False, "agrees": False,
         "ratio": 0.7, "ratio_wall": 1.2}
    )  # fmt: skip
    lines = [harness.limit_case("large", 3.0, 2.0, "3 ×")]
    harness.write_results(folder / "engine.json", {**harness.preamble("engine", 1), "cases": lines})
    harness.write_results(folder / "algorithms.json", found)
    return folder


def test_page(results, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "benchmarks.md"
    written = report.write_page(results, page)
    plot = tmp_path / "benchmarks" / "algorithms-kron6.svg"
    assert written == [page, plot.with_name("algorithms-ratios.svg"), plot]
    first = plot.read_bytes()
    text = page.read_text()
    assert "(benchmarks/algorithms-kron6.svg)" in text
    assert "| large | 3 × | at most 2 | **missed** |" in text
    assert "DIFFERS" in text
    assert "the time of GAPBS in 1 of 1 cells (whole calls: 0), and at most 0.85 × in 1 (wh" in text
    report.write_page(results, page)
    assert plot.read_bytes() == first
    assert page.read_text() == text


def test_pages_of_nothing(tmp_path):
    with pytest.raises(EvenerError, match="holds no results"):
        report.write_page(tmp_path, tmp_path / "page.md")
    for content in ("{", "[]", '{"seed": 1}'):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(EvenerError, match="is not a results file"):
            report.read_results(tmp_path / "bad.json")


def test_committed_results_are_on_the_page():
    root = ROOT
    page = (root / "docs" / "benchmarks.md").read_text()
    for path in (root / "benchmarks" / "results").glob("*.json"):
        assert report._conditions(path, report.read_results(path)) in page


def test_commit_without_git(monkeypatch):
    def missing(*arguments, **options):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert harness.commit() == "unknown"


def test_graph_without_edges():
    with pytest.raises(GraphError, match="no edges"):
        cases.make_graph("uniform4x0", 1)
