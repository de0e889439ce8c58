"""``sources_at_once=``: a program on copies of the graph, and what becomes of its fields."""

import numpy as np
import pytest

import evener as ev
from evener.programs import Field, Program, functor
from evener.programs.stages import advance, repeat

GRAPH = ev.Graph.from_edges([0, 1, 2, 4], [1, 2, 3, 5], labels=list("abcdef"))


class Hops(Program):
    """Hops from each source by itself: how many searches reach a vertex, and the fewest hops."""

    depth = Field("int32", merge="min")
    searches = Field("int64", fill=0, merge="sum")
    first = Field("int32", fill=-1)

    @functor
    def reach(src, dst, edge, s):
        hops = s.depth[src] + 1
        if ev.atomic.min(s.depth, dst, hops) > hops:
            ev.atomic.add(s.searches, dst, 1)
            return True
        return False

    def start(self, sources, copies=1):
        n = self.num_vertices // copies
        at = np.asarray(sources[:copies]) + n * np.arange(min(copies, len(sources)))
        self.depth[at] = 0
        self.first[at] = at % n
        return at

    loop = repeat(advance(reach))


@pytest.fixture
def three(monkeypatch):
    monkeypatch.setattr("evener.engine.sources_at_once.sources_at_once", lambda *given: 3)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("device", ["python", "cpu:1", "cpu:2"])
def test_fields_are_merged_over_the_copies(device):
    found = ev.run(Hops, GRAPH, sources=[0, 2, 4], sources_at_once=9, device=device)
    assert found.graph is GRAPH
    assert found.depth.tolist() == [0, 1, 0, 1, 0, 1]
    assert found.searches.tolist() == [0, 1, 1, 2, 0, 1]
    assert found.first.tolist() == [0, -1, -1, -1, -1, -1]
    assert found["f"] == 1
    assert len(found.to_polars()) == 6


@pytest.mark.usefixtures("three")
def test_there_are_no_copies_where_they_would_not_do():
    for options in ({"sources_at_once": 1}, {"sources_at_once": 3, "memory_limit": "1GiB"}):
        found = ev.run(Hops, GRAPH, sources=[0, 2, 4], device="cpu:1", **options)
        assert found.depth.tolist()[:3] == [0, 1, 2]
    empty = ev.Graph.from_edges([], [])
    assert len(ev.betweenness(empty, device="cpu:1").score) == 0
    one = ev.generate.path(1)
    assert ev.betweenness(one, sources_at_once=1, device="cpu:1").score.tolist() == [0]


@pytest.mark.parametrize("most", [0, -1, 1.5, "all", None])
def test_wrong_numbers(most):
    with pytest.raises(ev.EvenerError, match="sources_at_once is .*; it must be a whole number"):
        ev.run(Hops, GRAPH, sources=[0], sources_at_once=most)


def test_a_program_must_take_copies():
    with pytest.raises(ev.ProgramError, match="BFS has no parameter 'copies'"):
        ev.bfs(GRAPH, "a", sources_at_once=2, device="cpu:1")
