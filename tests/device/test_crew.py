"""Kernels that one thread leads: the crew it musters, progress, and threads that do not stop."""

import textwrap

import numpy as np
import pytest

import evener as ev
from evener import progress
from evener.device import crew, team
from evener.device.sync import CALL, new_sync
from evener.engine.targets import cpu as native
from processes import python
from tables import slow_but


@pytest.fixture
def called(monkeypatch):
    """For each run how many threads it had, and how many calls for helpers."""
    found = []

    def run_led(worker, threads, sync, *arguments):
        outcome = team.run_led(worker, threads, sync, *arguments)
        found.append((threads, int(sync[CALL]) // int(crew.NUMBER) - 1))  # the last ends the run
        return outcome

    monkeypatch.setattr(native, "run_led", run_led)
    return found


def test_small_work_calls_nobody(called):
    ev.bfs(ev.generate.path(50), 0, device="cpu:4")
    ev.bfs(ev.generate.path(50_000), 0, device="cpu:4")  # large, in small supersteps
    assert called == [(1, 0), (4, 0)]


def test_large_work_calls_helpers(called):
    graph = ev.generate.rmat(14, 16, seed=1)
    ev.pagerank(graph, device="cpu:2", max_iterations=5, tol=1.0)
    assert called[0][0] == 2
    assert called[0][1] > 0


@pytest.mark.usefixtures("whole_crews")
def test_helpers_share_every_stage(called):
    graph = ev.generate.grid(8)
    want = ev.bfs(graph, 0, device="python").depth
    for threads in (2, 3, 5):
        np.testing.assert_array_equal(ev.bfs(graph, 0, device=f"cpu:{threads}").depth, want)
    assert [threads for threads, calls in called if calls > 0] == [2, 3, 5]


class Sums(ev.Program):
    """A sum of floats over all vertices, which rounding tells apart by its order."""

    total = ev.Scalar(float, "sum")

    @ev.functor
    def value(v, s):
        return 1.0 / (s.id[v] + 1)

    loop = ev.stages.reduce(value, "sum", into=total, over="all")


def test_sums_do_not_depend_on_the_threads():
    graph = ev.generate.path(100_001)
    totals = {ev.run(Sums, graph, device=f"cpu:{threads}").total for threads in (1, 2, 3, 7)}
    assert len(totals) == 1


def test_a_leader_that_waited_works_alone_for_a_while():
    sync = new_sync()
    crew.ready(sync, (0, 0))
    assert crew.worth(sync, 4, 100_000) == 4
    crew._learn(sync, 1_000_000_000)
    assert crew.worth(sync, 4, 100_000) == 1
    assert crew.worth(sync, 4, crew.LONG) == 4  # worth the wait
    crew.ready(sync, crew.learned_by(sync))
    assert crew.worth(sync, 4, 100_000) == 1  # the next run knows
    assert crew.worth(sync, 4, 100) == 1
    assert crew.worth(sync, 4, 3 * crew.WORTH) == 1


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_supersteps_are_told_while_a_kernel_runs(device, monkeypatch):
    told = []
    monkeypatch.setattr(team, "_POLL_SECONDS", 0.0005)
    monkeypatch.setattr(progress, "set_note", told.append)
    path = ev.generate.path(30_000 if "+" in device else 100_000)
    ev.bfs(path, 0, device=device, **_halves(device))
    told = [note for note in told if note.startswith("superstep")]  # not what is compiled
    steps = [int(note.split()[1].replace(",", "")) for note in told]
    assert len(set(steps)) > 3
    assert steps == sorted(steps)
    assert "1 in the frontier" in told[0]


def _halves(device):
    return {"partition": "contiguous"} if "+" in device else {}


ENDLESS = """
    import os, signal, threading, warnings
    import numpy as np
    import evener as ev

    class Endless(ev.Program):
        found = ev.Field(np.int64)
        least = ev.Param(np.int64, 0)

        @ev.functor
        def look(v, s):
            while s.found[v] >= s.least:
                s.found[v] = (s.found[v] + 1) & 7

        loop = ev.stages.compute(look, over="all")

    graph = ev.generate.path(5_000)
    ev.run(Endless, graph, device="{device}", least=9)  # which compiles it
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ev.run(Endless, graph, device="{device}")
        except KeyboardInterrupt:
            print("interrupted", end=" ")
    print([str(one.message) for one in caught if "endless loop" in str(one.message)] != [], end=" ")
    print(ev.bfs(graph, 0, device="{device}").depth[-1])
"""


@pytest.mark.parametrize("device", slow_but(["cpu:1", "cpu:2", "cpu:1+cpu:1"], "cpu:2"))
def test_an_endless_functor_ends_at_the_first_interrupt(device, tmp_path):
    script = tmp_path / "endless.py"  # the text of a functor must be found
    script.write_text(textwrap.dedent(ENDLESS.format(device=device)))
    printed = python(
        f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", timeout=120
    )
    assert printed == "interrupted True 4999"
