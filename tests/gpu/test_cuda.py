"""The cuda device on a real GPU: whatever the cpu device finds, it finds too."""

import importlib
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import evener as ev
from evener.operators.schedules import SCHEDULES
from graphs import DEGENERATE

NAMED = [name for name in SCHEDULES if ":" not in name]
DIRECTIONS = ["auto", "push", "pull"]


def with_weights(graph):
    if graph.weights is not None:
        return graph
    src = graph._sources()
    return ev.Graph.from_edges(
        src, graph.indices, np.ones(len(src), np.int64), num_vertices=graph.num_vertices
    )


def random_graph(seed, *, dtype=np.int64, zero=True):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 400))
    m = int(n * rng.integers(0, 12))
    weight = rng.integers(0 if zero else 1, 30, m).astype(dtype)
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


def degenerate():
    for name, make in DEGENERATE.items():
        for directed in (True, False):
            graph = make(directed=directed)
            if graph.labels.dtype.kind in "iu":
                yield f"{name} {directed}", with_weights(graph)


ALGORITHMS = {
    "bfs": (lambda g, **k: ev.bfs(g, g.labels[:1], **k), ["depth"]),
    "bounded bfs": (lambda g, **k: ev.bfs(g, g.labels[:1], cutoff=2, **k), ["depth"]),
    "sssp": (lambda g, **k: ev.sssp(g, g.labels[:2], **k), ["distance", "parent"]),
    "sswp": (lambda g, **k: ev.sswp(g, g.labels[:1], **k), ["width"]),
    "pagerank": (lambda g, **k: ev.pagerank(g, max_iterations=20, **k), ["rank"]),
    "weighted pagerank": (
        lambda g, **k: ev.pagerank(g, weighted=True, max_iterations=20, **k), ["rank"],
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


def assert_equal_to_cpu(algorithm, name, graph, **options):
    call, fields = ALGORITHMS[algorithm]
    if graph.num_vertices == 0 and algorithm not in ("components", "pagerank"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some do not converge in so few iterations
        want = call(graph, device="cpu", direction=options.get("direction", "auto"))
        have = call(graph, device="cuda", **options)
    for field in fields:
        a, b = getattr(want, field), getattr(have, field)
        message = f"{algorithm} {field} of {name} with {options}"
        if np.asarray(a).dtype.kind == "f":
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9, err_msg=message)
        else:
            np.testing.assert_array_equal(b, a, err_msg=message)
    if algorithm == "bfs":
        importlib.import_module("evener.algorithms.bfs").verify(graph, have, graph.labels[:1])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_degenerate_graphs(algorithm):
    for name, graph in degenerate():
        assert_equal_to_cpu(algorithm, name, graph)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_random_graphs(algorithm):
    for seed in range(20):
        assert_equal_to_cpu(algorithm, seed, random_graph(seed))
    assert_equal_to_cpu(algorithm, "star", star_and_more())
    assert_equal_to_cpu(algorithm, "rmat", ev.generate.rmat(13, 16, weights=(1, 60), seed=2))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("algorithm", ["bfs", "sswp", "betweenness"])
def test_directions(algorithm, direction):
    for seed in range(10):
        assert_equal_to_cpu(algorithm, seed, random_graph(seed), direction=direction)
    assert_equal_to_cpu(algorithm, "star", star_and_more(), direction=direction)
    rmat = ev.generate.rmat(12, 16, weights=(1, 60), seed=3)
    assert_equal_to_cpu(algorithm, "rmat", rmat, direction=direction)


@pytest.mark.parametrize("schedule", NAMED)
@pytest.mark.parametrize("algorithm", ["bfs", "sssp", "pagerank", "components", "betweenness"])
def test_schedules(algorithm, schedule):
    for seed in range(6):
        assert_equal_to_cpu(algorithm, seed, random_graph(seed), schedule=schedule)
    assert_equal_to_cpu(algorithm, "star", star_and_more(), schedule=schedule)
    rmat = ev.generate.rmat(17, 8, weights=(1, 60), seed=3)  # frontiers that are large to a grid
    assert_equal_to_cpu(algorithm, "rmat", rmat, schedule=schedule)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_many_random_graphs(algorithm):
    first = time.time_ns() % 10**9
    for seed in range(first, first + 200):
        assert_equal_to_cpu(algorithm, seed, random_graph(seed))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if ":" in name])
def test_widths_of_virtual_warps(schedule):
    for algorithm in ("bfs", "pagerank"):
        assert_equal_to_cpu(algorithm, "star", star_and_more(), schedule=schedule)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_weights_of_every_dtype(dtype):
    for algorithm in ("sssp", "sswp"):
        assert_equal_to_cpu(algorithm, "random", random_graph(3, dtype=dtype))


def test_repeated_runs_agree():
    graph = ev.generate.rmat(14, 16, weights=(1, 60), seed=5)
    for algorithm in ("bfs", "sssp", "components", "pagerank"):
        call, (field, *_) = ALGORITHMS[algorithm]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [getattr(call(graph, device="cuda"), field) for _ in range(10)]
        for other in runs[1:]:
            np.testing.assert_array_equal(other, runs[0])


@pytest.mark.parametrize(
    "name", ["widest_path", "k_core", "k_hop", "personalised_heat", "path_counting"]
)
def test_example_programs(name, capsys):
    example = importlib.import_module(name)
    example.main("cpu")
    want = capsys.readouterr().out.replace("cpu", "")
    example.main("cuda")
    assert capsys.readouterr().out.replace("cuda", "") == want


# ---- what is not the answer --------------------------------------------------------------------


def test_results_may_stay_on_the_device():
    import cupy

    graph = ev.generate.grid(20, 20, weights=(1, 9))
    r = ev.bfs(graph, 0, device="cuda", device_arrays=True)
    assert isinstance(r.depth, cupy.ndarray)
    assert r.depth.get().max() == 38
    r = ev.sssp(graph, 0, device="cuda", device_arrays=True)
    np.testing.assert_array_equal(r.parent.get(), ev.sssp(graph, 0, device="cpu").parent)
    assert ev.connected_components(graph, device="cuda", device_arrays=True).count == 1


def test_stats_trace_and_explanation():
    graph = ev.generate.rmat(12, 16, seed=1)
    have, want = (ev.bfs(graph, 0, device=name, direction="push") for name in ("cuda", "cpu"))
    assert have.stats["supersteps"] == want.stats["supersteps"]
    assert have.stats["edges"] == want.stats["edges"]
    keys = ("superstep", "frontier", "edges", "direction")
    rows = [[{key: row[key] for key in keys} for row in r.trace] for r in (have, want)]
    assert rows[0] == rows[1]
    assert "one kernel" in have.explain()
    assert ev.bfs(graph, 0).stats["device"] == "cuda"


def test_graphs_leave_the_device_with_their_last_reference():
    import cupy

    pool = cupy.get_default_memory_pool()
    graph = ev.generate.rmat(15, 16, seed=1)
    ev.bfs(graph, 0, device="cuda")
    used = pool.used_bytes()
    ev.bfs(graph, 1, device="cuda")
    assert pool.used_bytes() == used >= graph.nbytes
    del graph
    assert pool.used_bytes() < used / 10


def test_interrupt_stops_the_kernel():
    graph = ev.generate.rmat(16, 16, seed=1)
    ev.pagerank(graph, max_iterations=1, tol=1.0, device="cuda")  # compiled
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ev.pagerank(graph, tol=0, max_iterations=10**9, device="cuda")
    assert time.monotonic() - began < 2
    assert ev.connected_components(graph, device="cuda").count > 0  # the device still works


def test_a_gpu_that_is_not_there():
    with pytest.raises(ev.DeviceError, match="there is no GPU 99"):
        ev.bfs(ev.generate.path(3), 0, device="cuda:99")


def test_too_little_memory(monkeypatch):
    monkeypatch.setattr("evener.device.cuda.free_memory", lambda: 1000)
    with pytest.raises(ev.MemoryBudgetError, match="needs about .* on the GPU, but only 1000 B"):
        ev.bfs(ev.generate.path(2000), 0, device="cuda")
