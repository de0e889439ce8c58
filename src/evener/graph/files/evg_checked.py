"""A record of the ``.evg`` folders that passed their check, so that each is checked only once.

The record is in the user's cache folder, not with the graph: a foreign folder cannot vouch for
itself. It identifies files by device, inode, size and times, so a copy or a modified file is
checked again. No program can set the change time (ctime), but its resolution is limited: a folder
that changed more recently than that is not recorded yet.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence

from evener.device.kept_files import load_bytes, save_bytes

_CHECKS = b"1"  # version of the checks; a new number has all folders checked again
_MOST_IN_MEMORY = 1 << 12
# Resolution of ctime in nanoseconds; the second one for file systems that store seconds.
_RESOLUTION, _COARSE_RESOLUTION = 50_000_000, 2_500_000_000

_checked: dict[bytes, bytes] = {}  # fingerprint by folder, of this process


def fingerprint(checksum: str, files: Sequence[os.stat_result]) -> bytes:
    """Hash the checksum of ``meta.json`` and what identifies the files and their last change."""
    stats = [(f.st_dev, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns) for f in files]
    return hashlib.sha256(_CHECKS + repr((checksum, stats)).encode()).digest()


def was_checked(folder: os.stat_result, state: bytes) -> bool:
    """Whether the files with this fingerprint passed the check before."""
    name = _name(folder)
    if _checked.get(name) == state:
        return True
    if load_bytes(_file(name)) != state:
        return False
    _keep(name, state)
    return True


def record_check(folder: os.stat_result, state: bytes, files: Sequence[os.stat_result]) -> None:
    """Record that files passed the check, unless a change now could leave ctime the same."""
    newest = max(file.st_ctime_ns for file in files)
    coarse = all(file.st_ctime_ns % 1_000_000_000 == 0 for file in files)
    if time.time_ns() - newest < (_COARSE_RESOLUTION if coarse else _RESOLUTION):
        return
    name = _name(folder)
    _keep(name, state)
    save_bytes(_file(name), state)


def _keep(name: bytes, state: bytes) -> None:
    if len(_checked) >= _MOST_IN_MEMORY:
        _checked.clear()
    _checked[name] = state


def _name(folder: os.stat_result) -> bytes:
    return f"{folder.st_dev} {folder.st_ino}".encode()


def _file(name: bytes) -> str:
    return f"graph-{hashlib.sha256(name).hexdigest()[:32]}.bin"
