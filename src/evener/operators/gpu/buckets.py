"""The order of `nearest` with a superstep for each bucket, as kernels of a grid call it."""

from __future__ import annotations

from evener.device import compiled
from evener.operators.shared.buckets import nearest_waiting as nearest_of
from evener.operators.shared.buckets import take


@compiled(allocates=False)
def pick(team, waiting, later, chosen, near, field, delta):
    """As `evener.operators.shared.buckets.pick`: each stage of a grid has words to compare in."""
    bucket = nearest_of(team, waiting, near, team.works)
    take(team, waiting, later, chosen, near, field, delta, bucket)


@compiled(allocates=False)
def nearest_waiting(team, waiting, near):
    """The nearest bucket in which something waits, likewise."""
    return nearest_of(team, waiting, near, team.works)
