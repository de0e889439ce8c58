"""Runs over partitions: what one device gives, for every merge, stage and number of parts."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from comparing import assert_same_jobs, case
from evener.algorithms.betweenness import Betweenness, DirectedBetweenness
from evener.algorithms.pagerank import DanglingPageRank
from evener.algorithms.parents import LevelParents
from evener.algorithms.sssp import TargetSSSP
from evener.device import atomic
from evener.engine.job import set_up
from evener.engine.reference.exchange import Local, Replicated
from evener.engine.reference.loop import interpret
from evener.engine.reference.parts import run_partitioned
from evener.engine.run import run
from evener.errors import ProgramError
from evener.graph.csr import Graph
from evener.programs import Field, Program, Vertex, functor
from evener.programs.stages import advance, edges, repeat
from graphs import DEGENERATE, arcs, graphs, weighted_by_arc
from programs.cases import needs_source
from programs.merged import Counted, Reset, Totals
from programs.searches import FAR, Nearest, Paths, Plain, Search
from programs.stages import Frontiers, Gathered, Labels, OnEdges, Scattered, Slices

SOME = settings(max_examples=30)
PARTS = [1, 2, 3, 8]


def both(program, graph, k, partition="auto", direction="auto", shares=None, **parameters):
    """The same job on one device and over parts."""
    one, many = set_up(program, graph, parameters), set_up(program, graph, parameters)
    interpret(one, direction)
    run_partitioned(many, k, partition, direction, shares)
    return one, many


def graphs_and_parts(*, empty=True):
    """Each of the degenerate graphs with each number of parts."""
    for name, make in DEGENERATE.items():
        if empty or name != "empty":
            graph = weighted_by_arc(make())
            for k in PARTS:
                yield name, graph, k


@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize(
    "program",
    [Search, Nearest, Plain, Paths, Labels, Gathered, Scattered, OnEdges, Slices, DanglingPageRank],
)
def test_parts_give_what_one_device_gives(program, direction):
    for name, graph, k in graphs_and_parts(empty=not needs_source(program)):
        with case(name, k):
            given = {"source": graph.labels[0]} if needs_source(program) else {}
            one, many = both(program, graph, k, direction=direction, **given)
            assert_same_jobs(one, many)
            if program is Paths:
                np.testing.assert_array_equal(one.fields["replayed"], many.fields["replayed"])
            if program in (
                Search,
                Paths,
            ):  # one device may see new values earlier, but not in these
                assert one.stats["supersteps"] == many.stats["supersteps"]


@SOME
@given(graphs(14, 50), st.sampled_from([2, 3, 5]), st.sampled_from(["push", "pull"]), st.data())
def test_any_assignment_will_do(graph, k, direction, data):
    graph = weighted_by_arc(graph)
    n = graph.num_vertices
    part_of = data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    for program in (Search, Nearest, Paths, Labels, Scattered, OnEdges, Gathered):
        if not needs_source(program) or n:
            given = {"source": graph.labels[0]} if needs_source(program) else {}
            as_drawn = lambda graph, shares: np.array(part_of, np.int64)  # noqa: E731
            shares = np.bincount(part_of, minlength=k) if n else None  # some may be empty
            one, many = both(program, graph, k, as_drawn, direction, shares, **given)
            assert_same_jobs(one, many)


@SOME
@given(graphs(10, 30), st.sampled_from([2, 3]))
def test_algorithms(graph, k):
    assume(graph.num_vertices)
    graph = weighted_by_arc(graph)
    source = graph.labels[0]
    goal = graph.num_vertices - 1
    one, many = both(TargetSSSP, graph, k, source=source, delta=2.0, goal=goal)
    assert_same_jobs(one, many, leave_out=())
    found = one.fields["distance"]
    one, many = both(LevelParents, graph, k, source=source, distances=found, horizon=2.0**31 - 1)
    assert_same_jobs(one, many, leave_out=())
    sources = np.arange(min(3, graph.num_vertices))
    for program, g in ((DirectedBetweenness, graph), (Betweenness, graph.symmetrize())):
        one, many = both(program, g, k, sources=sources)
        np.testing.assert_allclose(one.fields["score"], many.fields["score"], rtol=1e-9)


def test_parents_are_those_of_the_winning_leader():
    for name, graph, k in graphs_and_parts(empty=False):
        with case(name, k):
            _, many = both(Search, graph, k, "static", source=graph.labels[0])
            depth, parent = many.fields["depth"], many.fields["parent"]
            near = {(u, v) for u, v, _ in arcs(graph)}
            for v in range(graph.num_vertices):
                assert (parent[v] == -1) == (depth[v] in (0, FAR))
                assert parent[v] == -1 or (
                    depth[parent[v]] + 1 == depth[v] and (parent[v], v) in near
                )


def test_any_takes_one_of_the_values_written():
    for name, graph, k in graphs_and_parts():
        with case(name, k):
            _, many = both(Scattered, graph, k)
            values = many.fields["value"]
            written = [{-1} for _ in range(graph.num_vertices)]
            for u, v, _ in arcs(graph):
                written[v] = (written[v] - {-1}) | {int(values[u])}
            assert all(
                x in options for x, options in zip(many.fields["some"], written, strict=True)
            )


def test_frontiers_travel_to_their_owners():
    star = Graph.from_edges([0] * 6, range(1, 7))
    for k in PARTS:
        assert_same_jobs(*both(Frontiers, star, k, first=[0]))


# ---- merges that a stale sender must not spoil ----------------------------------------------


def test_counts_of_worse_leaders_do_not_count():
    # Into 6 from 0..5: offers 0 (twice), 1 (twice), 2 (twice); one device visits 0 and 1 first.
    inwards = Graph.from_edges(range(6), [6] * 6)
    for part_of in ([0, 1, 2, 0, 1, 2, 2], [2, 1, 0, 0, 1, 1, 0], [1, 1, 1, 0, 0, 0, 0]):
        at = lambda graph, shares, part_of=part_of: np.array(part_of)  # noqa: E731
        one, many = both(Counted, inwards, 3, at, shares=np.bincount(part_of, minlength=3))
        assert_same_jobs(one, many)
        assert (many.fields["offer"][6], many.fields["times"][6], many.fields["by"][6]) == (0, 2, 0)


def test_fields_may_be_raised_by_their_owners():
    for name, graph, k in graphs_and_parts():
        with case(name, k):
            assert_same_jobs(*both(Reset, graph, k))


def test_replicated_sums():
    for name, graph, k in graphs_and_parts():
        with case(name, k):
            assert_same_jobs(*both(Totals, graph, k))


# ---- dividing -------------------------------------------------------------------------------


def test_empty_parts():
    path = Graph.from_edges([0, 1], [1, 2])
    job = set_up(Search, path, {"source": 0})
    said = run_partitioned(job, 4, lambda graph, shares: np.array([3, 1, 3]), shares=[0, 1, 0, 2])
    assert job.fields["depth"].tolist() == [0, 1, 2]
    assert job.stats["owned"] == [0, 1, 0, 2]
    assert job.stats["ghosts"] == [0, 1, 0, 1]
    assert "4 parts with 0 + 1 + 0 + 2 vertices" in said[0]


def test_shares_are_given_to_functions():
    seen = []

    def halves(graph, shares):
        seen.append(shares)
        return np.arange(graph.num_vertices) % 2

    path = Graph.from_edges([0, 1], [1, 2])
    r = run(Search, path, source=0, device="python+python", partition=halves)
    assert r.depth.tolist() == [0, 1, 2]
    assert seen == [[0.5, 0.5]]
    assert "halves, 2 parts" in r.explain()


def test_replicated_fields_know_local_from_global_numbers():
    field = Replicated(np.array([10, 11, 12, 13]), [3, 1])
    assert (field[Local(0)], field[0]) == (13, 10)
    field[Local(1)] = 5
    assert field[1] == 5
    assert not isinstance(Local(1) + 0, Local)


def test_errors_surface():
    class Failing(Program):
        depth = Field(np.int64, merge="min")

        @functor
        def visit(src, dst, edge, s):
            return math.sqrt(-1.0 - s.depth[src]) > 0

        def start(self, source: Vertex):
            return [source]

        loop = repeat(advance(visit))

    with pytest.raises(ProgramError, match=r"Failing\.visit, line \d+: ValueError"):
        run(Failing, Graph.from_edges([0], [1]), source=0, device="python+python")


# ---- what parts cannot know, or must not take for news --------------------------------------


class Unset(Program):
    """Values that are no numbers until somebody sets them."""

    x = Field(np.float64, fill=np.nan, merge="any")

    @functor
    def put(src, dst, edge, s):
        if s.id[src] == 0:
            s.x[dst] = 7.0
        return False

    loop = edges(put)


def test_what_is_no_number_is_no_news():
    graph = Graph.from_edges([0, 2], [1, 1])
    for device in ("python+python", "cpu:1+cpu:1", "cpu:1+python"):
        found = run(Unset, graph, device=device, partition=lambda graph, shares: [0, 0, 1])
        np.testing.assert_array_equal(found.x, [np.nan, 7, np.nan], err_msg=device)


class FirstAdded(Program):
    visits = Field(np.int64, merge="sum")

    @functor
    def visit(src, dst, edge, s):
        return atomic.add(s.visits, dst, 1) == 0

    loop = advance(visit)


def test_what_a_sum_was_is_not_known_elsewhere():
    graph = Graph.from_edges([0, 1], [1, 2], directed=False)
    assert run(FirstAdded, graph, device="python").visits.tolist() == [1, 2, 1]
    with pytest.raises(
        ProgramError, match=r"FirstAdded.visit, line \d+: uses what atomic.add returns"
    ):
        both(FirstAdded, graph, 2, "static")
