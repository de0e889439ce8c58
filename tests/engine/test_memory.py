"""Memory: estimates for each device, and limits that refuse what exceeds them."""

import tracemalloc

import numpy as np
import pytest

import evener as ev
from evener.algorithms.bfs import BFS
from evener.algorithms.sssp import SSSP
from evener.device import parse_bytes
from evener.engine.memory.estimate import estimate_memory, parse_limits
from evener.engine.partition.partitioners import partition
from evener.engine.partition.stats import measure_partition
from evener.errors import DeviceError, EvenerError, MemoryBudgetError
from tables import slow_but


@pytest.fixture(scope="module")
def kron():
    return ev.generate.rmat(12, 16, seed=1, weights=(1, 9))


def test_limits_by_name_have_names():
    with pytest.raises(EvenerError, match="'foo' among limits by name; write it as DEVICE=4GiB"):
        parse_limits("cpu:1=1GiB,foo", ["cpu:1", "cpu:1"])


def test_an_estimate_covers_the_arrays_and_little_more(kron):
    needed = estimate_memory(BFS.declaration, kron)[0]
    arrays = kron.indptr.nbytes + kron.indices.nbytes + 8 * kron.num_vertices  # and two fields
    assert arrays < needed < 1.5 * arrays + 24 * kron.num_vertices
    assert estimate_memory(SSSP.declaration, kron)[0] > needed + kron.weights.nbytes
    turned = ev.generate.rmat(12, 16, seed=1, directed=True)
    pushed = estimate_memory(BFS.declaration, turned, "push")[0]
    assert estimate_memory(BFS.declaration, turned)[0] > pushed + turned.indices.nbytes


def test_parts_need_less_than_the_whole_each_and_more_together(kron):
    whole = estimate_memory(BFS.declaration, kron)[0]
    part_of = partition(kron, "random", [2, 1, 1, 0])
    parts = estimate_memory(BFS.declaration, kron, parts=measure_partition(kron, part_of, 4))
    assert parts[0] > max(parts[1:])
    assert max(parts) < whole < sum(parts)
    assert parts[3] < 100


def test_amounts():
    assert parse_bytes("4GiB") == parse_bytes("4 gib") == parse_bytes(4 << 30) == 4 << 30
    assert parse_bytes("0.5kB") == 500
    assert parse_bytes(np.int64(7)) == 7
    assert parse_bytes("9007199254740993") == 2**53 + 1  # not through a float
    for huge in ("9" * 330, "9" * 330 + ".5TiB", 10**400):  # no limit that could be reached
        assert parse_bytes(huge) == 1 << 62
    for wrong in ("4 apples", "", "GiB", "-1", -1, 1.5, None, True):
        with pytest.raises(EvenerError, match="is not an amount of memory; write it as 4GiB"):
            parse_bytes(wrong)


def test_limits():
    devices = ["cpu:1", "cpu:2"]
    assert parse_limits(None, devices) == [None, None]
    assert parse_limits([1, None], devices) == [1, None]
    assert parse_limits({"cpu:2": "1KiB"}, devices) == parse_limits("cpu:2=1KiB", devices)
    with pytest.raises(EvenerError, match="3 entries for 2 devices"):
        parse_limits([1, 2, 3], devices)
    with pytest.raises(DeviceError, match="names 'cuda', but the devices are cpu:1, cpu:2"):
        parse_limits({"cuda": 1}, devices)


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_a_run_that_exceeds_its_limit_is_refused_with_both_numbers(kron, device):
    needed = estimate_memory(BFS.declaration, kron)[0]
    with pytest.raises(MemoryBudgetError) as refused:
        ev.bfs(kron, 0, device=device, memory_limit=needed - 1)
    assert f"({needed:,} bytes) on {device}" in str(refused.value)
    assert f"({needed - 1:,} bytes)" in str(refused.value)
    if device == "cpu":
        assert ev.bfs(kron, 0, device=device, memory_limit=needed).depth[0] == 0


def test_limits_of_parts():
    star = ev.generate.star(50)
    uneven = {"device": "python+python", "partition": "high"}
    with pytest.raises(
        MemoryBudgetError, match=r"bytes\) on python \(part 0\), and memory_limit allows"
    ):
        ev.bfs(star, 0, memory_limit="1KiB", **uneven)
    assert ev.bfs(star, 0, memory_limit=["1MiB", None], **uneven).depth.max() == 1


@pytest.mark.parametrize("name", slow_but(["bfs", "connected_components", "pagerank"], "bfs"))
def test_parts_have_weights_only_where_they_are_used(name):
    graph = ev.generate.rmat(10, 16, seed=1, weights=(1, 9))
    given = (3,) if name == "bfs" else ()
    found = getattr(ev, name)(graph, *given, device="cpu:1+cpu:1")
    most = max(found.stats["memory"])
    with pytest.raises(MemoryBudgetError, match=r"on cpu:1 \(part \d\), and memory_limit allows"):
        getattr(ev, name)(graph, *given, device="cpu:1+cpu:1", memory_limit=most - 1)


def test_a_limit_counts_the_transpose_and_its_building():
    graph = ev.generate.rmat(12, 16, seed=1, directed=True)
    plain, whole = (
        estimate_memory(BFS.declaration, graph, transposing=transposing)[0]
        for transposing in (False, True)
    )
    assert whole > plain + graph.indices.nbytes
    with pytest.raises(ev.MemoryBudgetError, match=f"{whole:,} bytes"):
        ev.bfs(graph, 0, device="cpu:1", memory_limit=whole - 1)
    ev.bfs(graph, 0, device="cpu:1", memory_limit=whole)
    again = estimate_memory(BFS.declaration, graph, transposing=True)[0]
    assert again == plain  # it is there now


@pytest.mark.parametrize("name", ["bfs", "pagerank", "betweenness"])
def test_a_limit_holds_while_the_transpose_is_made(name):
    def run(graph, **options):
        given = {"bfs": (3,), "betweenness": ()}.get(name, ())
        kept = {"sources": 2} if name == "betweenness" else {}
        return getattr(ev, name)(graph, *given, device="cpu:1", **kept, **options)

    run(ev.generate.rmat(6, 4, seed=1, directed=True))
    graph = ev.generate.rmat(17, 16, seed=1, directed=True)
    with pytest.raises(MemoryBudgetError, match="bytes") as refused:
        run(graph, memory_limit=1)
    allowed = int(str(refused.value).partition("(")[2].partition(" ")[0].replace(",", ""))
    tracemalloc.start()
    try:
        run(graph, memory_limit=allowed)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert graph.nbytes + most < allowed + (1 << 18)
