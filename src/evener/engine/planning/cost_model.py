"""The costs of the parts of a graph: TOTEM's model with terms added after measurements.

A part takes time for its edges, for its vertices, all of which a superstep that pulls scans, and
for the messages of its ghosts. The slowest part decides. Each superstep costs a synchronization of
all devices, even with no work. To start and end them together takes, with many threads, as long as
a search on a million vertices:

    t(p) = edges(p) · a + vertices(p) · b + messages(p) · c
    seconds = start + supersteps · d + max t(p)

That is the loop of a run. Spreading fields before it and collecting them after it depends on the
vertices of the graph and is the same for all placements on a set. The terms of edges and messages
are those of Gharaibeh et al. (equations 1 and 2). The coefficients are those of a device in its
set: a part does not behave like a device alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evener.engine.partition.stats import PartitionStats

_ROUNDS = 10  # of fitting: two or three find the slowest part
_MOST_START = 0.9  # of the seconds of a device alone
_TRUST = 0.1  # weight of a device alone, relative to a run of the set


class Costs(NamedTuple):
    """Seconds for each edge, vertex and message of a part of each device, and for a superstep."""

    edge: tuple[float, ...]
    vertex: tuple[float, ...]
    message: tuple[float, ...]
    superstep: float
    supersteps: float  # of a run
    start: float = 0.0  # seconds of the loop to start and end all
    around: float = 0.0  # seconds to spread fields before the loop and to collect them after it
    around_each: float = 0.0  # the same, per vertex of the graph

    def loop_seconds(self, stats: PartitionStats) -> float:
        """Seconds of the loop of a run."""
        meetings = self.start + self.superstep * self.supersteps
        return meetings + float(self.part_seconds(stats).max())

    def part_seconds(self, stats: PartitionStats) -> np.ndarray:
        """Seconds in which each part computes and communicates."""
        return self.compute_seconds(stats) + self.message_seconds(stats)

    def compute_seconds(self, stats: PartitionStats) -> np.ndarray:
        """Seconds in which each part computes."""
        return stats.edges * np.array(self.edge) + stats.vertices * np.array(self.vertex)

    def message_seconds(self, stats: PartitionStats) -> np.ndarray:
        """Seconds in which each part sends and receives."""
        return messages_of(stats) * np.array(self.message)

    def fixed_seconds(self, stats: PartitionStats) -> float:
        """Seconds of a run that do not depend on its parts."""
        around = self.around + self.around_each * float(stats.vertices.sum())
        return self.start + self.superstep * self.supersteps + around


class Measured(NamedTuple):
    """A timed run over parts: the loop, and the time around it.

    A device ``alone`` synchronizes with no other: it has no supersteps, and ``start`` is the time
    to start its own threads, not those of a set.
    """

    stats: PartitionStats
    supersteps: int
    seconds: float
    around: float = 0.0
    alone: bool = False
    start: float = 0.0


def messages_of(stats: PartitionStats) -> np.ndarray:
    """Messages that each part sends or receives if each of its ghosts is sent once."""
    return stats.links.sum(axis=0) + stats.links.sum(axis=1)


def fit(runs: Sequence[Measured], names: Sequence[str]) -> tuple[Costs, float]:
    """The non-negative coefficients that fit the runs best, and their mean relative error.

    Devices of one name have the same coefficients. The runs include one of each name alone, which
    is all that is known of a device that is never the slowest.

    Examples
    --------
    >>> import numpy as np
    >>> from evener import generate
    >>> from evener.engine.planning.cost_model import Measured, fit
    >>> from evener.engine.partition.stats import measure_partition
    >>> graph = generate.rmat(8, 8, seed=1)
    >>> runs = []
    >>> for share in (0.2, 0.4, 0.5, 0.8):
    ...     part_of = np.arange(256) > 256 * share
    ...     stats = measure_partition(graph, part_of, 2)
    ...     runs.append(Measured(stats, 4, float(stats.edges.max() * 1e-8)))
    >>> stats = measure_partition(graph, np.zeros(256, int), 2)
    >>> runs.append(Measured(stats, 0, graph.num_edges * 1e-8, alone=True))
    >>> costs, error = fit(runs, ["cpu:1", "cpu:1"])
    >>> f"{costs.edge[0]:.1e}", error < 0.01
    ('1.0e-08', True)
    """
    kinds = list(dict.fromkeys(names))
    of = [kinds.index(name) for name in names]
    whole = np.array([run.seconds for run in runs])
    # A small difference of two measurements would be mostly error.
    starts = np.array([min(run.start, _MOST_START * run.seconds) for run in runs])
    seconds = whole - starts
    each = seconds / [max(1, run.stats.edges.sum()) for run in runs]
    prior = [one for one, run in zip(each, runs, strict=True) if run.alone]
    counts = np.array([
        np.stack([run.stats.edges, run.stats.vertices, messages_of(run.stats)], axis=1)
        for run in runs
    ])  # fmt: skip
    meetings = np.array([[not run.alone, run.supersteps] for run in runs], float)
    # The slowest part and the coefficients depend on each other: begin with the part that each
    # term alone makes the slowest.
    speeds = np.array([prior[kind] for kind in of]) / max(prior)
    guesses = [(counts[:, :, term] * speeds).argmax(axis=1) for term in range(3)]
    guesses.append((counts / counts.max(axis=(0, 1)) * speeds[:, None]).sum(axis=2).argmax(axis=1))
    best, least = np.zeros(3 * len(kinds) + 2), np.inf
    for slowest in guesses:
        for _ in range(_ROUNDS):
            solution = _solve(counts, meetings, seconds, whole, slowest, of, prior)
            parts = (counts * solution[:-2].reshape(-1, 3)[of]).sum(axis=2)
            predicted = parts.max(axis=1) + meetings @ solution[-2:]
            error = float(np.mean(np.abs(predicted - seconds) / whole))
            if error < least:
                best, least = solution, error
            if (parts.argmax(axis=1) == slowest).all():
                break
            slowest = parts.argmax(axis=1)
    edge, vertex, message = (tuple(map(float, column)) for column in best[:-2].reshape(-1, 3)[of].T)
    start, superstep = map(float, best[-2:])
    supersteps = [run.supersteps for run in runs if not run.alone][-1]  # on a graph like the user's
    around = _fit_around([run for run in runs if not run.alone])
    return Costs(edge, vertex, message, superstep, float(supersteps), start, *around), least


def _fit_around(runs: Sequence[Measured]) -> tuple[float, float]:
    """Seconds before and after a loop: fixed, and per vertex of the graph."""
    from scipy.optimize import nnls

    sizes = np.array([float(run.stats.vertices.sum()) for run in runs])
    spent = np.array([run.around for run in runs])
    weights = 1 / np.maximum(spent, 1e-9)
    rows = np.stack([weights, weights * sizes / sizes.max()], axis=1)
    fixed, each = nnls(rows, weights * spent)[0]
    return float(fixed), float(each / sizes.max())


def _solve(
    counts: np.ndarray, meetings: np.ndarray, seconds: np.ndarray, whole: np.ndarray,
    slowest: np.ndarray, of: list[int], prior: list[float],
) -> np.ndarray:  # fmt: skip
    """Coefficients of each kind of device, and of synchronization, given the slowest parts."""
    from scipy.optimize import nnls

    runs, kinds = len(seconds), len(prior)
    rows = np.zeros((runs + kinds, 3 * kinds + 2))
    for i, p in enumerate(slowest):
        rows[i, 3 * of[p] : 3 * of[p] + 3] = counts[i, p]
    rows[:runs, -2:] = meetings
    rows[:runs] /= whole[:, None]
    for kind, one in enumerate(prior):
        rows[runs + kind, 3 * kind] = _TRUST / one
    wanted = np.concatenate([seconds / whole, np.full(kinds, _TRUST)])
    scale = np.where(rows.any(axis=0), rows.max(axis=0), 1.0)
    return nnls(rows / scale, wanted)[0] / scale
