"""Every algorithm, device, direction and graph: serial reference, interpreter and `verify` agree.

`make test` runs a sample that has every pair of an algorithm and a graph, of an algorithm and a
device, of a device and a direction, and so on; the whole product is marked slow.
"""

import functools
import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest

import evener as ev
import references
from test_algorithms import DIRECTIONS, GRAPHS, random_graph, verify, weighted
from test_files_read import DATA, needs_data
from test_native import Everything, Hops

DEVICES = ["python", "cpu:1", "cpu:2"]
MATRIX = {
    **{name: graph for name, graph in GRAPHS.items() if graph.num_vertices},
    "large, directed": random_graph(900, 5000, directed=True, seed=11),
    "large, undirected": random_graph(900, 2500, directed=False, seed=12),
    "rmat, large": ev.generate.rmat(10, 8, seed=13),
}


def simple(graph):
    """Without parallel arcs, as NetworkX has it."""
    return ev.Graph.from_edges(
        graph._sources(), graph.indices, num_vertices=graph.num_vertices, duplicates="first",
        directed=graph.directed,
    )  # fmt: skip


def signed(graph):
    """Weights of both signs that a network settles with."""
    graph = weighted(graph, np.float32, spread=2)
    signs = np.where((graph._sources() + graph.indices) % 3 == 0, -0.5, 0.5).astype(np.float32)
    return ev.Graph(graph.indptr, graph.indices, graph.weights * signs, directed=graph.directed)


def plain(graph):
    """Labels as indices: what the checks below need."""
    return ev.Graph(graph.indptr, graph.indices, directed=graph.directed)


def held(graph):
    return {0: 1.0, graph.num_vertices - 1: -2.0}


def start(graph):
    return np.linspace(-1, 1, graph.num_vertices)


def sources(graph):
    """NetworkX takes minutes for the betweenness of large graphs; a few sources do there."""
    return None if graph.num_vertices < 200 else [0, 5, 17]


def near(graph):
    """The interpreter takes a while to let large circuits settle."""
    return 1e-7 if graph.num_vertices < 200 else 1e-3


# How the graph is made, how it runs, its array, what that must be (None: the verifier alone
# knows), and the verifier.
ALGORITHMS = {
    "bfs": (
        plain, lambda g, **o: ev.bfs(g, 0, **o), "depth",
        lambda g: references.depths(g, [0]), lambda g, r: verify(ev.bfs, g, r, 0),
    ),
    "sssp": (
        weighted, lambda g, **o: ev.sssp(g, 0, **o), "distance",
        lambda g: references.distances(g, [0]), lambda g, r: verify(ev.sssp, g, r, 0),
    ),
    "sswp": (
        weighted, lambda g, **o: ev.sswp(g, 0, **o), "width",
        lambda g: references.widths(g, [0]), lambda g, r: verify(ev.sswp, g, r, 0),
    ),
    "pagerank": (
        plain, lambda g, **o: ev.pagerank(g, tol=1e-10, max_iterations=500, **o), "rank",
        references.ranks, lambda g, r: verify(ev.pagerank, g, r, tol=1e-10),
    ),
    "connected_components": (
        plain, ev.connected_components, "component",
        references.components, lambda g, r: verify(ev.connected_components, g, r),
    ),
    "betweenness": (
        simple, lambda g, **o: ev.betweenness(g, sources=sources(g), **o), "score",
        lambda g: references.betweenness(g) if sources(g) is None else None,
        lambda g, r: verify(ev.betweenness, g, r, sources=sources(g)),
    ),
    "circuit": (
        lambda g: weighted(g, np.float64, spread=3),
        lambda g, **o: ev.circuit(g, held(g), tol=near(g), max_iterations=50_000, **o), "potential",
        lambda g: None, lambda g, r: verify(ev.circuit, g, r, held(g), tol=near(g)),
    ),
    "heat": (
        lambda g: weighted(g, np.float64, spread=3),
        lambda g, **o: ev.heat(g, start(g), step=0.001, tol=0, max_iterations=9, **o),
        "temperature", lambda g: references.temperatures(g, start(g), 0.001, 9), lambda g, r: None,
    ),
    "neural": (
        signed, lambda g, **o: ev.neural(g, initial=start(g), tol=0, max_iterations=7, **o),
        "activation", lambda g: references.activations(g, start(g), 7), lambda g, r: None,
    ),
}  # fmt: skip


@functools.cache
def expected(algorithm, name):
    """The graph, what the interpreter finds, and what a serial reference says."""
    made, run, field, reference, _ = ALGORITHMS[algorithm]
    graph = made(plain(MATRIX[name]))
    return graph, getattr(run(graph, device="python"), field), reference(graph)


def check(algorithm, device, direction, name):
    _, run, field, _, verified = ALGORITHMS[algorithm]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # some stop before they converge
        graph, interpreted, reference = expected(algorithm, name)
        result = run(graph, device=device, direction=direction)
    found = getattr(result, field)
    assert found.dtype == interpreted.dtype
    np.testing.assert_allclose(found, interpreted, rtol=1e-6, atol=1e-9)
    if reference is not None:
        np.testing.assert_allclose(found, reference, rtol=1e-6, atol=1e-8)
    verified(graph, result)


def sample():
    """For each algorithm and graph one device and direction, so that all pairs of them occur."""
    for (i, algorithm), (j, name) in itertools.product(enumerate(ALGORITHMS), enumerate(MATRIX)):
        yield algorithm, DEVICES[(i + j) % 3], DIRECTIONS[(i + 2 * j) % 3], name


SAMPLE = list(sample())
REST = [
    cell for cell in itertools.product(ALGORITHMS, DEVICES, DIRECTIONS, MATRIX)
    if cell not in set(SAMPLE)
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "device", "direction", "name"), SAMPLE)
def test_sample(algorithm, device, direction, name):
    check(algorithm, device, direction, name)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "device", "direction", "name"), REST)
def test_rest(algorithm, device, direction, name):
    check(algorithm, device, direction, name)


def test_the_sample_has_all_pairs():
    for a, b in itertools.combinations(range(4), 2):
        every = {(cell[a], cell[b]) for cell in [*SAMPLE, *REST]}
        assert {(cell[a], cell[b]) for cell in SAMPLE} == every


# ---- a real graph ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def new_york():
    return ev.load(DATA / "USA-road-d.NY.dedup.gr.gz")


@needs_data
@pytest.mark.parametrize("device", ["cpu:1", "cpu:2"])
def test_new_york(new_york, device):
    assert (new_york.num_vertices, new_york.num_edges) == (264_346, 730_100)
    assert ev.bfs(new_york, 1, device=device).depth.max() == 619
    for options in ({}, {"delta": 100}):
        result = ev.sssp(new_york, 1, device=device, **options)
        assert result.distance.max() == 1_440_081
        assert result.distance.sum() == 186_686_642_878
    verify(ev.sssp, new_york, result, 1)
    assert ev.connected_components(new_york, device=device).count == 1


# ---- races ----------------------------------------------------------------------------------


def stress(times):
    """Small runs again and again: a race shows as a difference now and then."""
    graph = ev.generate.rmat(6, 6, weights=(1, 9), seed=3)
    everything = ev.run(Everything, graph, device="python")
    depth = ev.run(Hops, graph, source=0, device="python").depth.tolist()
    distance = ev.sssp(graph, 0, device="python").distance.tolist()
    component = ev.connected_components(graph, device="python").component.tolist()
    score = ev.betweenness(graph, sources=[0, 1], device="python").score
    for i in range(times):
        device, direction = f"cpu:{2 + i % 3}", DIRECTIONS[i % 3]
        found = ev.run(Hops, graph, source=0, device=device, direction=direction)
        assert found.depth.tolist() == depth
        assert ev.sssp(graph, 0, device=device).distance.tolist() == distance
        assert ev.connected_components(graph, device=device).component.tolist() == component
        if i % 4 == 0:
            found = ev.run(Everything, graph, device=device)
            assert found.visits.tolist() == everything.visits.tolist()
            assert found.backed.tolist() == everything.backed.tolist()
            found = ev.betweenness(graph, sources=[0, 1], device=device)
            np.testing.assert_allclose(found.score, score, rtol=1e-9, atol=1e-12)


def test_hundreds_of_small_runs():
    stress(60)


@pytest.mark.slow
def test_thousands_of_small_runs():
    stress(2500)


# ---- cancellation ---------------------------------------------------------------------------

ENDLESS = {
    "pagerank": "ev.pagerank(ev.generate.rmat(12, 8), tol=0, max_iterations=10**9, device=d)",
    "sssp": "for _ in iter(int, 1): ev.sssp(road, 0, delta=1, device=d)",
    "betweenness": "ev.betweenness(ev.generate.grid(400, 400), device=d)",
    "edges": "ev.run(Endless, ev.generate.rmat(10, 8), device=d)",
}
INTERRUPTED = """
import _thread, sys, threading, time
import evener as ev
from evener.programs.stages import advance, compute, repeat
d = sys.argv[1]
road = ev.generate.path(1_000_000, weights=(1, 3))

class Endless(ev.Program):
    seen = ev.Field("int64", merge="sum")

    @ev.functor
    def every(src, dst, edge, s):
        return True

    @ev.functor
    def count(src, dst, edge, s):
        ev.atomic.add(s.seen, dst, 1)

    loop = repeat(advance(every, emit="edges"), compute(count), max_supersteps=10**12)

def interrupt():
    global asked
    asked = time.perf_counter()
    _thread.interrupt_main()

threading.Timer(4.0, interrupt).start()
try:
    CALL
    print("finished")
except KeyboardInterrupt:
    print(time.perf_counter() - asked)
print(ev.bfs(ev.generate.path(10), 0, device=d).depth.max())
"""


@pytest.mark.parametrize(
    ("name", "device"), [("pagerank", "cpu:2"), ("sssp", "cpu:1"), ("betweenness", "cpu:2"),
                         ("edges", "cpu:2")],
)  # fmt: skip
def test_ctrl_c_within_a_second(name, device, tmp_path):
    """The interrupt may meet the run or its compiling; the process is usable after both."""
    script = tmp_path / "interrupted.py"  # programs are read from files
    script.write_text(INTERRUPTED.replace("CALL", ENDLESS[name]))
    out = subprocess.run(
        [sys.executable, script, device], capture_output=True, text=True, timeout=120, check=True
    ).stdout.split()
    assert out[1] == "9"
    assert out[0] != "finished"
    assert float(out[0]) < 1.5  # a second, and what a busy machine adds
