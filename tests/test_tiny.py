"""The whole surface once, in seconds: `make check` runs this, lint and types."""

import json

import networkx as nx
import numpy as np
import pytest

import evener as ev
from evener.cli import main

GRAPH = ev.Graph.from_edges(
    [0, 0, 1, 2, 3], [1, 2, 2, 3, 4], [4, 1, 2, 7, 3], directed=False, labels=list("abcde")
)
CALLS = {
    "depth": lambda device: ev.bfs(GRAPH, "a", device=device).depth.tolist(),
    "distance": lambda device: ev.sssp(GRAPH, "a", device=device).distance.tolist(),
    "width": lambda device: ev.sswp(GRAPH, "a", device=device).width.tolist(),
    "count": lambda device: ev.connected_components(GRAPH, device=device).count,
    "rank": lambda device: round(float(ev.pagerank(GRAPH, device=device).rank.sum()), 9),
    "score": lambda device: ev.betweenness(GRAPH, device=device).top(2)["vertex"].to_list(),
}
ANSWERS = {
    "depth": [0, 1, 1, 2, 3],
    "distance": [0, 3, 1, 8, 11],
    "width": [np.inf, 4, 2, 2, 2],
    "count": 1,
    "rank": 1,
    "score": ["c", "d"],
}


class Reach(ev.Program):
    """A program of a user's own."""

    reached = ev.Field("int64", fill=0, merge="max")

    @ev.functor
    def reach(src, dst, edge, s):
        return ev.atomic.max(s.reached, dst, 1) == 0

    def start(self, source: ev.Vertex):
        self.reached[source] = 1
        return [source]

    loop = ev.stages.repeat(ev.stages.advance(reach))


@pytest.mark.parametrize("device", ["python", "python+python"])
@pytest.mark.parametrize("name", CALLS)
def test_algorithms(name, device):
    assert CALLS[name](device) == ANSWERS[name]


@pytest.mark.parametrize("device", ["python", "cpu:1", "cpu:2"])
def test_a_program(device):
    assert ev.run(Reach, GRAPH, source="e", device=device).reached.tolist() == [1] * 5


@pytest.mark.parametrize("name", ["g.evg", "g.csv", "g.mtx", "g.parquet", "g.graphml"])
def test_files(name, tmp_path):
    GRAPH.save(tmp_path / name)
    loaded = ev.load(tmp_path / name, directed=False)
    assert (loaded.num_vertices, loaded.num_edges) == (5, 10)
    assert sorted(loaded.weights.tolist()) == sorted(GRAPH.weights.tolist())


def test_a_graph():
    assert GRAPH.neighbors("c").tolist() == ["a", "b", "d"]
    assert GRAPH.subgraph(["a", "b", "c"]).num_edges == 6
    assert nx.is_isomorphic(ev.Graph.from_networkx(GRAPH.to_networkx()).to_networkx(), nx.Graph(
        [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("d", "e")]
    ))  # fmt: skip
    assert ev.generate.path(9).num_edges == 16


def test_a_result(tmp_path):
    r = ev.bfs(GRAPH, "a", device="python")
    assert (r["e"], r.path_to("e")) == (3, ["a", "c", "d", "e"])
    r.to_parquet(tmp_path / "r.parquet")
    assert r.to_polars()["vertex"].to_list() == list("abcde")
    assert "ran on python" in r.explain()


def test_the_command(tmp_path, capsys):
    GRAPH.save(tmp_path / "g.csv")
    given = ["run", "bfs", str(tmp_path / "g.csv"), "--undirected", "--source", "a"]
    assert main([*given, "--device", "python", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["algorithm"] == "bfs"
    assert main(["run", "bsf", str(tmp_path / "g.csv")]) == 2
    assert "did you mean 'bfs'" in capsys.readouterr().err
