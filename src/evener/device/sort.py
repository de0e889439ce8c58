"""Parallel sorting: scatter keys into buckets, stably, and sort each bucket in the cache."""

from __future__ import annotations

import numpy as np

from evener.device.team import parallel

_KEYS_PER_BUCKET = 1 << 14  # 128 KiB: a bucket is sorted within a core's second-level cache
_MAX_BUCKETS = 1 << 14
_CHUNK = 1 << 18  # keys a thread takes at a time while counting and scattering


def bucket_cursors(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of buckets and where each chunk writes in them, from counts of chunk × bucket.

    Returns the bounds, one more than there are buckets, and cursors of the shape of ``counts``: a
    chunk writes behind all earlier chunks, hence stably.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.device.sort import bucket_cursors
    >>> bounds, cursors = bucket_cursors(np.array([[1, 2], [3, 0]]))
    >>> bounds.tolist(), cursors.tolist()
    ([0, 4, 6], [[0, 4], [1, 6]])
    """
    bounds = np.zeros(counts.shape[1] + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=bounds[1:])
    return bounds, np.cumsum(counts, axis=0) - counts + bounds[:-1]


def sort_keys(keys: np.ndarray, bits: int) -> np.ndarray:
    """The uint64 ``keys``, all below ``2**bits``, in ascending order; may overwrite its input.

    Fast for evenly spread keys, such as random numbers. Equal keys are indistinguishable, so the
    result does not depend on the number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.device import sort_keys
    >>> sort_keys(np.array([5, 3, 4], dtype=np.uint64), bits=3).tolist()
    [3, 4, 5]
    """
    wanted = min(-(-len(keys) // _KEYS_PER_BUCKET), _MAX_BUCKETS)
    if wanted <= 1:
        keys.sort()
        return keys
    bucket_bits = min(bits, (wanted - 1).bit_length())
    shift = np.uint64(bits - bucket_bits)
    size = max(_CHUNK, -(-len(keys) // 256))
    num_chunks = -(-len(keys) // size)
    counts = np.zeros((num_chunks, 1 << bucket_bits), np.int64)
    _count(num_chunks, keys, size, shift, counts)
    bounds, cursors = bucket_cursors(counts)
    out = np.empty_like(keys)
    _scatter(num_chunks, keys, size, shift, cursors, out)
    _sort_bucket(counts.shape[1], bounds, out)
    return out


@parallel
def _count(chunk, keys, size, shift, counts):
    row = counts[chunk]
    for i in range(chunk * size, min((chunk + 1) * size, len(keys))):
        row[keys[i] >> shift] += 1


@parallel
def _scatter(chunk, keys, size, shift, cursors, out):
    row = cursors[chunk]
    for i in range(chunk * size, min((chunk + 1) * size, len(keys))):
        bucket = keys[i] >> shift
        out[row[bucket]] = keys[i]
        row[bucket] += 1


@parallel
def _sort_bucket(bucket, bounds, out):
    out[bounds[bucket] : bounds[bucket + 1]].sort()
