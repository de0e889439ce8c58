"""What the parts of a graph cost: TOTEM's model with the terms that measurements ask for.

A part takes time for its edges, for its vertices, which every superstep that pulls passes over
whether they have work to do or not, and for the messages of its ghosts. The slowest part decides,
and each superstep costs a meeting of all devices whatever there is to do in it:

    t(p) = edges(p) · a + vertices(p) · b + messages(p) · c,    seconds = supersteps · d + max t(p)

That is the loop of a run; fields are spread before and collected after it, which no placement
changes much. Gharaibeh et al. have the edges and the messages (equations 1 and 2). The coefficients
are those of a device in its set: what a part does is not what a device alone does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evener.engine.partition_stats import PartitionStats

_ROUNDS = 10  # of fitting: which part is the slowest is known after two or three
_TRUST = 0.1  # in what is known of a device alone, against a measured run of the set


class Costs(NamedTuple):
    """Seconds for each edge, vertex and message of a part of each device, and for a superstep."""

    edge: tuple[float, ...]
    vertex: tuple[float, ...]
    message: tuple[float, ...]
    superstep: float
    supersteps: float  # of a run
    around: float = 0.0  # seconds before and after the loop, to spread fields and to collect them

    def loop_seconds(self, found: PartitionStats) -> float:
        """What the loop of a run takes."""
        return self.superstep * self.supersteps + float(self.part_seconds(found).max())

    def part_seconds(self, found: PartitionStats) -> np.ndarray:
        """What each part computes and sends."""
        return self.compute_seconds(found) + self.message_seconds(found)

    def compute_seconds(self, found: PartitionStats) -> np.ndarray:
        """What each part computes."""
        return found.edges * np.array(self.edge) + found.vertices * np.array(self.vertex)

    def message_seconds(self, found: PartitionStats) -> np.ndarray:
        """What each part sends and receives."""
        return messages_of(found) * np.array(self.message)

    @property
    def fixed_seconds(self) -> float:
        """What a run takes whatever its parts do."""
        return self.superstep * self.supersteps + self.around


class Measured(NamedTuple):
    """A run over parts that was timed: the loop, and what was around it.

    A device that had all of it met nobody: its supersteps are none.
    """

    stats: PartitionStats
    supersteps: int
    seconds: float
    around: float = 0.0
    alone: bool = False


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
    >>> from evener.engine.cost_model import Measured, fit
    >>> from evener.engine.partition_stats import measure_partition
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
    prior = [run.seconds / max(1, run.stats.edges.sum()) for run in runs if run.alone]
    edge_seconds = [prior[kind] for kind in of]
    counts = np.array([
        np.stack([run.stats.edges, run.stats.vertices, messages_of(run.stats)], axis=1)
        for run in runs
    ])  # fmt: skip
    supersteps = np.array([run.supersteps for run in runs])
    seconds = np.array([run.seconds for run in runs])
    # Which part is the slowest follows from the coefficients, and they from that: it begins with
    # what any one term alone says.
    speeds = np.array(edge_seconds) / max(edge_seconds)
    starts = [(counts[:, :, term] * speeds).argmax(axis=1) for term in range(3)]
    starts.append((counts / counts.max(axis=(0, 1)) * speeds[:, None]).sum(axis=2).argmax(axis=1))
    best, least = np.zeros(3 * len(kinds) + 1), np.inf
    for slowest in starts:
        for _ in range(_ROUNDS):
            found = _solve(counts, supersteps, seconds, slowest, of, prior)
            parts = (counts * found[:-1].reshape(-1, 3)[of]).sum(axis=2)
            said = parts.max(axis=1) + found[-1] * supersteps
            error = float(np.mean(np.abs(said - seconds) / seconds))
            if error < least:
                best, least = found, error
            if (parts.argmax(axis=1) == slowest).all():
                break
            slowest = parts.argmax(axis=1)
    edge, vertex, message = (tuple(map(float, column)) for column in best[:-1].reshape(-1, 3)[of].T)
    divided = [run for run in runs if not run.alone]
    around = float(np.median([run.around for run in divided]))
    met = float(divided[-1].supersteps)
    return Costs(edge, vertex, message, float(best[-1]), met, around), least


def _solve(
    counts: np.ndarray, supersteps: np.ndarray, seconds: np.ndarray, slowest: np.ndarray,
    of: list[int], prior: list[float],
) -> np.ndarray:  # fmt: skip
    """Coefficients of each kind of device, and of a superstep, if these parts are the slowest."""
    from scipy.optimize import nnls

    runs, kinds = len(seconds), len(prior)
    rows = np.zeros((runs + kinds, 3 * kinds + 1))
    for i, p in enumerate(slowest):
        rows[i, 3 * of[p] : 3 * of[p] + 3] = counts[i, p]
    rows[:runs, -1] = supersteps
    rows[:runs] /= seconds[:, None]
    for kind, one in enumerate(prior):
        rows[runs + kind, 3 * kind] = _TRUST / one
    wanted = np.concatenate([np.ones(runs), np.full(kinds, _TRUST)])
    scale = np.where(rows.any(axis=0), rows.max(axis=0), 1.0)
    return nnls(rows / scale, wanted)[0] / scale
