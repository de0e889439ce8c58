"""A parallel sort of 64-bit keys that are spread evenly: into buckets, then each bucket by itself.

The generators sort random numbers or cells of random points, with an index in the low bits: no
two keys are equal, so the order does not depend on the sort or on the number of threads.
"""

from __future__ import annotations

import numpy as np

from evener.device import parallel
from evener.graph.generate.common import chunks_of

_KEYS_PER_BUCKET = 1 << 14  # 128 KiB: a bucket is sorted within a core's second-level cache
_MAX_BUCKETS = 1 << 14
_CHUNK = 1 << 18  # keys a thread takes at a time while counting and scattering


def sort_keys(keys: np.ndarray, bits: int) -> np.ndarray:
    """The uint64 ``keys``, all below ``2**bits``, in ascending order; may overwrite its input."""
    wanted = min(chunks_of(len(keys), _KEYS_PER_BUCKET), _MAX_BUCKETS)
    if wanted <= 1:
        keys.sort()
        return keys
    bucket_bits = min(bits, (wanted - 1).bit_length())
    shift = np.uint64(bits - bucket_bits)
    size = max(_CHUNK, chunks_of(len(keys), 256))
    num_chunks = chunks_of(len(keys), size)
    counts = np.zeros((num_chunks, 1 << bucket_bits), np.int64)
    _count(num_chunks, keys, size, shift, counts)
    bounds = np.zeros(counts.shape[1] + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=bounds[1:])
    cursors = np.cumsum(counts, axis=0) - counts + bounds[:-1]
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
