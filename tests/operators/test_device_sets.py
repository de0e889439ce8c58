"""Every program on every kind of device set: what one device finds.

Programs, partitioners, sets, policies and graphs are combined so that each pair of them occurs; the
long matrix has the whole product, but for sets with compiled beside interpreted parts: of their
product, which takes an hour, each partitioner and policy is on one graph.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evener as ev
from comparing import case, compare
from device_sets import ALGORITHMS, DIRECTION, FEW_PROGRAMS, PROGRAMS, SPLIT, Half, crossing, small
from evener.device.team import most_threads
from evener.engine.request import DIRECTIONS
from evener.errors import DeviceError, MemoryBudgetError, ProgramError
from evener.operators.shared.policies import EVERY, NAMES
from failing import fail_at, fail_beside_python
from graphs import DEGENERATE, graphs, weighted_by_arc
from programs.cases import COVERING, needs_source, parameters_of, suits
from programs.examples import programs
from programs.loops import Echoes, EdgesThroughout, Nested, OverEdges
from programs.merged import Reset
from programs.ordered import Bounded
from programs.searches import Nearest, Paths, Search
from programs.stages import (
    Around,
    Everything,
    Neighbours,
    OnEdges,
    Outwards,
    Spread,
)
from tables import pairwise

EXAMPLES = list(programs())
# All stages, in few programs: a set with `python` compiles every stage by itself.
STAGES = [Search, Nearest, Paths, Neighbours, OnEdges, Reset]
LOOPS = [
    Neighbours, Outwards, Around, Spread, Echoes, Everything, Bounded, EdgesThroughout, Nested,
    OverEdges,
]  # fmt: skip
SETS = ["cpu:1+cpu:1", "cpu:1+cpu:1+cpu:1", "python+python"]
MIXED = ["cpu:2+python", "python+cpu:1+cpu:1"]
RANDOM = {
    "rmat": lambda: ev.generate.rmat(5, 4, seed=1),
    "directed": lambda: ev.generate.rmat(5, 3, seed=2, directed=True),
    "grid": lambda: ev.generate.grid(5, 7),
}
GRAPHS = {**DEGENERATE, **RANDOM}
FEW_SPLIT = ["random", "static", "high", crossing]
FEW_GRAPHS = ["one vertex", "one loop", "parallel arcs", "two components", "directed"]


def takes(program, name, *_):
    """Whether a program takes a graph: a search needs a source."""
    return name != "empty" or not (program in EXAMPLES or needs_source(program))


def check(program, name, devices, partition, policy, direction="auto"):
    check_all(program, name, devices, [(partition, policy)], direction)


def check_all(program, name, devices, ways, direction="auto"):
    graph = weighted_by_arc(GRAPHS[name]())
    if program.__name__ in ("Betweenness", "Components"):
        graph = graph.symmetrize()
    parameters = parameters_of(program, graph)
    if parameters is None or not suits(program, graph):
        pytest.skip(f"{program.__name__} does not take this graph")
    want = ev.run(program, graph, device="python", direction=direction, **parameters)
    for partition, policy in ways:
        have = ev.run(
            program, graph, device=devices, partition=partition, exchange=policy,
            direction=direction, **parameters,
        )  # fmt: skip
        compare(program, have, want)
        assert sum(have.stats.get("owned", [])) == graph.num_vertices


def named(cases):
    return [
        pytest.param(*case, id="-".join(getattr(v, "__name__", str(v)) for v in case))
        for case in cases
    ]


@pytest.mark.parametrize(
    ("program", "name", "devices", "partition", "policy"),
    named(pairwise(FEW_PROGRAMS, list(GRAPHS), SETS, SPLIT, list(NAMES), suits=takes)),
)
def test_sets(program, name, devices, partition, policy):
    """In one direction each, since every other is a kernel to be compiled."""
    check(program, name, devices, partition, policy, DIRECTION.get(program, "auto"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "name", "devices", "partition", "policy", "direction"),
    named(pairwise(PROGRAMS, list(GRAPHS), SETS, SPLIT, list(NAMES), DIRECTIONS, suits=takes)),
)
def test_sets_in_all_directions(program, name, devices, partition, policy, direction):
    check(program, name, devices, partition, policy, direction)


@pytest.mark.parametrize("program", COVERING["cpu_parts_of_one_thread"], ids=lambda p: p.__name__)
def test_programs_that_name_every_operator(program):
    for i, name in enumerate(("rmat", "directed", "grid")):
        if suits(program, weighted_by_arc(GRAPHS[name]())):
            with case(name):
                direction = DIRECTION.get(program, "auto")
                check(program, name, SETS[i % 2], SPLIT[i], list(NAMES)[i], direction)


def programs_and_graphs():
    """Each program on each graph; `make test` has each on one, without compiling it."""
    for i, program in enumerate(EXAMPLES):
        for j, name in enumerate(RANDOM):
            yield pytest.param(program, name, SETS[(i + j) % 3], marks=pytest.mark.slow)
            if i % len(RANDOM) == j:
                yield program, name, "python+python"


@pytest.mark.parametrize(("program", "name", "devices"), list(programs_and_graphs()))
def test_programs_of_the_examples(program, name, devices):
    at = EXAMPLES.index(program) + list(RANDOM).index(name)
    check(program, name, devices, SPLIT[at % len(SPLIT)], list(NAMES)[at // 3 % 3])


@pytest.mark.parametrize(
    ("program", "name", "devices", "partition", "policy"),
    named(pairwise(STAGES, FEW_GRAPHS, MIXED, FEW_SPLIT, list(NAMES), suits=takes)),
)
def test_compiled_beside_interpreted(program, name, devices, partition, policy):
    check(program, name, devices, partition, policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "name", "devices", "partition", "policy"),
    named(pairwise(STAGES, list(GRAPHS), MIXED, SPLIT, list(NAMES), suits=takes)),
)
def test_compiled_beside_interpreted_on_all_graphs(program, name, devices, partition, policy):
    check(program, name, devices, partition, policy)


@settings(max_examples=5)
@given(graphs(14, 50), st.data())
def test_any_assignment_will_do(graph, data):
    check_assignment(graph, data)


@pytest.mark.slow
@settings(max_examples=40)
@given(graphs(14, 50), st.data())
def test_more_assignments_will_do(graph, data):
    check_assignment(graph, data)


def check_assignment(graph, data):
    graph = weighted_by_arc(graph)
    n = graph.num_vertices
    assume(n > 2)
    drawn = data.draw(st.lists(st.integers(0, 2), min_size=n - 3, max_size=n - 3))
    part_of = np.array([0, 1, 2, *drawn])  # no part is empty, which would be refused
    for program in (Search, Paths, OnEdges, Reset):
        parameters = parameters_of(program, graph)
        want = ev.run(program, graph, device="python", **parameters)
        have = ev.run(
            program, graph, device="cpu:1+python+cpu:2", partition=lambda graph, shares: part_of,
            **parameters,
        )  # fmt: skip
        compare(program, have, want)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [*SETS, *MIXED])
@pytest.mark.parametrize("program", [*PROGRAMS, *EXAMPLES, *LOOPS])
def test_in_full(program, devices):
    policies: list = [*NAMES]
    if devices == "python+python" or program in (Search, Paths):  # compiled into the kernel
        policies.append(Half())
    ways = list(itertools.product(SPLIT, policies))
    for i, name in enumerate(GRAPHS):
        if parameters_of(program, weighted_by_arc(GRAPHS[name]())) is None:
            continue
        direction = DIRECTIONS[i % 3] if program in PROGRAMS else "auto"
        some = ways[i :: len(GRAPHS)] if devices in MIXED else ways
        check_all(program, name, devices, some, direction)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("devices", SETS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_in_full(name, devices):
    algorithm = ALGORITHMS[name]
    for directed in (False, True):
        graph = small(directed=directed)
        expected = algorithm(graph, device="cpu:1")
        for partition, policy in itertools.product(SPLIT, NAMES):
            found = algorithm(graph, device=devices, partition=partition, exchange=policy)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_beside_interpreted(name):
    graph, algorithm = small(directed=list(ALGORITHMS).index(name) % 2 == 1), ALGORITHMS[name]
    expected = algorithm(graph, device="cpu:1")
    for devices in MIXED:
        found = algorithm(graph, device=devices)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# ---- shapes of parts ------------------------------------------------------------------------

ALL_SETS = ["cpu:1+cpu:1+cpu:1", "cpu:1+python+cpu:1", "python+python+python"]


@pytest.mark.parametrize("devices", ALL_SETS)
def test_empty_parts_and_edges_that_all_cross(devices):
    check(Search, "grid", devices, "random:shares=9/0/1", "refined")
    check(Search, "grid", devices, "static:shares=0/0/1", "all")
    check(Search, "path", devices, crossing, "refined")


@pytest.mark.parametrize("devices", ["cpu:1", "python"])
def test_more_parts_than_vertices(devices):
    for name in ("cycle", "one loop", "isolated vertices"):
        check(Search, name, "+".join([devices] * 8), "auto", "refined")
        check(Search, name, "+".join([devices, *["python"] * 7]), "static", "refined")


# ---- mistakes -------------------------------------------------------------------------------


@pytest.mark.parametrize("devices", [*SETS, *MIXED])
def test_mistakes_of_partitioners(devices):
    graph = ev.generate.path(6)
    k = devices.count("+") + 1
    mistakes = {
        f"partitioner wrong must return 6 whole numbers from 0 to {k - 1}": [0] * 5,
        f"whole numbers from 0 to {k - 1}, not {k}": [k] * 6,
        f"whole numbers from 0 to {k - 1}, not -1": [0, 1, 0, 1, 0, -1],
        "not float64": [0.5] * 6,
        f"leaves part {k - 1} empty, whose share is": [*range(k - 1), *[0] * (7 - k)],
    }
    for message, returned in mistakes.items():

        def wrong(graph, shares, returned=returned):
            return returned

        with pytest.raises(ProgramError, match=message):
            ev.bfs(graph, 0, device=devices, partition=wrong)
    with pytest.raises(ev.EvenerError, match="there is no partitioner 'halves'"):
        ev.bfs(graph, 0, device=devices, partition="halves")


@pytest.mark.parametrize("devices", [*SETS, *MIXED])
def test_mistakes_of_policies_and_functions(devices):
    graph = ev.generate.path(6)

    class Looks:
        form = EVERY

        def reduce(self, changed, ghosts, owned, width):
            return self.form

        broadcast = reduce

    class Short:
        def reduce(self, changed):
            return EVERY

        broadcast = reduce

    for policy, message in (
        (Looks(), "reads self; it is compiled"),
        (Short(), "must take changed"),
    ):
        with pytest.raises(ev.EvenerError, match=message):
            ev.bfs(graph, 0, device=devices, exchange=policy)
    with pytest.raises(ProgramError, match="must take two arguments, the graph and the shares"):
        ev.bfs(graph, 0, device=devices, partition=lambda graph: [0] * 6)
    with pytest.raises(ProgramError, match="must return 6 whole numbers"):
        ev.bfs(graph, 0, device=devices, partition=lambda graph, shares: [[0], [1, 2]])


def test_a_form_that_does_not_exist():
    class Odd:
        def reduce(self, changed, ghosts, owned, width):
            return 99

        broadcast = reduce

    with pytest.raises(ev.EvenerError, match="an exchange policy returned 99; return CHANGED"):
        ev.bfs(ev.generate.path(6), 0, device="python+python", exchange=Odd())


def test_more_threads_than_there_can_be():
    most = most_threads()
    for devices in (f"cpu:{most + 1}", f"cpu:{most}+cpu:1", f"cpu:{most + 1}+python"):
        with pytest.raises(DeviceError, match="run (together|at once)"):
            ev.bfs(ev.generate.path(6), 0, device=devices)


def test_the_first_cpu_has_the_share_alpha():
    graph = ev.generate.star(40)
    found = {
        devices: ev.bfs(graph, 0, device=devices, partition="high:alpha=0.5").stats["owned"]
        for devices in ("cpu:1+python", "python+cpu:1")
    }
    assert found["cpu:1+python"] == [1, 39]  # the centre, which has half of the arcs
    assert found["python+cpu:1"] == [39, 1]


@pytest.mark.parametrize("devices", [*SETS, *MIXED])
def test_a_trace_is_a_table(devices, tmp_path):
    trace = ev.bfs(RANDOM["rmat"](), 0, device=devices).trace
    frame = trace.to_frame()
    assert "traffic" not in frame.columns
    for row in trace:
        parts = zip(row["compute_seconds"], row["communication_seconds"], strict=True)
        assert min(row["compute_seconds"]) >= 0
        if "python" not in devices:  # which take turns
            assert max(a + b for a, b in parts) <= row["seconds"] * 1.0001


@pytest.mark.parametrize("devices", ["cpu+tpu", "python+cpu:0", "cpu:1+cuda:77", "cpu+", "+"])
def test_devices_that_do_not_exist(devices):
    with pytest.raises(DeviceError, match=r"there is no (device|GPU)|No CUDA GPU|not installed"):
        ev.bfs(ev.generate.path(4), 0, device=devices)


def test_a_ghost_cannot_be_written_without_a_merge():
    with pytest.raises(ProgramError, match="writes seen of a vertex that another device may own"):

        class Careless(ev.Program):
            seen = ev.Field(np.int32)

            @ev.functor
            def touch(src, dst, edge, s):
                s.seen[dst] = 1
                return True

            loop = ev.stages.repeat(ev.stages.advance(touch))


@pytest.mark.parametrize("devices", [*SETS, *MIXED])
def test_limits_of_memory(devices):
    graph = ev.generate.star(80)
    names = devices.split("+")
    match = rf"bytes\) on {names[-1]} \(part {len(names) - 1}\), and memory_limit allow"
    with pytest.raises(MemoryBudgetError, match=match):
        ev.run(
            Search, graph, source=0, device=devices,
            memory_limit=[*[None] * (len(names) - 1), "100"],
        )  # fmt: skip
    found = ev.run(Search, graph, source=0, device=devices, memory_limit="1GiB")
    assert found.depth.max() == 1


# ---- failures -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "part", "fail"),
    [
        pytest.param("cpu:1+cpu:1+cpu:1", 2, fail_at, marks=pytest.mark.slow),
        ("cpu:2+python", 0, fail_beside_python),
        ("python+cpu:1+cpu:1", 1, fail_beside_python),
    ],
)
def test_a_device_that_fails_ends_the_run_at_once(devices, part, fail, monkeypatch):
    graph = RANDOM["grid"]()
    want = ev.run(Search, graph, source=0, device=devices).depth
    fail(monkeypatch, part, 2)
    for _ in range(2):  # the first time it also compiles
        with pytest.raises(
            DeviceError, match=rf"partition {part} on cpu:\d failed, so the run failed"
        ):
            ev.run(Search, graph, source=0, device=devices)
    monkeypatch.undo()
    assert np.array_equal(ev.run(Search, graph, source=0, device=devices).depth, want)


class Roots(ev.Program):
    """Plain Python knows no root of a negative number; compiled code does, it is not a number."""

    root = ev.Field(np.float64)

    @ev.functor
    def take(v, s):
        s.root[v] = math.sqrt(2.0 - s.id[v])

    loop = ev.stages.compute(take, over="all")


@pytest.mark.parametrize("devices", ["python+python", "cpu:1+python"])
def test_an_error_of_an_interpreted_part_names_its_line(devices):
    graph = ev.generate.path(6)
    with pytest.raises(ProgramError, match=r"Roots\.take, line \d+: ValueError"):
        ev.run(Roots, graph, device=devices, partition="contiguous")


def test_what_a_mixed_set_tells():
    found = ev.bfs(RANDOM["grid"](), 0, device="cpu:2+python", exchange="maximal_subset")
    assert found.stats["threads"] == [2, 0]
    assert found.stats["bytes_sent"] > found.stats["bytes_useful"] > 0
    assert "Stage by stage: compiled, threads: 2; interpreted." in found.explain()


def test_policies_of_interpreted_parts_count_bytes():
    sent = {
        policy: ev.bfs(RANDOM["rmat"](), 1, device="python+python", exchange=policy).stats
        for policy in NAMES
    }
    assert len({stats["bytes_useful"] for stats in sent.values()}) == 1
    assert sent["refined"]["bytes_sent"] <= sent["maximal_subset"]["bytes_sent"]
    assert sent["maximal_subset"]["bytes_sent"] <= sent["all"]["bytes_sent"]


@pytest.mark.slow
def test_thousands_of_runs_end():
    graph = weighted_by_arc(ev.generate.rmat(6, 4, seed=3))
    want = {
        program: ev.run(program, graph, source=1, device="python").to_numpy()
        for program in (Search, Nearest)
    }
    sets = ["cpu:1+cpu:1", "cpu:2+cpu:1", "cpu:1+cpu:1+cpu:1", "+".join(["cpu:1"] * 5)]
    for i in range(1000):
        program = (Search, Nearest)[i // 4 % 2]
        have = ev.run(
            program, graph, source=1, device=sets[i % 4], partition=f"random:seed={i % 7}",
            direction=("auto", "push")[i // 8 % 2],
        )  # fmt: skip
        field = "depth" if program is Search else "distance"
        assert np.array_equal(have.to_numpy()[field], want[program][field])


def test_weights_along_both_directions_of_a_part_with_edges_on_one_side():
    arcs = ev.Graph.from_edges([0, 2, 4], [1, 3, 5], [7, 8, 9])
    for devices in (SETS[0], SETS[2], MIXED[0]):
        found = ev.run(Around, arcs, device=devices, partition="static")
        want = ev.run(Around, arcs, device="python")
        assert np.array_equal(found.total, want.total)
