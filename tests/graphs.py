"""Graphs for tests: Hypothesis strategies, the degenerate ones by name, and a plain reference."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

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
