"""The buckets of `nearest`: which one a value falls into."""

from __future__ import annotations

import numpy as np

from evener.device import compiled

NOT_WAITING = np.int64(1) << np.int64(62)
FAR = np.int64(1) << np.int64(61)  # the bucket of infinity, and of what is no number


@compiled(allocates=False)
def bucket_of(value, delta):
    """The number of the bucket that a value falls into."""
    scaled = np.float64(value) / np.float64(delta)
    if not scaled < np.float64(FAR):
        return FAR
    number = np.int64(max(scaled, -np.float64(FAR)))  # towards 0
    return number - 1 if np.float64(number) > scaled else number
