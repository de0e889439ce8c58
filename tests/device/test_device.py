"""The device layer: the team of threads, limits, Ctrl-C."""

import concurrent.futures
import contextlib
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

from evener.device import (
    atomic,
    format_bytes,
    interrupts,
    limits,
    num_cores,
    num_threads,
    parallel,
    require_memory,
    use_threads,
)
from evener.device.compile import load_compiler
from evener.device.thread_pool import Pool
from evener.errors import EvenerError, MemoryBudgetError
from processes import python

# ---- the team -------------------------------------------------------------------------------


@parallel
def mark(chunk, visits):
    atomic.add(visits, chunk, 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 70])
@pytest.mark.parametrize("chunks", [0, 1, 2, 1000])
def test_every_chunk_runs_once(chunks, threads):
    visits = np.zeros(max(chunks, 1), np.int64)
    with use_threads(threads):
        mark(chunks, visits)
    assert visits.tolist() == ([1] * chunks or [0])


@parallel
def add_up(chunk, values, total):
    for _ in range(1000):
        atomic.add(total, 0, values[chunk])


def test_atomic_add():
    total = np.zeros(1, np.int64)
    with use_threads(4):
        add_up(64, np.arange(64), total)
    assert total[0] == 1000 * 63 * 32
    plain = [5, 6]
    assert atomic.add(plain, 1, 4) == 6
    assert plain == [5, 10]


@parallel
def fail_at(chunk, bad, visits):
    if chunk == bad:
        raise ValueError("this chunk is bad")
    visits[chunk] = 1


@pytest.mark.parametrize("chunks", [1, 9])
def test_errors_surface_and_the_team_goes_on(chunks):
    visits = np.zeros(chunks, np.int64)
    with use_threads(3):
        with pytest.raises(ValueError, match="this chunk is bad"):
            fail_at(chunks, chunks - 1, visits)
        fail_at(chunks, -1, visits)
    assert visits.tolist() == [1] * chunks


def test_calls_from_several_threads_at_once():
    @parallel
    def square(chunk, values):  # new to all of them: they meet in the compiler too
        values[chunk] = chunk * chunk

    start = threading.Barrier(8)

    def work(_):
        values = np.zeros(100, np.int64)
        start.wait()
        for _ in range(5):
            with use_threads(2):
                square(100, values)
        return values.tolist()

    with concurrent.futures.ThreadPoolExecutor(8) as callers:
        assert all(found == [i * i for i in range(100)] for found in callers.map(work, range(8)))


def test_threads_serve_again_and_hold_on_to_nothing():
    pool = Pool(4)
    array = np.zeros(3)
    held = weakref.ref(array)
    for _ in range(20):
        futures = pool.submit([(np.sum, (array,)), (len, (array,))])
        assert [future.result() for future in futures] == [0, 3]
    assert pool._started == 2
    del array, futures
    for _ in range(200):  # a thread lets go right after it has delivered
        if held() is None:
            break
        time.sleep(0.01)
    assert held() is None
    many = pool.submit([(time.sleep, (0.001,))] * 50)  # more than there are threads
    assert [future.result() for future in many] == [None] * 50
    assert pool._started == 4


BUILD = """
    import os, numpy as np
    from evener.device import use_threads
    from evener.graph import build
    from evener.graph.csr import Graph
    build.CHUNK = build.ARCS_PER_BUCKET = 100
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 500, (2, 4000))
    def made():
        with use_threads(2):
            graph = Graph.from_edges(src, dst, directed=False, duplicates="first")
        return graph.num_edges, int(graph.indices.sum())
    expected = made()
"""


def test_after_fork():
    script = BUILD + """
    child = os.fork()
    if child == 0:
        os._exit(0 if made() == expected else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert made() == expected
    print("fine")
    """  # fmt: skip
    assert python(script) == "fine"


def test_in_forked_worker_processes():
    script = BUILD + """
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.starmap(made, [()] * 4) == [expected] * 4
    print("fine")
    """  # fmt: skip
    assert python(script) == "fine"


@pytest.mark.parametrize("interrupt", ["_thread.interrupt_main()", "os.kill(os.getpid(), 2)"])
def test_ctrl_c(interrupt):
    # The whole would take most of an hour: that it ends at all says that it stopped.
    script = f"""
        import _thread, os, threading
        import numpy as np
        from evener.device import parallel, use_threads
        @parallel
        def spin(chunk, rounds, done):
            x = np.uint64(chunk)
            for _ in range(rounds):
                x = x * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            done[chunk] = 2 if x == np.uint64(0) else 1  # x must be computed
        done = np.zeros(100_000, np.int8)
        with use_threads(2):
            spin(4, 10, done)
            assert done.sum() == 4
            threading.Timer(0.3, lambda: {interrupt}).start()
            try:
                spin(len(done), 20_000_000, done)
            except KeyboardInterrupt:
                assert 0 < done.sum() < len(done)
                done[:] = 0
                spin(500, 10, done)
                assert done.sum() == 500  # and nobody from the stopped call still writes
                print("stopped")
    """
    assert python(script) == "stopped"


def test_threads_of_the_environment(monkeypatch):
    for three in ("3", "0" * 9 + "3"):
        monkeypatch.setenv("EVENER_THREADS", three)
        assert num_cores() == num_threads() == 3
    monkeypatch.delenv("EVENER_THREADS")
    assert 1 <= num_cores() <= os.cpu_count()
    monkeypatch.setenv("EVENER_THREADS", "")
    assert num_cores() == limits._granted_cores()


@pytest.mark.parametrize(
    "nonsense", ["0", "-2", "two", "1.5", "4 cores", " ", "9" * 20, "9" * 5000]
)
def test_nonsense_in_the_environment(nonsense, monkeypatch):
    monkeypatch.setenv("EVENER_THREADS", nonsense)
    with pytest.raises(EvenerError, match=r"EVENER_THREADS is .* whole number from 1 to \d+"):
        num_cores()


def test_use_threads(monkeypatch):
    monkeypatch.setenv("EVENER_THREADS", "5")
    with use_threads(2):
        assert num_threads() == 2
        with use_threads(3):
            assert num_threads() == 3
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            assert other.submit(num_threads).result() == 5  # the choice is this thread's
        assert num_threads() == 2
        with pytest.raises(RuntimeError), use_threads(7):
            raise RuntimeError
        assert num_threads() == 2
    assert num_threads() == 5
    for threads in (0, -1):
        with pytest.raises(EvenerError, match="at least 1"), use_threads(threads):
            pass


# ---- limits ---------------------------------------------------------------------------------


def test_require_memory(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 1000)
    require_memory(1000, "A graph")
    with pytest.raises(MemoryBudgetError, match="A graph needs about 1001 B, but only 1000 B"):
        require_memory(1001, "A graph")
    assert issubclass(MemoryBudgetError, MemoryError)


def test_more_memory_than_any_machine_has():
    assert 0 < limits.available_memory() <= limits.total_memory()
    with pytest.raises(MemoryBudgetError, match=r"needs about 1\.0 PiB"):
        require_memory(1 << 50, "Everything")


@pytest.fixture
def cgroup(tmp_path, monkeypatch):
    """A container: `cgroup({"cpu.max": "…"})` writes its files."""
    monkeypatch.setattr(limits, "_CGROUP", tmp_path)

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n")

    return write


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
    ],
)
def test_cores_of_a_container(files, quota, cgroup, monkeypatch):
    cgroup(files)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert limits._cgroup_cpu_quota() == quota
    assert limits._granted_cores.__wrapped__() == {None: 8, 1.5: 2, 0.5: 1}[quota]


@pytest.mark.parametrize(
    ("files", "available", "total"),
    [
        ({"memory.max": "1000", "memory.current": "300"}, 700, 1000),
        (
            {
                "memory.max": "1000",
                "memory.current": "300",
                "memory.stat": "anon 5\ninactive_file 200",
            },
            900,
            1000,
        ),
        ({"memory.max": "1000", "memory.current": "1200"}, 0, 1000),
        (
            {"memory/memory.limit_in_bytes": "1000", "memory/memory.usage_in_bytes": "400"},
            600,
            1000,
        ),
    ],
)
def test_memory_of_a_container(files, available, total, cgroup):
    cgroup(files)
    assert (limits.available_memory(), limits.total_memory()) == (available, total)


def test_memory_without_a_limit(cgroup):
    cgroup({"memory.max": "max", "memory.current": "300"})
    assert limits.available_memory() > 1 << 20
    assert limits.total_memory() > 1 << 20


def test_limits_of_the_groups_around_a_process(cgroup, tmp_path, monkeypatch):
    """A job of a batch system or a service has its limit in a folder below the top."""
    monkeypatch.setattr(limits, "_own_groups", lambda: {"": "/jobs/7/step", "cpu": "/jobs"})
    (tmp_path / "jobs/7/step").mkdir(parents=True)
    cgroup({"jobs/7/memory.max": "5000", "jobs/7/memory.current": "1000"})
    cgroup({"jobs/7/step/memory.max": "max", "jobs/7/step/memory.current": "10"})
    assert (limits.available_memory(), limits.total_memory()) == (4000, 5000)
    cgroup({"jobs/memory.max": "4500", "jobs/memory.current": "4400"})
    assert (limits.available_memory(), limits.total_memory()) == (100, 4500)
    cgroup({"jobs/7/cpu.max": "300000 100000"})
    assert limits._cgroup_cpu_quota() == 3


def test_the_groups_of_a_process_are_read(tmp_path, monkeypatch):
    (tmp_path / "own").write_text("4:memory:/a/b\n1:cpu,cpuacct:/c:d\n0::/\n")
    monkeypatch.setattr(limits, "_OWN_GROUPS", str(tmp_path / "own"))
    found = limits._own_groups.__wrapped__()
    assert found == {"memory": "/a/b", "cpu": "/c:d", "cpuacct": "/c:d", "": "/"}


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_limits_of_a_process(limit):
    """Under ``ulimit -v`` a request that cannot be met is refused before it is made."""
    printed = python(
        f"""
        import resource
        import evener as ev
        from evener.device import available_memory, limits
        resource.setrlimit(resource.{limit}, (2 << 30, resource.RLIM_INFINITY))
        assert available_memory() < limits.total_memory() == 2 << 30
        try:
            ev.generate.path(10**9)
        except ev.MemoryBudgetError:
            print("refused")
        """
    )
    assert printed == "refused"


def test_address_space_to_load_the_compiler():
    """SciPy's BLAS would retry for ever to get what ``ulimit -v`` does not grant."""
    printed = python(
        """
        import resource
        import evener as ev
        resource.setrlimit(resource.RLIMIT_AS, (390 << 20, resource.RLIM_INFINITY))
        try:
            ev.generate.path(100)
            ev.bfs(ev.generate.path(100), 3)
        except ev.MemoryBudgetError as error:
            print(error)
        """
    )
    assert printed.startswith("Loading the compiler needs about 400.0 MiB of address space")


def test_format_bytes():
    assert [format_bytes(n) for n in (0, 1023, 1024, 1536, 1 << 30, 1 << 62)] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 GiB", "4096.0 PiB",
    ]  # fmt: skip


# ---- Ctrl-C -------------------------------------------------------------------------------------


def test_an_interrupt_that_was_swallowed_is_raised_in_the_end():
    before = signal.getsignal(signal.SIGINT)
    done = []

    def swallow():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        done.append(1)

    with pytest.raises(KeyboardInterrupt), interrupts.kept():
        swallow()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is before
    with interrupts.kept():  # nothing came, nothing is raised
        done.append(2)
    with pytest.raises(KeyError), interrupts.kept():
        raise KeyError
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_stands_for_the_error_that_came_of_it():
    def fail():
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise RuntimeError("there is no code")

    with pytest.raises(KeyboardInterrupt), interrupts.kept():
        fail()


def test_the_compiler_is_loaded_whole(monkeypatch):
    from numba.core.registry import cpu_target

    context, seen = cpu_target.typing_context, []

    def refresh():
        signal.raise_signal(signal.SIGINT)
        seen.append(type(context).refresh(context))

    monkeypatch.setattr(context, "refresh", refresh)
    with pytest.raises(KeyboardInterrupt):
        load_compiler()
    assert set(seen) == {None}  # compiling on the way there calls it too


def test_interrupts_are_left_alone_in_other_threads():
    found = []

    def work():
        with interrupts.kept():
            found.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]
