"""Graphs for tests: Hypothesis strategies, the degenerate ones by name, and a plain reference."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import evener as ev
from evener.graph.arguments import WEIGHT_DTYPES
from evener.graph.csr import Graph

DUPLICATES = ("keep", "first", "min", "max", "sum")
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "first": lambda a, b: a,
    "min": min,
    "max": max,
    "sum": operator.add,
}


class Edges(NamedTuple):
    """Edges as `Graph.from_edges` takes them."""

    src: np.ndarray
    dst: np.ndarray
    weight: np.ndarray | None
    num_vertices: int


@st.composite
def edges(draw: st.DrawFn, max_vertices: int = 30, max_edges: int = 80) -> Edges:
    """Edges with many loops and duplicates; ids of any integer dtype, weights of any kept one."""
    n = draw(st.integers(0, max_vertices))
    m = draw(st.integers(0, max_edges)) if n else 0
    ids = st.integers(0, n - 1) if n else st.nothing()
    src, dst = (draw(st.lists(ids, min_size=m, max_size=m)) for _ in range(2))
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    chosen = draw(st.sampled_from([None, *WEIGHT_DTYPES]))
    weight = None
    if chosen is not None:  # eighths add up exactly, so an order of summing cannot hide
        value = st.integers(-80, 80)
        drawn = draw(st.lists(value, min_size=m, max_size=m))
        weight = np.array(drawn, dtype=chosen)
        if weight.dtype.kind == "f":
            weight /= 7  # and sevenths do not, so it must be the reference's
    return Edges(np.array(src, dtype), np.array(dst, dtype), weight, n)


def reference_csr(
    given: Edges, *, directed: bool = True, self_loops: str = "keep", duplicates: str = "keep"
) -> tuple[list[int], list[int], list[Any] | None]:
    """What `Graph.from_edges` must hold: row starts, neighbours, weights."""
    weight = itertools.repeat(None) if given.weight is None else given.weight
    arcs = []
    for u, v, w in zip(given.src.tolist(), given.dst.tolist(), weight, strict=False):
        if u == v and self_loops == "drop":
            continue
        arcs.append((u, v, w))
        if not directed and u != v:
            arcs.append((v, u, w))
    arcs.sort(key=lambda arc: arc[:2])  # stable: parallel arcs stay in the order given
    if duplicates != "keep":
        combine = COMBINE[duplicates] if given.weight is not None else COMBINE["first"]
        arcs = [
            (*ends, functools.reduce(combine, (w for *_, w in group)))
            for ends, group in itertools.groupby(arcs, key=lambda arc: arc[:2])
        ]
    starts = [0] * (given.num_vertices + 1)
    for u, _, _ in arcs:
        starts[u + 1] += 1
    weights = None if given.weight is None else [w for *_, w in arcs]
    return list(itertools.accumulate(starts)), [v for _, v, _ in arcs], weights


def assert_csr(graph: Graph, expected: tuple[list[int], list[int], list[Any] | None]) -> None:
    """Check a graph, exactly, against `reference_csr`."""
    indptr, indices, weights = expected
    assert graph.indptr.tolist() == indptr
    assert graph.indices.tolist() == indices
    assert (graph.weights is None) == (weights is None)
    if weights is not None and graph.weights is not None:
        assert graph.weights.tolist() == [w.item() for w in weights]


def assert_same(one: Graph, other: Graph, *, labels: bool = True) -> None:
    """Check that two graphs hold the same, types included."""
    for a, b in ((one.indptr, other.indptr), (one.indices, other.indices)):
        np.testing.assert_array_equal(a, b, strict=True)
    assert (one.weights is None) == (other.weights is None)
    if one.weights is not None and other.weights is not None:
        np.testing.assert_array_equal(one.weights, other.weights, strict=True)
    assert one.directed == other.directed
    if labels:
        assert one.labels.tolist() == other.labels.tolist()


def graphs(max_vertices: int = 30, max_edges: int = 80) -> st.SearchStrategy[Graph]:
    """Graphs of every kind: directed or not, weighted or not, with loops and parallel arcs."""
    return st.builds(
        lambda given, directed, duplicates: Graph.from_edges(
            given.src, given.dst, given.weight, num_vertices=given.num_vertices,
            directed=directed, duplicates=duplicates,
        ),
        edges(max_vertices, max_edges),
        st.booleans(),
        st.sampled_from(DUPLICATES),
    )  # fmt: skip


class Made(Mapping[str, Graph]):
    """Graphs by name, each made when it is first asked for: making some needs the compiler."""

    def __init__(self, makers: Mapping[str, Callable[[], Graph]]):
        self._makers, self._made = makers, dict[str, Graph]()

    def __getitem__(self, name: str) -> Graph:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


_star = [0] * 6, list(range(1, 7))
_path = list(range(6)), list(range(1, 7))

# Each makes a graph: `DEGENERATE["star"](directed=False)`.
DEGENERATE: dict[str, Callable[..., Graph]] = {
    "empty": functools.partial(Graph.from_edges, [], []),
    "one vertex": functools.partial(Graph.from_edges, [], [], num_vertices=1),
    "one loop": functools.partial(Graph.from_edges, [0], [0]),
    "isolated vertices": functools.partial(Graph.from_edges, [], [], num_vertices=5),
    "one arc of many vertices": functools.partial(Graph.from_edges, [3], [7], num_vertices=40),
    "self-loops": functools.partial(Graph.from_edges, [0, 1, 1, 2], [0, 1, 2, 2], [1, 2, 3, 4]),
    "parallel arcs": functools.partial(
        Graph.from_edges, [0, 0, 1, 0, 2], [1, 1, 0, 1, 2], [5, 2, 9, 2, 1]
    ),
    "two components": functools.partial(Graph.from_edges, [0, 1, 3], [1, 2, 4], num_vertices=6),
    "star": functools.partial(Graph.from_edges, *_star),
    "star inwards": functools.partial(Graph.from_edges, *reversed(_star)),
    "path": functools.partial(Graph.from_edges, *_path),
    "path of zero weights": functools.partial(Graph.from_edges, *_path, [0.0] * 6),
    "cycle": functools.partial(Graph.from_edges, [0, 1, 2], [1, 2, 0], [0.5, 0.25, 2.0]),
    "complete": functools.partial(Graph.from_edges, *np.triu_indices(6, 1)),
    "strings": functools.partial(Graph.from_edges, [0, 2], [1, 0], labels=["c", "a", "b"]),
    "1-based": functools.partial(Graph.from_edges, [0, 2], [1, 0], labels=[1, 2, 3]),
    "gaps": functools.partial(Graph.from_edges, [0, 2], [1, 0], [3, 4], labels=[40, 7, -2]),
}


def random_graph(n, m, *, directed, seed, labels=None):
    """Arcs between any two vertices, with loops and parallel ones."""
    rng = np.random.default_rng(seed)
    return ev.Graph.from_edges(
        rng.integers(0, n, m),
        rng.integers(0, n, m),
        num_vertices=n,
        directed=directed,
        labels=labels,
    )


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


def weighted_by_arc(graph):
    """The same arcs, directed, with whole weights that differ from arc to arc."""
    weights = np.arange(graph.num_edges) * 5 % 7
    return Graph(graph.indptr, graph.indices, weights, directed=True, labels=graph._labels)


def arcs(graph):
    """All arcs as tuples of source, target and weight."""
    src = np.repeat(np.arange(graph.num_vertices), graph.degrees).tolist()
    weights = [1] * len(src) if graph.weights is None else graph.weights.tolist()
    return list(zip(src, graph.indices.tolist(), weights, strict=True))


def between_layers(width, layers=3):
    """Layers of vertices, each with an arc to all of the next one, and the last to the first."""
    first = 1 + width * np.arange(layers)
    src, dst = [np.zeros(width, int)], [np.arange(1, 1 + width)]
    for here, there in zip(first, np.roll(first, -1), strict=True):
        src.append(np.repeat(here + np.arange(width), width))
        dst.append(np.tile(there + np.arange(width), width))
    return ev.Graph.from_edges(np.concatenate(src), np.concatenate(dst))


def _families() -> dict[str, Callable[[], Graph]]:
    makers: dict[str, Callable[[], Graph]] = {}
    for directed in (True, False):
        kind = "directed" if directed else "undirected"
        for name, make in DEGENERATE.items():
            makers[f"{name}, {kind}"] = functools.partial(make, directed=directed)
        for name, n, m, seed in (
            ("random", 40, 70, 1),
            ("sparse", 60, 45, 2),
            ("dense", 15, 150, 3),
        ):
            makers[f"{name}, {kind}"] = functools.partial(
                random_graph, n, m, directed=directed, seed=seed
            )
    makers["rmat"] = functools.partial(ev.generate.rmat, 6, 4, seed=5)
    makers["grid"] = functools.partial(ev.generate.grid, 7, 9)
    return makers


# The degenerate graphs and some random ones, each in both directions, without weights but their own.
FAMILIES = Made(_families())
NOT_EMPTY = [name for name in FAMILIES if not name.startswith("empty")]


def with_int64_weights(graph: Graph) -> Graph:
    """The same graph with weights of the dtype that most of these have."""
    return Graph(
        graph.indptr, graph.indices, graph.weights.astype(np.int64), directed=graph.directed
    )


def _random_whole(n: int, m: int, directed: bool) -> Graph:
    rng = np.random.default_rng(n)
    src, dst, weight = rng.integers(0, n, m), rng.integers(0, n, m), rng.integers(1, 30, m)
    return Graph.from_edges(src, dst, weight, num_vertices=n, directed=directed)


# Weights of one dtype, since kernels are compiled for it.
WHOLE_WEIGHTS = Made(
    {
        "one vertex": lambda: Graph.from_edges([], [], np.array([], np.int64), num_vertices=1),
        "loops": lambda: Graph.from_edges([0, 0, 1], [0, 1, 1], [1, 2, 3]),
        "parallel": lambda: Graph.from_edges(
            [0, 0, 0, 2], [1, 1, 1, 3], [4, 5, 6, 7], num_vertices=6
        ),
        "sparse, directed": lambda: _random_whole(40, 90, True),
        "random, undirected": lambda: _random_whole(70, 200, False),
        "random, directed": lambda: _random_whole(300, 900, True),
        "dense, undirected": lambda: _random_whole(200, 3000, False),
        "star": lambda: with_int64_weights(ev.generate.star(130, weights=(1, 9))),
        "path": lambda: with_int64_weights(ev.generate.path(200, weights=(1, 9))),
    }
)


def _long_lists() -> Graph:
    star = np.arange(1, 401)
    return ev.Graph.from_edges(
        np.r_[0 * star, star], np.r_[star, 0 * star + 401],
        (1 + np.arange(800) % 7).astype(np.int32), num_vertices=403, directed=False,
    )  # fmt: skip


# For simulated grids, which are slow: small, with lists for a lane, a warp and a block.
SIMULATED = Made(
    {
        "one vertex": lambda: Graph.from_edges([], [], np.empty(0, np.int32), num_vertices=1),
        "loop": lambda: Graph.from_edges([0], [0], np.array([2], np.int32)),
        "isolated": lambda: Graph.from_edges([], [], np.empty(0, np.int32), num_vertices=40),
        "rmat": lambda: ev.generate.rmat(5, 4, weights=(1, 9), seed=1),
        "grid": lambda: ev.generate.grid(8, 8, weights=(1, 9), seed=2),
        "long lists": _long_lists,
        "directed": lambda: Graph.from_edges(
            np.arange(90) * 7 % 60, np.arange(90) * 11 % 60,
            (1 + np.arange(90) % 5).astype(np.int32), num_vertices=64,
        ),
    }
)  # fmt: skip
