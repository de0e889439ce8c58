"""Files for writing that replace the previous file atomically."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from evener.errors import GraphError
from evener.graph.files.source import COMPRESSIONS, STANDARD


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` once it is written, compressed if its suffix says so.

    ``-`` is standard output.

    Examples
    --------
    >>> from evener.graph.files.atomic_file import replacing
    >>> with replacing(tmp_path / "note.txt") as file:
    ...     _ = file.write(b"done")
    >>> (tmp_path / "note.txt").read_bytes()
    b'done'
    """
    if str(path) == STANDARD:
        whole = io.BytesIO()  # polars would write to the descriptor, bypassing Python's buffer
        yield whole
        sys.stdout.buffer.write(whole.getbuffer())
        sys.stdout.buffer.flush()
        return
    target = _followed(path)
    temporary = temporary_beside(target)
    try:
        mode = _mode_to_keep(target)
        with temporary.open("xb") as raw:
            with _compressed(raw, path.suffix.lower()) as file:
                yield file
            raw.flush()
            os.fsync(raw.fileno())
            if mode is not None:
                os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException as error:
        _remove(temporary)
        if isinstance(error, OSError):
            raise _cannot_be_written(path, error) from None
        if type(error).__module__.startswith("polars"):  # polars wraps errors of the file system
            reason = str(error).strip().split("\n", 1)[0]
            raise GraphError(f"{path} cannot be written: {reason}.") from None
        raise


def require_writable(path: Path) -> None:
    """Refuse a file that cannot be replaced, by briefly creating one beside it.

    Permissions are no proof: root has all of them, yet some folders accept no new files.
    """
    target = _followed(path)
    temporary = temporary_beside(target)
    try:
        _mode_to_keep(target)
        temporary.open("xb").close()
    except OSError as error:
        raise _cannot_be_written(path, error) from None
    finally:
        _remove(temporary)


def _cannot_be_written(path: Path, error: OSError) -> GraphError:
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError) and not path.parent.is_dir():
        reason = f"there is no folder {path.parent}"
    return GraphError(f"{path} cannot be written: {reason}.")


def _followed(path: Path) -> Path:
    """The file that a link names: the link stays and will lead to the new file."""
    try:
        return path.resolve()
    except RuntimeError:  # Python before 3.13
        raise GraphError(f"{path} cannot be written: it is a link to itself.") from None


def _mode_to_keep(path: Path) -> int | None:
    """The permissions of the file to be replaced; GraphError unless it is a regular file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise GraphError(f"{path} is not a regular file and cannot be replaced by one.")
    return stat.S_IMODE(mode)


def temporary_beside(path: Path) -> Path:
    """A new hidden name in the same folder, so that a rename is atomic."""
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


@contextlib.contextmanager
def _compressed(raw: IO[bytes], suffix: str) -> Iterator[Any]:
    compression = COMPRESSIONS.get(suffix)
    if compression == "gzip":
        import gzip

        # Without name and time in the header, the same graph gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as file:
            yield file
    elif compression == "zstd":
        import zstandard

        compressor = zstandard.ZstdCompressor()
        with compressor.stream_writer(raw, closefd=False) as file:
            yield file
    else:
        yield raw
