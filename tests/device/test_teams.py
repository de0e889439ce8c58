"""Threads that wait for each other: whichever is gone, and whoever asks, none waits for ever."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import evener as ev
from evener.device import compiled, team
from evener.errors import DeviceError, ProgramError
from evener.programs import Field, Program, functor
from evener.programs.stages import compute

FEW = (1, 2, 4)


@compiled
def checked(degree):
    if degree > 2:
        raise ValueError("too many")
    return degree


class Beyond(Program):
    """An index that only the vertex of high degree takes beyond a tuple."""

    found = Field(np.int64)

    @functor
    def look(v, s):
        s.found[v] = FEW[s.degree[v]]

    loop = (compute(look, over="all"), compute(look, over="all"))


class Raising(Program):
    found = Field(np.int64)

    @functor
    def look(v, s):
        s.found[v] = checked(s.degree[v])

    loop = compute(look, over="all")


@pytest.mark.parametrize("device", ["cpu:1", "cpu:2", "cpu:1+cpu:2", "cpu:2+python"])
def test_a_functor_that_raises_ends_the_run(device):
    with pytest.raises(ProgramError, match="Beyond.*IndexError"):
        ev.run(Beyond, ev.generate.star(20_000), device=device, **_partition(device))


def _partition(device):
    return {"partition": "contiguous"} if "+" in device else {}


def test_an_error_in_what_a_functor_calls_is_seen():
    with pytest.raises(
        DeviceError, match=r"Raising.look, line \d+ of .*: calls checked, which raises or asserts"
    ):
        ev.run(Raising, ev.generate.path(9), device="cpu:2")
    with pytest.raises(ProgramError, match="too many"):
        ev.run(Raising, ev.generate.star(9), device="python")


class Interrupting:
    """Work handed to threads, with a Ctrl-C after the first."""

    def __init__(self, queue):
        self.queue, self.puts = queue, 0

    def put(self, item):
        self.queue.put(item)
        self.puts += 1
        if self.puts == 1:
            signal.raise_signal(signal.SIGINT)

    def get(self):
        return self.queue.get()


@pytest.mark.parametrize("device", ["cpu:2", "cpu:1+cpu:1"])
def test_an_interrupt_while_work_is_handed_out(device, monkeypatch):
    graph = ev.generate.rmat(8, 8, seed=1)
    want = ev.bfs(graph, 0, device=device).depth
    pool = team._pool()
    with monkeypatch.context() as patch:
        patch.setattr(pool, "_waiting", Interrupting(pool._waiting))
        with pytest.raises(KeyboardInterrupt):
            ev.bfs(graph, 0, device=device)
    until = time.monotonic() + 5
    while pool._free < pool._started and time.monotonic() < until:
        time.sleep(0.01)
    assert pool._free == pool._started
    np.testing.assert_array_equal(ev.bfs(graph, 0, device=device).depth, want)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_while_a_kernel_runs():
    graph = ev.generate.path(20)
    ev.bfs(graph, 0, device="cpu:1+cpu:1")
    held, leave = threading.Event(), threading.Event()

    def hold():
        with team._together:
            held.set()
            leave.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(int(ev.bfs(graph, 0, device="cpu:1+cpu:1").depth[-1]))
    leave.set()
    other.join()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 19
