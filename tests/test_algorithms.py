"""Every algorithm on every device, in every direction, against a serial reference and `verify`."""

import gzip
import importlib
import math
import os
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evener as ev
import references
from evener.algorithms import (
    betweenness,
    bfs,
    circuit,
    connected_components,
    heat,
    neural,
    pagerank,
    sssp,
    sswp,
)
from evener.algorithms.bfs import BFS
from graphs import DEGENERATE
from test_files_read import DATA, needs_data

pytestmark = pytest.mark.usefixtures("whole_crews")

DEVICES = ["python", "python+python", "cpu"]
DEVICES = os.environ.get("EVENER_TEST_DEVICES", " ".join(DEVICES)).split()
DIRECTIONS = ["auto", "push", "pull"]
EMPTY = DEGENERATE["empty"]()


def verify(algorithm, *arguments, **named):
    module = importlib.import_module(f"evener.algorithms.{algorithm.__name__}")
    return module.verify(*arguments, **named)


def weighted(graph, dtype=np.int32, spread=6):
    """The same graph with weights from 0, alike in both directions."""
    src, dst = graph._sources().astype(np.int64), graph.indices.astype(np.int64)
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    weights = ((low * 7 + high * 13 + low * high) % spread).astype(dtype)
    if weights.dtype.kind == "f":
        weights /= 4
    return ev.Graph(
        graph.indptr, graph.indices, weights, directed=graph.directed, labels=graph._labels
    )


def random_graph(n, m, *, directed, seed, labels=None):
    rng = np.random.default_rng(seed)
    return ev.Graph.from_edges(
        rng.integers(0, n, m),
        rng.integers(0, n, m),
        num_vertices=n,
        directed=directed,
        labels=labels,
    )


def _graphs():
    for name, make in DEGENERATE.items():
        for directed in (True, False):
            yield f"{name}, {'directed' if directed else 'undirected'}", make(directed=directed)
    for directed in (True, False):
        kind = "directed" if directed else "undirected"
        yield f"random, {kind}", random_graph(40, 70, directed=directed, seed=1)
        yield f"sparse, {kind}", random_graph(60, 45, directed=directed, seed=2)
        yield f"dense, {kind}", random_graph(15, 150, directed=directed, seed=3)
    yield "rmat", ev.generate.rmat(6, 4, seed=5)
    yield "grid", ev.generate.grid(7, 9)


GRAPHS = dict(_graphs())
NOT_EMPTY = {name: graph for name, graph in GRAPHS.items() if graph.num_vertices}


def parametrized(argument, table):
    return pytest.mark.parametrize(argument, table.values(), ids=table.keys())


on_devices = pytest.mark.parametrize("device", DEVICES)
alone = pytest.mark.parametrize("device", [name for name in DEVICES if "+" not in name])
everywhere = pytest.mark.parametrize(
    ("device", "direction"),
    [(name, way) for name in DEVICES for way in (DIRECTIONS if "+" not in name else ["auto"])],
)


def sources_of(graph):
    """One source, and several of them, as labels."""
    labels = graph.labels
    return [labels[0], labels[:: max(1, len(labels) // 3)].tolist()]


def indices(graph, source):
    return np.atleast_1d(graph.index_of(source)).tolist()


# ---- searches -------------------------------------------------------------------------------


@everywhere
@parametrized("graph", NOT_EMPTY)
def test_bfs(graph, direction, device):
    for source in sources_of(graph):
        result = bfs(graph, source, device=device, direction=direction)
        expected = references.depths(graph, indices(graph, source))
        assert result.depth.tolist() == expected.tolist()
        verify(bfs, graph, result, source)


@on_devices
@parametrized("graph", NOT_EMPTY)
def test_bfs_up_to_a_depth_or_a_target(graph, device):
    source, last = graph.labels[0], graph.labels[-1]
    full = references.depths(graph, [0])
    for cutoff in (0, 1, 2, 10**12):
        result = bfs(graph, source, cutoff=cutoff, device=device)
        assert result.depth.tolist() == np.where(full > cutoff, -1, full).tolist()
        verify(bfs, graph, result, source, cutoff=cutoff)
    for target in (source, last):
        result = bfs(graph, source, target=target, device=device)
        level = full[graph.index_of(target)]
        seen = full if level < 0 else np.where(full > level, -1, full)
        assert result.depth.tolist() == seen.tolist()


@everywhere
@parametrized("graph", NOT_EMPTY)
def test_sssp(graph, direction, device):
    for given_graph in (weighted(graph, np.int32), weighted(graph, np.float32, spread=3)):
        for source in sources_of(graph):
            result = sssp(given_graph, source, device=device, direction=direction)
            expected = references.distances(given_graph, indices(graph, source))
            assert result.distance.tolist() == expected.tolist()
            assert result.distance.dtype.kind == "f"
            verify(sssp, given_graph, result, source)


@on_devices
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("spread", [1, 5, 1000])
def test_sssp_of_any_weights(spread, dtype, device):
    for directed in (True, False):
        graph = weighted(random_graph(50, 150, directed=directed, seed=8), dtype, spread)
        result = sssp(graph, 3, device=device)
        assert result.distance.tolist() == references.distances(graph, [3]).tolist()
        verify(sssp, graph, result, 3)


@on_devices
@pytest.mark.parametrize("delta", [0.3, 1, 7, 1e9])
def test_sssp_of_any_delta(delta, device):
    graph = ev.generate.grid(8, 8, weights=(1, 9), seed=3)
    result = sssp(graph, 0, delta=delta, device=device)
    assert result.distance.tolist() == references.distances(graph, [0]).tolist()
    verify(sssp, graph, result, 0)
    usual = sssp(graph, 0, device=device)
    assert result.parent.tolist() == usual.parent.tolist()  # the tree does not depend on delta


@on_devices
@parametrized("graph", NOT_EMPTY)
def test_sssp_up_to_a_distance_or_a_target(graph, device):
    graph = weighted(graph)
    source, last = graph.labels[0], graph.labels[-1]
    full = references.distances(graph, [0])
    for cutoff in (0, 3.5, math.inf):
        result = sssp(graph, source, cutoff=cutoff, device=device)
        assert result.distance.tolist() == np.where(full > cutoff, np.inf, full).tolist()
        verify(sssp, graph, result, source, cutoff=cutoff)
    for target in (source, last):
        result = sssp(graph, source, target=target, device=device)
        bound = full[graph.index_of(target)]
        assert result.distance.tolist() == np.where(full > bound, np.inf, full).tolist()
        verify(sssp, graph, result, source, cutoff=bound)


@on_devices
def test_sssp_of_awkward_weights(device):
    infinite = ev.Graph.from_edges([0, 1], [1, 2], [1.0, np.inf])
    result = sssp(infinite, 0, device=device)
    assert result.distance.tolist() == [0, 1, np.inf]
    assert result.parent.tolist() == [-1, 0, -1]
    # 1 is lost beside 1e20: the arcs between 1 and 2 are level in both directions.
    absorbed = ev.Graph.from_edges([0, 1, 2], [1, 2, 1], [1e20, 1.0, 1.0])
    result = sssp(absorbed, 0, device=device)
    assert result.parent.tolist() == [-1, 0, 1]
    verify(sssp, absorbed, result, 0)
    large = ev.Graph.from_edges([0, 1, 2], [1, 2, 3], [2**31 - 1] * 3)
    assert sssp(large, 0, device=device).distance[3] == 3 * (2**31 - 1)


@everywhere
@parametrized("graph", NOT_EMPTY)
def test_sswp(graph, direction, device):
    for dtype in (np.int32, np.float64):
        given_graph = weighted(graph, dtype)
        for source in sources_of(graph):
            result = sswp(given_graph, source, device=device, direction=direction)
            expected = references.widths(given_graph, indices(graph, source))
            assert result.width.tolist() == expected.tolist()
            verify(sswp, given_graph, result, source)


# ---- components and centrality --------------------------------------------------------------


@on_devices
@parametrized("graph", GRAPHS)
def test_connected_components(graph, device):
    result = connected_components(graph, device=device)
    expected = references.components(graph)
    assert result.component.tolist() == expected.tolist()
    assert result.count == len(np.unique(expected))
    verify(connected_components, graph, result)


@on_devices
@settings(deadline=None, max_examples=40)
@given(n=st.integers(1, 30), m=st.integers(0, 60), directed=st.booleans(), seed=st.integers(0, 999))
def test_connected_components_of_any_graph(device, n, m, directed, seed):
    graph = random_graph(n, m, directed=directed, seed=seed)
    result = connected_components(graph, device=device)
    assert result.component.tolist() == references.components(graph).tolist()


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@parametrized("graph", GRAPHS)
def test_pagerank(graph, dtype, device):
    near = 1e-9 if dtype == np.float64 else 1e-5
    options = {"tol": near / 10 if dtype == np.float64 else near, "device": device, "dtype": dtype}
    result = pagerank(graph, max_iterations=500, **options)
    assert result.stats["converged"] is True
    assert result.rank.dtype == dtype
    # An iteration shrinks the error to 0.85 of it, so it is at most 0.85 / 0.15 of the last move.
    np.testing.assert_allclose(result.rank, references.ranks(graph), atol=6 * near)
    verify(pagerank, graph, result, tol=options["tol"])


@on_devices
@parametrized("graph", GRAPHS)
def test_pagerank_with_weights_and_preferences(graph, device):
    heavy = weighted(graph)
    result = pagerank(heavy, weighted=True, tol=1e-10, max_iterations=500, device=device)
    np.testing.assert_allclose(result.rank, references.ranks(heavy, weighted=True), atol=1e-9)
    verify(pagerank, heavy, result, weighted=True, tol=1e-10)
    if graph.num_vertices == 0:
        return
    wish = {graph.labels[0]: 3, graph.labels[-1]: 1}
    jumps = np.zeros(graph.num_vertices)
    jumps[0] = 3
    jumps[-1] = 1
    for given_wish in (wish, jumps):
        result = pagerank(
            graph, personalization=given_wish, damping=0.5, tol=1e-10, device=device
        )  # fmt: skip
        jumps = jumps if graph.num_vertices > 1 else np.ones(1)
        expected = references.ranks(graph, damping=0.5, jumps=jumps)
        np.testing.assert_allclose(result.rank, expected, atol=1e-9)
        verify(pagerank, graph, result, personalization=given_wish, damping=0.5, tol=1e-10)


@on_devices
def test_pagerank_that_is_cut_short(device):
    graph = ev.generate.rmat(6, 4, seed=5)
    with pytest.warns(RuntimeWarning, match="did not converge in 3 iterations"):
        result = pagerank(graph, tol=0, max_iterations=3, device=device)
    assert result.stats["converged"] is False
    np.testing.assert_allclose(result.rank, references.ranks(graph, iterations=3), rtol=1e-12)
    assert list(result.to_numpy()) == ["rank"]


@on_devices
@pytest.mark.parametrize("normalized", [True, False])
@parametrized("graph", GRAPHS)
def test_betweenness(graph, normalized, device):
    simple = ev.Graph.from_edges(
        graph._sources(), graph.indices, num_vertices=graph.num_vertices, duplicates="first",
        directed=graph.directed,
    )  # fmt: skip
    result = betweenness(simple, normalized=normalized, device=device)
    expected = references.betweenness(simple, normalized=normalized)
    np.testing.assert_allclose(result.score, expected, rtol=1e-9, atol=1e-12)
    verify(betweenness, simple, result, normalized=normalized)
    if simple.num_vertices > 3:
        chosen = graph.labels[:3].tolist()
        for sources in (chosen, 2, simple.num_vertices):
            result = betweenness(graph, sources=sources, normalized=normalized, device=device)
            verify(betweenness, graph, result, sources=sources, normalized=normalized)


@on_devices
def test_betweenness_from_a_sample_as_networkx_scales_it(device, monkeypatch):
    import networkx as nx

    graph = ev.generate.rmat(5, 4, seed=2)
    other = graph.to_networkx()
    chosen = [3, 7, 11, 20]
    monkeypatch.setattr("random.Random.sample", lambda self, population, k: chosen)
    for normalized in (True, False):
        expected = nx.betweenness_centrality(other, k=4, normalized=normalized, seed=1)
        result = betweenness(graph, sources=chosen, normalized=normalized, device=device)
        np.testing.assert_allclose(result.score, [expected[v] for v in range(32)], rtol=1e-9)
    single = betweenness(graph, sources=[3], device=device).score
    assert np.flatnonzero(np.isnan(single)).tolist() == [3]


@alone
@pytest.mark.parametrize("directed", [True, False])
def test_betweenness_of_several_sources_side_by_side(device, directed, monkeypatch):
    whole = ev.generate.rmat(6, 4, seed=3)
    graph = ev.Graph.from_edges(whole._sources(), whole.indices[::-1], directed=directed)
    sources = [3, 5, 9, 11, 20, 21, 30]
    monkeypatch.setattr("evener.engine.side_by_side.side_by_side", lambda *given: 3)
    result = betweenness(graph, sources=sources, device=device)
    assert result.graph is graph
    assert len(result.score) == graph.num_vertices
    verify(betweenness, graph, result, sources=sources)


@alone
def test_betweenness_where_counts_exceed_floats(device):
    # A float holds counts up to 2^1024; this chain of diamonds has 2^1200 paths from end to end,
    # and beside it runs a plain path of the same length, so that a level holds 1 and 2^1200.
    links = 1200
    left = np.arange(0, 3 * links, 3)
    src = np.concatenate([left, left, left + 1, left + 2])
    dst = np.concatenate([left + 1, left + 2, left + 3, left + 3])
    beside = np.arange(3 * links + 1, 5 * links)
    src = np.concatenate([src, [0], beside])
    dst = np.concatenate([dst, beside, [3 * links]])
    for directed in (True, False):
        chain = ev.Graph.from_edges(src, dst, directed=directed)
        result = betweenness(chain, sources=[0, 3 * links], device=device)
        assert np.isfinite(result.score).all()
        verify(betweenness, chain, result, sources=[0, 3 * links])


@alone
def test_betweenness_of_a_lattice(device):
    side = 200 if device != "python" else 40
    lattice = ev.generate.grid(side, side)
    result = betweenness(lattice, sources=[0], device=device)
    verify(betweenness, lattice, result, sources=[0])


# ---- simulations ----------------------------------------------------------------------------


@on_devices
@parametrized("graph", NOT_EMPTY)
def test_circuit(graph, device):
    graph = weighted(graph, np.float64, spread=3)
    fixed = {graph.labels[0]: 1.0, graph.labels[-1]: -2.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = circuit(graph, fixed, tol=1e-9, max_iterations=50_000, device=device)
    verify(circuit, graph, result, fixed, tol=1e-9)


@on_devices
def test_circuit_against_a_solver(device):
    graph = ev.generate.grid(5, 6, weights=(1, 9), seed=1)
    fixed = {0: 5.0, 29: -5.0, 13: 1.0}
    result = circuit(graph, fixed, tol=1e-12, max_iterations=5000, device=device)
    np.testing.assert_allclose(result.potential, references.potentials(graph, fixed), atol=1e-9)
    again = circuit(graph, fixed, initial=result.potential, device=device)
    assert again.stats["supersteps"] == 1


@on_devices
@parametrized("graph", NOT_EMPTY)
def test_heat(graph, device):
    graph = weighted(graph, np.float64, spread=3)
    start = {graph.labels[0]: 8.0, graph.labels[-1]: 2.0}
    result = heat(graph, start, tol=1e-7, max_iterations=20_000, device=device)
    assert result.stats["converged"] is True
    verify(heat, graph, result, start, tol=1e-7)
    values = np.arange(graph.num_vertices, dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = heat(graph, values, step=0.01, tol=0, max_iterations=5, device=device)
    assert result.stats["converged"] is False
    expected = references.temperatures(graph, values, 0.01, 5)
    np.testing.assert_allclose(result.temperature, expected, rtol=1e-12)


@on_devices
@parametrized("graph", NOT_EMPTY)
def test_neural(graph, device):
    graph = weighted(graph, np.float32, spread=2)
    signs = np.where((graph._sources() + graph.indices) % 3 == 0, -0.5, 0.5).astype(np.float32)
    graph = ev.Graph(
        graph.indptr, graph.indices, graph.weights * signs, directed=graph.directed,
        labels=graph._labels,
    )  # fmt: skip
    values = np.linspace(-1, 1, graph.num_vertices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = neural(graph, initial=values, tol=0, max_iterations=7, device=device)
        np.testing.assert_allclose(
            result.activation, references.activations(graph, values, 7), atol=1e-12
        )
        result = neural(graph, initial=values, device=device)
    if result.stats["converged"]:
        verify(neural, graph, result, initial=values)


# ---- published answers ----------------------------------------------------------------------


def answers(path):
    raw = path.read_bytes()
    text = gzip.decompress(raw).decode() if path.suffix == ".gz" else raw.decode()
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    return {int(vertex): float(value) for vertex, value in pairs}


def array_of(graph, found):
    return np.array([found[label] for label in graph.labels.tolist()])


def partition_of(values):
    """The first index with the same value, so that any two labellings compare."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    return first[inverse].tolist()


def as_published(depth):
    return np.where(depth < 0, 2.0**63, depth).tolist()


GRAPHALYTICS = DATA / "graphalytics"


@needs_data
@on_devices
@pytest.mark.parametrize("directed", [True, False])
def test_graphalytics_examples(directed, device):
    kind = "directed" if directed else "undirected"
    folder = GRAPHALYTICS / "example"
    graph = ev.load(folder / f"example-{kind}.v", directed=directed)
    source = 1 if directed else 2

    def expected(name):
        return array_of(graph, answers(folder / f"example-{kind}-{name}"))

    depth = bfs(graph, source, device=device).depth
    assert as_published(depth) == expected("BFS").tolist()
    found = sssp(graph, source, device=device).distance
    np.testing.assert_allclose(found, expected("SSSP"), rtol=1e-6)
    component = connected_components(graph, device=device).component
    assert partition_of(component) == partition_of(expected("WCC"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rank = pagerank(graph, tol=0, max_iterations=2, device=device).rank
    np.testing.assert_allclose(rank, expected("PR"), rtol=1e-4)


@needs_data
@on_devices
@pytest.mark.parametrize("kind", ["dir", "undir"])
def test_graphalytics_validation(kind, device):
    directed = kind == "dir"

    def load(name, suffix=""):
        graph = ev.load(GRAPHALYTICS / name / f"{kind}-input{suffix}", directed=directed)
        return graph, array_of(graph, answers(GRAPHALYTICS / name / f"{kind}-output"))

    graph, expected = load("bfs")
    depth = bfs(graph, 1, device=device).depth
    assert as_published(depth) == expected.tolist()
    graph, expected = load("wcc")
    assert partition_of(connected_components(graph, device=device).component) == partition_of(
        expected
    )
    graph, expected = load("sssp", ".v")
    np.testing.assert_allclose(sssp(graph, 1, device=device).distance, expected, rtol=1e-4)
    graph, expected = load("pr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rank = pagerank(graph, tol=0, max_iterations=14 if directed else 26, device=device).rank
    np.testing.assert_allclose(rank, expected, rtol=1e-4)


@needs_data
@on_devices
def test_p2p_31(device):
    folder = DATA / "p2p-31"
    graph = ev.load(folder / "p2p-31", directed=False)
    depth = bfs(graph, 6, device=device).depth
    expected = array_of(graph, answers(folder / "p2p-31-bfs_auto.gz"))
    assert as_published(depth) == expected.tolist()
    result = connected_components(graph, device=device)
    assert result.count == 12
    expected = array_of(graph, answers(folder / "p2p-31-wcc_auto.gz"))
    assert partition_of(result.component) == partition_of(expected)


# ---- what is refused ------------------------------------------------------------------------

PATH = ev.generate.path(4)
ROAD = weighted(PATH)
NEGATIVE = ev.Graph.from_edges([0], [1], [-1])
NOT_A_NUMBER = ev.Graph(np.array([0, 1, 1]), np.array([1], np.int32), np.array([np.nan]))

INFINITE = ev.Graph.from_edges([0, 1], [1, 2], [1.0, math.inf])
BOTH_INFINITIES = ev.Graph.from_edges([0, 1], [1, 2], [-math.inf, math.inf])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: bfs(PATH, 9), "vertex 9 is not in the graph"),
        (lambda: bfs(PATH, [0, "a"]), "not in the graph"),
        (lambda: bfs(EMPTY, 0), "vertex 0 is not in the graph"),
        (lambda: bfs(PATH, 0, target=7), "vertex 7 is not in the graph"),
        (lambda: bfs(PATH, 0, target=[1, 2]), "must be one vertex"),
        (lambda: bfs(PATH, 0, cutoff=-1), "cutoff is -1; it must be at least 0"),
        (lambda: bfs(PATH, 0, cutoff=1.5), "cutoff is 1.5; it must be a whole number"),
        (lambda: sssp(PATH, 0), "sssp needs weights"),
        (lambda: sssp(ROAD, 5), "vertex 5 is not in the graph"),
        (lambda: sssp(ROAD, 0, delta=0), "delta is 0"),
        (lambda: sssp(ROAD, 0, delta="wide"), "delta is 'wide'; it must be a number"),
        (
            lambda: sssp(ROAD, 0, delta=np.ones(50)),
            r"delta is an array of shape \(50,\); it must be a",
        ),
        (lambda: sssp(ROAD, 0, cutoff=math.nan), "cutoff is nan"),
        (
            lambda: bfs(PATH, 0, cutoff=np.ones(50)),
            r"cutoff is an array of shape \(50,\); it must be",
        ),
        (lambda: sssp(NEGATIVE, 0), "no negative weights"),
        (lambda: sssp(NOT_A_NUMBER, 0), "NaN"),
        (lambda: sswp(PATH, 0), "sswp needs weights"),
        (lambda: sswp(NEGATIVE, 0), "no negative weights"),
        (lambda: sswp(NOT_A_NUMBER, 0), "NaN"),
        (lambda: pagerank(PATH, damping=1.5), "damping is 1.5; it must be from 0 to 1"),
        (lambda: pagerank(PATH, damping="high"), "damping is 'high'; it must be a number"),
        (lambda: pagerank(PATH, tol=-1), "tol is -1"),
        (lambda: pagerank(PATH, max_iterations=-1), "max_iterations is -1"),
        (lambda: pagerank(PATH, max_iterations=2.5), "max_iterations is 2.5"),
        (lambda: pagerank(PATH, dtype=int), "takes float32 or float64"),
        (lambda: pagerank(PATH, dtype="x"), "takes float32 or float64"),
        (lambda: pagerank(PATH, weighted=True), "needs weights"),
        (lambda: pagerank(NEGATIVE, weighted=True), "no negative weights"),
        (lambda: pagerank(PATH, personalization={9: 1}), "vertex 9 is not in the graph"),
        (lambda: pagerank(PATH, personalization={0: -1}), "no negative value"),
        (lambda: pagerank(PATH, personalization={}), "one above 0"),
        (lambda: pagerank(PATH, personalization=[1, 2]), "has shape"),
        (lambda: pagerank(PATH, personalization={0: math.inf}), "not finite"),
        (lambda: betweenness(PATH, sources=0), "sources is 0"),
        (lambda: betweenness(PATH, sources=5), "sources is 5"),
        (
            lambda: betweenness(PATH, sources=2, seed=-1),
            "seed is -1; .* whole number of at least 0",
        ),
        (
            lambda: betweenness(PATH, sources=2, seed="x"),
            "seed is 'x'; .* whole number of at least 0",
        ),
        (lambda: betweenness(PATH, sources=2, seed=1.5), "seed is 1.5"),
        (lambda: betweenness(PATH, seed=-1), "seed is -1"),
        (lambda: betweenness(PATH, sources=[]), "at least one"),
        (lambda: betweenness(PATH, sources=[1, 1]), "different labels"),
        (lambda: betweenness(PATH, sources=[9]), "vertex 9 is not in the graph"),
        (lambda: circuit(PATH, {}), "circuit needs weights"),
        (lambda: circuit(ROAD, {9: 1}), "vertex 9 is not in the graph"),
        (lambda: circuit(ROAD, 3), "must be a dict"),
        (lambda: circuit(ROAD, {0: "x"}), "fixed is"),
        (lambda: circuit(NEGATIVE, {}), "no negative weights"),
        (lambda: heat(PATH, 1), "heat needs weights"),
        (lambda: heat(ROAD, 1, step=5), "diverge"),
        (lambda: heat(ROAD, "hot"), "initial is str"),
        (lambda: circuit(INFINITE, {0: 1}), "circuit takes no infinite weights, but one is inf"),
        (lambda: heat(INFINITE, {0: 1}), "heat takes no infinite weights, but one is inf"),
        (lambda: neural(INFINITE), "neural takes no infinite weights, but one is inf"),
        (lambda: neural(BOTH_INFINITIES), "no infinite weights, but one is -inf"),
        (lambda: pagerank(INFINITE, weighted=True), "no infinite weights, but one is inf"),
        (lambda: neural(PATH), "neural needs weights"),
        (lambda: neural(NOT_A_NUMBER), "NaN"),
        (lambda: neural(ROAD, initial=[1, math.nan, 0, 0]), "not finite"),
    ],
)
def test_bad_arguments(call, says):
    with pytest.raises(ev.GraphError, match=says) as caught:
        call()
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize("call", [
    lambda **o: bfs(PATH, 0, **o), lambda **o: sssp(ROAD, 0, **o), lambda **o: sswp(ROAD, 0, **o),
    lambda **o: pagerank(PATH, **o), lambda **o: connected_components(PATH, **o),
    lambda **o: betweenness(PATH, **o), lambda **o: circuit(ROAD, {0: 1}, **o),
    lambda **o: heat(ROAD, 1, **o), lambda **o: neural(ROAD, **o),
])  # fmt: skip
def test_bad_devices_and_options(call):
    with pytest.raises(ev.DeviceError, match="abacus"):
        call(device="abacus")
    with pytest.raises(ev.ProgramError, match="wings"):
        call(wings=2, device="python")


@pytest.mark.parametrize("call", [
    lambda g: bfs(g, 0), lambda g: bfs(g, 0, target=1), lambda g: sssp(g, 0), lambda g: sswp(g, 0),
    pagerank, lambda g: pagerank(g, weighted=True), connected_components, betweenness,
    lambda g: betweenness(g, sources=2), lambda g: circuit(g, {0: 1}), lambda g: heat(g, 1), neural,
    lambda g: ev.run(BFS, g, source=0),
])  # fmt: skip
def test_what_is_no_graph(call):
    with pytest.raises(ev.GraphError, match="is of type str; it must be a Graph, made by .*load"):
        call("roads.gr")


@on_devices
def test_infinite_weights_without_sums(device):
    assert sswp(INFINITE, 0, device=device).width.tolist() == [math.inf, 1, 1]
    assert pagerank(INFINITE, device=device).stats["converged"]  # it does not read them


def test_graphs_without_vertices():
    no_roads = ev.Graph.from_edges([], [], np.array([], float))
    assert connected_components(EMPTY).count == 0
    assert pagerank(EMPTY).stats["converged"] is True
    assert len(betweenness(EMPTY).score) == 0
    assert len(circuit(no_roads, {}).potential) == 0
    assert len(heat(no_roads, 1.0).temperature) == 0
    assert len(neural(no_roads).activation) == 0
    assert len(pagerank(no_roads, weighted=True).rank) == 0


# ---- the verifiers can fail -----------------------------------------------------------------


def spoilt(result, name, index, value):
    """A result with one value changed."""
    fields = {field: array.copy() for field, array in result.to_numpy().items()}
    fields[name][index] = value
    if hasattr(result, "count"):
        fields["count"] = result.count
    return SimpleNamespace(**fields)


GRID = ev.generate.grid(4, 4, weights=(1, 9), seed=2)
TWO = ev.Graph.from_edges([0, 1, 3], [1, 2, 4], [1.0, 2.0, 3.0], directed=False)


@pytest.mark.parametrize(
    ("algorithm", "graph", "arguments", "changes"),
    [
        (bfs, GRID, [0], [
            ("depth", 5, 1), ("depth", 5, 3), ("depth", 5, -1), ("depth", 0, 1), ("depth", 15, 7),
            ("parent", 0, 1), ("parent", 5, 10), ("parent", 5, -1), ("parent", 15, 0),
        ]),
        (bfs, TWO, [0], [("depth", 3, 1), ("parent", 3, 0), ("depth", 4, 0)]),
        (sssp, GRID, [0], [
            ("distance", 5, 0.5), ("distance", 5, 1e3), ("distance", 5, np.inf), ("distance", 0, 1),
            ("distance", 5, np.nan), ("parent", 0, 1), ("parent", 5, -1), ("parent", 5, 15),
        ]),
        (sssp, TWO, [0], [("distance", 3, 1), ("parent", 3, 4)]),
        (sswp, GRID, [0], [("width", 5, 0), ("width", 5, 1e3), ("width", 0, 5), ("width", 5, np.nan)]),
        (sswp, TWO, [0], [("width", 4, 3.0), ("width", 2, np.inf)]),
        (connected_components, TWO, [], [("component", 1, 1), ("component", 3, 0), ("component", 0, 3)]),
        (pagerank, GRID, [], [("rank", 0, 0.5), ("rank", 0, -0.1), ("rank", 3, 0), ("rank", 3, np.nan)]),
        (betweenness, GRID, [], [("score", 5, 0), ("score", 5, -1), ("score", 0, np.nan)]),
    ],
)  # fmt: skip
def test_verifiers_find_what_is_wrong(algorithm, graph, arguments, changes):
    result = algorithm(graph, *arguments, device="python")
    verify(algorithm, graph, result, *arguments)
    for change in changes:
        with pytest.raises(AssertionError, match="."):
            verify(algorithm, graph, spoilt(result, *change), *arguments)


def test_verifiers_of_simulations_find_what_is_wrong():
    result = circuit(GRID, {0: 1.0, 15: 0.0}, device="python")
    for index, value in ((5, 0.9), (0, 0.5), (5, np.nan)):
        with pytest.raises(AssertionError):
            verify(circuit, GRID, spoilt(result, "potential", index, value), {0: 1.0, 15: 0.0})
    result = heat(GRID, {0: 16.0}, device="python")
    for index, value in ((5, 0.9), (5, -1), (5, 99), (5, np.nan)):
        with pytest.raises(AssertionError):
            verify(heat, GRID, spoilt(result, "temperature", index, value), {0: 16.0})
    chain = ev.Graph.from_edges([0, 1], [1, 2], [0.5, 0.5])
    result = neural(chain, device="python")
    for index, value in ((0, 0.9), (2, 0.9), (1, np.nan)):
        with pytest.raises(AssertionError):
            verify(neural, chain, spoilt(result, "activation", index, value))


def test_a_circle_of_parents_is_found():
    level = ev.Graph.from_edges([0, 1, 1, 2], [1, 0, 2, 1], [4, 4, 0, 0])
    result = sssp(level, 0, device="python")
    verify(sssp, level, result, 0)
    assert result.parent.tolist() == [-1, 0, 1]
    with pytest.raises(AssertionError, match="cycle"):
        verify(sssp, level, spoilt(result, "parent", 1, 2), 0)


# ---- parameters that there are not ------------------------------------------------------------


@pytest.mark.parametrize("name", ["scale", "copies", "scale_of_sources"])
def test_parameters_of_the_program_are_not_those_of_the_function(name):
    message = rf"betweenness has no parameter '{name}'.*it takes sources, normalized, seed, and "
    with pytest.raises(ev.ProgramError, match=message) as caught:
        ev.betweenness(ev.generate.path(4), sources=2, device="python", **{name: 2})
    assert str(caught.value).count("scale") == str(caught.value).count(name) * ("scale" in name)


@pytest.mark.parametrize("name", ev.algorithms.__all__)
def test_misspelt_options_are_named_with_those_that_there_are(name):
    graph = ev.generate.path(4, weights=(1, 9))
    needed = {"bfs": [0], "sssp": [0], "sswp": [0], "circuit": [{0: 1.0}], "heat": [{0: 1.0}]}
    message = rf"{name} has no parameter 'devise' \(did you mean 'device'\?\).*memory_limit"
    with pytest.raises(ev.ProgramError, match=message):
        getattr(ev, name)(graph, *needed.get(name, []), devise="cpu")
