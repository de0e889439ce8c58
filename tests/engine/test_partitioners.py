"""Partitioners: shares, empty parts, repeatability, what they promise, and mistakes."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from comparing import case
from evener import generate
from evener.engine.partition.partitioners import PARTITIONERS, parse_partitioner, partition
from evener.errors import DeviceError, EvenerError, ProgramError
from evener.graph.csr import Graph
from graphs import DEGENERATE, graphs

try:
    import pymetis
except ImportError:
    pymetis = None

NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(name == "metis" and not pymetis, reason="pymetis"))
    for name in PARTITIONERS
]
SKEWED = [[1], [1, 1], [5, 1], [1, 2, 3], [1, 0, 1], [0, 0, 1, 1], [1] * 8]


@pytest.fixture(scope="module")
def kron():
    return generate.rmat(12, 16, seed=3)


def share_of_edges(graph, part_of, k):
    return np.bincount(part_of, weights=graph.degrees, minlength=k) / graph.num_edges


@pytest.mark.parametrize("name", NAMES)
def test_every_vertex_has_a_part_and_no_part_is_empty_unasked(name):
    for shares, on in itertools.product(SKEWED, DEGENERATE):
        with case(shares, on):
            graph, wanted = DEGENERATE[on](), np.array(shares) > 0
            part_of = partition(graph, name, shares)
            assert part_of.shape == (graph.num_vertices,)
            assert part_of.dtype == np.int32
            counts = np.bincount(part_of, minlength=len(shares))
            assert len(counts) == len(shares)
            assert (counts[~wanted] == 0).all()
            filled = min(graph.num_vertices, np.count_nonzero(wanted))
            assert np.count_nonzero(counts[wanted]) == filled


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shares", [[1, 1], [5, 1], [1, 2, 3], [1, 0, 1]], ids=str)
def test_parts_get_their_share_of_the_edges(name, shares, kron):
    part_of = partition(kron, name, shares, seed=1)
    wanted = np.array(shares) / sum(shares)
    np.testing.assert_allclose(share_of_edges(kron, part_of, len(shares)), wanted, atol=0.06)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_repeats(name, kron):
    np.testing.assert_array_equal(*(partition(kron, name, [2, 1, 1], seed=7) for _ in range(2)))
    if name in ("random", "biased"):
        assert (partition(kron, name, [1, 1], 1) != partition(kron, name, [1, 1], 2)).any()
        assert (partition(kron, f"{name}:seed=2", [1, 1]) == partition(kron, name, [1, 1], 2)).all()


def test_auto_is_random(kron):
    np.testing.assert_array_equal(
        partition(kron, "auto", [1, 1]), partition(kron, "random", [1, 1])
    )


def test_static_is_v_mod_k_and_spreads_unequal_shares():
    path = generate.path(5000)
    for k in (1, 2, 3, 7):
        assert (partition(path, "static", [1 / k] * k) == np.arange(5000) % k).all()
    part_of = partition(path, "static", [3, 1])
    windows = np.lib.stride_tricks.sliding_window_view(part_of, 4)
    assert (windows.sum(axis=1) == 1).all()


@given(graphs(40, 120), st.lists(st.integers(1, 5), min_size=1, max_size=6))
@settings(max_examples=60)
def test_contiguous_parts_are_ranges_cut_where_the_edges_are(graph, shares):
    part_of = partition(graph, "contiguous", shares)
    assert (np.diff(part_of) >= 0).all() or graph.num_vertices < len(shares)
    n, m = graph.num_vertices, graph.num_edges
    if m and n >= len(shares):
        largest = graph.degrees.max()
        ends = np.cumsum(share_of_edges(graph, part_of, len(shares)))
        off = np.abs(ends - np.cumsum(shares) / sum(shares)) * m
        # A cut is at most half a vertex off, unless each part had to get one.
        assert off.max() <= largest / 2 + 1e-9 or np.bincount(part_of).min() == 1


@pytest.mark.parametrize("alpha", [0, 0.1, 0.5, 0.9, 1])
@pytest.mark.parametrize("name", ["high", "low"])
@pytest.mark.parametrize("cpu", [0, 2])
def test_by_degree(name, alpha, cpu, kron):
    part_of = partition(kron, f"{name}:alpha={alpha}", [1, 1, 2], cpu=cpu)
    mine = part_of == cpu
    taken, left = kron.degrees[mine], kron.degrees[~mine]
    if 0 < alpha < 1:
        assert taken.min() >= left.max() if name == "high" else taken.max() <= left.min()
        assert abs(taken.sum() / kron.num_edges - alpha) < 0.02
        others = share_of_edges(kron, part_of, 3)[[p for p in range(3) if p != cpu]]
        ratio = 2.0 if cpu == 0 else 1.0
        if len(left) > 1000:  # a few hubs cannot be divided evenly
            assert others[1] / others[0] == pytest.approx(ratio, rel=0.3)
    else:
        assert mine.all() if alpha else not mine.any()


@given(graphs(30, 90), st.floats(0.05, 0.95), st.booleans())
@settings(max_examples=60)
def test_by_degree_takes_what_a_sort_would(graph, alpha, highest):
    assume(graph.num_vertices > 1)
    part_of = partition(graph, f"{'high' if highest else 'low'}:alpha={alpha}", [1, 1])
    order = np.argsort(-graph.degrees if highest else graph.degrees, kind="stable")
    in_order = part_of[order]
    counts = np.bincount(part_of, minlength=2)
    if counts.min() > 1:  # else one may have been moved to an empty part
        first = order[in_order == 0]
        rest = order[in_order == 1]
        edge = graph.degrees
        if highest:
            assert edge[first].min() >= edge[rest].max()
        else:
            assert edge[first].max() <= edge[rest].min()
        assert abs(edge[first].sum() - alpha * graph.num_edges) <= edge.max()


def test_bias_puts_neighbours_together():
    grid = generate.grid(60, 60)

    def cut(how):
        part_of = partition(grid, how, [1, 1], seed=1)
        assert np.bincount(part_of).min() > 0.45 * grid.num_vertices
        return np.count_nonzero(part_of[grid._sources()] != part_of[grid.indices])

    cuts = [cut(f"biased:factor={factor}") for factor in (0, 0.5, 1)]
    assert cuts[0] > cuts[1] > cuts[2]
    assert cuts[0] == pytest.approx(cut("random"), rel=0.1)
    if pymetis:
        assert cut("metis") < 0.2 * cuts[2]


def test_metis_takes_loops_parallel_arcs_and_directions():
    pytest.importorskip("pymetis")
    graph = Graph.from_edges([0, 0, 1, 1, 2, 3, 4, 5, 5], [0, 1, 1, 0, 3, 2, 5, 4, 4])
    part_of = partition(graph, "metis", [1, 1, 1])
    assert part_of[0] == part_of[1] != part_of[2] == part_of[3] != part_of[4] == part_of[5]


def test_metis_names_its_extra_when_it_is_missing(monkeypatch, kron):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(
        DeviceError, match=r"needs pymetis; install it with pip install 'evener\[me"
    ):
        partition(kron, "metis", [1, 1])


def test_shares_in_the_name(kron):
    part_of = partition(kron, "contiguous:shares=3/1", [1, 1])
    assert share_of_edges(kron, part_of, 2) == pytest.approx([0.75, 0.25], abs=0.02)
    part_of = partition(kron, "contiguous:alpha=0.6", [1, 1, 1], cpu=1)
    assert share_of_edges(kron, part_of, 3) == pytest.approx([0.2, 0.6, 0.2], abs=0.02)


def test_functions_get_shares_and_are_taken_at_their_word():
    seen = []

    def halves(graph, shares):
        seen.append(shares)
        return [0, 1, 1]

    path = generate.path(3)
    assert partition(path, halves, [1, 3]).tolist() == [0, 1, 1]
    assert seen == [[0.25, 0.75]]
    assert partition(path, lambda graph, shares: [2, 2, 0], [1, 0, 1]).tolist() == [2, 2, 0]
    more_parts_than_vertices = partition(path, lambda graph, shares: [3, 1, 3], [1] * 5)
    assert more_parts_than_vertices.tolist() == [3, 1, 3]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([0, 1], "partitioner wrong must return 3 whole numbers from 0 to 1"),
        ([[0, 1, 1]], "must return 3 whole numbers from 0 to 1, .* not int64 of shape \\(1, 3\\)"),
        ([0.0, 1.0, 1.0], "whole numbers from 0 to 1, the part of each vertex, not float64"),
        (None, "whole numbers from 0 to 1"),
        ([0, 1, 2], "whole numbers from 0 to 1, not 2"),
        ([0, -1, 1], "whole numbers from 0 to 1, not -1"),
        ([0, 0, 0], "partitioner wrong leaves part 1 empty, whose share is 0.5"),
    ],
)
def test_mistakes_of_functions(returned, message):
    def wrong(graph, shares):
        return returned

    with pytest.raises(ProgramError, match=message):
        partition(generate.path(3), wrong, [1, 1])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            "rand",
            "there is no partitioner 'rand' .did you mean 'random'.*; there are 'auto', 'random', 'static'",
        ),
        (7, "there is no partitioner 7"),
        ("high:factor=1", "high takes alpha, shares, seed, not 'factor'"),
        ("static:seed=1", "static takes alpha, shares, not 'seed'"),
        ("high:alpha=2", "alpha is 2; it must be between 0 and 1"),
        ("high:alpha=nan", "alpha is nan; it must be between 0 and 1"),
        ("high:alpha=x", "alpha is 'x', which is not a number"),
        ("random:shares=1/2/3", "has 3 shares for 2 parts"),
        ("random:shares=0/0", "one of them above 0"),
    ],
)
def test_mistakes_in_names(how, message):
    with pytest.raises(EvenerError, match=message):
        partition(generate.path(3), how, [1, 1])


@pytest.mark.parametrize("seed", ["x", 1.5, None])
def test_mistakes_in_seeds(seed):
    with pytest.raises(EvenerError, match="seed is .*; it must be a whole number"):
        partition(generate.path(3), "random", [1, 1], seed)


@pytest.mark.parametrize("shares", [[], [0, 0], [1, -1], [1, np.nan], [np.inf, 1]], ids=str)
def test_mistakes_in_shares(shares):
    with pytest.raises(EvenerError, match="shares are .*; they must be numbers of at least 0"):
        partition(generate.path(3), "random", shares)


def test_parsing():
    assert parse_partitioner("biased:factor=0.25,seed=9")[3:] == (0.25, 9)
    assert parse_partitioner("auto").name == "random"
