"""What the parts of a graph cost: TOTEM's model with the terms that measurements ask for.

A part takes time for its edges, for its vertices, which every superstep that pulls passes over
whether they have work to do or not, and for the messages of its ghosts. The slowest part decides,
each superstep costs a meeting of all devices whatever there is to do in it, and all of them begin
and end together, which with many threads takes as long as a search on a million vertices:

    t(p) = edges(p) · a + vertices(p) · b + messages(p) · c
    seconds = start + supersteps · d + max t(p)

That is the loop of a run; fields are spread before and collected after it, which goes by the
vertices of the graph and is the same for all placements on a set. Gharaibeh et al. have the edges
and the messages (equations 1 and 2). The coefficients are those of a device in its set: what a part
does is not what a device alone does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evener.engine.partition.stats import PartitionStats

_ROUNDS = 10  # of fitting: which part is the slowest is known after two or three
_MOST_START = 0.9  # of what a device alone takes
_TRUST = 0.1  # in what is known of a device alone, against a measured run of the set


class Costs(NamedTuple):
    """Seconds for each edge, vertex and message of a part of each device, and for a superstep."""

    edge: tuple[float, ...]
    vertex: tuple[float, ...]
    message: tuple[float, ...]
    superstep: float
    supersteps: float  # of a run
    start: float = 0.0  # seconds of the loop in which all begin and end
    around: float = 0.0  # seconds before and after the loop, to spread fields and to collect them
    around_each: float = 0.0  # the same for each vertex of the graph

    def loop_seconds(self, found: PartitionStats) -> float:
        """What the loop of a run takes."""
        meetings = self.start + self.superstep * self.supersteps
        return meetings + float(self.part_seconds(found).max())

    def part_seconds(self, found: PartitionStats) -> np.ndarray:
        """What each part computes and sends."""
        return self.compute_seconds(found) + self.message_seconds(found)

    def compute_seconds(self, found: PartitionStats) -> np.ndarray:
        """What each part computes."""
        return found.edges * np.array(self.edge) + found.vertices * np.array(self.vertex)

    def message_seconds(self, found: PartitionStats) -> np.ndarray:
        """What each part sends and receives."""
        return messages_of(found) * np.array(self.message)

    def fixed_seconds(self, found: PartitionStats) -> float:
        """What a run takes whatever its parts do."""
        around = self.around + self.around_each * float(found.vertices.sum())
        return self.start + self.superstep * self.supersteps + around


class Measured(NamedTuple):
    """A run over parts that was timed: the loop, and what was around it.

    A device that had all of it met nobody: its supersteps are none, and the ``start`` of its own
    threads, which is not that of a set, is told beside it.
    """

    stats: PartitionStats
    supersteps: int
    seconds: float
    around: float = 0.0
    alone: bool = False
    start: float = 0.0


def messages_of(found: PartitionStats) -> np.ndarray:
    """Messages that each part sends or receives when all its ghosts are told of once."""
    return found.links.sum(axis=0) + found.links.sum(axis=1)


def fit(runs: Sequence[Measured], names: Sequence[str]) -> tuple[Costs, float]:
    """The coefficients that explain runs best, none negative, and their mean relative error.

    Devices of one name have the same coefficients. Among the runs is one of each name alone, which
    is all that is known of a device that is the slowest in none of the others.

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
    # What is told of a small difference is told within the error of what was measured.
    starts = np.array([min(run.start, _MOST_START * run.seconds) for run in runs])
    seconds = whole - starts
    each = seconds / [max(1, run.stats.edges.sum()) for run in runs]
    prior = [one for one, run in zip(each, runs, strict=True) if run.alone]
    counts = np.array([
        np.stack([run.stats.edges, run.stats.vertices, messages_of(run.stats)], axis=1)
        for run in runs
    ])  # fmt: skip
    meetings = np.array([[not run.alone, run.supersteps] for run in runs], float)
    # Which part is the slowest follows from the coefficients, and they from that: it begins with
    # what any one term alone says.
    speeds = np.array([prior[kind] for kind in of]) / max(prior)
    guesses = [(counts[:, :, term] * speeds).argmax(axis=1) for term in range(3)]
    guesses.append((counts / counts.max(axis=(0, 1)) * speeds[:, None]).sum(axis=2).argmax(axis=1))
    best, least = np.zeros(3 * len(kinds) + 2), np.inf
    for slowest in guesses:
        for _ in range(_ROUNDS):
            found = _solve(counts, meetings, seconds, whole, slowest, of, prior)
            parts = (counts * found[:-2].reshape(-1, 3)[of]).sum(axis=2)
            said = parts.max(axis=1) + meetings @ found[-2:]
            error = float(np.mean(np.abs(said - seconds) / whole))
            if error < least:
                best, least = found, error
            if (parts.argmax(axis=1) == slowest).all():
                break
            slowest = parts.argmax(axis=1)
    edge, vertex, message = (tuple(map(float, column)) for column in best[:-2].reshape(-1, 3)[of].T)
    start, superstep = map(float, best[-2:])
    met = [run.supersteps for run in runs if not run.alone][-1]  # on a graph like that asked for
    around = _fit_around([run for run in runs if not run.alone])
    return Costs(edge, vertex, message, superstep, float(met), start, *around), least


def _fit_around(runs: Sequence[Measured]) -> tuple[float, float]:
    """What comes before and after a loop: in any case, and for each vertex of the graph."""
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
    """Coefficients of each kind of device, and of meetings, if these parts are the slowest."""
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
