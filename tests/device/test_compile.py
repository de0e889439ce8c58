"""Compiled code and its cache."""

import concurrent.futures

import numpy as np
import pytest

from evener.device import (
    cache,
    compiled,
    kept_files,
    parallel,
)
from evener.device.compile import Compiled, kind_of
from processes import python

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
    first = {path: path.stat().st_ino for path in tmp_path.iterdir()}  # its time is that of use
    assert first
    assert python(TRIPLE, EVENER_CACHE=str(tmp_path)) == "[0, 3, 6, 9, 12] 1"
    assert {path: path.stat().st_ino for path in tmp_path.iterdir()} == first
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


def truncated(name, content):
    return content[: len(content) // 2]


def flipped(name, content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def of_another_kind(name, content):
    other = b"not a pickle"
    return kept_files._digest(name, other) + other


@pytest.mark.parametrize(
    "damage", [truncated, flipped, of_another_kind, lambda name, content: b""],
    ids=["truncated", "flipped", "of another kind", "empty"],
)  # fmt: skip
def test_a_damaged_file_is_compiled_again(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path))
    assert Compiled(double)(21) == 42
    (file,) = tmp_path.iterdir()
    sound = file.read_bytes()
    file.write_bytes(damage(file.name, sound))
    again = Compiled(double)
    assert again(21) == 42
    assert not again.dispatcher.stats.cache_hits
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    assert content[:32] == kept_files._digest(file.name, content[32:])
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
    assert describe_items.find_for((np.arange(7), np.zeros(1))) is not None
    other = describe_items.entry_for((np.zeros(4), np.zeros(1)))
    assert other is not first
    assert other((np.zeros(4), np.zeros(1))) == (2, 4)
    assert len(describe_items.dispatcher.signatures) == 2
