"""The compiled CPU device: what the interpreter gives, on any number of threads, every time."""

import gc
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numpy import int32, int64

import evener as ev
from comparing import assert_fields, case
from evener.algorithms.sssp import SSSP
from evener.device import atomic, crew
from evener.engine.request import DIRECTIONS
from evener.engine.run import run
from evener.errors import DeviceError
from evener.graph.csr import Graph
from evener.programs import Field, Program, functor
from evener.programs.stages import (
    advance,
    backwards,
    compute,
    gather,
    repeat,
)
from graphs import WHOLE_WEIGHTS
from programs.merged import Extremes, Offers, assert_extremes
from programs.searches import Search
from programs.stages import Everything
from tables import slow_but

pytestmark = pytest.mark.usefixtures("whole_crews")

THREADS = (1, 2, 3)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_searches(direction):
    for name, graph in WHOLE_WEIGHTS.items():
        expected = run(Search, graph, source=0, device="python")
        for threads in THREADS:
            with case(name, threads):
                found = run(Search, graph, source=0, device=f"cpu:{threads}", direction=direction)
                assert_fields(found, expected, ["depth"])
                reached = np.flatnonzero(found.depth > 0)
                before = found.depth[found.parent[reached]]
                assert (before + 1 == found.depth[reached]).all()


def test_everything():
    for name, graph in WHOLE_WEIGHTS.items():
        expected = run(Everything, graph, device="python")
        for threads in THREADS:
            with case(name, threads):
                found = run(Everything, graph, device=f"cpu:{threads}")
                assert_fields(found, expected, ["level", "visits", "sums", "backed"])
                assert found.stats["supersteps"] == expected.stats["supersteps"]


def test_distances():
    for name, graph in WHOLE_WEIGHTS.items():
        expected = run(SSSP, graph, source=0, device="python")
        for delta, threads in itertools.product((0.3, 10.0, 1e9), THREADS):
            with case(name, delta, threads):
                found = run(SSSP, graph, source=0, delta=delta, device=f"cpu:{threads}")
                assert_fields(found, expected, ["distance"])


def test_more_than_255_supersteps():
    """Marks wrap round after 255 stages."""
    graph = ev.generate.path(1500)
    found = run(Search, graph, source=0, device="cpu:2")
    assert found.depth.tolist() == list(range(1500))


@pytest.mark.parametrize("times", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_repeated_runs_agree(times):
    """Races show as a difference now and then; many small runs give them the chance."""
    graph = WHOLE_WEIGHTS["dense, undirected"]
    expected = run(Everything, graph, device="python")
    search = run(Search, graph, source=0, device="python")
    for i in range(times):
        device = "cpu:2" if i % 8 else "cpu:3"  # more than there are cores wait for each other
        found = run(Everything, graph, device=device)
        assert_fields(found, expected, ["level", "visits", "backed"])
        assert_fields(run(Search, graph, source=0, device=device), search, ["depth"])


def test_from_several_python_threads():
    graph = WHOLE_WEIGHTS["random, directed"]
    expected = run(Search, graph, source=0, device="python")
    failures = []

    def work():
        try:
            for _ in range(20):
                found = run(Search, graph, source=0, device="cpu:2")
                assert_fields(found, expected, ["depth"])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_fork():
    graph = WHOLE_WEIGHTS["random, undirected"]
    run(Search, graph, source=0, device="cpu:2")
    context = multiprocessing.get_context("fork")
    process = context.Process(
        target=run, args=(Search, graph), kwargs={"source": 0, "device": "cpu:2"}
    )
    process.start()
    process.join(60)
    assert process.exitcode == 0


def test_the_next_process_compiles_nothing(tmp_path):
    """Not even where a field has the name of a global that has nothing to make a key of."""
    script = tmp_path / "named.py"
    script.write_text(
        """if True:
        import threading
        import evener as ev

        width = threading.Lock()

        class Named(ev.Program):
            width = ev.Field(float)

            @ev.functor
            def touch(v, s):
                s.width[v] = s.id[v]

            loop = ev.stages.compute(touch, over="all")

        graph = ev.generate.path(4)
        print([ev.run(Named, graph, device="cpu:1").stats["from_cache"] for _ in range(2)])
        """
    )
    kept = tmp_path / "kept"
    environment = {**os.environ, "EVENER_CACHE": str(kept)}
    for expected in ("[False, True]", "[True, True]"):
        done = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, env=environment, check=True
        )
        assert done.stdout.strip() == expected
        assert len(list(kept.glob("worker-*"))) == 1


def test_what_only_the_interpreter_runs_is_said():
    class Twice(Program):
        seen = Field(int32, merge="max")

        @functor
        def mark(src, dst, edge, s):
            return atomic.max(s.seen, dst, 1) < 1

        @functor
        def touch(v, s):
            s.seen[v] += 1

        loop = (
            repeat(advance(mark), max_supersteps=1, record=True),
            backwards(backwards(compute(touch))),
        )

    graph = WHOLE_WEIGHTS["sparse, directed"]
    with pytest.raises(DeviceError, match="backwards within backwards"):
        run(Twice, graph, device="cpu")
    assert run(Twice, graph).stats["device"] == "python"


def test_rows_of_a_trace_add_up():
    found = run(Search, ev.generate.path(100), source=0, device="cpu:2")
    assert 0 < found.trace.to_frame()["seconds"].sum() <= found.stats["run_seconds"]


SCALE = 1


def test_long_lists_are_divided(monkeypatch):
    """The hub's list is longer than what a thread takes of it at a time."""
    monkeypatch.setattr(crew, "LEAST_PATIENCE", 1 << 32)  # cycles: until the other has come
    star = ev.Graph.from_edges(np.zeros(5000, int), np.arange(1, 5001), np.arange(5000) + 1)
    found = ev.sswp(star, 0, device="cpu:2")
    np.testing.assert_array_equal(found.width[1:], np.arange(1, 5001))


class Scaled(Program):
    """Its totals are of the type that a global gives them."""

    around = Field(np.float64)
    x = Field(np.int64, fill=3)

    @functor
    def value(src, dst, edge, s):
        return SCALE * s.x[src]

    @functor
    def keep(v, total, s):
        s.around[v] = total
        s.x[v] = 7
        return False

    loop = gather(value, "sum", keep)


@pytest.mark.parametrize(
    "device", slow_but(["cpu:1", "cpu:1+cpu:1", "cpu:1+python"], "cpu:1", "cpu:1+cpu:1")
)
def test_globals_that_change(device, monkeypatch):
    graph = ev.generate.path(4)
    for scale in (1, 2, 0.5) if device == "cpu:1" else (2, 0.5):  # another value, another type
        monkeypatch.setitem(globals(), "SCALE", scale)
        found = ev.run(Scaled, graph, device=device).around
        assert found.tolist() == [3 * scale, 6 * scale, 6 * scale, 3 * scale]


@pytest.mark.parametrize("device", slow_but(["cpu:1", "cpu:1+cpu:1", "cpu:1+python"], "cpu:1"))
def test_scalars_of_weights_of_other_types(device):
    def extremes(graph):
        found = run(Extremes, graph, device=device)
        return {name: getattr(found, name) for name in ("most", "least")}

    assert_extremes(extremes)


@pytest.mark.parametrize("device", slow_but(["cpu:1+cpu:1", "cpu:1+python"], "cpu:1+cpu:1"))
def test_followers_with_weights_of_other_types(device):
    for lowest in (-3, -1e300):  # the second is below all integers
        graph = Graph.from_edges(range(6), [6] * 6, np.array([lowest] * 6))
        found = run(Offers, graph, device=device, partition=lambda graph, _: np.arange(7) // 6)
        assert (found.offer[6], found.price[6]) == (0, lowest)


def test_programs_that_nobody_has_are_let_go():
    def used_once(factor):
        class Once(Program):
            value = Field(int64)

            @functor
            def fill(v, s):
                s.value[v] = factor * s.id[v]

            loop = compute(fill)

        found = run(Once, ev.generate.path(3), device="cpu:1")
        assert found.value.tolist() == [0, factor, 2 * factor]
        return weakref.ref(Once)

    left = used_once(5)
    Dispatcher._recent.clear()  # Numba keeps the latest ones
    gc.collect()
    assert left() is None
