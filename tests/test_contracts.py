"""docs/contracts.md: what is the same in every run, from threads, and in the child of a fork."""

import functools
import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import evener as ev

GRAPH = ev.generate.rmat(12, 16, weights=(0.5, 2.0), seed=1)
ARCS = ev.generate.rmat(12, 16, weights=(0.5, 2.0), seed=1, directed=True)
HUB = int(GRAPH.degrees.argmax())

EXACT = {  # the same on every device
    "depth": lambda device: ev.bfs(ARCS, HUB, device=device).depth,
    "distance": lambda device: ev.sssp(GRAPH, HUB, device=device).distance,
    "parent": lambda device: ev.sssp(GRAPH, HUB, device=device).parent,
    "width": lambda device: ev.sswp(GRAPH, HUB, device=device).width,
    "component": lambda device: ev.connected_components(ARCS, device=device).component,
}
ON_ONE_CPU = {  # whatever the threads
    "pulled parent": lambda device: ev.bfs(ARCS, HUB, direction="pull", device=device).parent,
    "rank": lambda device: ev.pagerank(GRAPH, device=device).rank,
    "score": lambda device: ev.betweenness(GRAPH, sources=2, device=device).score,
}


@pytest.mark.parametrize("name", [*EXACT, *ON_ONE_CPU])
def test_the_same_in_every_run(name):
    call = (EXACT | ON_ONE_CPU)[name]
    expected = call("cpu:1")
    devices = ["cpu:2", "cpu:2", "cpu:3"] + ["cpu:1+cpu:1"] * (name in EXACT)
    for device in devices:
        assert np.array_equal(call(device), expected), device


def test_one_thread_repeats_everything():
    def all_of_it():
        r = ev.bfs(ARCS, HUB, direction="push", device="cpu:1")
        score = ev.betweenness(ARCS, sources=4, device="cpu:1").score
        return r.parent.tobytes(), score.tobytes()

    assert len({all_of_it() for _ in range(3)}) == 1


def test_calls_from_several_threads():
    alone = [ev.bfs(GRAPH, v).depth for v in range(8)]
    for device in ("cpu", "cpu:1"):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(functools.partial(ev.bfs, GRAPH, device=device), range(8)))
        assert all(np.array_equal(r.depth, depth) for r, depth in zip(found, alone, strict=True))


def _in_child(connection):
    connection.send(ev.bfs(GRAPH, HUB).depth)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the parent has threads, all idle
def test_the_child_of_a_fork():
    expected = ev.bfs(GRAPH, HUB).depth  # the parent has a team already
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_in_child, args=(there,))
    child.start()
    try:
        assert here.poll(60), "the child does not answer"
        assert np.array_equal(here.recv(), expected)
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
