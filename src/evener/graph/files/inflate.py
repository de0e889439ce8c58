"""Decompressing gzip and zstd piece by piece, however many members a file has.

What a decompressor does not need it hands back as a copy. A file of tiny members would have most of
it copied for each of them, so a member begins with little input, and gets more as it goes on.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

_PIECE = 1 << 22  # bytes read, or decompressed, at a time
_LEAST = 1 << 9  # bytes that a member begins with


def gunzip(file: Any) -> Iterator[bytes]:
    """Decompress gzip data of one or more members; EOFError if the last is incomplete."""

    def start() -> Any:
        return zlib.decompressobj(wbits=31)

    def feed(member: Any, piece: bytes) -> Iterator[bytes]:
        while piece:
            yield member.decompress(piece, _PIECE)
            piece = member.unconsumed_tail

    return _members(file, start, feed, padding=b"\0")


def unzstd(file: Any) -> Iterator[bytes]:
    """Decompress zstd frames; EOFError if the last is incomplete."""
    import zstandard

    # The window is bounded so that a header cannot ask for gigabytes.
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)

    def feed(member: Any, piece: bytes) -> Iterator[bytes]:
        yield member.decompress(piece)

    try:
        # Four bytes may stand for 128 KiB, and all that a piece stands for comes at once: 16 MiB.
        yield from _members(file, decompressor.decompressobj, feed, most=_LEAST)
    except zstandard.ZstdError as error:
        raise RuntimeError(str(error)) from None


def _members(
    file: Any,
    start: Callable[[], Any],
    feed: Callable[[Any, bytes], Iterator[bytes]],
    *,
    padding: bytes = b"",
    most: int = _PIECE,
) -> Iterator[bytes]:
    """What the members of a file hold; ``most`` is what a member gets at one time."""
    member, size = start(), _LEAST
    while raw := file.read(_PIECE):
        at = 0
        while at < len(raw):
            if member.eof:
                if padding and raw[at : at + 1] == padding and not raw[at:].strip(padding):
                    break
                member, size = start(), _LEAST
            piece = raw[at : at + size]
            yield from feed(member, piece)
            at += len(piece) - (len(member.unused_data) if member.eof else 0)
            size = min(2 * size, most)
    if not member.eof:
        raise EOFError("the end is missing")
