"""What the GPU tests share: graphs with weights of one dtype, and every algorithm on them.

Kernels are compiled for the types of a graph, and compiling takes most of the time: so all graphs
have 32-bit indices and 64-bit integer weights, unless a test is about something else.
"""

import functools
import warnings

import numpy as np

import evener as ev
from graphs import DEGENERATE
from programs.loops import EdgesThroughout, LoopsInLoops, Nested, OverEdges
from programs.ordered import Bounded
from programs.stages import Around, Everything, Neighbours, Outwards

ALGORITHMS = {
    "bfs": (lambda g, **k: ev.bfs(g, g.labels[:1], **k), ["depth"]),
    "bounded bfs": (lambda g, **k: ev.bfs(g, g.labels[:1], cutoff=2, **k), ["depth"]),
    "sssp": (lambda g, **k: ev.sssp(g, g.labels[:2], **k), ["distance", "parent"]),
    "bounded sssp": (lambda g, **k: ev.sssp(g, g.labels[:1], cutoff=40, **k), ["distance"]),
    "sswp": (lambda g, **k: ev.sswp(g, g.labels[:1], **k), ["width"]),
    "pagerank": (lambda g, **k: ev.pagerank(g, max_iterations=20, **k), ["rank"]),
    "weighted pagerank": (
        lambda g, **k: ev.pagerank(g, weighted=True, max_iterations=20, **k), ["rank"],
    ),
    "personal pagerank": (
        lambda g, **k: ev.pagerank(
            g, personalization={g.labels[0]: 1.0}, max_iterations=20, **k
        ), ["rank"],
    ),
    "components": (ev.connected_components, ["component", "count"]),
    "betweenness": (
        lambda g, **k: ev.betweenness(g, sources=min(4, g.num_vertices), **k), ["score"],
    ),
    "circuit": (
        lambda g, **k: ev.circuit(g, {g.labels[0]: 1.0}, max_iterations=30, **k), ["potential"],
    ),
    "heat": (
        lambda g, **k: ev.heat(g, np.arange(g.num_vertices) % 5, max_iterations=30, **k),
        ["temperature"],
    ),
    "neural": (lambda g, **k: ev.neural(g, initial=0.2, max_iterations=20, **k), ["activation"]),
}  # fmt: skip
# Those whose kernels depend on the direction; in the others nothing is advanced, or by buckets.
DIRECTED = ["bfs", "bounded bfs", "sssp", "sswp", "betweenness"]

# Programs that between them have every stage and loop, and what they find.
LOOPS = {
    Everything: ["level", "visits", "sums", "backed"],
    OverEdges: ["level", "seen", "weights", "backed"],
    EdgesThroughout: ["seen", "visits"],
    Bounded: ["distance", "first", "settled", "replayed"],
    Nested: ["hops", "spread", "around"],
    LoopsInLoops: [],  # of several values it takes "any"
    Neighbours: ["total"],
    Outwards: ["total"],
    Around: ["total"],
}


def weighted(graph, dtype=np.int64):
    """The graph with weights of a dtype, its own as far as it has some."""
    given = np.ones(graph.num_edges) if graph.weights is None else 4 * graph.weights
    return ev.Graph(
        graph.indptr, graph.indices, given.astype(dtype), directed=graph.directed,
        labels=graph.labels,
    )  # fmt: skip


def random_graph(seed, *, dtype=np.int64):
    """A graph of up to 400 vertices, directed or not, with loops, parallel arcs and weights of 0."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 400))
    m = int(n * rng.integers(0, 12))
    weight = rng.integers(0, 30, m).astype(dtype)
    return ev.Graph.from_edges(
        rng.integers(0, n, m), rng.integers(0, n, m), weight, num_vertices=n,
        directed=bool(rng.integers(2)),
    )  # fmt: skip


def star_and_more():
    """A list long enough to be cut, lists for a warp, and short ones."""
    k = 15000
    src = np.r_[np.zeros(k, int), np.ones(k, int), np.arange(2, k)]
    dst = np.r_[np.arange(2, k + 2), np.arange(2, k + 2)[::-1], np.ones(k - 2, int)]
    return ev.Graph.from_edges(src, dst, 1 + (src + dst) % 9, num_vertices=k + 2)


@functools.cache
def graphs():
    """Graphs by name: the degenerate ones, both ways, then some that fill a GPU's grid."""
    found = {}
    for name, make in DEGENERATE.items():
        for directed in (True, False):
            graph = make(directed=directed)
            if graph.labels.dtype.kind in "iu":
                found[f"{name}, {'directed' if directed else 'undirected'}"] = weighted(graph)
    for seed in range(4):
        found[f"random {seed}"] = random_graph(seed)
    found["star and more"] = star_and_more()
    found["grid"] = weighted(ev.generate.grid(60, 70, weights=(1, 60), seed=1))
    found["rmat"] = weighted(ev.generate.rmat(13, 16, weights=(1, 60), seed=2))
    # Frontiers that are large to a grid of 132 blocks.
    found["large rmat"] = weighted(ev.generate.rmat(16, 8, weights=(1, 60), seed=3))
    found["large uniform"] = weighted(ev.generate.uniform(16, 16, weights=(1, 60), seed=4))
    return found


def run(algorithm, graph, **options):
    """One algorithm; a dict of what it found."""
    call, fields = ALGORITHMS[algorithm]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some do not converge in so few iterations
        result = call(graph, **options)
    return {field: np.asarray(getattr(result, field)) for field in fields}


@functools.cache
def expected(algorithm, name):
    """What the CPU finds on one of the graphs."""
    return run(algorithm, graphs()[name], device="cpu")


def suits(algorithm, graph):
    """Whether the algorithm takes this graph."""
    return graph.num_vertices > 0 or algorithm in ("components", "pagerank")


def assert_same(have, want, message):
    """Whole numbers are equal, and floats nearly."""
    for field, array in want.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(
                have[field], array, rtol=1e-6, atol=1e-9, err_msg=f"{field} of {message}"
            )
        else:
            np.testing.assert_array_equal(have[field], array, err_msg=f"{field} of {message}")
