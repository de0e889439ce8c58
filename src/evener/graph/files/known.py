"""Which ``.evg`` folders were found sound, so that they are checked once and not at every opening.

That is remembered in the user's own cache folder, never with the graph: what a foreign folder says
of itself is not to be believed. A memory holds for files that are the very same by device, inode,
size and times, so a copy, or a file that was written to, is checked again. No program can set the
time of a change, but it has a grain: a folder that is younger than that is not remembered yet.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence

from evener.device.kept_files import load_bytes, save_bytes

_CHECKS = b"1"  # what is checked; another number has all folders checked again
_MOST_IN_MEMORY = 1 << 12
_GRAIN, _COARSE_GRAIN = 50_000_000, 2_500_000_000  # nanoseconds; the latter where times are seconds

_known: dict[bytes, bytes] = {}  # state by folder, of this process


def state_of(checksum: str, files: Sequence[os.stat_result]) -> bytes:
    """What must be the same for files to be known: their metadata's checksum, and theirs."""
    told = [(f.st_dev, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns) for f in files]
    return hashlib.sha256(_CHECKS + repr((checksum, told)).encode()).digest()


def is_known(folder: os.stat_result, state: bytes) -> bool:
    """Whether these files were found sound before."""
    name = _name(folder)
    if _known.get(name) == state:
        return True
    if load_bytes(_file(name)) != state:
        return False
    _keep(name, state)
    return True


def remember(folder: os.stat_result, state: bytes, files: Sequence[os.stat_result]) -> None:
    """Keep that files were found sound, unless they could change without showing it."""
    newest = max(file.st_ctime_ns for file in files)
    coarse = all(file.st_ctime_ns % 1_000_000_000 == 0 for file in files)
    if time.time_ns() - newest < (_COARSE_GRAIN if coarse else _GRAIN):
        return
    name = _name(folder)
    _keep(name, state)
    save_bytes(_file(name), state)


def _keep(name: bytes, state: bytes) -> None:
    if len(_known) >= _MOST_IN_MEMORY:
        _known.clear()
    _known[name] = state


def _name(folder: os.stat_result) -> bytes:
    return f"{folder.st_dev} {folder.st_ino}".encode()


def _file(name: bytes) -> str:
    return f"graph-{hashlib.sha256(name).hexdigest()[:32]}.bin"
