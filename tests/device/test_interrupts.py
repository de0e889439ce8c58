"""Ctrl-C at any moment of any call: it stops within a second, and the process is as it was."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from evener.device import interrupts
from processes import python

# Calls and signals, one after the other. From an empty cache the first ones meet the compiler.
INTERRUPTED = """
import os, random, signal, sys, tempfile, threading, time
import numpy as np
import evener as ev

rng = random.Random(SEED)
folder = tempfile.mkdtemp(dir=FOLDER)
graph = ev.generate.rmat(11, 8, weights=(1, 9), seed=1)
road = ev.generate.grid(120, weights=(1, 9), seed=1)
kept = os.path.join(folder, "graph")
graph.save(kept + ".el")
devices = ["cpu", "cpu:1", "cpu:2", "cpu+cpu", "cpu:2+python", "python+python", "python"]

def calls():
    device = rng.choice(devices)
    small = ev.generate.rmat(6, 4, weights=(1, 9), seed=1) if "python" in device else None
    g = small or rng.choice((graph, road))
    return rng.choice([
        lambda: ev.bfs(g, 0, device=device), lambda: ev.sssp(g, 0, device=device),
        lambda: ev.pagerank(g, device=device), lambda: ev.connected_components(g, device=device),
        lambda: ev.betweenness(g, sources=3, device=device),
        lambda: ev.generate.rmat(16, 8, seed=2), lambda: ev.load(kept + ".el"),
        lambda: graph.save(kept + ".evg"), lambda: graph.save(kept + ".csv"),
        lambda: graph.transpose(), lambda: graph.simplify(),
        lambda: ev.Graph.from_edges(np.arange(99_999), np.arange(99_999) // 3),
    ])

depth = ev.bfs(graph, 0, device="python").depth
late = interrupted = 0
for number in range(COUNT):
    call, done = calls(), threading.Event()
    asked = [None]

    def ask():
        if not done.wait(rng.choice((0.0, 0.002, 0.01, 0.05, 0.3)) * rng.random()):
            asked[0] = time.perf_counter()
            os.kill(os.getpid(), signal.SIGINT)

    asking = threading.Thread(target=ask)
    try:
        asking.start()
        call()
        done.set()
        asking.join()
        time.sleep(0)  # a signal that came too late for the call
    except KeyboardInterrupt:
        interrupted += 1
        late = max(late, time.perf_counter() - asked[0])
    done.set()
    asking.join()
    device = rng.choice(devices[:4])
    assert np.array_equal(ev.bfs(graph, 0, device=device).depth, depth), (number, device)
left = [name for name in os.listdir(folder) if name.startswith(".")]
assert not left, left
print(interrupted, round(late, 3))
"""


def interrupt(count, seed, folder, cache):
    """Send so many signals; returns how many were met and the longest that one took, in seconds."""
    script = INTERRUPTED.replace("COUNT", str(count)).replace("SEED", str(seed))
    out = python(script.replace("FOLDER", repr(str(folder))), timeout=900, EVENER_CACHE=str(cache))
    interrupted, late = out.split()[-2:]
    return int(interrupted), float(late)


def pressed(name):
    """What Ctrl-C does while a function of this name, or of a module of this name, runs."""
    seen = []
    scope = {"__name__": name, "signal": signal, "seen": seen}
    text = "signal.raise_signal(signal.SIGINT)\n    seen.append('to the end')"
    exec(f"def {name.rpartition('.')[2]}():\n    {text}", scope)

    def call():
        scope[name.rpartition(".")[2]]()
        for _ in range(500):  # it comes again
            time.sleep(0.01)
        seen.append("too late")

    with pytest.raises(KeyboardInterrupt), interrupts.kept():
        call()
    return seen


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("own", []),
        ("own.__del__", ["to the end"]),  # it would be printed and forgotten
        ("llvmlite.binding.close", ["to the end"]),  # memory would be freed twice
        ("numba.core.refresh", ["to the end"]),  # registries would be broken for ever
    ],
)
def test_where_an_interrupt_waits(name, seen):
    assert pressed(name) == seen


def test_an_interrupt_comes_before_the_next_pass():
    waits = {"__name__": "numba.core.own", "signal": signal}
    text = "    signal.raise_signal(signal.SIGINT)\n    second()\n    raise AssertionError"
    exec(f"def first():\n{text}", waits)

    class Event:
        Listener = object

        def register(self, kind, listener):
            waits["second"] = lambda: listener.on_start(kind)

    interrupts.raise_before_passes(Event(), "pass")
    with pytest.raises(KeyboardInterrupt), interrupts.kept():
        waits["first"]()
    waits["second"]()  # nothing waits any more


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_two_hundred_interrupts(seed, tmp_path, record_property):
    interrupted, late = interrupt(50, seed, tmp_path, tmp_path / "cache")
    assert interrupted > 10
    record_property("the longest that one took, in seconds", late)


@pytest.mark.slow
def test_the_command_at_any_moment(tmp_path):
    """Interrupted while it starts, loads, compiles, runs or writes: a line, 130, and no file."""
    rng = random.Random(1)
    command = [sys.executable, "-m", "evener", "run", "pagerank", "rmat:scale=15,seed=1"]
    for number in range(30):
        out = tmp_path / f"out{number}.csv"
        run = subprocess.Popen(
            [*command, "-o", out, "--json"], text=True, start_new_session=True,
            env={**os.environ, "EVENER_CACHE": str(tmp_path / f"cache{number % 5}")},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        time.sleep(0.1 + rng.random() * 4)
        run.send_signal(signal.SIGINT)
        printed, errors = run.communicate(timeout=60)
        if run.returncode == 0:
            assert json.loads(printed)
            assert out.exists()
            continue
        assert (run.returncode, errors) == (130, "evener: interrupted.\n"), (number, errors)
        left = [path.name for path in tmp_path.iterdir() if "cache" not in path.name]
        assert all(name.startswith("out") for name in left), left  # nothing half-written
