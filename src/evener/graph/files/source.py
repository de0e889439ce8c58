"""The bytes of a file, mapped or decompressed, and errors that name a line of it."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from evener import progress
from evener.device import available_memory, format_bytes
from evener.device.mapped_files import map_file, require_whole
from evener.device.once import once
from evener.errors import GraphFormatError, MemoryBudgetError
from evener.graph.files.inflate import gunzip, unzstd

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
STANDARD = "-"  # as a path: standard input or output
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_PIECE = 1 << 22  # bytes read at a time
_BLOCK = 1 << 18  # bytes split into lines at a time
_LONGEST_LINE = 1 << 24  # longest line among those examined before parsing
_BYTE_ORDER_MARK = (0xEF, 0xBB, 0xBF)
_NOTHING = rb"(?:[ \t\r\n]++%s)*+"  # blank lines, and comments if the format has them
# Descriptors of this process: a shell passes <(command) as one.
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
# Without O_NONBLOCK, opening a pipe blocks until it has a writer.
_OPEN_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
)
# Limits for what a file expands to or declares, unless the caller allows more: text compresses less
# than that, and graphs have few isolated vertices compared to edges.
_MOST_TIMES, _MOST_ANYWAY = 100, 256 << 20


class MissingFileError(GraphFormatError, FileNotFoundError):
    """The file does not exist."""


class Source:
    """A file that is being read: its name, its bytes and its errors.

    ``max_bytes`` limits what it may expand to or declare; by default a hundred times its size.

    Examples
    --------
    >>> from evener.graph.files.source import Source
    >>> file = tmp_path / "tiny.el"
    >>> _ = file.write_text("0 1\\n")
    >>> Source(file).data.tobytes()
    b'0 1\\n'
    """

    def __init__(self, path: Path, max_bytes: int | None = None):
        self.path = path
        self.is_standard = str(path) == STANDARD
        self.name = "standard input" if self.is_standard else str(path)
        self._max_bytes = max_bytes
        self._size = 0  # bytes in the file, or read so far from a pipe
        if self.is_standard:
            return
        try:
            path.stat()
        except FileNotFoundError:
            raise MissingFileError(f"{path} does not exist.") from None
        except (OSError, ValueError) as error:  # no permission, a name too long, a null byte
            self.fail(f"cannot be read: {_reason(error)}")

    @property
    def suffix(self) -> str:
        """The lower-case suffix that names the format: ``.txt`` for ``a.TXT.gz``."""
        path = self.path
        if path.suffix.lower() in COMPRESSIONS:
            path = path.with_suffix("")
        return path.suffix.lower()

    @once
    def data(self) -> np.ndarray:
        """The bytes of the file, decompressed; memory-mapped if they need no decompression."""
        try:
            with self._open() as file:
                is_regular = not self.is_standard and self._is_regular(file)
                head = file.read(4)
                if not head:
                    self.fail("is empty; expected a graph")
                compression = next((c for m, c in _MAGIC.items() if head.startswith(m)), None)
                named = COMPRESSIONS.get(self.path.suffix.lower())
                if named and compression != named:
                    self.fail(f"is named {self.path.suffix} but is not {named} data")
                if compression is None and is_regular:
                    return _without_mark(map_file(file.fileno(), self.name, once=True))
                resumed = _Resumed(self, head, file)
                if compression is None:
                    return _without_mark(self._gathered(resumed.pieces(), "read", resumed))
                pieces = gunzip(resumed) if compression == "gzip" else unzstd(resumed)
                data = self._gathered(pieces, "decompressed", resumed)
                if len(data) == 0:
                    self.fail("is empty once decompressed; expected a graph")
                return _without_mark(data)
        except (zlib.error, EOFError, RuntimeError) as error:
            self.fail(f"is damaged or cut short: {error}; expected complete {compression} data")
        except (OSError, ValueError) as error:
            if isinstance(error, GraphFormatError):
                raise
            self.fail(f"cannot be read: {_reason(error)}")

    def _open(self) -> contextlib.AbstractContextManager[BinaryIO]:
        if self.is_standard:
            if sys.stdin is None:
                self.fail("is closed; expected a graph")
            return contextlib.nullcontext(sys.stdin.buffer)
        if str(self.path).startswith(_DESCRIPTORS):
            return self.path.open("rb")
        return os.fdopen(open_regular(self, str(self.path))[0], "rb")

    def _is_regular(self, file: BinaryIO) -> bool:
        status = os.fstat(file.fileno())
        self._size = status.st_size
        return stat.S_ISREG(status.st_mode)

    def _gathered(self, pieces: Iterator[bytes], how: str, file: _Resumed) -> np.ndarray:
        """Join pieces in one array, within the limits for this file."""
        out = bytearray()
        # Reading the rows takes about as much again.
        room = available_memory() // 2
        with progress.task(f"{how.removesuffix('ed')}ing {self.path.name}"):
            for piece in pieces:
                progress.report(file.done, max(self._size, file.done))
                size = len(out) + len(piece)
                if size > room:
                    raise MemoryBudgetError(
                        f"{self.name} holds {format_bytes(size)} or more once {how}; only "
                        f"{format_bytes(room)} of memory are available for that."
                    )
                self.require_allowed(size, f"holds {{}} or more once {how}")
                out += piece
        return np.frombuffer(out, np.uint8)

    def require_allowed(self, nbytes: int, what: str) -> None:
        """Refuse a file that expands to, or declares, too many bytes for its size.

        ``what`` describes the bytes, with a placeholder for their number.
        """
        most, limit = self._max_bytes, "max_bytes allows {1}"
        if most is None:
            most, limit = max(_MOST_TIMES * self._size, _MOST_ANYWAY), "a file of {0} may take {1}"
        if nbytes > most:
            limit = limit.format(format_bytes(self._size), format_bytes(most))
            raise MemoryBudgetError(
                f"{self.name} {what.format(format_bytes(nbytes))}, and {limit}; if the file is "
                "correct, allow more by max_bytes= (--max-bytes)."
            )

    def require_vertices(self, count: int) -> None:
        """Refuse a declared number of vertices that is out of proportion to the file."""
        self.require_allowed(8 * count, f"declares {count} vertices, which take {{}}")

    def text(self) -> bytes:
        """All bytes as one object, for readers outside Evener."""
        return self.data.tobytes()

    def fail(self, what: str, line: int | None = None) -> NoReturn:
        """Raise an error that names this file, the line if given, and what is wrong."""
        require_whole()  # the cause may be that the mapped file was cut short
        place = f"{self.name}, line {line}:" if line is not None else self.name
        raise GraphFormatError(f"{place} {what}.")

    def line_at(self, position: int) -> int:
        """The number, from 1, of the line at a position."""
        return int(np.count_nonzero(self.data[:position] == 10)) + 1

    def line_bytes(self, position: int) -> bytes:
        """The rest of the line at a position, without its end; at most 4096 bytes."""
        piece = self.data[position : position + 4096].tobytes()
        return piece.split(b"\n", 1)[0].rstrip(b"\r")

    def head(self) -> list[bytes]:
        """The complete lines within the first 64 KiB, for guessing the format."""
        lines = self.data[: 1 << 16].tobytes().split(b"\n")
        if len(self.data) > 1 << 16 and len(lines) > 1:
            lines.pop()
        return [line.rstrip(b"\r") for line in lines]

    def data_lines(self, comments: bytes = b"") -> Iterator[tuple[int, bytes]]:
        """The positions and lines that are neither blank nor comments."""
        begin, size = 0, _BLOCK
        comment = rb"|[%s][^\n]*+\n" % re.escape(comments) if comments else b""
        nothing = re.compile(_NOTHING % comment)
        while begin < len(self.data):
            block = self.data[begin : begin + size].tobytes()
            is_last = begin + size >= len(self.data)
            start = at = 0  # the start of the line, and the position to search from
            while True:
                found = nothing.match(block, at)
                assert found is not None
                first = found.end()
                start = block.rfind(b"\n", at, first) + 1 or start
                stop = block.find(b"\n", first)
                if stop < 0 and (first == len(block) or not is_last):
                    break
                stop = len(block) if stop < 0 else stop
                if block[first] not in comments:
                    yield begin + start, block[start:stop].rstrip(b"\r")
                start = at = stop + 1
            if is_last:
                return
            # Continue with the line that was cut off; a line that fills a block needs a larger one.
            size = _BLOCK if start else 2 * size
            begin += start
            if size > _LONGEST_LINE:
                line = self.line_at(begin)
                self.fail(f"the line is longer than {format_bytes(_LONGEST_LINE)}", line)


def open_regular(source: Source, path: str) -> tuple[int, os.stat_result]:
    """Open a file from elsewhere; GraphFormatError unless it is a regular file.

    Returns its descriptor and its metadata. Reading a pipe without a writer would block, and a
    device may never end.
    """
    descriptor = os.open(path, _OPEN_FLAGS)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    inside = "" if path == source.name else f"{os.path.basename(path)} "
    source.fail(
        f"{inside}is a pipe, a device or a folder; expected a regular file (read a pipe as "
        "standard input, whose name is -)"
    )


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


class _Resumed:
    """A file whose first bytes were already read, since a pipe cannot seek back."""

    def __init__(self, source: Source, head: bytes, file: Any):
        self._source, self._head, self._file, self.done = source, head, file, 0

    def read(self, size: int) -> bytes:
        """The next bytes."""
        piece = self._head + self._file.read(size - len(self._head))
        self._head = b""
        self.done += len(piece)
        self._source._size = max(self._source._size, self.done)
        return piece

    def pieces(self) -> Iterator[bytes]:
        """All bytes, some at a time."""
        while piece := self.read(_PIECE):
            yield piece


def _without_mark(data: np.ndarray) -> np.ndarray:
    """Text without the byte order mark that some editors write before UTF-8."""
    return data[3:] if tuple(data[:3].tolist()) == _BYTE_ORDER_MARK else data


def show(token: bytes) -> str:
    """A piece of a file for a message: short, printable, in quotes.

    Examples
    --------
    >>> from evener.graph.files.source import show
    >>> show(b"abc\\x00")
    "'abc\\\\x00'"
    """
    text = token[:30].decode("utf-8", "backslashreplace")
    return repr(text + ("…" if len(token) > 30 else ""))
