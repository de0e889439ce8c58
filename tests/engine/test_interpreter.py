"""The interpreted device: each stage and loop against a few plain lines, on tiny graphs."""

import heapq
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evener as ev
from comparing import interpreted
from evener.device import atomic
from evener.errors import ProgramError
from evener.graph.csr import Graph
from evener.programs import Field, Param, Program, Vertex, functor
from evener.programs.stages import (
    advance,
    backwards,
    compute,
    filter,
    gather,
    repeat,
)
from graphs import DEGENERATE, arcs, graphs
from programs.searches import FAR, Nearest, Paths, Plain, Search
from programs.stages import Frontiers, Gathered, Labels, OnEdges, Scattered, Slices

SOME = settings(max_examples=40)
DIAMOND = Graph.from_edges([0, 0, 1, 2, 3], [1, 2, 3, 3, 4], [1, 4, 9, 1, 2], num_vertices=6)


def fields(program, graph, direction="auto", **parameters):
    return {
        name: a.tolist()
        for name, a in interpreted(program, graph, direction, **parameters).fields.items()
    }


def levels(graph, source):
    """Depths by a plain search."""
    depth, frontier = {source: 0}, [source]
    while frontier:
        found = {v for u in frontier for a, v, _ in arcs(graph) if a == u} - depth.keys()
        depth.update(dict.fromkeys(found, depth[frontier[0]] + 1))
        frontier = sorted(found)
    return [depth.get(v, FAR) for v in range(graph.num_vertices)]


def dijkstra(graph, source):
    distance = {source: 0}
    heap = [(0, source)]
    while heap:
        near, u = heapq.heappop(heap)
        for a, v, w in arcs(graph) if near == distance[u] else ():
            if a == u and near + w < distance.get(v, math.inf):
                distance[v] = near + w
                heapq.heappush(heap, (near + w, v))
    return [distance.get(v, math.inf) for v in range(graph.num_vertices)]


@pytest.fixture(params=DEGENERATE)
def graph(request):
    return DEGENERATE[request.param]()


# ---- stages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["push", "pull", "auto"])
def test_search(graph, direction):
    if graph.num_vertices == 0:
        pytest.skip("there is no source")
    found = fields(Search, graph, direction, source=graph.labels[0])
    assert found["depth"] == levels(graph, 0)
    near = {(u, v) for u, v, _ in arcs(graph)}
    for v, parent in enumerate(found["parent"]):
        assert (parent == -1) == (found["depth"][v] in (0, FAR))
        assert parent == -1 or (
            (parent, v) in near and found["depth"][parent] + 1 == found["depth"][v]
        )


def test_pull_stops_when_where_turns_false():
    star = Graph.from_edges([0, 0, 1, 2], [1, 2, 3, 3])
    assert interpreted(Search, star, "push", source=0).stats["edges"] == 3
    assert interpreted(Search, star, "pull", source=0).stats["edges"] == 3
    row = interpreted(Search, star, "pull", source=0).trace[1]
    assert (row["superstep"], row["frontier"], row["edges"], row["direction"]) == (1, 2, 1, "pull")


def test_pull_aligns_weights():
    for direction in ("push", "pull"):
        assert fields(Plain, DIAMOND, direction, source=0)["distance"][:5] == [0, 1, 4, 5, 7]


def test_gather(graph):
    found = fields(Gathered, graph)
    degree = graph.degrees.tolist()
    sent = [[] for _ in range(graph.num_vertices)]
    ones = [0] * graph.num_vertices
    for u, v, _ in arcs(graph):
        sent[v].append(u * degree[u] + v)
        ones[v] |= u == 1
    sums = [sum(values) for values in sent]
    assert found["sums"] == pytest.approx([x + 2 * sum(sums) for x in sums])
    assert found["least"] == [min(values, default=math.inf) for values in sent]
    assert found["most"] == [max(values, default=-math.inf) for values in sent]
    assert found["some"] == ones
    assert found["own"] == [max(values, default=-7) for values in sent]
    assert found["kept"] == [max(values, default=0) > 2 for values in sent]


class Chain(Program):
    value = Field(np.int64)

    @functor
    def before(src, dst, edge, s):
        return s.value[src]

    @functor
    def put(v, total, s):
        s.value[v] = total + 1
        return s.value[v] < 4

    loop = gather(before, "sum", put)


class AtOnce(Chain):
    loop = gather(Chain.before, "sum", Chain.put, asynchronous=True)


def test_asynchronous_gather_sees_new_values():
    path = Graph.from_edges([0, 1, 2], [1, 2, 3])
    assert fields(Chain, path)["value"] == [1, 1, 1, 1]
    assert fields(AtOnce, path)["value"] == [1, 2, 3, 4]


def test_neutral_totals_have_the_type_of_the_values():
    class Least(Program):
        value = Field(np.int64)

        @functor
        def sent(src, dst, edge, s):
            return s.value[src]

        @functor
        def put(v, total, s):
            s.value[v] = total
            return True

        loop = gather(sent, "min", put)

    assert fields(Least, Graph.from_edges([2, 0], [0, 1]))["value"] == [0, 0, 2**63 - 1]


def test_edges_takes_slices_of_neighbour_lists():
    complete = ev.generate.complete(5)
    expected = [0] * 5
    for u in range(5):
        others = [v for v in range(5) if v != u]
        for v in (others[1:3] if u % 2 == 0 else []) + others[2:]:
            expected[v] += 1
    job = interpreted(Slices, complete)
    assert job.fields["visits"].tolist() == expected
    assert job.stats == {"supersteps": 0, "edges": sum(expected)}


def test_frontiers_of_edges():
    found = fields(OnEdges, DIAMOND)
    heavy = [(0, 2), (1, 3), (3, 4)]
    expected = [0] * 6
    for u, v in heavy:
        expected[v] += int(DIAMOND.degrees[u]) + 1
    assert found["heavy"] == expected
    # From the ends of the heavy edges, 2, 3 and 4, once each; then a compute on what was reached.
    assert found["after"] == [0, 0, 0, 300, 400, 0]


def test_edge_frontier_comes_round_in_a_loop():
    class Round(Program):
        depth = Field(np.int64, merge="min")

        @functor
        def reach(src, dst, edge, s):
            return atomic.min(s.depth, dst, s.depth[src] + 1) > s.depth[src] + 1

        def start(self, source: Vertex):
            self.depth[source] = 0
            return [source]

        loop = repeat(advance(reach, emit="edges"))

    for direction in ("push", "pull"):
        assert fields(Round, DIAMOND, direction, source=0)["depth"][:5] == [0, 1, 1, 2, 3]


def test_over_all_leaves_the_frontier_of_a_compute():
    found = fields(Frontiers, DIAMOND, first=[0])
    assert found["a"] == [1] * 6
    assert found["b"] == [0, 1, 0, 0, 0, 0]
    assert found["c"] == [0, 1, 0, 1, 0, 1]


# ---- loops ----------------------------------------------------------------------------------


class Counted(Program):
    """Counts supersteps in a field, up to a limit or until a count."""

    times = Field(np.int64)
    last = Field(np.int64, fill=-1)
    limit = Param(np.int64, 4)
    wanted = Param(np.int64, 100)

    @functor
    def tick(v, s):
        s.times[v] += 1
        s.last[v] = s.superstep

    @functor
    def enough(s):
        return s.superstep >= s.wanted

    def start(self, first=None):
        return first

    loop = repeat(compute(tick), until=enough, max_supersteps=limit)


@pytest.mark.parametrize(
    ("given", "times"),
    [({}, 4), ({"limit": 0}, 0), ({"wanted": 2}, 2), ({"wanted": 0}, 1), ({"first": []}, 0)],
)
def test_repeat_ends(given, times):
    path = ev.generate.path(3)
    job = interpreted(Counted, path, **given)
    assert job.fields["times"].tolist() == [times] * 3
    assert job.fields["last"].tolist() == [times - 1] * 3
    assert job.stats["supersteps"] == len(job.trace) == times


def test_repeat_over_all_needs_no_frontier():
    class Twice(Counted):
        @functor
        def never(src, dst, edge, s):
            return False

        @functor
        def below(v, s):
            return s.times[v] < 9

        loop = (
            repeat(advance(never)),  # ends with an empty frontier
            repeat(compute(Counted.tick, over="all"), max_supersteps=3),
            repeat(compute(Counted.tick), max_supersteps=3),  # has nothing to do
            repeat(filter(below, over="all"), compute(Counted.tick)),
        )

    job = interpreted(Twice, ev.generate.path(3))
    assert job.fields["times"].tolist() == [9] * 3
    assert job.stats["supersteps"] == 1 + 3 + 0 + 7
    assert interpreted(Twice, Graph.from_edges([], [])).stats["supersteps"] == 0


def test_nested_repeats(graph):
    found = fields(Labels, graph)
    labels = list(range(graph.num_vertices))
    for _ in labels:
        for u, v, _ in arcs(graph):
            labels[u] = labels[v] = min(labels[u], labels[v])
    assert found["label"] == labels
    # The last superstep of the outer loop changes nothing, though inner ones ran in between.
    assert all(note % 2 == 0 for note in found["rounds"])
    assert len(set(found["rounds"])) <= 1


@pytest.mark.parametrize("make", [DIAMOND, ev.generate.grid(3, 4), ev.generate.tree(10)])
def test_record_and_backwards(make):
    import networkx

    job = interpreted(Paths, make, source=0)
    depth = levels(make, 0)
    assert job.fields["depth"].tolist() == depth
    assert job.fields["replayed"].tolist() == [-1 if d == FAR else d for d in depth]
    G = networkx.DiGraph([arc[:2] for arc in arcs(make)])
    expected = networkx.betweenness_centrality_subset(
        G, [0], list(G), normalized=False
    )  # counts pairs (0, t), and for the source nothing
    for v in G:
        if v != 0:
            assert job.fields["delta"][v] == pytest.approx(expected[v])
    supersteps = [row["superstep"] for row in job.trace]
    last = max(d for d in depth if d != FAR)
    assert supersteps == [*range(last + 1), *range(last, -1, -1)]


def test_backwards_before_any_recorded_superstep():
    class Nothing(Paths):
        loop = (repeat(advance(Paths.count), record=True, max_supersteps=0),
                backwards(compute(Paths.note)))  # fmt: skip

    assert fields(Nothing, DIAMOND, source=0)["replayed"] == [-1] * 6


@SOME
@given(graphs(12, 40), st.sampled_from([0.5, 3.0, 1000.0]), st.booleans())
def test_nearest_against_dijkstra(graph, delta, pull):
    assume(graph.weights is not None)
    assume(graph.num_vertices)
    weights = np.abs(graph.weights.astype(np.int64)) % 50
    graph = Graph(graph.indptr, graph.indices, weights, directed=True)
    job = interpreted(Nearest, graph, "pull" if pull else "push", source=0, delta=delta)
    found = [math.inf if d == 2**63 - 1 else d for d in job.fields["distance"].tolist()]
    assert found == dijkstra(graph, 0)


def test_nearest_settles_buckets_in_order():
    # 3 is found at distance 10, then at 5: its bucket moves, and it is relaxed only once.
    graph = Graph.from_edges([0, 0, 1, 3], [3, 1, 3, 4], [10, 2, 3, 1])
    job = interpreted(Nearest, graph, source=0, delta=1.0)
    assert job.fields["distance"].tolist()[1:] == [2, 2**63 - 1, 5, 6]
    assert [row["frontier"] for row in job.trace] == [1, 1, 1, 1]
    assert job.stats["edges"] == 4


def test_nearest_needs_a_width():
    with pytest.raises(ProgramError, match="delta is 0.0; it must be above 0"):
        interpreted(Nearest, DIAMOND, source=0, delta=0)


@SOME
@given(graphs(12, 40))
def test_push_and_pull_agree(graph):
    for program in (Scattered, Labels):
        pushed, pulled = interpreted(program, graph, "push"), interpreted(program, graph, "pull")
        for name, array in pushed.fields.items():
            if name not in ("some", "rounds"):
                np.testing.assert_array_equal(array, pulled.fields[name])
