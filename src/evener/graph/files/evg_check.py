"""Whether the arrays of an ``.evg`` folder are those that were written, and make a sound graph.

Checksums tell damage, but whoever forges a folder computes them too, and kernels rely on what the
arrays say: so both are checked. Checksums are computed by threads of their own meanwhile.
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
_PIECE = 1 << 24  # bytes summed up at a time


def check_folder(
    source: Source, meta: dict[str, Any], arrays: dict[str, np.ndarray], graph: Graph
) -> None:
    """Raise GraphFormatError for the first thing that is wrong with the arrays."""
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
            stop.set()  # after Ctrl-C nobody waits for them
    if fault is not None:
        source.fail(f"is no sound graph: {str(fault).rstrip('.')}")


def checksum_of(content: bytes | np.ndarray, stop: threading.Event | None = None) -> str:
    """The SHA-256 checksum of some bytes or of an array; ``stop`` ends it early."""
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
    if np.isnan(weights.min()):  # min hands NaN on
        raise GraphError(f"weight {int(np.argmax(np.isnan(weights)))} is not a number (NaN).")


def _check_labels(graph: Graph, arrays: dict[str, np.ndarray]) -> None:
    """Labels differ from each other, and names are text."""
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
    # Bytes within a character have 10 for their upper bits; no name begins there.
    starts = offsets[:-1][offsets[:-1] < len(text)]
    if ((text[starts] & 0xC0) == 0x80).any():
        raise GraphError("a name of a vertex begins within a character.")
    bad = np.zeros(max(1, -(-graph.num_vertices // _CHUNK)), np.uint8)
    _find_disorder(len(bad), text, offsets, bad)
    if bad.any():  # not sorted, which is no fault, unless two are alike
        Labels.of(graph._labels.array())


@parallel
def _find_disorder(chunk, text, offsets, bad):
    """Whether a name is no larger than the one before it."""
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
