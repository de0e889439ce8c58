"""Room for what a program records, the only memory whose size is not known before a run.

Queues hold each vertex and boxes each ghost, so they are allocated once, and nothing checks them
while a loop runs. What ``repeat(record=True)`` keeps depends on the run. Its room is told as a
*factor*: recorded vertices for each vertex of a part. A GPU begins with the factor that the program
last needed on a graph of this kind, and grows it on demand. The CPU takes memory page by page as a
record is written, unless all of it is wanted beforehand.
"""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any, NamedTuple

from evener.errors import EvenerError, MemoryBudgetError

if TYPE_CHECKING:
    from evener.engine.job import Job

_SMALL = 1 / 8  # the factor that growth on demand begins with
_MOST = 2.0**64  # more than any machine has room for: larger ones are not told apart

_factors: dict[tuple[str, str], float] = {}  # of a program on a kind of graph


class RecordIsFull(Exception):
    """Some part has to record more than it has room for; whichever it is, all of them stop."""


class Preallocation(NamedTuple):
    """How much room there is for records when a run begins, and whether it may grow."""

    factor: float | None = None  # None: what the last run needed, or each vertex once
    fixed: bool = False

    def factor_of(self, job: Job) -> float:
        """The factor that a run begins with."""
        return _factors.get(_key(job), 1.0) if self.factor is None else self.factor

    def first(self, job: Job, vertices: int, most: int | None = None) -> int:
        """Recorded vertices that a part of so many vertices begins with room for.

        A limit of memory may allow so many at ``most``.
        """
        room = math.ceil(self.factor_of(job) * vertices) + 1
        if most is None or room <= most:
            return room
        if self.fixed:
            raise beyond_limit(job)
        return max(1, most)

    def only(self, job: Job, vertices: int) -> int | None:
        """The same where that is all that it gets."""
        return self.first(job, vertices) if self.fixed else None

    def more(
        self, job: Job, vertices: int, room: int, needed: int, most: int | None = None,
        times: int = 2,
    ) -> int:  # fmt: skip
        """The next room of a part that needs more than it has; the factor is remembered.

        It has so many ``times`` the room, if a limit of memory allows for that: ``most`` of it.
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
        """Keep how much a part of so many vertices needed, if no other run needed more."""
        if needed <= vertices:  # as one that nobody knows begins with
            return
        _factors[_key(job)] = max(_factors.get(_key(job), 0.0), needed / max(1, vertices))

    def too_small(self, job: Job, needed: float | None = None) -> MemoryBudgetError:
        """The error of a run that records more than it was given room for."""
        found = "more" if needed is None else f"at least {needed:.2g}"
        return MemoryBudgetError(
            f"{job.declaration.name} records {found} vertices for each vertex of the graph, and "
            f"preallocate has room for {self.factor_of(job):g}; give it a larger number, or leave "
            "it out."
        )


AS_NEEDED = Preallocation()


def entry_bytes(job: Job, has_edges: bool) -> int:
    """Bytes that a recorded vertex takes on a GPU: itself, an end of a superstep; its edge."""
    graph = job.graph
    edge = graph._indptr.itemsize + 1 if has_edges else 0
    return int(graph._indices.itemsize + 8 + edge)


def out_of_room(job: Job) -> MemoryBudgetError:
    """The error of a run that has to record more than there is room for."""
    if job.preallocation.fixed:
        return job.preallocation.too_small(job)
    if any(left is not None for left in job.left):
        return beyond_limit(job)
    return MemoryBudgetError(
        f"{job.declaration.name} keeps more vertices in buckets or recorded frontiers than fit "
        "into memory; limit its supersteps, or use a smaller graph."
    )


def beyond_limit(job: Job) -> MemoryBudgetError:
    """The error of a run whose records outgrow a limit of memory."""
    return MemoryBudgetError(
        f"{job.declaration.name} keeps more vertices in buckets or recorded frontiers than "
        "memory_limit allows; raise it, or limit its supersteps."
    )


def parse_preallocate(given: Any) -> Preallocation:
    """What the option says.

    Examples
    --------
    >>> from evener.engine.preallocation import parse_preallocate
    >>> parse_preallocate(2)
    Preallocation(factor=2.0, fixed=True)
    """
    if isinstance(given, str) and given == "auto":
        return AS_NEEDED
    if isinstance(given, bool):
        return Preallocation(fixed=True) if given else Preallocation(_SMALL)
    factor: Any = given if isinstance(given, numbers.Real) else -1
    if 0 < factor < math.inf:  # compared as it is: as a float it may be too large
        return Preallocation(float(min(factor, _MOST)), fixed=True)
    raise EvenerError(
        f"preallocate is {given!r}; it must be 'auto', True, False, or a number above 0: recorded "
        "vertices for each vertex of the graph."
    )


def _key(job: Job) -> tuple[str, str]:
    from evener.engine.measurement_keys import code_of, kind_of_graph  # it needs what needs this

    return f"{job.declaration.name} {code_of(job.declaration)}", kind_of_graph(job.graph)
