"""Room for recorded frontiers, the only memory whose size a run cannot know in advance.

Queues have a place for each vertex and boxes one for each ghost, so they are allocated once and no
loop checks them. What ``repeat(record=True)`` keeps depends on the run. Its room is a *factor*:
recorded vertices per vertex of a part. A GPU begins with the factor that the program last needed on
a graph of this kind, and grows on demand. The CPU takes memory page by page as a record is written,
unless the user reserves all of it in advance.
"""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, NamedTuple

from evener.errors import EvenerError, MemoryBudgetError

if TYPE_CHECKING:
    from evener.engine.job import Job

_SMALL = 1 / 8  # the factor that growth on demand begins with
_MOST = 2.0**64  # more than fits any machine: larger ones are treated alike

_factors: dict[tuple[str, str], float] = {}  # by program and kind of graph


class RecordIsFull(Exception):
    """A part has no room for what it must record; all parts stop."""


class Preallocation(NamedTuple):
    """The initial room for records, and whether it is fixed."""

    factor: float | None = None  # None: what the last run needed, or each vertex once
    fixed: bool = False

    def factor_of(self, job: Job) -> float:
        """The initial factor of a run."""
        return _factors.get(_key(job), 1.0) if self.factor is None else self.factor

    def first(self, job: Job, vertices: int, most: int | None = None) -> int:
        """The initial room of a part with this many vertices, in recorded vertices.

        ``most`` is what a memory limit allows.
        """
        room = math.ceil(self.factor_of(job) * vertices) + 1
        if most is None or room <= most:
            return room
        if self.fixed:
            raise beyond_limit(job)
        return max(1, most)

    def only(self, job: Job, vertices: int) -> int | None:
        """The room of a part if it is fixed, else None."""
        return self.first(job, vertices) if self.fixed else None

    def more(
        self, job: Job, vertices: int, room: int, needed: int, most: int | None = None,
        times: int = 2,
    ) -> int:  # fmt: skip
        """The next room of a part that needs more; the factor is remembered.

        The room grows by a factor of ``times``, up to ``most`` if a memory limit applies.
        """
        if self.fixed:
            raise self.too_small(job, needed / max(1, vertices))
        if most is not None and (needed > most or room >= most):
            raise beyond_limit(job)
        room = max(times * room, needed)
        room = room if most is None else min(room, most)
        self.remember(job, vertices, room)
        return room

    def remember(self, job: Job, vertices: int, needed: int) -> None:
        """Remember the largest need of a part with this many vertices."""
        if needed <= vertices:  # the default factor
            return
        _factors[_key(job)] = max(_factors.get(_key(job), 0.0), needed / max(1, vertices))

    def too_small(self, job: Job, needed: float | None = None) -> MemoryBudgetError:
        """The error of a run that records more than its fixed room."""
        recorded = "more" if needed is None else f"at least {needed:.2g}"
        return MemoryBudgetError(
            f"{job.declaration.name} records {recorded} vertices for each vertex of the graph, and "
            f"preallocate has room for {self.factor_of(job):g}; give it a larger number, or leave "
            "it out."
        )


AS_NEEDED = Preallocation()


def entry_bytes(job: Job, has_edges: bool) -> int:
    """Bytes of a recorded vertex on a GPU: its index, a superstep bound, and its edge."""
    graph = job.graph
    edge = graph._indptr.itemsize + 1 if has_edges else 0
    return int(graph._indices.itemsize + 8 + edge)


def out_of_room(job: Job) -> MemoryBudgetError:
    """The error of a run whose records do not fit."""
    if job.preallocation.fixed:
        return job.preallocation.too_small(job)
    if any(left is not None for left in job.left):
        return beyond_limit(job)
    return MemoryBudgetError(
        f"{job.declaration.name} keeps more vertices in buckets or recorded frontiers than fit "
        "into memory; limit its supersteps, or use a smaller graph."
    )


def beyond_limit(job: Job) -> MemoryBudgetError:
    """The error of a run whose records exceed a memory limit."""
    return MemoryBudgetError(
        f"{job.declaration.name} keeps more vertices in buckets or recorded frontiers than "
        "memory_limit allows; raise it, or limit its supersteps."
    )


def parse_preallocate(option: Any) -> Preallocation:
    """Parse the option ``preallocate``.

    Examples
    --------
    >>> from evener.engine.preallocation import parse_preallocate
    >>> parse_preallocate(2)
    Preallocation(factor=2.0, fixed=True)
    """
    if isinstance(option, str) and option == "auto":
        return AS_NEEDED
    if isinstance(option, bool):
        return Preallocation(fixed=True) if option else Preallocation(_SMALL)
    factor: Any = option if isinstance(option, numbers.Real) else -1
    if 0 < factor < math.inf:  # compared first: it may be too large for a float
        return Preallocation(float(min(factor, _MOST)), fixed=True)
    raise EvenerError(
        f"preallocate is {option!r}; it must be 'auto', True, False, or a number above 0: recorded "
        "vertices for each vertex of the graph."
    )


def _key(job: Job) -> tuple[str, str]:
    from evener.engine.measurement_keys import code_of, kind_of_graph  # circular imports

    return f"{job.declaration.name} {code_of(job.declaration)}", kind_of_graph(job.graph)
