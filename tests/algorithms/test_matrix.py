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
from comparing import case
from evener.engine.request import DIRECTIONS
from graphs import FAMILIES, NOT_EMPTY, Made, random_graph, weighted, with_int64_weights
from places import DATA, needs_data
from programs.searches import Search
from programs.stages import Everything
from references import verify

DEVICES = ["python", "cpu:1", "cpu:2"]
GRAPHS = Made(
    {
        **{name: functools.partial(FAMILIES.__getitem__, name) for name in NOT_EMPTY},
        "large, directed": lambda: random_graph(400, 2200, directed=True, seed=11),
        "large, undirected": lambda: random_graph(400, 1100, directed=False, seed=12),
        "rmat, large": lambda: ev.generate.rmat(9, 8, seed=13),
    }
)
# The others differ from these in ways that matter to `test_searches` and its like, which have them.
FEW = [
    "one vertex, undirected", "self-loops, directed", "parallel arcs, undirected",
    "two components, directed", "star, undirected", "path, directed", "complete, undirected",
    "random, directed", "dense, undirected", "sparse, directed", "rmat", "large, directed",
    "large, undirected",
]  # fmt: skip


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
    graph = made(plain(GRAPHS[name]))
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
    for (i, algorithm), (j, name) in itertools.product(enumerate(ALGORITHMS), enumerate(FEW)):
        device, direction = DEVICES[(i + j) % 3], DIRECTIONS[(i + 2 * j) % 3]
        if algorithm in (
            "betweenness",
            "sssp",
        ):  # kernels are large: only those of "auto" are compiled
            direction = DIRECTIONS[j // 3 % 3] if device == "python" else "auto"
        yield algorithm, device, direction, name


SAMPLE = list(sample())


@pytest.mark.parametrize(("algorithm", "device", "direction", "name"), SAMPLE)
def test_sample(algorithm, device, direction, name):
    check(algorithm, device, direction, name)


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all(algorithm, device, direction):
    for name in GRAPHS:
        with case(name):
            check(algorithm, device, direction, name)


def test_the_sample_has_all_pairs():
    factors = [list(ALGORITHMS), DEVICES, list(DIRECTIONS), FEW]
    for a, b in itertools.combinations(range(4), 2):
        every = set(itertools.product(factors[a], factors[b]))
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
    wide = with_int64_weights(graph)
    everything = ev.run(Everything, wide, device="python")
    depth = ev.run(Search, graph, source=0, device="python").depth.tolist()
    distance = ev.sssp(graph, 0, device="python").distance.tolist()
    component = ev.connected_components(graph, device="python").component.tolist()
    score = ev.betweenness(graph, sources=[0, 1], device="python").score
    for i in range(times):
        device, direction = f"cpu:{2 + i % 3}", DIRECTIONS[i % 3]
        found = ev.run(Search, graph, source=0, device=device, direction=direction)
        assert found.depth.tolist() == depth
        assert ev.sssp(graph, 0, device=device).distance.tolist() == distance
        assert ev.connected_components(graph, device=device).component.tolist() == component
        if i % 4 == 0:
            found = ev.run(Everything, wide, device=device)
            assert found.visits.tolist() == everything.visits.tolist()
            assert found.backed.tolist() == everything.backed.tolist()
            found = ev.betweenness(graph, sources=[0, 1], device=device)
            np.testing.assert_allclose(found.score, score, rtol=1e-9, atol=1e-12)


def test_hundreds_of_small_runs():
    stress(60)


@pytest.mark.slow
def test_thousands_of_small_runs():
    stress(1000)


# ---- cancellation ---------------------------------------------------------------------------

INTERRUPTED = """
import _thread, threading
import evener as ev
from evener.programs.stages import advance, compute, repeat

class Endless(ev.Program):
    seen = ev.Field("int64", merge="sum")

    @ev.functor
    def every(src, dst, edge, s):
        return True

    @ev.functor
    def count(src, dst, edge, s):
        ev.atomic.add(s.seen, dst, 1)

    loop = repeat(advance(every, emit="edges"), compute(count), max_supersteps=10**12)

rmat, road = ev.generate.rmat(10, 8), ev.generate.path(1_000_000, weights=(1, 3))
lattice, small = ev.generate.grid(400, 400), ev.generate.path(5, weights=(1, 3))
options = {"tol": 0, "max_iterations": 10**9}

def again_and_again(call):
    for _ in iter(int, 1):
        call()

# Each first as a run that ends, so that the interrupt meets no compiler, and then without end.
CALLS = [
    (lambda: ev.pagerank(small, device="cpu:2"),
     lambda: ev.pagerank(rmat, device="cpu:2", **options)),
    (lambda: ev.sssp(small, 0, delta=1, device="cpu:1"),
     lambda: again_and_again(lambda: ev.sssp(road, 0, delta=1, device="cpu:1"))),
    (lambda: ev.betweenness(small, device="cpu:2"),
     lambda: ev.betweenness(lattice, device="cpu:2")),
    (lambda: None, lambda: ev.run(Endless, rmat, device="cpu:2")),  # this one may meet it
    (lambda: ev.bfs(small, 0, device="cpu:2", direction="push"),
     lambda: again_and_again(lambda: ev.bfs(road, 0, device="cpu:2", direction="push"))),
]
for prepare, call in CALLS:
    prepare()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    try:
        call()
        print("finished")
    except KeyboardInterrupt:
        print(ev.bfs(ev.generate.path(10), 0, device="cpu:2").depth.max())
"""


def test_ctrl_c_ends_calls_that_have_no_end(tmp_path):
    """The process is usable after each of them."""
    script = tmp_path / "interrupted.py"  # programs are read from files
    script.write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["9"] * 5
