"""Check that the arrays of an ``.evg`` folder match their checksums and make a valid graph.

Checksums reveal damage, but a forger can compute them too, and kernels rely on the contents: so
both are checked. Separate threads compute the checksums at the same time.
"""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from evener.device import compiled, num_threads, parallel
from evener.errors import GraphError
from evener.graph.check import check
from evener.graph.csr import Graph
from evener.graph.files.source import Source
from evener.graph.labels import Labels

_CHUNK = 1 << 16  # names that a thread takes at a time
_PIECE = 1 << 24  # bytes hashed at a time


def check_folder(
    source: Source, meta: dict[str, Any], arrays: dict[str, np.ndarray], graph: Graph
) -> None:
    """Raise GraphFormatError for the first fault in the arrays."""
    fault: GraphError | None = None
    stop = threading.Event()
    with ThreadPoolExecutor(num_threads()) as pool:
        sums = {name: pool.submit(checksum_of, array, stop) for name, array in arrays.items()}
        try:
            try:
                check(graph)
                _check_weights(graph)
                _check_labels(graph, arrays)
            except GraphError as error:
                fault = error
            for name, found in sums.items():
                if found.result() != meta["arrays"][name]["sha256"]:
                    file = meta["arrays"][name]["file"]
                    source.fail(f"{file} does not match its checksum; it was changed or damaged")
        finally:
            stop.set()  # after Ctrl-C their results are not needed
    if fault is not None:
        source.fail(f"is not a valid graph: {str(fault).rstrip('.')}")


def checksum_of(content: bytes | np.ndarray, stop: threading.Event | None = None) -> str:
    """The SHA-256 checksum of bytes or of an array; ``stop`` aborts it."""
    raw = raw_bytes(content) if isinstance(content, np.ndarray) else content
    digest = hashlib.sha256()
    for start in range(0, len(raw), _PIECE):
        if stop is not None and stop.is_set():
            break
        digest.update(raw[start : start + _PIECE])
    return digest.hexdigest()


def raw_bytes(array: np.ndarray) -> Any:
    """The bytes of an array without a copy."""
    return array.view(np.uint8)


def _check_weights(graph: Graph) -> None:
    weights = graph._weights
    if weights is None or weights.dtype.kind != "f" or len(weights) == 0:
        return
    if np.isnan(weights.min()):  # min propagates NaN
        raise GraphError(f"weight {int(np.argmax(np.isnan(weights)))} is not a number (NaN).")


def _check_labels(graph: Graph, arrays: dict[str, np.ndarray]) -> None:
    """Raise GraphError unless labels are distinct and names are UTF-8."""
    if "label_text" not in arrays:
        if graph._labels.values is not None:
            Labels.of(graph._labels.values)
        return
    text, offsets = arrays["label_text"], arrays["label_offsets"]
    if offsets[0] != 0 or offsets[-1] != len(text) or (offsets[1:] < offsets[:-1]).any():
        raise GraphError(f"the names of vertices do not run from 0 to {len(text)}.")
    try:
        str(memoryview(text), "utf-8")  # type: ignore[arg-type]
    except UnicodeDecodeError as error:
        raise GraphError(f"the names of vertices are not UTF-8 (byte {error.start}).") from None
    # Bytes within a character have the upper bits 10; no name may begin there.
    starts = offsets[:-1][offsets[:-1] < len(text)]
    if ((text[starts] & 0xC0) == 0x80).any():
        raise GraphError("the name of a vertex begins within a character.")
    bad = np.zeros(max(1, -(-graph.num_vertices // _CHUNK)), np.uint8)
    _find_disorder(len(bad), text, offsets, bad)
    if bad.any():  # names need not be sorted, but must be distinct
        Labels.of(graph._labels.array())


@parallel
def _find_disorder(chunk, text, offsets, bad):
    """Note chunks with a name that is not larger than its predecessor."""
    for i in range(max(1, chunk * _CHUNK), min((chunk + 1) * _CHUNK, len(offsets) - 1)):
        if not _ascends(text, offsets[i - 1], offsets[i], offsets[i + 1]):
            bad[chunk] = 1
            return


@compiled(allocates=False)
def _ascends(text, first, second, stop):
    length = min(second - first, stop - second)
    for i in range(length):
        if text[first + i] != text[second + i]:
            return text[first + i] < text[second + i]
    return second - first < stop - second
