"""The folder of compiled code: what is read from it, what is kept, and what goes."""

import os
import time
import warnings

import pytest

from evener.device import kept_files
from evener.device.compile import Compiled
from evener.device.kept_files import load_bytes, save_bytes

needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
SOMEBODY = 12345


def double(x):
    return 2 * x


def triple(x):
    return 3 * x


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_files, "_warned", set())
    return tmp_path / "cache"


def told_by(call):
    """What a call warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in found]


def test_a_folder_is_made_for_the_user_alone(folder):
    before = os.umask(0)
    try:
        save_bytes("one.bin", b"1")
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "one.bin").stat().st_mode & 0o777 == 0o600
    assert load_bytes("one.bin") == b"1"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_can_write_to_is_not_used(folder, mode):
    save_bytes("one.bin", b"1")
    folder.chmod(mode)
    (said,) = told_by(lambda: load_bytes("one.bin"))
    assert "is writable by other users" in said
    assert "set EVENER_CACHE to a folder of your own" in said
    assert told_by(lambda: save_bytes("two.bin", b"2")) == []  # once is enough
    assert load_bytes("one.bin") is None
    assert not (folder / "two.bin").exists()
    assert Compiled(double)(21) == 42


@needs_root
@pytest.mark.parametrize("by_link", [False, True])
def test_a_folder_of_another_user_is_not_used(folder, by_link):
    real = folder.with_name("real") if by_link else folder
    real.mkdir(mode=0o700)
    if by_link:
        folder.symlink_to(real)
    save_bytes("one.bin", b"1")
    os.chown(real, SOMEBODY, -1)
    (said,) = told_by(lambda: load_bytes("one.bin"))
    assert "belongs to another user" in said
    assert load_bytes("one.bin") is None


def test_a_file_that_others_could_have_written_is_not_read(folder, tmp_path):
    save_bytes("one.bin", b"1")
    file = folder / "one.bin"
    file.chmod(0o620)
    assert load_bytes("one.bin") is None
    file.chmod(0o600)
    assert load_bytes("one.bin") == b"1"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert load_bytes("one.bin") is None
    file.unlink()
    os.mkfifo(file)
    assert load_bytes("one.bin") is None


@needs_root
def test_a_file_of_another_user_is_not_read(folder):
    save_bytes("one.bin", b"1")
    os.chown(folder / "one.bin", SOMEBODY, -1)
    assert load_bytes("one.bin") is None


def test_swapped_files_are_compiled_again(folder):
    assert (Compiled(double)(21), Compiled(triple)(21)) == (42, 63)
    one, two = (next(folder.glob(f"{name}-*.bin")) for name in ("double", "triple"))
    one.rename(folder / "aside")
    two.rename(one)
    (folder / "aside").rename(two)
    again = Compiled(double), Compiled(triple)
    assert (again[0](21), again[1](21)) == (42, 63)
    assert not any(made.dispatcher.stats.cache_hits for made in again)


def test_what_was_used_longest_ago_goes(folder, monkeypatch):
    monkeypatch.setenv("EVENER_CACHE_SIZE", "10000")
    for number in range(9):
        save_bytes(f"{number}.bin", bytes(1000))
        os.utime(folder / f"{number}.bin", (number + 1, number + 1))
    assert load_bytes("0.bin") is not None  # used just now
    save_bytes("9.bin", bytes(1000))
    left = {path.name for path in folder.iterdir()}
    assert {"0.bin", "8.bin", "9.bin"} <= left
    assert "1.bin" not in left
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 10000


def test_what_takes_more_than_all_the_room_is_not_kept(folder, monkeypatch):
    monkeypatch.setenv("EVENER_CACHE_SIZE", "1000")
    save_bytes("small.bin", bytes(100))
    save_bytes("large.bin", bytes(1000))
    assert [path.name for path in folder.iterdir()] == ["small.bin"]


def test_what_nobody_writes_any_more_goes(folder):
    save_bytes("one.bin", b"1")
    old, fresh = folder / "old.tmp", folder / "fresh.tmp"
    old.touch()
    fresh.touch()
    before = time.time() - 2 * kept_files._STALE_SECONDS
    os.utime(old, (before, before))
    save_bytes("two.bin", b"2")
    assert not old.exists()
    assert fresh.exists()
