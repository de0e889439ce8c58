"""The planner: TOTEM's model in numbers, least shares from memory, calibration, the command."""

import hashlib
import importlib
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import evener as ev
from evener.algorithms.bfs import BFS
from evener.cli import main
from evener.engine import devices
from evener.engine.devices import Device
from evener.engine.memory.estimate import estimate_memory
from evener.engine.partition.partitioners import PARTITIONERS, partition
from evener.engine.partition.stats import measure_partition
from evener.engine.planning import calibrate
from evener.engine.planning.calibrate import Calibration, Workload
from evener.engine.planning.cost_model import Costs, Measured, fit
from evener.engine.planning.planner import Model, as_dict, choose, plan
from evener.errors import MemoryBudgetError
from rates import LINK, NBYTES, SEARCH, VALUES, Given

BY_VERTEX = [name for name in PARTITIONERS if name != "metis"]
GIB = 1 << 30


@pytest.fixture(autouse=True)
def own_rates(request, monkeypatch):
    """Rates that tests measure or make up are not those of this machine."""
    if "own_cache" not in request.fixturenames:
        kept = {}
        monkeypatch.setattr(calibrate, "load_bytes", kept.get)
        monkeypatch.setattr(calibrate, "save_bytes", kept.__setitem__)


TWO = [Device("cpu", 1), Device("cpu", 1)]


@pytest.fixture(scope="module")
def kron():
    return ev.generate.rmat(12, 16, seed=1)


def test_the_slowest_part_decides(kron):
    three = [Device("cpu", 1), Device("cpu", 3)]
    alone, other, both = plan(
        kron, three, SEARCH, partitioners=["contiguous"], calibration=Given(cpu=1e6)
    )
    assert alone.seconds == pytest.approx(kron.num_edges / 1e6)
    assert other.seconds == pytest.approx(kron.num_edges / 3e6)
    assert (alone.devices, other.devices, both.devices) == (
        ("cpu:1",),
        ("cpu:3",),
        ("cpu:1", "cpu:3"),
    )
    assert both.alpha == pytest.approx(0.25, abs=0.02)
    part_of = partition(kron, "contiguous", [1, 3])
    found = measure_partition(kron, part_of, 2, pulls=True)
    messages = found.links.sum() * VALUES * NBYTES / LINK
    expected = max(found.edges[p] / (1e6, 3e6)[p] + messages for p in range(2))
    assert both.seconds == pytest.approx(expected)
    assert both.seconds == both.compute_seconds + both.communication_seconds
    assert (both.beta, both.beta_aggregated) == (found.beta, found.beta_aggregated)
    assert choose([alone, other, both]) is both


def test_interpreted_parts_take_turns(kron):
    rates = Given(python=1e5)
    alone, both = plan(
        kron, [Device("python")] * 2, SEARCH, partitioners=["static"], calibration=rates
    )
    assert both.compute_seconds == pytest.approx(alone.seconds)
    assert choose([alone, both]) is alone


@pytest.mark.parametrize("name", BY_VERTEX)
def test_the_least_share_leaves_the_others_what_fits(kron, name):
    whole = estimate_memory(BFS.declaration, kron)[0]

    def with_limit(limit):
        found = plan(
            kron, TWO, SEARCH, partitioners=[name], limits=[GIB, limit], calibration=Given(cpu=1e6)
        )
        return found[-1]

    free, tight, tighter = (with_limit(share * whole) for share in (100, 0.6, 0.35))
    assert free.alpha_min == 0
    assert 0 < tight.alpha_min < tighter.alpha_min < 1
    for one in (free, tight, tighter):
        assert one.fits
        assert one.alpha >= one.alpha_min - 0.05
    assert tighter.alpha > free.alpha + 0.05


class Slow(Given):
    """A second device that is far slower than its threads say, so that the first should have all."""

    def costs(self, workload, names, like, rates):
        return Costs((1e-9, 1e-7), (0.0, 0.0), (0.0, 0.0), 0.0, 0.0)


@pytest.mark.parametrize("name", BY_VERTEX)
def test_the_first_cpu_has_no_more_than_it_has_memory_for(kron, name):
    limits = [int(0.76 * estimate_memory(BFS.declaration, kron)[0])] * 2
    one = plan(
        kron, TWO, SEARCH, partitioners=[name], limits=limits, calibration=Slow(cpu=1e6)
    )[-1]  # fmt: skip
    assert one.fits
    assert one.alpha_min - 0.05 <= one.alpha < 0.8
    free = plan(kron, TWO, SEARCH, partitioners=[name], calibration=Slow(cpu=1e6))[-1]
    assert free.alpha > one.alpha + 0.1


def test_to_look_for_the_largest_share_divides_the_graph_few_times(kron):
    limits = [int(0.76 * estimate_memory(BFS.declaration, kron)[0])] * 2
    model = Model(kron, TWO, SEARCH, limits, Slow(cpu=1e6))
    assert model.divided("high").fits
    assert len(model._measured) <= 2 * 6 + 6
    roomy = Model(kron, TWO, SEARCH, [GIB, GIB], Slow(cpu=1e6))
    roomy.divided("high")
    assert len(roomy._measured) <= 3


def test_low_leaves_room_for_more_edges_on_the_other_device(kron):
    # High-degree vertices bring many edges and little state: TOTEM, section 7.
    limits = [GIB, estimate_memory(BFS.declaration, kron)[0] // 2]
    low, high = plan(
        kron, TWO, SEARCH, partitioners=["low", "high"], limits=limits, calibration=Given(cpu=1e6)
    )[-2:]
    assert low.alpha_min < high.alpha_min


def test_what_fits_nowhere_is_refused_with_numbers(kron):
    found = plan(
        kron, TWO, SEARCH, partitioners=["random"], limits=[1000, 1000], calibration=Given(cpu=1e6)
    )
    assert not any(one.fits for one in found)
    with pytest.raises(MemoryBudgetError, match=r"fits on no placement; .* on cpu:1 with 1000 B"):
        choose(found)


def test_the_placement_that_lacks_least_is_named(kron):
    # All of it on a device that has next to nothing is less in sum, but farther from fitting.
    limits = [1000, int(0.9 * estimate_memory(BFS.declaration, kron)[0])]
    devices = [Device("cpu", 1), Device("cpu", 2)]
    found = plan(
        kron, devices, SEARCH, partitioners=["random"], limits=limits, calibration=Given(cpu=1e6)
    )
    with pytest.raises(MemoryBudgetError, match=r"the nearest needs [^,]* on cpu:2 with"):
        choose(found)


def test_a_slower_placement_that_fits_is_chosen(kron):
    devices = [Device("cpu", 8), Device("python")]
    limits = [1000, GIB]
    found = plan(
        kron, devices, SEARCH, partitioners=[], limits=limits, calibration=Given(cpu=1e9, python=1)
    )
    assert choose(found).devices == ("python",)


def test_all_partitioners_are_planned(kron):
    found = plan(kron, TWO, SEARCH, calibration=Given(cpu=1e6))
    assert [one.partitioner for one in found if one.partitioner != "metis"] == [None, *BY_VERTEX]
    told = json.loads(json.dumps([as_dict(one) for one in found]))
    for one in told:
        assert (one["parts"] is None) == (len(one["devices"]) == 1)
        if one["parts"] is not None:
            assert sum(one["parts"]["vertices"]) == kron.num_vertices


# ---- what parts cost ------------------------------------------------------------------------

TRUE = Costs((2e-9, 5e-10), (4e-8, 1e-9), (3e-8, 2e-8), 5e-6, 6, 2e-5, 1e-5, 2e-8)
OWN_START = 7e-5  # of a device alone: its threads are not those of a set


def runs_of(graph, costs, noise=0.0):
    """Runs that take exactly what some costs say, or nearly."""
    rng = np.random.default_rng(1)
    runs = []
    for name in ("random", "high", "low", "contiguous"):
        for alpha in (0.05, 0.2, 0.5, 0.8):
            part_of = partition(graph, f"{name}:alpha={alpha}", [0.5, 0.5])
            stats = measure_partition(graph, part_of, 2, pulls=True)
            seconds = costs.loop_seconds(stats) * (1 + noise * rng.uniform(-1, 1))
            around = costs.around + costs.around_each * graph.num_vertices
            runs.append(Measured(stats, 6, seconds, around))
    for p in (0, 1):
        stats = measure_partition(graph, np.full(graph.num_vertices, p), 2, pulls=True)
        seconds = OWN_START + float(costs.part_seconds(stats).max())
        runs.append(Measured(stats, 0, seconds, alone=True, start=OWN_START))
    return runs


def test_costs_are_found_from_runs(kron):
    names = ["cpu:1", "cuda"]
    runs = runs_of(kron, TRUE)
    found, error = fit(runs, names)
    assert error < 0.05
    told = [found.loop_seconds(run.stats) for run in runs if not run.alone]
    assert np.corrcoef(told, [run.seconds for run in runs if not run.alone])[0, 1] > 0.99
    stats = runs[0].stats
    assert found.fixed_seconds(stats) == pytest.approx(TRUE.fixed_seconds(stats), rel=0.2)
    found, error = fit(runs_of(kron, TRUE, 0.1), names)
    assert error < 0.15
    assert min(*found.edge, *found.vertex, *found.message, found.superstep, found.start) >= 0


def test_vertices_and_meetings_count(kron):
    class Known(Given):
        def costs(self, workload, names, like, rates):
            assert names == ["cpu:1", "cpu:1"]
            return TRUE

    model = Model(kron, TWO, SEARCH, None, Known(cpu=1e6))
    one = model.divided("high", 0.3)
    stats = measure_partition(kron, partition(kron, "high:alpha=0.3", [0.5, 0.5]), 2, pulls=True)
    assert one.seconds == pytest.approx(TRUE.fixed_seconds(stats) + TRUE.part_seconds(stats).max())
    found = plan(kron, TWO, SEARCH, partitioners=["random"], calibration=Known(cpu=1e6))[-1]
    assert found.alpha < 0.2  # the second device is faster than its threads say
    assert found.seconds < model.divided("random", 0.5).seconds


def set_scales(monkeypatch, scale):
    """Let examples of all devices be so large."""
    kinds = {name: kind._replace(example_scale=scale) for name, kind in devices.KINDS.items()}
    monkeypatch.setattr(devices, "KINDS", kinds)


def test_larger_graphs_cost_more(monkeypatch):
    set_scales(monkeypatch, 9)
    monkeypatch.setattr(calibrate, "_seconds", lambda w, device, graph, **_: graph.num_edges**1.5)
    graph, rates = ev.generate.rmat(12, 8, seed=1), np.array([1e8, 1e8])
    known = Calibration(again=True)
    grown = known.growth(SEARCH, "cpu:1", graph, 9)
    assert grown > 2  # three doublings by the root
    assert known.growth(SEARCH, "cpu:1", graph, 12) == 1  # as large as it is
    assert known.growth(SEARCH, "cuda", graph, 9) == 1
    assert known.growth(SEARCH, "cpu:1", ev.generate.grid(32), 9) == 1
    found = known.costs(SEARCH, ["cpu:1", "cpu:1"], graph, rates)
    monkeypatch.setattr(Calibration, "growth", lambda *_: 1.0)
    plain = known.costs(SEARCH, ["cpu:1", "cpu:1"], graph, rates)
    assert found.edge == pytest.approx(grown * np.array(plain.edge))
    assert found.vertex == pytest.approx(grown * np.array(plain.vertex))
    assert found.superstep == plain.superstep


def test_costs_of_a_set_are_measured_once_and_kept(monkeypatch):
    set_scales(monkeypatch, 9)
    asked = []

    def counted(graph, source, **where):
        asked.append(where["device"])
        return ev.bfs(graph, source, **where)

    workload, graph = Workload("counted", counted), ev.generate.rmat(10, 8, seed=1)
    rates, names = np.array([1e8, 1e8]), ["cpu:1", "cpu:1"]
    found = Calibration(again=True).costs(workload, names, graph, rates)
    # So small a graph may take nothing but its supersteps, or they nothing that can be told.
    assert max(*found.edge, *found.vertex, *found.message, found.start, found.superstep) > 0
    assert min(found.edge + found.vertex + found.message) >= 0
    assert asked.count("cpu:1+cpu:1") > 6
    asked.clear()
    assert Calibration().costs(workload, names, graph, rates) == found
    assert asked == ["python+python"]
    assert Calibration().costs(workload, ["cpu:1", "cpu:999"], graph, rates) is None


# ---- calibration ----------------------------------------------------------------------------


@pytest.mark.parametrize(("edge", "vertex"), [(1e-9, 0.0), (0.0, 1e-7), (2e-9, 5e-8)])
def test_what_edges_and_vertices_take_is_told_apart(edge, vertex, monkeypatch):
    """On a graph that is larger and denser than all that was measured."""
    fixed = 2e-5

    def seconds(workload, device, graph, **_):
        return fixed + edge * graph.num_edges + vertex * graph.num_vertices

    monkeypatch.setattr(calibrate, "_seconds", seconds)
    monkeypatch.setattr(calibrate, "_FEW", 4)
    set_scales(monkeypatch, 10)
    graph = ev.generate.rmat(13, 40, seed=1)
    true = seconds(None, None, graph)
    for device in ("cpu:2", "cuda"):
        rate = Calibration(again=True).rate(SEARCH, device, graph)
        assert graph.num_edges / rate == pytest.approx(true, rel=0.25)


PICKED = """
    import numpy as np
    from evener.engine import measurement_keys
    from evener.programs import Field, Param, Program, functor
    from evener.programs.stages import advance, repeat
    from evener.device import atomic
    STEP = 1
    class Picked(Program):
        depth = Field(np.int64, merge="min")
        rounds = Param("int64", 3)
        @functor
        def pick(src, dst, edge, s):
            return atomic.min(s.depth, dst, abs(s.depth[src]) + STEP) > 0
        loop = repeat(advance(pick), max_supersteps=rounds)
    found = measurement_keys.code_of(Picked.declaration)
"""


def code_of(text, tmp_path, monkeypatch):
    """The hash of the program; functors need a file."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"picked_{hashlib.sha256(text.encode()).hexdigest()}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    return importlib.import_module(name).found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("abs(s.depth[src])", "int(s.depth[src])"),
        ("STEP = 1", "STEP = 2"),
        ("max_supersteps=rounds", "max_supersteps=5"),
        ("int64, merge", "int32, merge"),
        ('"int64", 3', '"int64", 4'),
    ],
)
def test_an_edited_program_is_measured_anew(old, new, tmp_path, monkeypatch):
    assert old in PICKED
    codes = [code_of(text, tmp_path, monkeypatch) for text in (PICKED, PICKED.replace(old, new))]
    assert codes[0] != codes[1]


def test_the_next_process_knows_a_program_again(tmp_path, monkeypatch):
    found = code_of(PICKED, tmp_path, monkeypatch)
    (file,) = tmp_path.glob("picked_*.py")
    told = f"import {file.stem}; print({file.stem}.found)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(tmp_path)])}
    again = subprocess.run([sys.executable, "-c", told], env=environment, capture_output=True)
    assert again.stdout.decode().strip() == found


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path))
    return tmp_path


def test_rates_are_measured_once_and_kept(own_cache):
    asked = []

    def counted(graph, source, **where):
        asked.append(where["device"])
        return ev.bfs(graph, source, **where)

    workload, graph = Workload("counted", counted), ev.generate.path(20)
    rate = Calibration().rate(workload, "python", graph)
    assert rate > 0
    assert asked.count("python") > 1
    again = len(asked)
    assert Calibration().rate(workload, "python", graph) == rate
    assert asked[again:] == ["python+python"]  # to see what the program is, which may have changed
    assert Calibration().link("cpu", "cpu") == Calibration().link("cpu", "python") > 0


def test_rates_are_those_of_the_same_weights(own_cache):
    shortest = Workload("sssp", lambda graph, source, **where: ev.sssp(graph, source, **where))
    weighted = ev.generate.path(20, weights=(1, 9))
    assert Calibration().rate(shortest, "python", weighted) > 0
    with pytest.raises(ev.GraphError, match="needs weights"):
        Calibration().rate(shortest, "python", ev.generate.path(20))
    asked = len(Calibration()._known)
    floats = ev.Graph(
        weighted._indptr, weighted._indices, weighted._weights.astype(np.float32), directed=False
    )
    Calibration().rate(shortest, "python", floats)
    assert len(Calibration()._known) > asked


def test_rates_that_were_damaged_on_disk_are_measured_again(own_cache):
    Calibration().link("cpu", "cpu")
    (kept,) = own_cache.glob("rates-*.json")
    kept.write_bytes(kept.read_bytes()[:-3])
    assert Calibration().link("cpu", "cpu") > 0


def test_traffic_is_counted():
    calibration = Calibration()
    searched = calibration.traffic(SEARCH)
    ranked = calibration.traffic(
        Workload("pagerank", lambda graph, source, **where: ev.pagerank(graph, **where))
    )
    assert searched.declaration.name == "BFS"
    assert 0 < searched.values < ranked.values  # once, and in every iteration
    assert searched.nbytes == 8


@pytest.mark.parametrize(
    "graph",
    [
        ev.Graph.from_edges([], [], num_vertices=0),
        ev.Graph.from_edges([], [], num_vertices=3),
        ev.generate.path(5),
        ev.Graph.from_edges([0, 1], [1, 1], np.array([1.5, 2.0], np.float32)),
    ],
    ids=["empty", "no edges", "path", "weighted"],
)
def test_small_graphs_are_planned(graph, own_cache):
    found = plan(graph, [Device("python")] * 3, SEARCH, partitioners=BY_VERTEX)
    assert all(one.fits and one.seconds >= 0 for one in found)
    assert found[0].seconds > 0  # a run takes time where there is nothing to do


# ---- the command ----------------------------------------------------------------------------


def test_command(capsys):
    arguments = [
        "plan",
        "rmat:scale=6,seed=1",
        "--device",
        "python+python",
        "--partition",
        "static,high",
    ]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == [
        "device", "partitioner", "α", "least", "α", "β", "β", "aggregated", "memory", "seconds",
    ]  # fmt: skip
    assert "fastest" in out
    assert main([*arguments, "--json", "--program", "cc"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["program"] == "connected_components"
    assert [row["partitioner"] for row in told["placements"]] == [None, "static", "high"]
    assert sum(row["chosen"] for row in told["placements"]) == 1


def test_auto_is_what_the_environment_says(capsys, monkeypatch):
    monkeypatch.setenv("EVENER_DEVICE", "python+python")
    words = ["plan", "path:num_vertices=4", "--device", "auto", "--partition", "static", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["devices"] for row in told["placements"]] == [["python"], ["python"] * 2]
    monkeypatch.setenv("EVENER_DEVICE", "bogus")
    assert main(words) == 2
    assert "EVENER_DEVICE is 'bogus': there is no device 'bogus'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--device", "tpu"], "there is no device 'tpu'"),
        (["--device", "cpu+cpu", "--program", "bsf"], "there is no algorithm 'bsf'"),
        (["--device", "cpu+cpu", "--partition", "rand"], "there is no partitioner 'rand'"),
        (["--device", "cpu+cpu", "--partition", "high:alpha=1"], "give only its name"),
        (["--device", "cpu+cpu", "--partition", ""], "there is no partitioner ''"),
        (["--device", "cpu", "--partition", "high"], "--partition high needs a device set"),
        (["--device", "cpu", "--memory-limit", "much"], "is not an amount of memory"),
        (
            ["--device", "cpu", "--memory-limit", "cuda=1GiB"],
            "names 'cuda', but the devices are cpu",
        ),
        (["--device", "cpu", "--memory-limit", "10B"], "the graph fits on no placement"),
        ([], "required: --device"),
    ],
)
def test_bad_input_is_one_line(words, message, capsys):
    assert main(["plan", "path:num_vertices=4", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
