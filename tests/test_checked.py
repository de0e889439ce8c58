"""Programs that check themselves: what is found, where it is told, and what it leaves alone."""

import inspect

import numpy as np
import pytest

import evener as ev
from evener.cli import main
from evener.errors import DeviceError, ProgramError

DEVICES = ("python", "cpu:1", "cpu", "python+python", "cpu+cpu")
TABLE = np.arange(4)
SQUARE = np.arange(16).reshape(4, 4)
MIXED = (1, 2.5)


class Mistaken(ev.Program):
    """One mistake, chosen by a parameter."""

    which = ev.Param("int64", 0)
    zero = ev.Param("int64", 0)
    root = ev.Field(ev.VERTEX, fill=0, merge="min", replicated=True)
    small = ev.Field("int32")
    real = ev.Field("float64")
    single = ev.Field("float32")
    summed = ev.Field("int32", fill=1 << 30, merge="sum")

    @ev.functor
    def err(v, s):
        if s.id[v] != 3:
            return
        if s.which == 1:
            s.small[v] = s.root[s.id[v] + s.num_vertices]
        elif s.which == 2:
            s.root[s.zero - 1] = 5
        elif s.which == 3:
            s.real[v] = 1 / s.zero
        elif s.which == 4:
            s.small[v] = s.id[v] // (s.degree[v] - s.degree[v])
        elif s.which == 5:
            s.small[v] = 1 << 40
        elif s.which == 6:
            big = s.id[v] + 4611686018427387904
            s.real[v] = big * s.degree[v] * 2
        elif s.which == 7:
            s.real[v] = np.inf * s.zero
        elif s.which == 8:
            s.single[v] = 1e39
        elif s.which == 9:
            s.real[v] += TABLE[s.id[v] + 4]
        elif s.which == 10:
            ev.atomic.min(
                s.root,
                s.id[v] * 1000,
                0,
            )
        elif s.which == 11:
            s.real[v] = SQUARE[s.id[v], s.id[v] + 1]
        elif s.which == 12:
            s.real[v] = SQUARE[-1][s.id[v] - 8]
        elif s.which == 13:
            s.real[v] = (s.id[v] + 7) ** 40
        elif s.which == 14:
            ev.atomic.add(s.summed, v, 1 << 30)
        elif s.which == 15:
            table = TABLE
            s.real[v] = table[s.id[v] + 1]
        elif s.which == 16:
            s.real[v] = int(np.inf * s.degree[v])
        elif s.which == 17:
            s.small[v] = np.inf * s.degree[v]
        elif s.which == 18:
            s.real[v] = divmod(s.id[v], s.zero)[1]
        elif s.which == 19:
            s.real[v] = np.floor_divide(s.id[v], s.zero)
        elif s.which == 20:
            s.real[v] = -(s.zero - 9223372036854775807 - 1)
        elif s.which == 21:
            s.real[v] = abs(s.zero - 9223372036854775807 - 1)
        else:
            s.real[v] = TABLE[s.zero - 1] * MIXED[1] + SQUARE[1:, 2][s.zero]

    loop = ev.stages.compute(err)


FOUND = {
    1: ("s.small[v] = s.root", "s.root is indexed out of range"),
    2: ("s.root[s.zero - 1]", "s.root is indexed out of range"),
    3: ("1 / s.zero", "a division by 0"),
    4: ("s.id[v] //", "a division by 0"),
    5: ("1 << 40", "does not fit int32"),
    6: ("big * s.degree[v]", "a number overflows"),
    7: ("np.inf * s.zero", "a NaN is stored in"),
    8: ("1e39", "too large for float32"),
    9: ("TABLE[s.id[v] + 4]", "TABLE is indexed out of range"),
    10: ("s.id[v] * 1000", "s.root is indexed out of range"),
    11: ("SQUARE[s.id[v], s.id[v] + 1]", "SQUARE is indexed out of range"),
    12: ("SQUARE[-1][s.id[v] - 8]", "SQUARE[-1] is indexed out of range"),
    13: ("(s.id[v] + 7) ** 40", "a number overflows"),
    14: ("ev.atomic.add(s.summed", "the sum in summed overflows int32"),
    15: ("table[s.id[v] + 1]", "table is indexed out of range"),
    16: ("int(np.inf * s.degree[v])", "does not fit int64 is converted to an integer"),
    17: ("s.small[v] = np.inf", "does not fit int32 is stored in small"),
    18: ("divmod(s.id[v]", "a division by 0"),
    19: ("np.floor_divide", "a division by 0"),
    20: ("-(s.zero - 9", "a number overflows"),
    21: ("abs(s.zero - 9", "a number overflows"),
}


def line_with(text):
    lines, first = inspect.getsourcelines(Mistaken)
    return first + next(i for i, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("device", DEVICES)
def test_each_mistake_is_told_with_functor_line_and_vertex(device):
    assert_told(device)


def assert_told(device):
    graph = ev.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], labels=list("abcde"))
    ev.run(Mistaken, graph, device=device, check=True)
    for which, (text, said) in FOUND.items():
        with pytest.raises(ProgramError) as caught:
            ev.run(Mistaken, graph, which=which, device=device, check=True)
        told = str(caught.value)
        assert said in told
        assert f"Mistaken.err, line {line_with(text)}:" in told
        assert "vertex 'd'" in told


class Divided(ev.Program):
    total = ev.Field("float64", merge="sum")

    @ev.functor
    def share(src, dst, edge, s):
        ev.atomic.add(s.total, dst, 1 / (s.id[dst] - 2))
        return False

    loop = ev.stages.advance(share)


@pytest.mark.parametrize("device", DEVICES)
def test_faults_on_edges_name_both_ends(device):
    assert_both_ends_told(device)


def assert_both_ends_told(device):
    graph = ev.Graph.from_edges([0, 1, 3], [1, 2, 0])
    for direction in ("push", "pull"):
        with pytest.raises(ProgramError, match="by 0 at the edge from 1 to 2"):
            ev.run(Divided, graph, device=device, direction=direction, check=True)


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


def test_gathered_values():
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
    for device in DEVICES:
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
