"""Files in the user's cache folder: compiled code, measurements and checks.

Compiled code is machine code and pickles, so a file that another user could have written is never
read: folder and file must belong to the user and be writable by no one else. A file begins with a
hash of its name and content: loading would not notice damaged machine code or a wrong name. It is
put in place by a rename, so that two processes that make the same file at once each write a whole
one, and either works. The least recently used files are removed when there is too much.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
import warnings
from pathlib import Path

from evener.device.limits import parse_bytes
from evener.errors import EvenerError

_HASH_BYTES = hashlib.sha256().digest_size
_ROOM = 1 << 30  # bytes that all files together may take, unless EVENER_CACHE_SIZE is set
_ENOUGH = 0.9  # of that room: what a cleanup leaves
_STALE_SECONDS = 3600  # age of a file whose writer was killed
_TEMPORARY = ".tmp"


def cache_folder() -> Path:
    """Where compiled code is kept: ``EVENER_CACHE``, else the user's cache folder."""
    chosen = os.environ.get("EVENER_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "evener"


def cache_room() -> int:
    """Bytes that all files may take together: ``EVENER_CACHE_SIZE``, else 1 GiB."""
    chosen = os.environ.get("EVENER_CACHE_SIZE")
    try:
        return parse_bytes(chosen) if chosen else _ROOM
    except EvenerError as error:
        raise EvenerError(f"EVENER_CACHE_SIZE: {error}") from None


def why_unusable(folder: Path) -> str | None:
    """Why a folder cannot be trusted with code; None if it can, or does not exist yet."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return _why_foreign(status, stat.S_ISDIR(status.st_mode), "is not a folder")


def load_bytes(name: str) -> bytes | None:
    """The content saved under a name; None if missing, damaged, or not the user's own."""
    folder = _trusted_folder()
    if folder is None:
        return None
    try:
        # Opening a pipe would wait for its writer.
        handle = os.open(folder / name, os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if _why_foreign(status, stat.S_ISREG(status.st_mode), "is not a file") is not None:
            return None
        content = file.read()
        with contextlib.suppress(OSError):
            os.utime(handle)  # mark it as used now
    is_whole = content[:_HASH_BYTES] == _digest(name, content[_HASH_BYTES:])
    return content[_HASH_BYTES:] if is_whole else None


def has_bytes(name: str) -> bool:
    """Whether a file with this name is kept."""
    folder = _trusted_folder()
    return folder is not None and (folder / name).exists()


def save_bytes(name: str, content: bytes) -> None:
    """Save content under a name; a read-only or full disk is not an error."""
    with contextlib.suppress(OSError):
        cache_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = _trusted_folder()
        if folder is None or _HASH_BYTES + len(content) > cache_room():
            return
        _make_room(folder, _HASH_BYTES + len(content))
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=_TEMPORARY)  # of mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(name, content) + content)
            os.replace(temporary, folder / name)
        except BaseException:
            os.unlink(temporary)
            raise


def kept_files() -> list[tuple[Path, int]]:
    """The files in the cache folder and their sizes, least recently used first."""
    files = []
    with contextlib.suppress(OSError), os.scandir(cache_folder()) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may have removed it
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(about.st_mode):
                    files.append((about.st_mtime, Path(entry.path), about.st_size))
    return [(path, size) for _, path, size in sorted(files)]


def clear_files() -> int:
    """Remove all files from the cache folder; returns how many there were."""
    removed = 0
    for path, _ in kept_files() if _trusted_folder() is not None else ():
        with contextlib.suppress(OSError):
            path.unlink()
            removed += 1
    return removed


def _make_room(folder: Path, wanted: int) -> None:
    """Remove the least recently used files until there is room, and stale temporary ones."""
    files = kept_files()
    before = time.time() - _STALE_SECONDS
    total, room = wanted + sum(size for _, size in files), cache_room()
    enough = total if total <= room else _ENOUGH * room
    for path, size in files:
        with contextlib.suppress(OSError):
            if path.suffix == _TEMPORARY:
                if path.stat().st_mtime < before:
                    path.unlink()
            elif total > enough:
                path.unlink()
                total -= size


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


_warned: set[Path] = set()  # folders that the user was warned about


def _trusted_folder() -> Path | None:
    """The cache folder if only the user can write to it; else None, with one warning."""
    folder = cache_folder()
    why = why_unusable(folder)
    if why is None:
        return folder
    if folder not in _warned:
        _warned.add(folder)
        warnings.warn(
            f"{folder} {why}, so compiled code is neither read from nor saved to it; set "
            "EVENER_CACHE to a folder of your own.",
            RuntimeWarning,
            stacklevel=2,
        )
    return None


def _why_foreign(status: os.stat_result, is_right: bool, otherwise: str) -> str | None:
    if not is_right:
        return otherwise
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "is writable by other users"
    return None
