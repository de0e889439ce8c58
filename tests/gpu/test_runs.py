"""What is not the answer: where results are, traces, memory, interrupts, and what is refused."""

import gc
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from cases import random_graph, weighted
from numpy import float64, int64

import evener as ev
from evener.algorithms.bfs import verify as verify_bfs
from evener.algorithms.sssp import verify as verify_sssp
from evener.device import cuda
from evener.device.cuda import GridKernel
from evener.engine.run import run
from evener.programs import Field, Program, Scalar, functor
from evener.programs.stages import compute, filter, reduce, repeat


@pytest.mark.xdist_group("sssp auto")
def test_results_may_stay_on_the_device():
    import cupy

    graph = weighted(ev.generate.grid(20, 20, weights=(1, 9)))
    r = ev.bfs(graph, 0, device="cuda", device_arrays=True)
    assert isinstance(r.depth, cupy.ndarray)
    assert r.depth.get().max() == 38
    r = ev.sssp(graph, 0, device="cuda", device_arrays=True)
    np.testing.assert_array_equal(r.parent.get(), ev.sssp(graph, 0, device="cpu").parent)
    assert ev.connected_components(graph, device="cuda", device_arrays=True).count == 1
    assert isinstance(r.to_numpy()["distance"], np.ndarray)
    assert r.path_to(399)[0] == 0


def test_frames_of_results_on_the_device():
    pytest.importorskip("polars", reason="frames are made by polars")
    graph = weighted(ev.generate.grid(20, 20, weights=(1, 9), seed=1))
    r = ev.sssp(graph, 0, device="cuda", device_arrays=True)
    assert r.to_polars().height == 400
    assert r.top(3).height == 3


def test_stats_trace_and_explanation():
    graph = ev.generate.rmat(12, 16, seed=1)
    have, want = (ev.bfs(graph, 0, device=name, direction="push") for name in ("cuda", "cpu"))
    assert have.stats["supersteps"] == want.stats["supersteps"]
    assert have.stats["edges"] == want.stats["edges"]
    keys = ("superstep", "frontier", "edges", "direction")
    rows = [[{key: row[key] for key in keys} for row in r.trace] for r in (have, want)]
    assert rows[0] == rows[1]
    assert all(row["mode"] == "in one kernel" for row in have.trace)
    assert all(row["schedule"] == "dynamic" and row["barriers"] > 0 for row in have.trace)
    assert [row["kernels"] for row in have.trace] == [1] + [0] * (len(have.trace) - 1)
    assert "one kernel" in have.explain()
    assert ev.bfs(graph, 0).stats["device"] == "cuda"


@pytest.mark.parametrize("device", ["cuda", "cuda+cuda"])
def test_parents(device):
    """Any parent on the level above will do: `verify` says whether it is one."""
    for seed in range(20):
        graph = random_graph(seed)
        found = ev.bfs(graph, graph.labels[:1], device=device)
        verify_bfs(graph, found, graph.labels[:1])
        found = ev.sssp(graph, graph.labels[:1], device=device)
        verify_sssp(graph, found, graph.labels[:1])


def test_several_python_threads():
    graph = ev.generate.rmat(13, 16, seed=1)
    want = ev.bfs(graph, 0, device="cpu").depth
    ev.bfs(graph, 0, device="cuda")
    found = []

    def work():
        for _ in range(20):
            found.append(ev.bfs(graph, 0, device="cuda").depth)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for depth in found:
        np.testing.assert_array_equal(depth, want)


FORKED = """
import os, sys
import evener as ev
graph = ev.generate.rmat(8, 8, seed=1)
want = ev.bfs(graph, 0, device="cuda").depth
child = os.fork()
if child == 0:
    try:
        ev.bfs(graph, 0, device="cuda")
    except ev.DeviceError as error:
        found = ev.bfs(graph, 0)
        same = (found.depth == want).all() and found.stats["device"] == "cpu"
        os._exit(7 if same and "was forked" in str(error) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert (ev.bfs(graph, 0, device="cuda").depth == want).all()
"""


def test_after_a_fork():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=100)


# ---- memory ------------------------------------------------------------------------------------


def test_graphs_leave_the_device_with_their_last_reference():
    import cupy

    pool = cupy.get_default_memory_pool()
    ev.bfs(ev.generate.rmat(4, 2, seed=1), 0, device="cuda")  # what is kept for later runs is there
    gc.collect()
    before = pool.used_bytes()  # graphs of other tests may be there too
    graph = ev.generate.rmat(15, 16, seed=1)
    ev.bfs(graph, 0, device="cuda")
    used = pool.used_bytes()
    ev.bfs(graph, 1, device="cuda")
    assert pool.used_bytes() == used >= before + graph.nbytes
    held = graph.nbytes
    del graph
    gc.collect()
    assert pool.used_bytes() < before + held / 10


@pytest.mark.xdist_group("sssp auto")
def test_a_run_returns_its_memory():
    import cupy

    pool = cupy.get_default_memory_pool()
    graph = weighted(ev.generate.rmat(12, 16, weights=(1, 9), seed=1))
    calls = [
        lambda: ev.bfs(graph, 0, device="cuda"),
        lambda: ev.sssp(graph, 0, device="cuda"),
        lambda: ev.betweenness(graph, sources=2, device="cuda"),
    ]
    for call in calls:
        call()
        gc.collect()
        used = pool.used_bytes()
        for _ in range(3):
            call()
        gc.collect()
        assert pool.used_bytes() == used


@pytest.mark.parametrize("limited", ["by a limit", "by what is free"])
def test_too_large_a_graph_is_refused_before_anything_is_allocated(limited, monkeypatch):
    import cupy

    graph = ev.generate.path(20_000)
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()
    options = {"memory_limit": "100kB"} if limited == "by a limit" else {}
    if not options:
        monkeypatch.setattr("evener.device.cuda.free_memory", lambda: 1000)
    with pytest.raises(ev.MemoryBudgetError, match=r"needs about .*B"):
        ev.bfs(graph, 0, device="cuda", **options)
    assert pool.used_bytes() == before
    assert "_on_gpus" not in graph.__dict__ or not graph._on_gpus


# ---- interrupts --------------------------------------------------------------------------------


class Endless(Program):
    """One stage between two looks at the wish to stop; those below have two, three, or loops."""

    value = Field(int64, fill=1)
    total = Scalar(int64, "sum")

    @functor
    def touch(v, s):
        s.value[v] += 1

    @functor
    def is_any(v, s):
        return True

    @functor
    def value_of(v, s):
        return s.value[v]

    @functor
    def never(s):
        return s.total < 0

    loop = repeat(filter(is_any))


class TwoStages(Endless):
    loop = (
        compute(Endless.touch),
        repeat(compute(Endless.touch), filter(Endless.is_any)),
    )


class ThreeStages(Endless):
    loop = (
        compute(Endless.touch),
        filter(Endless.is_any),
        repeat(
            compute(Endless.touch),
            filter(Endless.is_any),
            reduce(Endless.value_of, "sum", into=Endless.total),
            until=Endless.never,
        ),
    )


class LoopsAlone(Endless):
    loop = repeat(repeat(filter(Endless.is_any), max_supersteps=0))


class LoopsWithin(Endless):
    loop = (
        filter(Endless.is_any),
        repeat(repeat(compute(Endless.touch), max_supersteps=3), filter(Endless.is_any)),
    )


@pytest.mark.parametrize(
    "program", [Endless, TwoStages, ThreeStages, LoopsAlone, LoopsWithin], ids=lambda p: p.__name__
)
def test_interrupts_stop_the_kernel(program, monkeypatch):
    graph = ev.generate.rmat(8, 8, seed=1)
    launch = GridKernel.run

    def launch_and_interrupt(self, words, cancel):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        return launch(self, words, cancel)

    with monkeypatch.context() as patch:
        patch.setattr(GridKernel, "run", launch_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(program, graph, device="cuda")
    assert not cuda.hung  # it stopped when it was asked to
    assert ev.connected_components(graph, device="cuda").count > 0  # the device still works


def test_an_interrupt_within_a_large_loop():
    graph = ev.generate.rmat(16, 16, seed=1)
    ev.pagerank(graph, max_iterations=1, tol=1.0, device="cuda")  # compiled
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ev.pagerank(graph, tol=0, max_iterations=10**9, device="cuda")
    assert not cuda.hung


# ---- what is refused ---------------------------------------------------------------------------


def test_a_gpu_that_is_not_there():
    with pytest.raises(ev.DeviceError, match="there is no GPU 99"):
        ev.bfs(ev.generate.path(3), 0, device="cuda:99")


def test_a_functor_that_raises():
    class Raises(Program):
        value = Field(float64)

        @functor
        def check(v, s):
            assert s.value[v] >= 0
            s.value[v] += 1

        loop = compute(check)

    with pytest.raises(ev.DeviceError, match="Raises.check, line .* raises or asserts, which only"):
        run(Raises, ev.generate.path(3), device="cuda")
    assert run(Raises, ev.generate.path(3)).value.tolist() == [1, 1, 1]
