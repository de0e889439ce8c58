"""Arrays of a GPU that come to the host's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from evener.device.team import parallel

AT_ONCE = 1 << 23  # bytes that are downloaded as they are
_PAGE = 4096  # bytes, at least
_TOUCHED = 1 << 21  # bytes that a core touches at a time


def downloaded(array: Any) -> np.ndarray:
    """A copy of an array of the current GPU in new memory of the host.

    All cores touch the pages of a large one first: the copy has one thread, which would spend most
    of its time on that (4 against 14 GB/s, beside an H200).
    """
    if array.nbytes < AT_ONCE:
        return array.get()
    out = np.empty(len(array), array.dtype)
    _touch(-(-out.nbytes // _TOUCHED), out.view(np.uint8))
    return array.get(out=out)


@parallel
def _touch(chunk, target):
    for i in range(chunk * _TOUCHED, min((chunk + 1) * _TOUCHED, len(target)), _PAGE):
        target[i] = 0
