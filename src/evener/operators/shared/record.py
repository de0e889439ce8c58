"""Recorded frontiers on all devices: whether there is room for one more."""

from __future__ import annotations

from evener.device import compiled


@compiled(allocates=False)
def has_room(record, recorded, size):
    """Whether another frontier of this size can be kept."""
    return recorded + 3 <= len(record.bounds) and record.bounds[recorded] + size <= len(
        record.queue
    )
