"""The device layer: compiled code and its cache, the team of threads, limits, random numbers."""

import concurrent.futures
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evener.device import (
    atomic,
    cache,
    compiled,
    format_bytes,
    interrupts,
    limits,
    num_cores,
    num_threads,
    parallel,
    require_memory,
    use_threads,
)
from evener.device.compile import Compiled, kind_of, load_compiler
from evener.device.pool import Pool
from evener.device.random import permuted, random_below, random_bits, random_unit, stream_key
from evener.errors import EvenerError, MemoryBudgetError


def python(script, *, timeout=60, **environment):
    """Run a script in a fresh interpreter; returns what it printed."""
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, **environment}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        printed, errors = run.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)  # a stuck child of a fork, too
        run.communicate()
        raise
    assert run.returncode == 0, errors
    return printed.strip()


# ---- compiled code and its cache ------------------------------------------------------------

TRIPLE = """
    import numpy as np
    from evener.device import compiled, parallel
    FACTOR = 3
    @compiled
    def scale(x):
        return FACTOR * x
    @parallel
    def triple(chunk, values):
        values[chunk] = scale(values[chunk])
    values = np.arange(5)
    triple(5, values)
    worker = triple._worker.dispatcher
    print(values.tolist(), sum(worker.stats.cache_hits.values()))
"""


def test_another_process_finds_the_compiled_code(tmp_path):
    assert python(TRIPLE, EVENER_CACHE=str(tmp_path)) == "[0, 3, 6, 9, 12] 0"
    first = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert first
    assert python(TRIPLE, EVENER_CACHE=str(tmp_path)) == "[0, 3, 6, 9, 12] 1"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == first
    changed = TRIPLE.replace("FACTOR = 3", "FACTOR = 4")
    assert python(changed, EVENER_CACHE=str(tmp_path)) == "[0, 4, 8, 12, 16] 0"
    checked = python(TRIPLE, EVENER_CACHE=str(tmp_path), NUMBA_BOUNDSCHECK="1")
    assert checked == "[0, 3, 6, 9, 12] 0"


def test_two_processes_compile_at_once(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        runs = [both.submit(python, TRIPLE, EVENER_CACHE=str(tmp_path)) for _ in range(2)]
    for run in runs:
        assert run.result().startswith("[0, 3, 6, 9, 12]")
    assert {path.suffix for path in tmp_path.iterdir()} == {".bin"}
    assert python(TRIPLE, EVENER_CACHE=str(tmp_path)) == "[0, 3, 6, 9, 12] 1"


def double(x):
    return 2 * x


def truncated(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def of_another_kind(content):
    other = b"not a pickle"
    return hashlib.sha256(other).digest() + other


@pytest.mark.parametrize(
    "damage", [truncated, flipped, of_another_kind, lambda content: b""],
    ids=["truncated", "flipped", "of another kind", "empty"],
)  # fmt: skip
def test_a_damaged_file_is_compiled_again(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path))
    assert Compiled(double)(21) == 42
    (file,) = tmp_path.iterdir()
    sound = file.read_bytes()
    file.write_bytes(damage(sound))
    again = Compiled(double)
    assert again(21) == 42
    assert not again.dispatcher.stats.cache_hits
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    assert content[:32] == hashlib.sha256(content[32:]).digest()
    once_more = Compiled(double)
    assert once_more(21) == 42
    assert once_more.dispatcher.stats.cache_hits


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path / "file" / "folder"))
    assert Compiled(double)(21) == 42


def test_cache_folder(monkeypatch):
    monkeypatch.setenv("EVENER_CACHE", "/somewhere")
    assert str(cache.cache_folder()) == "/somewhere"
    monkeypatch.delenv("EVENER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert str(cache.cache_folder()) == "/caches/evener"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(cache.cache_folder()) == "/home/somebody/.cache/evener"


SOURCE = """
    import math
    import numpy as np
    from evener.device import compiled, atomic
    LIMIT = 5
    PAIR = (1, 2)
    TABLE = np.arange(3)
    UNREAD = 1
    def helper(x):
        return x + 1
    @compiled
    def compiled_helper(x):
        return helper(x) + 1
    def make(captured):
        def function(x, y=7):
            inner = [z * 2 for z in (x, y)]
            return compiled_helper(x) + LIMIT + PAIR[0] + TABLE[0] + captured + math.pi + 0.5
        return function
    function = make(11)
"""


def fingerprint_of(source):
    namespace = {"__name__": "typed_by_a_user"}
    exec(textwrap.dedent(source), namespace)
    return cache.fingerprint(namespace["function"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 5", "LIMIT = 6"),
        ("LIMIT = 5", "LIMIT = 5.0"),
        ("PAIR = (1, 2)", "PAIR = (1, 3)"),
        ("np.arange(3)", "np.arange(3) * 2"),
        ("np.arange(3)", "np.arange(3.0)"),
        ("return x + 1", "return x + 2"),
        ("helper(x) + 1", "helper(x) - 1"),
        ("@compiled\n", "@compiled(fastmath=True)\n"),
        ("make(11)", "make(12)"),
        ("y=7", "y=8"),
        ("z * 2", "z * 3"),
        ("0.5", "0.25"),
        ("math.pi", "math.e"),
    ],
)
def test_what_changes_the_code_changes_the_fingerprint(old, new):
    assert old in SOURCE
    assert fingerprint_of(SOURCE.replace(old, new)) != fingerprint_of(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [("UNREAD = 1", "UNREAD = 2"), ("import math", "\n\n    import math"), ("SAME", "SAME")],
)
def test_what_does_not_change_the_code_keeps_the_fingerprint(old, new):
    assert fingerprint_of(SOURCE.replace(old, new)) == fingerprint_of(SOURCE)


def test_fingerprints_do_not_depend_on_the_order_of_sets():
    program = (
        "from evener.device import cache, compiled\n"
        "@compiled(fastmath={'nsz', 'reassoc', 'contract', 'arcp'})\n"
        "def helper(x):\n    return x in {'one', 'two', 'three', 'four'}\n"
        "def function(x):\n    return helper(x)\n"
        "print(cache.fingerprint(function))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in range(4)
    }  # fmt: skip
    assert len(found) == 1


def test_fingerprints_of_functions_that_call_each_other():
    source = """
        def ping(x):
            return pong(x - 1) if x else 0
        def pong(x):
            return ping(x - 1) if x else 1
        function = ping
    """
    assert fingerprint_of(source) != fingerprint_of(source.replace("else 1", "else 2"))


CHOICE = """
    import enum
    from typing import NamedTuple
    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 2
    class Point(NamedTuple):
        x: int = 0
        y: int = 0
    def one(x):
        return x + 1
    def two(x):
        return x + 2
    chosen = one
    def with_chosen(x):
        return chosen(x)
    def function(x, *rest, z=5):
        return (one(x) * 1000 + two(x) * 23456 + with_chosen(x) + TABLE[0]
            + Level.HIGH + Point(x, 3).x + ("a", "bc")[0])
    TABLE = (1, 23)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1000 + two(x) * 23456", "100023 + two(x) * 456"),
        ("(1, 23)", "(12, 3)"),
        ("(1, 23)", "((1, 23),)"),
        ("(1, 23)", "[1, 23]"),
        ('("a", "bc")', '("ab", "c")'),
        ("chosen = one", "chosen = two"),
        ("HIGH = 2", "HIGH = 3"),
        ("x: int = 0\n        y: int", "y: int = 0\n        x: int"),
        ("y: int = 0", "y: int = 1"),
        ("x, *rest, z", "x, rest=(), z"),
        ("z=5", "z=6"),
    ],
)
def test_what_looks_alike_changes_the_fingerprint(old, new):
    assert old in CHOICE
    assert fingerprint_of(CHOICE.replace(old, new)) != fingerprint_of(CHOICE)


def test_fingerprints_tell_types_apart():
    values = [
        "1", "1.0", "True", "None", "'1'", "b'1'", "1j", "0.0", "-0.0", "(1,)", "[1]", "{1}", "{1: 1}",
        "np.int64(1)", "np.int32(1)", "np.float64(1)", "np.array(1)", "np.array([1])", "np.int64",
        "np.zeros(2, 'i4,f4')", "np.zeros(2, 'f4,i4')", "len", "abs", "np.add", "np.sum", "np.prod",
        "enum.IntEnum('Level', 'LOW').LOW", "enum.Enum('Level', 'LOW').LOW",
    ]  # fmt: skip
    source = "import enum\nimport numpy as np\nVALUE = {}\ndef function():\n    return VALUE"
    for text in (source, source.replace("VALUE = {}\n", "").replace("return VALUE", "return {}")):
        found = [fingerprint_of(text.format(value)) for value in values[:13]]
        assert len(set(found)) == len(found)
    found = [fingerprint_of(source.format(value)) for value in values]
    assert len(set(found)) == len(found)
    assert found == [fingerprint_of(source.format(value)) for value in values]


def test_fingerprints_see_into_modules_of_modules():
    outer, inner = types.ModuleType("outer"), types.ModuleType("outer.inner")
    outer.inner, inner.outer, inner.LIMIT = inner, outer, 1

    def function():
        return outer.inner.LIMIT

    found = cache.fingerprint(function)
    inner.UNREAD = 2
    assert cache.fingerprint(function) == found
    inner.LIMIT = 2
    assert cache.fingerprint(function) != found


def test_fingerprints_see_the_text_of_functions_that_numba_compiles():
    source = """
        import numba
        @numba.njit
        def helper(x):
            return x + 1
        def function(x):
            return helper(x)
    """
    assert fingerprint_of(source) == fingerprint_of(source)
    assert fingerprint_of(source) != fingerprint_of(source.replace("x + 1", "x + 2"))
    assert fingerprint_of(source) != fingerprint_of(source.replace("njit", "njit(fastmath=True)"))


def test_what_tells_numba_how_to_compile_is_in_the_key(tmp_path, monkeypatch):
    folder = Path(cache.__file__).parent
    ours = {path.name for path in folder.glob("c*.py") if "import numba\n" in path.read_text()}
    ours |= {path.name for path in folder.glob("cpu_*.py")} | {"typing_memory.py"}
    assert ours - {"cache.py"} == set(cache._COMPILER)
    for name in cache._COMPILER:
        shutil.copy(folder / name, tmp_path)
    before = cache._compiler()
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "cache.py"))
    assert cache._compiler.__wrapped__() == before
    for name in cache._COMPILER:
        with open(tmp_path / name, "a") as file:
            file.write("#")
        assert cache._compiler.__wrapped__() != before
        before = cache._compiler.__wrapped__()


def test_compiled_functions_keep_their_text():
    made = compiled(double)
    assert made.python is double
    assert made.__name__ == "double"
    assert "double" in repr(made)
    assert made(4) == made.python(4) == 8


@parallel
def copy_chunk(chunk, source, target):
    target[chunk] = source[chunk]


def test_read_only_arrays_are_not_compiled_anew():
    source, target = np.arange(4), np.zeros(4, np.int64)
    copy_chunk(4, source, target)
    assert target.tolist() == [0, 1, 2, 3]
    frozen = source * 10
    frozen.flags.writeable = False
    copy_chunk(4, frozen, target)
    assert target.tolist() == [0, 10, 20, 30]
    copy_chunk(2, frozen[::2], target)  # strides survive
    assert target.tolist() == [0, 20, 20, 30]
    assert not frozen.flags.writeable
    signatures = copy_chunk._worker.dispatcher.signatures
    types = {str(signature[2].types[0]) for signature in signatures}
    assert not any("readonly" in name or "nonconst" in name for name in types)
    assert len([name for name in types if name.endswith("C)")]) <= 1


@compiled
def num_chunks_of(x):
    return x + 1


@compiled
def scale_of(x):
    return 3 * x


@compiled
def describe_items(items):
    return len(items), items[0].size


def test_entries_are_found_by_what_decides_a_type():
    plain, wide = np.arange(6), np.arange(6).reshape(2, 3)
    values = [
        plain, plain.astype(np.int32), plain[::2], wide, wide.T,
        np.asfortranarray(wide), 1, 1 << 63, True, 1.0, np.int8(1), np.uint8(1), np.float32(1),
        (plain,), (plain, 1), (plain, (plain, 1)), (1, 1), num_chunks_of, scale_of,
        np.datetime64(1, "s"), np.datetime64(1, "D"),
    ]  # fmt: skip
    by_kind, by_type = {}, {}
    for i, value in enumerate(values):
        by_kind.setdefault(kind_of(value), []).append(i)
        by_type.setdefault(Compiled.type_of(value), []).append(i)
    assert list(by_kind.values()) == list(by_type.values())
    frozen = np.arange(6)
    frozen.flags.writeable = False
    assert kind_of(frozen) == kind_of(plain)
    assert kind_of(plain[:0]) == kind_of(plain)


def test_an_entry_is_compiled_once_for_a_type():
    first = describe_items.entry_for((np.arange(3), np.zeros(2)))
    assert first((np.arange(3), np.zeros(2))) == (2, 3)
    assert describe_items.entry_for((np.arange(7), np.zeros(1))) is first
    assert describe_items.find_for((np.arange(7), np.zeros(1)))
    other = describe_items.entry_for((np.zeros(4), np.zeros(1)))
    assert other is not first
    assert other((np.zeros(4), np.zeros(1))) == (2, 4)
    assert len(describe_items.dispatcher.signatures) == 2


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
        with pytest.raises(EvenerError, match="from 1 up"), use_threads(threads):
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


def test_format_bytes():
    assert [format_bytes(n) for n in (0, 1023, 1024, 1536, 1 << 30, 1 << 62)] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 GiB", "4096.0 PiB",
    ]  # fmt: skip


# ---- random numbers -------------------------------------------------------------------------


@parallel
def fill_bits(chunk, key, out):
    for i in range(chunk * 1000, min((chunk + 1) * 1000, len(out))):
        out[i] = random_bits(key, np.uint64(i))


@parallel
def fill_unit(chunk, key, out):
    for i in range(chunk * 1000, min((chunk + 1) * 1000, len(out))):
        out[i] = random_unit(key, np.uint64(i))


@parallel
def fill_below(chunk, key, bound, out):
    for i in range(chunk * 1000, min((chunk + 1) * 1000, len(out))):
        out[i] = random_below(key, np.uint64(i), bound)


@parallel
def fill_permuted(chunk, key, bits, values, out):
    for i in range(chunk * 1000, min((chunk + 1) * 1000, len(out))):
        out[i] = permuted(key, values[i], bits)


def filled(kernel, length, *args, dtype=np.uint64):
    out = np.empty(length, dtype)
    kernel(max(1, -(-length // 1000)), *args, out)
    return out


def test_first_numbers_never_change():
    # Graphs made from a seed depend on these; SplitMix64's own first output for state 0 is here.
    assert int(random_bits(np.uint64(0), np.uint64(1))) == 0xE220A8397B1DCDAF
    assert int(stream_key(1, 2)) == 4198397071345356669
    key = stream_key(7, 3)
    assert filled(fill_bits, 2, key).tolist() == [243883325589731931, 9759306773605180596]
    assert int(permuted(key, np.uint64(5), 20)) == 757438


def test_streams_do_not_resemble_each_other():
    n = 20_000
    keys = [stream_key(seed, stream) for seed in (0, 1, -1, 2**40) for stream in range(4)]
    assert len({int(key) for key in keys}) == len(keys)
    streams = np.array([filled(fill_bits, n, key) for key in keys])
    assert len(np.unique(streams)) == streams.size  # no overlap, not even shifted
    units = streams / 2.0**64
    correlation = np.corrcoef(np.vstack([units, np.roll(units, 1, axis=1)]))
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 6 / np.sqrt(n)
    bits = np.unpackbits(streams.view(np.uint8), axis=1)
    assert np.abs(bits.mean(axis=1) - 0.5).max() < 0.003


def test_every_bit_is_fair():
    bits = filled(fill_bits, 40_000, stream_key(5, 0))
    for position in range(64):
        share = ((bits >> np.uint64(position)) & np.uint64(1)).mean()
        assert abs(share - 0.5) < 0.015


def test_units_are_uniform():
    units = filled(fill_unit, 100_000, stream_key(3, 1), dtype=np.float64)
    assert units.min() >= 0
    assert units.max() < 1
    counts = np.histogram(units, bins=64, range=(0, 1))[0]
    expected = len(units) / 64
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert 20 < chi_square < 130  # 63 degrees of freedom: mean 63, deviation 11


@pytest.mark.parametrize("bound", [1, 2, 7, 1000, 2**31, 2**32])
def test_below_a_bound(bound):
    found = filled(fill_below, 50_000, stream_key(4, bound), np.uint64(bound))
    assert found.max() < bound
    assert abs(found.mean() / bound - (bound - 1) / bound / 2) < 0.02
    if bound <= 1000:
        assert len(np.unique(found)) == bound


@pytest.mark.parametrize("threads", [1, 3])
def test_numbers_do_not_depend_on_threads(threads):
    expected = filled(fill_bits, 5000, stream_key(9, 9))
    with use_threads(threads):
        np.testing.assert_array_equal(filled(fill_bits, 5000, stream_key(9, 9)), expected)


@pytest.mark.parametrize("bits", range(13))
def test_permuted_is_a_permutation(bits):
    values = np.arange(1 << bits, dtype=np.uint64)
    seen = []
    for seed in range(5):
        found = filled(fill_permuted, len(values), stream_key(seed, 0), bits, values)
        assert np.sort(found).tolist() == values.tolist()
        seen.append(found.tolist())
    if bits >= 3:
        assert len({tuple(order) for order in seen}) > 1
        assert seen[0] != values.tolist()


@given(st.integers(13, 63), st.integers(0, 2**64 - 1), st.integers(0, 2**32))
@settings(max_examples=30)
def test_permuted_keeps_values_apart(bits, key, seed):
    rng = np.random.default_rng(seed)
    values = np.unique(rng.integers(0, 1 << bits, 2000, dtype=np.uint64))
    near = np.arange(1000, dtype=np.uint64)  # neighbours, too
    values = np.unique(np.concatenate([values, near]))
    found = filled(fill_permuted, len(values), np.uint64(key), bits, values)
    assert len(np.unique(found)) == len(values)
    assert int(found.max()) < 1 << bits


def test_permuted_moves_neighbours_far_apart():
    bits = 20
    values = np.arange(10_000, dtype=np.uint64)
    found = filled(fill_permuted, len(values), stream_key(1, 1), bits, values).astype(np.float64)
    steps = np.abs(np.diff(found)) / (1 << bits)
    assert 0.2 < steps.mean() < 0.5  # a third for a random order
    assert abs(np.corrcoef(values, found)[0, 1]) < 0.06


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
