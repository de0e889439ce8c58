"""Partitioners: which part of a device set owns each vertex."""

from evener.engine.partition.partitioners.choose import (
    PARTITIONERS,
    Partitioner,
    parse_partitioner,
    partition,
)

__all__ = ["PARTITIONERS", "Partitioner", "parse_partitioner", "partition"]
