"""Runs drawn by number: a graph, an algorithm, a set of devices and options, against SciPy.

`make test` has a few small ones on kernels that other tests compile too, `make test-all` three
thousand. A run that fails is found again by its number: ``check(4711)``.
"""

import random
import warnings

import numpy as np
import pytest
from scipy.sparse import csgraph, csr_array

import evener as ev
import references
from evener.engine.partition.partitioners import PARTITIONERS
from evener.engine.request import DIRECTIONS
from evener.operators.shared.policies import NAMES
from graphs import DEGENERATE
from references import verify

ALONE = ["python", "cpu", "cpu:1", "cpu:2", "cpu:3"]
SETS = [
    "python+python", "cpu+cpu", "cpu:1+cpu:2", "cpu:1+cpu:1+cpu:1", "cpu:2+python",
    "python+cpu:1+cpu:1",
]  # fmt: skip
SPLIT = [p for p in PARTITIONERS if p != "metis"]
DTYPES = [None, np.int32, np.int64, np.float32, np.float64]


def draw_graph(rng, dtypes, most):
    """A graph with loops and parallel arcs, or of a family, or a degenerate one."""
    directed, seed = rng.random() < 0.5, rng.randrange(1 << 30)
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice(list(DEGENERATE.values()))(directed=directed)
    if kind == 1:
        return ev.generate.grid(
            rng.randint(1, most // 50), rng.randint(1, 30), removed=rng.random() / 3
        )
    if kind == 2:
        return ev.generate.path(rng.randint(1, most // 3))
    if kind == 3:
        return ev.generate.rmat(
            rng.randint(0, most.bit_length() - 1), rng.randint(1, 16), seed=seed, directed=directed
        )
    n = min(rng.choice((1, 2, 5, 30, 200, 1500)), most)
    m = rng.randrange(6 * n + 1)
    numbers = np.random.default_rng(seed)
    dtype, weight = rng.choice(dtypes), None
    if dtype is not None:  # eighths, which add up exactly
        weight = numbers.integers(1, 200, m).astype(dtype)
        weight = weight if np.issubdtype(dtype, np.integer) else weight / dtype(8)
    spread = n if rng.random() < 0.7 else max(n // 3, 1)  # else most vertices are isolated
    labels = rng.choice([None, np.arange(n) * 7 - 3, [f"v{i}" for i in range(n)]])
    return ev.Graph.from_edges(
        numbers.integers(0, n, m), numbers.integers(0, spread, m), weight, num_vertices=n,
        directed=directed, labels=labels, duplicates=rng.choice(("keep", "min")),
    )  # fmt: skip


def draw_options(rng, devices, directions):
    """A device and options for it."""
    device = rng.choice(devices)
    options = {"device": device, "direction": rng.choice(directions)}
    if "+" in device:
        options |= {"partition": rng.choice(SPLIT), "exchange": rng.choice(list(NAMES))}
    if rng.random() < 0.1:
        options["memory_limit"] = rng.choice(("4GiB", 1 << 33))
    if rng.random() < 0.1 and "+" not in device:
        options["deterministic"] = True
    if rng.random() < 0.1:
        options["check"] = True
    return options


def lightest(graph, *, ones=False):
    """SciPy's matrix of a graph; of parallel arcs the lightest."""
    src, dst = graph._sources().astype(np.int64), graph.indices.astype(np.int64)
    weights = np.ones(len(src)) if ones or graph.weights is None else graph.weights.astype(float)
    order = np.lexsort((weights, dst, src))
    src, dst, weights = src[order], dst[order], weights[order]
    first = np.ones(len(src), bool)
    first[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    n = graph.num_vertices
    return csr_array((weights[first], (src[first], dst[first])), shape=(n, n))


def far(graph, indices, *, ones, limit=np.inf):
    """Distances from the nearest of some vertices, infinite where there is no path."""
    return csgraph.dijkstra(lightest(graph, ones=ones), indices=indices, min_only=True, limit=limit)


def bfs(graph, rng, options):
    sources, indices = draw_sources(graph, rng)
    cutoff = rng.choice([None, None, 0, 1, 3])
    result = ev.bfs(graph, sources, cutoff=cutoff, **options)
    limit = np.inf if cutoff is None else cutoff
    expected = far(graph, indices, ones=True, limit=limit)
    assert np.array_equal(np.where(result.depth < 0, np.inf, result.depth), expected)
    verify(ev.bfs, graph, result, sources, cutoff)


def sssp(graph, rng, options):
    sources, indices = draw_sources(graph, rng)
    result = ev.sssp(graph, sources, delta=rng.choice(["auto", "auto", 1, 40]), **options)
    np.testing.assert_allclose(result.distance, far(graph, indices, ones=False), rtol=1e-12)
    verify(ev.sssp, graph, result, sources)


def sswp(graph, rng, options):
    sources, indices = draw_sources(graph, rng)
    result = ev.sswp(graph, sources, **options)
    assert np.array_equal(result.width, references.widths(graph, indices.tolist()))


def components(graph, rng, options):
    count, component = csgraph.connected_components(lightest(graph), directed=True)
    if graph.directed:
        count, component = csgraph.connected_components(lightest(graph), connection="weak")
    _, first, back = np.unique(component, return_index=True, return_inverse=True)
    result = ev.connected_components(graph, **options)
    assert np.array_equal(result.component, first[back])
    assert result.count == count


def pagerank(graph, rng, options):
    damping, n = rng.choice((0.85, 0.5)), graph.num_vertices
    result = ev.pagerank(graph, damping=damping, tol=1e-9, max_iterations=200, **options)
    arcs = csr_array((np.ones(graph.num_edges), graph.indices, graph.indptr), shape=(n, n))
    degrees = np.asarray(graph.degrees, dtype=float)
    step = csr_array((1 / np.maximum(degrees, 1), (range(n), range(n))), shape=(n, n)) @ arcs
    rank = np.full(n, 1 / n)
    for _ in range(200):
        rank = damping * (rank @ step + rank[degrees == 0].sum() / n) + (1 - damping) / n
    np.testing.assert_allclose(result.rank, rank, atol=1e-7)


def betweenness(graph, rng, options):
    graph = graph.simplify()
    if graph.num_vertices > 200:  # NetworkX takes a second for more
        graph = graph.subgraph(graph.labels[:200])
    result = ev.betweenness(graph, **options)
    np.testing.assert_allclose(result.score, references.betweenness(graph), rtol=1e-9, atol=1e-12)


ALGORITHMS = [bfs, bfs, sssp, sssp, sswp, components, pagerank, betweenness]


def draw_sources(graph, rng):
    """One label or several, and their indices."""
    indices = np.array([rng.randrange(graph.num_vertices) for _ in range(rng.choice((1, 1, 3)))])
    labels = graph.labels[indices].tolist()
    return (labels[0] if len(labels) == 1 else labels), np.unique(indices)


def check(number, devices=(*ALONE, *SETS), dtypes=DTYPES, most=1500, directions=DIRECTIONS):
    """Draw a run on a graph of so many vertices at most and compare what it finds."""
    rng = random.Random(number)
    algorithm, graph = rng.choice(ALGORITHMS), draw_graph(rng, dtypes, most)
    options = draw_options(rng, devices, directions)
    if graph.num_vertices == 0:
        algorithm = components  # without vertices there is no source
    elif graph.weights is None and algorithm in (sssp, sswp):
        algorithm = bfs
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a rank that has not converged
            algorithm(graph, rng, options)
    except BaseException as error:
        error.add_note(f"run {number}: {algorithm.__name__} of {graph!r}, {options}")
        raise


def test_some_runs():
    for number in range(30):
        check(number, ["python", "cpu:2", "python+python"], [None, np.int32], 100, ["auto"])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 3000, 250))
def test_three_thousand_runs(first):
    for number in range(first, first + 250):
        check(number)
