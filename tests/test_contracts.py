"""docs/contracts.md: what is the same in every run, from threads, and in the child of a fork."""

import functools
import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import evener as ev
from evener.device.compile import compiler_lock
from processes import python
from tables import slow_but

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
    for device in ("cpu:2", "cpu:2", "cpu:3"):
        assert np.array_equal(call(device), expected), device


@pytest.mark.parametrize("name", slow_but(EXACT, "depth", "component"))
def test_the_same_on_a_set(name):
    assert np.array_equal(EXACT[name]("cpu:1+cpu:1"), EXACT[name]("cpu:1"))


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


def test_a_child_that_is_forked_while_a_form_of_a_graph_is_made():
    """No lock is around what is made once: its owner would not be in the child."""
    printed = python(
        """
        import os, signal, threading
        import evener as ev
        from evener.graph import build

        graph, other = (ev.generate.rmat(5, 4, seed=seed, directed=True) for seed in (1, 2))
        graph.transpose()  # which compiles it
        made, make, leave = threading.Event(), build.build_csr, threading.Event()

        def waiting(*given):
            made.set()
            leave.wait()
            return make(*given)

        build.build_csr = waiting
        thread = threading.Thread(target=other.transpose)
        thread.start()
        made.wait()
        build.build_csr = make
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            third = ev.generate.rmat(5, 4, seed=3, directed=True)
            os._exit(7 if third.transpose().num_edges == third.num_edges else 1)
        leave.set()
        thread.join()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert printed == "7"


def test_a_child_that_is_forked_while_the_compiler_is_loaded():
    printed = python(
        """
        import os, signal, sys, threading
        import evener as ev

        thread = threading.Thread(target=lambda: __import__("numba"))
        thread.start()
        while "numba.core" not in sys.modules:
            pass
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            import numba.core.compiler_lock
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert printed == "7"


def test_a_child_that_is_forked_while_another_thread_compiles_for_too_long():
    """It finds LLVM whole, collects garbage, and compiles what the other thread was compiling."""
    printed = python(
        """
        import gc, os, signal, threading
        import evener as ev
        from evener.device import compiled, locks

        ev.bfs(ev.generate.path(4), 0, device="cpu:1")
        import llvmlite.binding.ffi
        import numba.extending
        locks._PATIENCE = 0.5
        began, leave = threading.Event(), threading.Event()

        def helper(x):
            raise NotImplementedError

        @numba.extending.overload(helper)
        def compile_helper(x):
            if not began.is_set():
                with llvmlite.binding.ffi.lib._lock:
                    began.set()
                    leave.wait(0.8)
                leave.wait()
            return lambda x: x + 3

        function = compiled(lambda x: helper(x))

        def compiling():
            function(4)

        thread = threading.Thread(target=compiling)
        thread.start()
        began.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            assert gc.isenabled()
            os._exit(function(4))
        leave.set()
        thread.join()
        assert gc.isenabled()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert printed == "7"


COLD = """
    import os, signal, threading
    from concurrent.futures import ThreadPoolExecutor
    import evener as ev

    graph = ev.generate.rmat(6, 4, seed=1)
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(ev.bfs, graph, v, device="cpu:2") for v in range(8)]
        running += [pool.submit(ev.connected_components, graph, device="cpu:1")]
        child = os.fork()  # while they compile
        if child == 0:
            signal.alarm(200)
            os._exit(7 if ev.pagerank(graph, device="cpu:1").rank.sum() > 0.9 else 1)
        depths = [one.result().depth for one in running[:-1]]
    assert all((depths[v][v], depths[v].max() < 64) == (0, True) for v in range(8))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_threads_and_forks_from_an_empty_cache(tmp_path):
    """One lock is around compiling and around making dispatchers."""
    assert python(COLD, timeout=600, EVENER_CACHE=str(tmp_path)) == "7"


def test_a_signal_handler_that_interrupts_the_compiler():
    class New(ev.Program):
        seen = ev.Field("int64")

        @ev.functor
        def look(v, s):
            s.seen[v] = s.degree[v]

        loop = ev.stages.compute(look)

    graph = ev.generate.path(4)
    ev.bfs(graph, 0, device="cpu:1")
    with compiler_lock():  # as the thread has it that compiles, which is interrupted
        assert ev.bfs(graph, 0, device="cpu:1").depth.tolist() == [0, 1, 2, 3]
        with pytest.raises(ev.DeviceError, match="a signal handler that interrupted another call"):
            ev.run(New, graph, device="cpu:1")
    assert ev.run(New, graph, device="cpu:1").seen.tolist() == [1, 2, 2, 1]


def test_a_signal_handler_that_interrupts_the_import_of_an_algorithm():
    """Loading it reads the texts of its functors; the module is there, its function is not."""
    printed = python(
        """
        import inspect, signal
        import evener as ev

        graph, said, read = ev.generate.path(4), [], inspect.getsource

        def handle(*_):
            try:
                ev.bfs(graph, 0, device="cpu:1")
            except ev.DeviceError as error:
                said.append("a signal handler that interrupted" in str(error))

        def interrupted(function):
            inspect.getsource = read
            signal.raise_signal(signal.SIGUSR1)
            return read(function)

        signal.signal(signal.SIGUSR1, handle)
        inspect.getsource = interrupted
        print(ev.bfs(graph, 0, device="python").depth.tolist(), said)
        """
    )
    assert printed == "[0, 1, 2, 3] [True]"


HANDLED = """
    import signal
    import evener as ev

    graph, answers = ev.generate.rmat(6, 4, seed=1), []

    def handle(*_):
        try:
            answers.append(int(ev.bfs(graph, 0, device="cpu:1").depth[0]))
        except ev.DeviceError as error:
            answers.append("a signal handler that interrupted" in str(error))

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    total = ev.pagerank(graph, device="cpu+cpu").rank.sum()
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert abs(total - 1) < 1e-9 and len(answers) > 2
    assert all(one in (0, True) for one in answers), answers
    print(ev.bfs(graph, 0, device="cpu:1").depth[0])
"""


@pytest.mark.slow
def test_signal_handlers_from_an_empty_cache(tmp_path):
    assert python(HANDLED, timeout=300, EVENER_CACHE=str(tmp_path)) == "0"


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
