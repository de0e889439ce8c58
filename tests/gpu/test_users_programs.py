"""Programs of users' own: the examples, and those that test every stage and loop."""

import importlib

import numpy as np
import pytest
from cases import LOOPS, random_graph, weighted

import evener as ev
from evener.device.cuda import GridKernel
from evener.engine import preallocation
from evener.engine.run import run
from evener.engine.targets import gpu
from evener.errors import MemoryBudgetError
from evener.operators.gpu.schedules import SCHEDULES
from evener.programs.fields import HIDDEN
from graphs import between_layers
from programs.cases import parameters_for
from programs.examples import NAMES, programs
from programs.faulty import assert_both_ends_told, assert_told
from programs.loops import Nested, OverEdges, Repeats
from programs.ordered import Bounded
from programs.stages import Closing, Everything, Functions, Spread, assert_visited_whole


@pytest.mark.parametrize("name", NAMES)
def test_examples(name, capsys):
    example = importlib.import_module(name)
    try:
        example.main("cpu")
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    want = capsys.readouterr().out.replace("cpu", "")
    example.main("cuda")
    assert capsys.readouterr().out.replace("cuda", "") == want


@pytest.mark.parametrize("device", ["cuda", "cuda+cuda", "cpu:2+cuda"])
def test_checks(device):
    assert_told(device)
    assert_both_ends_told(device)
    graph = ev.generate.rmat(7, 8, weights=(1, 9), seed=3, directed=True)
    for call in (lambda **o: ev.sssp(graph, 1, **o).distance, lambda **o: ev.pagerank(graph, **o).rank,
                 lambda **o: ev.connected_components(graph, **o).component):  # fmt: skip
        np.testing.assert_allclose(call(device=device, check=True), call(device="cpu"))


@pytest.mark.parametrize("program", list(programs()), ids=lambda p: p.__name__)
def test_programs_of_examples(program):
    for graph in (of_users(0), weighted(ev.generate.grid(40, 50, weights=(1, 9), seed=2))):
        given = parameters_for(program, graph)
        have, want = (run(program, graph, device=device, **given) for device in ("cuda", "cpu"))
        for name, field in program.declaration.fields.items():
            several = field.dtype is ev.VERTEX and field.merge in (None, "any")
            if not several and not name.startswith(HIDDEN):  # no result shows those
                np.testing.assert_allclose(
                    getattr(have, name), getattr(want, name), rtol=1e-6, atol=1e-9, err_msg=name
                )


def of_users(seed):
    graph = random_graph(seed)
    if seed % 4 == 0:
        graph = ev.generate.rmat(9, 8, weights=(1, 9), seed=seed)
    return ev.Graph(
        graph.indptr, graph.indices, graph.weights.astype(np.int64), directed=graph.directed
    )


@pytest.mark.parametrize("program", LOOPS, ids=lambda p: p.__name__)
def test_stages_and_loops(program):
    """The CPU is compared with the interpreter elsewhere, in detail."""
    for seed in range(24):
        graph = of_users(seed)
        given = parameters_for(program, graph)
        if program is Bounded:
            given |= [{}, {"limit": 2}, {"limit": 0}, {"horizon": 9.0}][seed % 4] | {"delta": 1.0}
        want = run(program, graph, device="cpu", **given)
        have = run(program, graph, device="cuda", **given)
        for name in LOOPS[program]:
            np.testing.assert_allclose(
                getattr(have, name), getattr(want, name), rtol=1e-9, err_msg=f"{name} {seed}"
            )
        for name in program.declaration.scalars:
            assert getattr(have, name) == pytest.approx(getattr(want, name))
        assert have.stats["supersteps"] == want.stats["supersteps"]
        if program is not Everything:  # where the order of calls decides how often it is looked
            assert have.stats["edges"] == want.stats["edges"]


@pytest.mark.parametrize("program", [OverEdges, Bounded, Nested], ids=lambda p: p.__name__)
def test_kernels_that_return_for_more_room(program, monkeypatch):
    """They go on where they were: what is found and counted is the same, wherever they returned."""
    launches, launch = [], GridKernel.run
    monkeypatch.setattr(GridKernel, "run", lambda *given: launches.append(1) or launch(*given))
    runs = 0
    for seed in range(6):
        graph = of_users(seed)
        given = parameters_for(program, graph) | ({"delta": 1.0} if program is Bounded else {})
        want = run(program, graph, device="cuda", **given)
        for room in (1, 7, 60):
            with monkeypatch.context() as patch:
                patch.setattr(gpu, "_first_room", lambda *_, room=room: room)
                have = run(program, of_users(seed), device="cuda", **given)
            for name in LOOPS[program]:
                np.testing.assert_array_equal(getattr(have, name), getattr(want, name))
            for name in ("supersteps", "edges"):
                assert have.stats[name] == want.stats[name]
            runs += 1
    assert len(launches) > 6 + runs + 6  # at least six of them returned


@pytest.mark.parametrize("device", ["cuda", "cuda+cuda", "cpu:2+cuda"])
def test_room_for_records(device, monkeypatch):
    graph = ev.generate.rmat(9, 6, seed=3)
    want = run(Repeats, graph, device="cpu", times=5)
    monkeypatch.setattr(preallocation, "_factors", {})  # the CPU remembers too
    for given in (True, 3):
        with pytest.raises(MemoryBudgetError, match="preallocate has room for [13]; give it"):
            run(Repeats, graph, device=device, times=5, preallocate=given)
    for given in (5, False, "auto", True):  # the third remembers what the fourth needs
        have = run(Repeats, graph, device=device, times=5, preallocate=given)
        np.testing.assert_array_equal(have.visits, want.visits)


def test_queues_that_are_nearly_full(monkeypatch):
    graph = between_layers(700)
    want = run(Spread, graph, device="cpu", source=0)
    for room in (graph.num_vertices, graph.num_vertices + 300_000, 10**7):
        monkeypatch.setattr(gpu, "queue_length", lambda *_, room=room: room)
        fresh = between_layers(700)
        have = run(Spread, fresh, device="cuda", source=0)
        np.testing.assert_array_equal(have.level, want.level)


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if ":" not in name])
def test_lists_that_are_wanted_no_more(schedule):
    """On more vertices than a schedule takes for few."""
    graph = ev.generate.rmat(18, 8, seed=1)
    found = run(Closing, graph, device="cuda", schedule=schedule)
    assert_visited_whole({"visits": found.visits}, graph)
    assert_visited_whole({"visits": run(Closing, graph, device="cpu").visits}, graph)


@pytest.mark.parametrize("program", [OverEdges, Bounded, Nested], ids=lambda p: p.__name__)
def test_loops_repeated(program):
    graph = of_users(4)
    given = parameters_for(program, graph) | ({"delta": 1.0} if program is Bounded else {})
    want = run(program, graph, device="cpu", **given)
    for _ in range(50):
        have = run(program, graph, device="cuda", **given)
        for name in LOOPS[program]:
            np.testing.assert_array_equal(getattr(have, name), getattr(want, name))


def test_functions_of_numpy():
    graph = ev.generate.path(60)
    have, want = (run(Functions, graph, device=device) for device in ("cuda", "cpu"))
    for name, field in Functions.declaration.fields.items():
        rtol = 1e-5 if field.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(
            getattr(have, name), getattr(want, name), rtol=rtol, err_msg=name
        )
