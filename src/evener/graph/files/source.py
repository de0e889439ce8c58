"""What a reader reads: a file's bytes, mapped or decompressed, and errors that point into them."""

from __future__ import annotations

import mmap
import os
import stat
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from evener import progress
from evener.device import available_memory, format_bytes
from evener.errors import GraphFormatError, MemoryBudgetError

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_PIECE = 1 << 22  # bytes decompressed at a time
_BLOCK = 1 << 18  # bytes split into lines at a time
_BYTE_ORDER_MARK = (0xEF, 0xBB, 0xBF)


class MissingFileError(GraphFormatError, FileNotFoundError):
    """There is no such file."""


class Source:
    """One file being read: its name, its bytes and its errors.

    Examples
    --------
    >>> from evener.graph.files.source import Source
    >>> file = tmp_path / "tiny.el"
    >>> _ = file.write_text("0 1\\n")
    >>> Source(file).data.tobytes()
    b'0 1\\n'
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            path.stat()
        except FileNotFoundError:
            raise MissingFileError(f"{path} does not exist.") from None
        except (OSError, ValueError) as error:  # no permission, a name too long, a null byte
            self.fail(f"cannot be read: {getattr(error, 'strerror', None) or error}")

    @property
    def suffix(self) -> str:
        """The suffix that names the format, in lower case: ``.txt`` for ``a.TXT.gz``."""
        path = self.path
        if path.suffix.lower() in COMPRESSIONS:
            path = path.with_suffix("")
        return path.suffix.lower()

    @cached_property
    def data(self) -> np.ndarray:
        """The bytes of the file, decompressed; mapped into memory where they lie plain."""
        try:
            with self.path.open("rb") as file:
                head = file.read(4)
                if not head:
                    self.fail("is empty; expected a graph")
                compression = next((c for m, c in _MAGIC.items() if head.startswith(m)), None)
                named = COMPRESSIONS.get(self.path.suffix.lower())
                if named and compression != named:
                    self.fail(f"is named {self.path.suffix} but is not {named} data")
                if compression:
                    data = self._decompressed(_Resumed(head, file), compression)
                    if len(data) == 0:
                        self.fail("is empty once decompressed; expected a graph")
                    return _without_mark(data)
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe cannot be mapped
                    return _without_mark(np.frombuffer(head + file.read(), np.uint8))
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            if isinstance(error, GraphFormatError):
                raise
            reason = getattr(error, "strerror", None) or error
            self.fail(f"cannot be read: {reason}")
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            mapped.madvise(mmap.MADV_SEQUENTIAL)
        return _without_mark(np.frombuffer(mapped, np.uint8))

    def _decompressed(self, file: Any, compression: str) -> np.ndarray:
        size = max(1, self.path.stat().st_size)
        out = bytearray()
        room = available_memory()
        pieces = _gunzip(file) if compression == "gzip" else _unzstd(file)
        with progress.task(f"decompressing {self.path.name}"):
            try:
                for piece in pieces:
                    out += piece
                    progress.report(file.done, size)
                    if len(out) > room:
                        raise MemoryBudgetError(
                            f"{self.path} holds more than {format_bytes(len(out))} once "
                            f"decompressed; only {format_bytes(room)} of memory was available."
                        )
            except (zlib.error, EOFError, RuntimeError) as error:
                self.fail(f"is damaged or cut short: {error}; expected whole {compression} data")
        return np.frombuffer(out, np.uint8)

    def text(self) -> bytes:
        """All bytes as one object, for readers outside Evener."""
        return self.data.tobytes()

    def fail(self, what: str, line: int | None = None) -> NoReturn:
        """Raise the error that names this file, the line if there is one, and what is wrong."""
        place = f"{self.path}, line {line}:" if line is not None else f"{self.path}"
        raise GraphFormatError(f"{place} {what}.")

    def line_at(self, position: int) -> int:
        """The number, from 1, of the line that holds a byte."""
        return int(np.count_nonzero(self.data[:position] == 10)) + 1

    def line_bytes(self, position: int) -> bytes:
        """The line from a byte on, without its end, cut where it grows absurd."""
        piece = self.data[position : position + 4096].tobytes()
        return piece.split(b"\n", 1)[0].rstrip(b"\r")

    def lines(self, limit: int | None = None) -> Iterator[tuple[int, bytes]]:
        """The lines with the position of each, as many as begin in the first ``limit`` bytes."""
        data, position = self.data, 0
        stop = len(data) if limit is None else min(limit, len(data))
        while position < stop:
            block = data[position : position + _BLOCK].tobytes()
            lines = block.split(b"\n")
            last = position + _BLOCK >= len(data)
            # The last piece of a block is cut off, unless it is a whole block without an end.
            for line in lines if last or len(lines) == 1 else lines[:-1]:
                if position < stop:
                    yield position, line.rstrip(b"\r")
                position += len(line) + 1


class _Resumed:
    """A file whose first bytes were already read: pipes cannot go back."""

    def __init__(self, head: bytes, file: Any):
        self._head, self._file, self.done = head, file, 0

    def read(self, size: int) -> bytes:
        """The next bytes."""
        piece = self._head + self._file.read(size - len(self._head))
        self._head = b""
        self.done += len(piece)
        return piece


def _without_mark(data: np.ndarray) -> np.ndarray:
    """Text without the mark that some editors put in front of UTF-8."""
    return data[3:] if tuple(data[:3].tolist()) == _BYTE_ORDER_MARK else data


def show(token: bytes) -> str:
    """A piece of a file as it may stand in a message: short, printable, in quotes.

    Examples
    --------
    >>> from evener.graph.files.source import show
    >>> show(b"abc\\x00")
    "'abc\\\\x00'"
    """
    text = token[:30].decode("utf-8", "backslashreplace")
    return repr(text + ("…" if len(token) > 30 else ""))


def _gunzip(file: Any) -> Iterator[bytes]:
    """Decompress gzip data of one or more members; EOFError if the last is incomplete."""
    decompressor = zlib.decompressobj(wbits=31)
    while raw := file.read(_PIECE):
        while raw:
            if decompressor.eof:
                if not raw.strip(b"\0"):  # padding
                    break
                decompressor = zlib.decompressobj(wbits=31)
            yield decompressor.decompress(raw, _PIECE)
            raw = decompressor.unconsumed_tail or decompressor.unused_data
    if not decompressor.eof:
        raise EOFError("the end is missing")


def _unzstd(file: Any) -> Iterator[bytes]:
    """Decompress zstd frames; EOFError if the last is incomplete."""
    import zstandard

    try:
        # The window is bounded so that a header cannot ask for gigabytes.
        decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        current = decompressor.decompressobj()
        while raw := file.read(1 << 16):
            while raw:
                if current.eof:
                    current = decompressor.decompressobj()
                yield current.decompress(raw)
                raw = current.unused_data if current.eof else b""
        if not current.eof:
            raise EOFError("the end is missing")
    except zstandard.ZstdError as error:
        raise RuntimeError(str(error)) from None
