"""Generators: against plain Python, brute force and NetworkX, and over any number of threads."""

import math
import zlib

import networkx as nx
import numpy as np
import pytest

from evener.device import use_threads
from evener.device.processors import HOST
from evener.device.random import random_unit
from evener.graph import generate
from evener.graph.csr import Graph
from evener.graph.generate import geometry, random_graphs, weights
from evener.graph.generate.common import Stream, key_of

MASK = (1 << 64) - 1

# Large enough that every kernel has several chunks.
LARGE = {
    "rmat": {"scale": 15, "edge_factor": 20},
    "uniform": {"scale": 15, "edge_factor": 20},
    "regular": {"num_vertices": 60_000, "degree": 10},
    "geometric": {"num_vertices": 50_000},
    "delaunay": {"num_vertices": 20_000},
    "grid": {"rows": 300, "columns": 400, "removed": 0.1},
    "path": {"num_vertices": 300_000},
    "star": {"num_vertices": 300_000},
    "tree": {"height": 17},
    "complete": {"num_vertices": 600},
}
SMALL = {
    "rmat": {"scale": 8, "edge_factor": 6},
    "uniform": {"scale": 8, "edge_factor": 6},
    "regular": {"num_vertices": 200, "degree": 7},
    "geometric": {"num_vertices": 300},
    "delaunay": {"num_vertices": 300},
    "grid": {"rows": 13, "removed": 0.3},
    "path": {"num_vertices": 20},
    "star": {"num_vertices": 20},
    "tree": {"height": 4, "branching": 3},
    "complete": {"num_vertices": 20},
}
every_kind = pytest.mark.parametrize("kind", list(generate.KINDS))


def make(kind, table=SMALL, **more):
    return generate.KINDS[kind](**table[kind], **more)


def sources(g):
    return np.repeat(np.arange(g.num_vertices), np.diff(g.indptr))


def arcs(g):
    return set(zip(sources(g).tolist(), g.indices.tolist(), strict=True))


def edges(g):
    return {(u, v) for u, v in arcs(g) if u < v}


def checksum(g):
    crc = 0
    for array in (g.indptr, g.indices, g.weights):
        crc = zlib.crc32(np.ascontiguousarray(array).tobytes(), crc)
    return crc


def assert_simple(g):
    src, dst = sources(g), g.indices
    assert g.indptr[0] == 0
    assert g.indptr[-1] == len(dst)
    assert ((dst >= 0) & (dst < g.num_vertices)).all()
    assert (src != dst).all()
    codes = src.astype(np.int64) * g.num_vertices + dst
    assert (np.diff(codes) > 0).all()  # sorted lists without duplicates
    if not g.directed:
        assert (np.sort(dst.astype(np.int64) * g.num_vertices + src) == codes).all()


def assert_same(g, h):
    assert (g.indptr == h.indptr).all()
    assert (g.indices == h.indices).all()
    if g.weights is None or h.weights is None:
        assert g.weights is h.weights
    else:
        assert (g.weights == h.weights).all()


# ---- every kind ---------------------------------------------------------------------------


def test_every_generator_is_listed():
    assert list(generate.KINDS) == list(LARGE) == list(SMALL)
    for kind, function in generate.KINDS.items():
        assert getattr(generate, kind) is function


@every_kind
def test_same_graph_on_any_number_of_threads(kind):
    graphs = []
    for threads in (1, 2, 3):
        with use_threads(threads):
            graphs.append(make(kind, LARGE, weights=(1, 1000), seed=5))
    assert_simple(graphs[0])
    for g in graphs[1:]:
        assert_same(graphs[0], g)


@every_kind
def test_simple_and_undirected(kind):
    g = make(kind)
    assert not g.directed
    assert g.weights is None
    assert g.indices.dtype == g.indptr.dtype == np.int32
    assert_simple(g)


@every_kind
def test_seeds(kind):
    first, again, other = (make(kind, weights=(0.0, 1.0), seed=seed) for seed in (1, 1, 2))
    assert_same(first, again)
    assert first.num_edges != other.num_edges or (first.weights != other.weights).any()
    shaped = ("path", "star", "tree", "complete")
    assert (arcs(first) == arcs(other)) == (kind in shaped)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("rmat", 0xD1ABC2F7),
        ("uniform", 0xBE668FCE),
        ("regular", 0x567FC9C5),
        ("geometric", 0xD15C41BC),
        ("grid", 0xE98A5690),
        ("tree", 0xC21DE23C),
    ],
)
def test_graphs_of_a_seed_stay_the_same_for_ever(kind, expected):
    assert checksum(make(kind, weights=(1, 255), seed=3)) == expected


@every_kind
def test_weights_belong_to_the_edge(kind):
    g = make(kind, weights=(3, 9), seed=4)
    weight = dict(zip(zip(sources(g), g.indices, strict=True), g.weights, strict=True))
    assert all(weight[v, u] == w for (u, v), w in weight.items())
    assert g.weights.dtype == np.int32
    assert {3, 9} <= set(g.weights.tolist()) <= set(range(3, 10)) or g.num_edges < 50
    assert_same(make(kind, seed=4), Graph(g.indptr, g.indices))  # drawn on top


# ---- R-MAT and uniform --------------------------------------------------------------------


def random_bits(key, counter):
    x = (int(key) + counter * 0x9E3779B97F4A7C15) & MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def permuted(key, x, bits):
    for step in range(4):
        odd = random_bits(key, 2 * step) | 1
        x = (x * odd + random_bits(key, 2 * step + 1)) & ((1 << bits) - 1)
        x ^= x >> ((bits + 1) // 2)
    return x


@pytest.mark.parametrize("scale", [0, 1, 2, 5, 6])
@pytest.mark.parametrize("permute", [False, True])
def test_rmat_is_what_plain_python_draws(scale, permute):
    seed, a, b, c = 7, 0.45, 0.25, 0.15
    key, ids = key_of(seed, Stream.RMAT), key_of(seed, Stream.RMAT_IDS)
    expected = set()
    for edge in range(4 << scale):
        u = v = 0
        for level in range(scale):
            bits = random_bits(key, edge * ((scale + 1) // 2) + level // 2)
            last = scale % 2 and level == scale - 1
            half = (bits >> 32 if level % 2 or last else bits & 0xFFFFFFFF) / 2**32
            u, v = 2 * u + (half >= a + b), 2 * v + (a <= half < a + b or half >= a + b + c)
        if permute:
            u, v = permuted(ids, u, scale), permuted(ids, v, scale)
        if u != v:
            expected.add((u, v))
    arguments = {"a": a, "b": b, "c": c, "seed": seed, "permute": permute}
    directed = generate.rmat(scale, 4, directed=True, **arguments)
    assert directed.directed
    assert directed.num_vertices == 1 << scale
    assert arcs(directed) == expected
    undirected = generate.rmat(scale, 4, **arguments)
    assert edges(undirected) == {(min(e), max(e)) for e in expected}
    assert_simple(undirected)


def test_rmat_quadrants_have_their_shares():
    scale, m, shares = 13, 1 << 18, (0.45, 0.25, 0.15, 0.15)
    quadrants = random_graphs._quadrants(*shares[:3])
    src, dst = random_graphs.rmat_ends(HOST, scale, m, quadrants, 1, False)
    assert src.dtype == np.int32
    for level in range(scale):
        quadrant = 2 * (src >> level & 1) + (dst >> level & 1)
        counts = np.bincount(quadrant, minlength=4)
        for count, p in zip(counts, shares, strict=True):
            assert abs(count - m * p) < 5 * math.sqrt(m * p * (1 - p))


def test_rmat_extremes():
    assert generate.rmat(4, a=1, b=0, c=0, permute=False).num_edges == 0  # all fall on (0, 0)
    corner = generate.rmat(4, a=0, b=1.0, c=0, permute=False, directed=True)
    assert arcs(corner) == {(0, 15)}
    assert arcs(generate.rmat(3, a=0, b=0, c=1, permute=False, directed=True)) == {(7, 0)}
    assert generate.rmat(0).num_vertices == 1
    assert generate.rmat(5, 0).num_edges == 0
    hubs = generate.rmat(10, permute=False)
    assert hubs.degrees.argmax() == 0
    assert sorted(hubs.degrees) == sorted(generate.rmat(10).degrees)  # only renumbered


def test_uniform_spreads_its_ends():
    g = generate.uniform(10, 64, seed=1, directed=True)
    assert g.directed
    assert_simple(g)
    drawn = 64 << 10
    # Expected number of different arcs other than loops among so many draws.
    expected = (2**20 - 2**10) * (1 - (1 - 2**-20) ** drawn)
    assert abs(g.num_edges - expected) < 5 * math.sqrt(drawn)
    for degrees in (g.degrees, g.in_degrees):
        assert abs(degrees.mean() - g.num_edges / 1024) < 1e-9
        assert degrees.std() < 1.3 * math.sqrt(64)
    assert generate.uniform(0).num_edges == 0


# ---- regular ------------------------------------------------------------------------------


def test_regular_small_in_all_degrees():
    for n in range(15):
        for d in range(n):
            if n * d % 2 == 0:
                for seed in range(4):
                    g = generate.regular(n, d, seed=seed)
                    assert_simple(g)
                    assert (g.degrees == d).all()
    assert generate.regular(0, 0).num_vertices == 0


@pytest.mark.parametrize(
    ("n", "d"), [(1000, 1), (1001, 2), (5000, 3), (100, 49), (100, 50), (100, 98), (3000, 47),
                 (3000, 46), (501, 250), (501, 252), (20_000, 40)],
)  # fmt: skip
def test_regular_degrees_are_exact(n, d):
    g = generate.regular(n, d, seed=n)
    assert_simple(g)
    assert (g.degrees == d).all()


def test_regular_reaches_every_graph_equally_often():
    for n, d, graphs in ((4, 1, 3), (5, 2, 12)):
        seen = {}
        for seed in range(60 * graphs):
            found = frozenset(edges(generate.regular(n, d, seed=seed)))
            seen[found] = seen.get(found, 0) + 1
        assert len(seen) == graphs
        assert all(25 < count < 95 for count in seen.values())


# ---- geometric and delaunay ---------------------------------------------------------------


def positions(n, seed):
    key = key_of(seed, Stream.POINTS)
    return np.array([random_unit(key, np.uint64(i)) for i in range(2 * n)]).reshape(n, 2)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 50, 400])
@pytest.mark.parametrize("radius", [None, 0.0, 0.01, 0.2, 0.33, 0.5, 1.0, 3.0])
def test_geometric_against_all_pairs(n, radius):
    g = generate.geometric(n, radius, seed=n)
    assert_simple(g)
    if radius is None:
        radius = 0.55 * math.sqrt(math.log(n) / n) if n else 0
    side = max(1, min(math.isqrt(n), int((1 - 1e-9) / radius) if radius else n))
    points = geometry._points(n, side, n)
    x, y = points.x, points.y
    assert sorted(zip(x, y, strict=True)) == sorted(map(tuple, positions(n, n)))
    near = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 <= radius * radius
    np.fill_diagonal(near, False)
    assert arcs(g) == set(zip(*map(np.ndarray.tolist, np.nonzero(near)), strict=True))


def test_points_are_in_cell_order():
    points = geometry._points(5000, 40, 1)
    cells = (points.y * 40).astype(int) * 40 + (points.x * 40).astype(int)
    assert (np.diff(cells) >= 0).all()
    assert (points.starts == np.searchsorted(cells, np.arange(40 * 40 + 1))).all()


def test_delaunay():
    assert [generate.delaunay(n).num_edges // 2 for n in range(4)] == [0, 0, 1, 3]
    g = generate.delaunay(500, seed=2)
    assert_simple(g)
    G = nx.Graph(list(edges(g)))
    assert G.number_of_nodes() == 500
    assert nx.is_connected(G)
    assert nx.check_planarity(G)[0]
    points = geometry._points(500, math.isqrt(500), 2)
    where = np.column_stack((points.x, points.y))
    squared = ((where[:, None] - where) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    nearest = squared.argmin(axis=1)  # the nearest neighbour is always one in the triangulation
    assert {(v, int(w)) for v, w in enumerate(nearest)} <= arcs(g)


# ---- shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (0, 4), (1, 1), (1, 5), (5, 1), (4, 7)])
def test_grid_is_that_of_networkx(rows, columns):
    g = generate.grid(rows, columns)
    expected = nx.grid_2d_graph(rows, columns)
    number = {rc: rc[0] * columns + rc[1] for rc in expected}
    assert g.num_vertices == len(number)
    assert edges(g) == {tuple(sorted((number[u], number[v]))) for u, v in expected.edges}
    assert_simple(g)


def test_grid_loses_its_share_of_edges():
    full = generate.grid(200)
    assert full.num_edges == 2 * 2 * 200 * 199
    assert generate.grid(200, removed=1).num_edges == 0
    before = arcs(full)
    for removed in (0.05, 0.5, 0.9):
        g = generate.grid(200, removed=removed, seed=1)
        assert_simple(g)
        left, m = g.num_edges / 2, full.num_edges / 2
        assert abs(left - m * (1 - removed)) < 5 * math.sqrt(m * removed * (1 - removed))
        assert arcs(g) <= before
        before = arcs(g)  # an edge keeps its number, so more removal only removes more


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10])
def test_path_star_complete_are_those_of_networkx(n):
    for function, expected in (
        (generate.path, nx.path_graph(n)),
        (generate.star, nx.star_graph(n - 1) if n else nx.Graph()),
        (generate.complete, nx.complete_graph(n)),
    ):
        g = function(n)
        assert g.num_vertices == n
        assert edges(g) == {tuple(sorted(e)) for e in expected.edges}
        assert_simple(g)


@pytest.mark.parametrize("height", [0, 1, 2, 4])
@pytest.mark.parametrize("branching", [1, 2, 3, 5])
def test_tree_is_that_of_networkx(height, branching):
    g = generate.tree(height, branching)
    expected = nx.balanced_tree(branching, height)
    assert g.num_vertices == len(expected)
    assert edges(g) == {tuple(sorted(e)) for e in expected.edges}
    assert_simple(g)


# ---- weights ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (1, 255, np.int32),
        (7, 7, np.int32),
        (-(2**31), 2**31 - 1, np.int32),
        (np.int64(0), np.uint8(1), np.int32),
        (0, 2**31, np.int64),
        (-(2**40), 2**62, np.int64),
        (0, 1.0, np.float64),
        (0.5, 2, np.float64),
        (2.5, 2.5, np.float64),
        (-1e300, np.float64(1), np.float64),
        (np.float32(0), np.float32(0.1), np.float64),
    ],
)
def test_weights_fill_their_range(low, high, dtype):
    g = generate.complete(300, weights=(low, high), seed=1)
    w, low, high = g.weights, np.array(low).item(), np.array(high).item()
    assert w.dtype == dtype
    assert w.min() >= low
    assert w.max() <= high
    if low == high:
        return
    if dtype == np.float64:
        assert w.max() < high
    unit = (w.astype(float) - low) / (high - low)
    assert abs(unit.mean() - 0.5) < 0.01
    if high - low > 10:
        counts = np.bincount((unit * 10).astype(int).clip(0, 9))
        assert counts.min() > 0.085 * len(w)


def test_weights_of_a_directed_graph_belong_to_the_arc():
    g = generate.rmat(8, weights=(1, 10**6), directed=True)
    weight = dict(zip(zip(sources(g), g.indices, strict=True), g.weights, strict=True))
    both = [(w, weight[v, u]) for (u, v), w in weight.items() if (v, u) in weight]
    assert sum(a != b for a, b in both) > 0.9 * len(both) > 0


def test_scaled_is_the_upper_half_of_the_product():
    numbers = [0, 1, MASK, MASK - 1, 1 << 63, 0x123456789ABCDEF0, 0xFFFFFFFF, 1 << 32]
    for bits in numbers:
        for span in (1, 2, 255, 1 << 32, (1 << 32) - 1, 10**15 + 37, 1 << 63):
            assert int(weights.scaled(np.uint64(bits), np.uint64(span))) == bits * span >> 64
