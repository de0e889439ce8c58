"""Decompress gzip and zstd piece by piece, with any number of members in a file.

A decompressor returns its unused input as a copy. For a file of tiny members most of the input
would be copied once per member, so each member starts with little input and gets more as it grows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

_PIECE = 1 << 22  # bytes read, or decompressed, at a time
_LEAST = 1 << 9  # bytes of input with which a member starts


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
        # Four bytes may expand to 128 KiB, and a piece expands at once: 16 MiB for 512 bytes.
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
    """Decompress the members of a file; a member gets at most ``most`` bytes at a time."""
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
