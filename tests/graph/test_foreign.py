"""Folders and files from elsewhere: damaged, forged, cut short, or not files at all."""

import json
import os
import shutil
import time

import numpy as np
import pytest

import evener as ev
from evener.graph.csr import Graph
from evener.graph.files import evg, evg_checked


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of its own, and no memory of other tests."""
    monkeypatch.setenv("EVENER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(evg_checked, "_checked", {})
    return tmp_path / "cache"


def checks(monkeypatch):
    """A list that grows with every folder that is checked."""
    made = []
    check = evg.check_folder
    monkeypatch.setattr(
        evg, "check_folder", lambda *args: (made.append(args[0].name), check(*args))
    )
    return made


def saved(path, graph=None):
    (graph or ev.generate.rmat(6, seed=1, weights=(1, 9))).save(path)
    time.sleep(0.1)  # older than the grain of its times
    return path


def test_a_folder_is_checked_once(tmp_path, monkeypatch):
    made = checks(monkeypatch)
    path = saved(tmp_path / "g.evg")
    ev.load(path)
    ev.load(path)
    evg_checked._checked.clear()  # as in another process
    ev.load(path)
    assert len(made) == 1
    ev.load(path, verify=True)
    assert len(made) == 2
    ev.load(path, trusted=True)
    assert len(made) == 2


def test_what_may_have_changed_is_checked_again(tmp_path, monkeypatch):
    made = checks(monkeypatch)
    path = saved(tmp_path / "g.evg")
    ev.load(path)
    copy = tmp_path / "copy.evg"
    shutil.copytree(path, copy)
    ev.load(copy)
    assert len(made) == 2
    file = next(path.glob("indices.*"))
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # times can be set back, but one
    with pytest.raises(ev.GraphFormatError, match="does not match its checksum"):
        ev.load(path)
    saved(path)
    ev.load(path)
    assert len(made) == 4


def test_a_folder_that_changes_just_now_is_not_remembered(tmp_path, monkeypatch):
    made = checks(monkeypatch)
    path = tmp_path / "g.evg"
    ev.generate.path(5).save(path)
    now = max(file.stat().st_ctime_ns for file in path.iterdir())
    monkeypatch.setattr(evg_checked.time, "time_ns", lambda: now + 1000)
    ev.load(path)
    ev.load(path)
    assert len(made) == 2


def test_what_a_folder_says_of_itself_is_not_believed(tmp_path, monkeypatch, cache):
    """The memory of another folder, or one that was planted in the folder, does not count."""
    made = checks(monkeypatch)
    path = saved(tmp_path / "g.evg")
    ev.load(path)
    (memory,) = cache.glob("graph-*")
    shutil.copytree(cache, path / "cache")
    (path / "checked").write_bytes(memory.read_bytes())
    evg_checked._checked.clear()
    memory.unlink()
    ev.load(path)
    assert len(made) == 2


def test_without_a_cache_a_folder_still_opens(tmp_path, monkeypatch):
    made = checks(monkeypatch)
    (tmp_path / "cache").write_text("a file where the folder should be")
    path = saved(tmp_path / "g.evg")
    ev.load(path)
    ev.load(path)
    assert len(made) == 1  # this process remembers


def forge(path, **arrays):
    """Replace arrays of a folder, with right checksums."""
    meta = json.loads((path / "meta.json").read_bytes())
    meta.pop("checksum")
    for name, array in arrays.items():
        meta["arrays"][name] = evg._write_array(path, name, array)
    meta["checksum"] = evg.checksum_of(evg._canonical(meta))
    (path / "meta.json").write_text(json.dumps(meta))


FORGED = [
    ({"indices": np.array([1, 0, 2, 2**31 - 1], np.int32)}, "has neighbour number 2147483647"),
    ({"indices": np.array([1, 0, 2, -1], np.int32)}, "has neighbour number -1"),
    ({"indices": np.array([1, 2, 0, 1], np.int32)}, "not in ascending order"),
    ({"indices": np.array([1, 0, 1, 1], np.int32)}, "has no equal arc back"),
    ({"indptr": np.array([0, 3, 1, 4], np.int32)}, "row starts fall"),
    ({"indptr": np.array([0, -5, 3, 4], np.int32)}, "row starts fall"),
    ({"weights": np.array([1, 2, 3, 3], np.float32)}, "has no equal arc back"),
    ({"weights": np.array([1, 1, np.nan, np.nan], np.float32)}, r"weight 2 is not a number \(NaN\)"),
    ({"label_text": np.frombuffer(b"aab", np.uint8)}, "label 'a' occurs twice"),
    ({"label_text": np.frombuffer(b"a\xffc", np.uint8)}, "are not UTF-8"),
    ({"label_text": np.frombuffer(b"\xed\xa0\x80", np.uint8)}, "are not UTF-8"),  # a lone surrogate
    ({"label_text": np.frombuffer("aä".encode(), np.uint8)}, "begins within a character"),
    ({"label_offsets": np.array([0, 9, 2, 3])}, "do not run from 0 to 3"),
]  # fmt: skip


def test_forged_arrays(tmp_path):
    """A forger computes right checksums of wrong arrays."""
    labels = ["a", "b", "c"]
    whole = Graph.from_edges([0, 1], [1, 2], np.float32([1, 3]), directed=False, labels=labels)
    for number, (arrays, message) in enumerate(FORGED):
        path = tmp_path / f"{number}.evg"
        whole.save(path)
        forge(path, **arrays)
        with pytest.raises(
            ev.GraphFormatError, match=f"{number}.evg is not a valid graph: .*{message}"
        ):
            ev.load(path)


def test_names_in_any_order_are_sound(tmp_path):
    for labels in (["b", "a", "c"], ["a", "ab", "b"], ["", "ä", "z"]):
        whole = Graph.from_edges([0, 1], [1, 2], labels=labels)
        whole.save(tmp_path / "g.evg")
        assert ev.load(tmp_path / "g.evg").labels.tolist() == labels


def test_names_of_files_in_a_folder(tmp_path):
    path = saved(tmp_path / "g.evg")
    whole = (path / "meta.json").read_text()
    for name in ("\ud800", "../g.evg/indices", "..", "", "a/b", "a\0b", "ind\nices", "ü.bin"):
        meta = json.loads(whole)
        meta.pop("checksum")
        meta["arrays"]["indices"]["file"] = name
        meta["checksum"] = evg.checksum_of(evg._canonical(meta))
        (path / "meta.json").write_text(json.dumps(meta))
        with pytest.raises(ev.GraphFormatError, match=r"meta.json does not describe a graph"):
            ev.load(path)


def test_pipes_and_devices_are_refused(tmp_path):
    """Opening a pipe that nobody writes to would wait for ever, and a device may never end."""
    os.mkfifo(tmp_path / "pipe.el")
    with pytest.raises(ev.GraphFormatError, match=r"pipe\.el is a pipe, a device or a folder"):
        ev.load(tmp_path / "pipe.el")
    for device in ("/dev/zero", "/dev/null"):
        with pytest.raises(ev.GraphFormatError, match="is a pipe, a device"):
            ev.load(device, format="csv")
    path = saved(tmp_path / "g.evg")
    for name in ("indices", "meta"):
        (file,) = path.glob(f"{name}.*")
        file.unlink()
        os.mkfifo(file)
        with pytest.raises(ev.GraphFormatError, match=f"g.evg {file.name} is a pipe, a device"):
            ev.load(path)


def test_arrays_of_holes_are_refused(tmp_path):
    path = saved(tmp_path / "g.evg", ev.generate.path(3))
    n = (1 << 30) - 1
    hole = path / "hole.bin"
    hole.touch()
    os.truncate(hole, 4 * (n + 1))
    meta = json.loads((path / "meta.json").read_bytes())
    meta.pop("checksum")
    meta["num_vertices"], meta["arrays"]["indptr"]["length"] = n, n + 1
    meta["arrays"]["indptr"]["file"] = hole.name
    meta["checksum"] = evg.checksum_of(evg._canonical(meta))
    (path / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(ev.MemoryBudgetError, match=r"a sparse file hole.bin of 4.0 GiB"):
        ev.load(path)
