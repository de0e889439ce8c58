"""Programs that check themselves: what is found, where it is told, and what it leaves alone."""

import inspect

import numpy as np
import pytest

import evener as ev
from evener.cli import main
from evener.errors import DeviceError, ProgramError
from programs.faulty import Mistaken, assert_both_ends_told, assert_told
from tables import slow_but

TABLE = np.arange(4)
DEVICES = ("python", "cpu:1", "cpu", "python+python", "cpu+cpu")


@pytest.mark.parametrize("device", DEVICES)
def test_each_mistake_is_told_with_functor_line_and_vertex(device):
    assert_told(device)


@pytest.mark.parametrize("device", DEVICES)
def test_faults_on_edges_name_both_ends(device):
    assert_both_ends_told(device, "push" if device == "cpu+cpu" else "pull")


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_faults_on_edges_in_the_other_direction(device):
    assert_both_ends_told(device, "pull" if device == "cpu+cpu" else "push")


def test_tables_that_are_around_a_program():
    table = np.arange(4)

    class Looking(ev.Program):
        value = ev.Field("int64")

        @ev.functor
        def look(v, s):
            s.value[v] = table[s.id[v]]

        loop = ev.stages.compute(look)

    for device in ("python", "cpu:1"):
        assert ev.run(Looking, ev.generate.path(4), device=device, check=True).value[3] == 3
        with pytest.raises(ProgramError, match=r"table is indexed out of range at vertex 4"):
            ev.run(Looking, ev.generate.path(5), device=device, check=True)


@pytest.mark.parametrize("device", ["python", "cpu:1"])
def test_what_is_read_as_of_the_beginning(device):
    class Looking(ev.Program):
        root = ev.Field(ev.VERTEX, fill=0, merge="min", replicated=True)

        @ev.functor
        def look(src, dst, edge, s):
            return s.before.root[s.id[dst] + 3] > 0  # HERE

        loop = ev.stages.repeat(ev.stages.advance(look), max_supersteps=1)

    lines, first = inspect.getsourcelines(test_what_is_read_as_of_the_beginning)
    line = first + next(i for i, text in enumerate(lines) if "# HERE" in text)
    with pytest.raises(ProgramError) as caught:
        ev.run(Looking, ev.generate.path(6), device=device, check=True)
    told = f"Looking.look, line {line}: s.before.root is indexed out of range at the edge from 4"
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("device", slow_but(DEVICES, "python", "cpu:1", "python+python"))
def test_gathered_values(device):
    class Gathered(ev.Program):
        value = ev.Field("float64")

        @ev.functor
        def offer(src, dst, edge, s):
            return np.inf * s.value[src]

        @ev.functor
        def take(v, total, s):
            s.value[v] = total
            return False

        loop = ev.stages.gather(offer, "sum", take)

    graph = ev.generate.path(4)
    with pytest.raises(ProgramError, match=r"offer, line \d+: a NaN is returned"):
        ev.run(Gathered, graph, device=device, check=True)


def test_a_checked_run_has_the_answer_of_any_other():
    graph = ev.generate.rmat(6, 4, weights=(1, 9), seed=3)
    plain, found = ev.bfs(graph, 1, device="cpu"), ev.bfs(graph, 1, device="cpu", check=True)
    assert found.depth.tolist() == plain.depth.tolist()
    assert list(found.to_numpy()) == list(plain.to_numpy())
    assert "evener_faults" not in dir(found)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("directed", [False, True])
def test_no_algorithm_has_a_fault(device, directed):
    graph = ev.generate.rmat(6, 4, weights=(1, 9), seed=3, directed=directed)
    calls = (
        lambda **o: ev.bfs(graph, 1, **o).depth,
        lambda **o: ev.bfs(graph, 1, target=5, **o).depth[5],
        lambda **o: ev.sssp(graph, 1, **o).distance,
        lambda **o: ev.sswp(graph, 1, **o).width,
        lambda **o: ev.pagerank(graph, **o).rank,
        lambda **o: ev.connected_components(graph, **o).component,
        lambda **o: ev.betweenness(graph, sources=4, **o).score,
        lambda **o: ev.circuit(graph, {1: 1.0, 2: 0.0}, **o).potential,
        lambda **o: ev.heat(graph, {1: 9.0}, **o).temperature,
        lambda **o: ev.neural(graph, **o).activation,
    )
    for call in calls:
        assert np.allclose(call(device=device, check=True), call(device="cpu:1"))


def test_the_environment_asks_for_checks(monkeypatch):
    graph = ev.generate.path(5)
    ev.run(Mistaken, graph, which=3, device="python")
    monkeypatch.setenv("EVENER_CHECK", "1")
    with pytest.raises(ProgramError, match="division by 0"):
        ev.run(Mistaken, graph, which=3, device="python")
    monkeypatch.setenv("EVENER_CHECK", "0")
    ev.run(Mistaken, graph, which=3, device="python")


def test_the_command_checks(tmp_path, capsys):
    file = tmp_path / "own.py"
    file.write_text(
        "import evener as ev\n"
        "class Own(ev.Program):\n"
        "    x = ev.Field('float64')\n"
        "    @ev.functor\n"
        "    def halve(v, s):\n"
        "        s.x[v] = 1 / s.id[v]\n"
        "    loop = ev.stages.compute(halve)\n"
    )
    words = ["run", f"{file}:Own", "path:num_vertices=4", "--device", "cpu:1"]
    assert main(words) == 0
    capsys.readouterr()
    assert main([*words, "--check"]) == 2
    assert "Own.halve, line 6: a division by 0 at vertex 0" in capsys.readouterr().err


def test_globals_that_change_are_seen():
    class Limited(ev.Program):
        x = ev.Field("int64")

        @ev.functor
        def look(v, s):
            s.x[v] = TABLE[s.id[v]]

        loop = ev.stages.compute(look)

    graph = ev.generate.path(4)
    assert ev.run(Limited, graph, device="python", check=True).x.tolist() == [0, 1, 2, 3]
    global TABLE
    kept, TABLE = TABLE, np.arange(2)
    try:
        with pytest.raises(ProgramError, match="TABLE is indexed out of range at vertex 2"):
            ev.run(Limited, graph, device="python", check=True)
    finally:
        TABLE = kept


# ---- deterministic ---------------------------------------------------------------------------


def test_deterministic_runs():
    graph = ev.generate.rmat(8, 8, seed=1, directed=True)
    assert ev.bfs(graph, 0, device="cpu:2", deterministic=True).stats["device"] == "cpu:1"
    scores = [ev.betweenness(graph, deterministic=True, device="cpu:2").score for _ in range(2)]
    assert scores[0].tobytes() == scores[1].tobytes()
    ranked = ev.pagerank(graph, device="cpu:2", deterministic=True)
    assert ranked.stats["device"] == "cpu:2"  # a gather needs no such care
    assert ev.connected_components(graph, device="cpu+cpu", deterministic=True).count >= 1
    with pytest.raises(DeviceError, match=r"BFS may differ from run to run on cpu\+cpu; use dev"):
        ev.bfs(graph, 0, device="cpu+cpu", deterministic=True)
    assert "deterministic=True" in ev.bfs(graph, 0, deterministic=True).explain()
