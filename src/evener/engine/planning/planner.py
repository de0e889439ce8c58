"""The planner: predicted costs of the placements of a graph on devices, by TOTEM's model.

The cost of a part is in `evener.engine.planning.cost_model`, with coefficients measured on the
device set. For a set that cannot be run, or that has interpreters, only the rates of its devices
and links are known (Gharaibeh et al., equations 1 and 2):

    t(p) = messages(p) · bytes ÷ link + edges(p) ÷ rate(p),    seconds = max over p of t(p)

Messages are counted after aggregation, a value for each ghost, times how often a program sends
one. The share α of the edges on the first CPU lets all parts end together, but is at least what
does not fit the other devices, and at most what fits the CPU. Interpreted parts take turns: their
times add up.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from evener.device import available_memory, format_bytes, num_threads
from evener.device.once import once
from evener.engine.codegen.analysis import pulls
from evener.engine.devices import Device
from evener.engine.memory.estimate import edge_bytes, estimate_memory
from evener.engine.partition.partitioners import PARTITIONERS, partition
from evener.engine.partition.stats import PartitionStats, measure_partition
from evener.engine.planning.calibrate import EDGES_MAPPED, Calibration, Workload
from evener.engine.planning.cost_model import Costs
from evener.errors import MemoryBudgetError
from evener.graph.csr import Graph

_STEPS = 6  # halvings in the search for the smallest and the largest α: to 1/64
_BALANCING, _EVEN = 2, 0.05  # steps of balancing, and the accepted imbalance
_METIS_ARCS = 4_000_000  # from here on METIS takes seconds: only by name


class Placement(NamedTuple):
    """A graph on devices, and the model's predictions for it.

    ``alpha`` is the share of the edges on the first CPU (without one: on the first device),
    ``alpha_min`` the least share that the memory of the others allows, ``beta`` the share of the
    edges between parts, ``beta_aggregated`` messages over edges; all None on one device.
    """

    devices: tuple[str, ...]
    partitioner: str | None
    alpha: float | None
    alpha_min: float | None
    beta: float | None
    beta_aggregated: float | None
    memory: tuple[int, ...]
    allowed: tuple[int, ...]
    compute_seconds: float
    communication_seconds: float
    mapped: bool = False  # the edges are in the host's memory, which the GPU reads
    parts: PartitionStats | None = None

    @property
    def seconds(self) -> float:
        """Predicted seconds of a run."""
        return self.compute_seconds + self.communication_seconds

    @property
    def fits(self) -> bool:
        """Whether each device has enough memory."""
        return all(need <= has for need, has in zip(self.memory, self.allowed, strict=True))


def plan(
    graph: Graph,
    devices: Sequence[Device],
    workload: Workload,
    *,
    partitioners: Iterable[str] | None = None,
    limits: Sequence[int | None] | None = None,
    calibration: Calibration | None = None,
) -> list[Placement]:
    """Every placement on a device set: each device alone, and the set by each partitioner.

    A GPU alone occurs twice: with the edges on the card, and in the host's memory.

    Parameters
    ----------
    graph
        The graph.
    devices
        The device set; a CPU without a number of threads gets its part of the cores.
    workload
        The program to run.
    partitioners
        Names, without options; by default all of them, METIS for graphs up to 4 M arcs.
    limits
        Bytes that each device may use, or None for what is free.
    calibration
        The rates; by default those of this machine, measured if they are not known.

    Examples
    --------
    >>> from evener import bfs, generate
    >>> from evener.engine.planning.calibrate import Workload
    >>> from evener.engine.planning.planner import choose, plan
    >>> from evener.engine.devices import Device
    >>> search = Workload("bfs", lambda graph, source, **where: bfs(graph, source, **where))
    >>> placements = plan(generate.path(9), [Device("python")] * 2, search, partitioners=["static"])
    >>> [(one.devices, one.beta) for one in placements]
    [(('python',), None), (('python', 'python'), 1.0)]
    >>> choose(placements).devices
    ('python',)
    """
    model = Model(graph, devices, workload, limits, calibration or Calibration())
    firsts = model.first_of_each_name()
    placements = [model.alone(p) for p in firsts]
    placements += [model.mapped(p) for p in firsts if devices[p].traits.is_card]
    if len(devices) > 1:
        chosen = _affordable(graph) if partitioners is None else partitioners
        placements += [model.divided(name) for name in chosen]
    return placements


def choose(placements: Sequence[Placement]) -> Placement:
    """The fastest placement, by the model, among those that fit."""
    fitting = [one for one in placements if one.fits]
    if not fitting:
        nearest = min(placements, key=_shortage)
        needs = ", ".join(
            f"{format_bytes(need)} on {name} with {format_bytes(has)}"
            for name, need, has in zip(
                nearest.devices, nearest.memory, nearest.allowed, strict=True
            )
        )
        raise MemoryBudgetError(
            f"the graph fits on no placement; the nearest needs {needs}: use more devices or a "
            "machine with more memory."
        )
    return min(fitting, key=lambda one: one.seconds)


def _shortage(one: Placement) -> float:
    """The largest ratio of needed to allowed memory."""
    return max(need / max(1, has) for need, has in zip(one.memory, one.allowed, strict=True))


def _affordable(graph: Graph) -> list[str]:
    metis = importlib.util.find_spec("pymetis") and graph.num_edges <= _METIS_ARCS
    return [name for name in PARTITIONERS if name != "metis" or metis]


class Model:
    """TOTEM's model of one graph, one program and one set of devices.

    Examples
    --------
    >>> from evener import bfs, generate
    >>> from evener.engine.planning.calibrate import Calibration, Workload
    >>> from evener.engine.planning.planner import Model
    >>> from evener.engine.devices import Device
    >>> search = Workload("bfs", lambda graph, source, **where: bfs(graph, source, **where))
    >>> model = Model(generate.star(9), [Device("python")] * 2, search, None, Calibration())
    >>> model.divided("high", 0.25).partitioner
    'high'
    """

    def __init__(
        self,
        graph: Graph,
        devices: Sequence[Device],
        workload: Workload,
        limits: Sequence[int | None] | None,
        calibration: Calibration,
    ):
        self.graph, self.workload, self.calibration = graph, workload, calibration
        self.edges = max(1, graph.num_edges)  # as rates count them: a run without any takes time
        self.devices, self.names = list(devices), [str(one) for one in devices]
        self.traffic = calibration.traffic(workload)
        self.pulls = pulls(self.traffic.declaration, "auto")
        self.take_turns = any(one.traits.takes_turns for one in devices)
        self.cpu = next((p for p, one in enumerate(devices) if one.traits.has_threads), 0)
        self.threads = _threads(devices)
        self.allowed = _allowed(devices, limits or [None] * len(devices))
        self.free = _allowed(devices, limits or [None] * len(devices), shared=False)
        self._measured: dict[tuple[Any, ...], PartitionStats] = {}

    def first_of_each_name(self) -> list[int]:
        """One device of each name: those of the same name are alike."""
        return [self.names.index(name) for name in dict.fromkeys(self.names)]

    def alone(self, p: int) -> Placement:
        """All of the graph on one device."""
        needed = estimate_memory(self.traffic.declaration, self.graph)
        device = self.devices[p]
        threads = device.number or num_threads() if device.traits.has_threads else 0
        seconds = self.edges / self.rate(device, threads)
        return Placement(
            (self.names[p],), None, None, None, None, None, tuple(needed), (self.free[p],),
            seconds, 0.0,
        )  # fmt: skip

    def mapped(self, p: int) -> Placement:
        """All of the graph on one GPU, which reads the edges from the host's memory."""
        declaration = self.traffic.declaration
        needed = estimate_memory(declaration, self.graph)[0] - edge_bytes(declaration, self.graph)
        name = f"{self.names[p]}{EDGES_MAPPED}"
        seconds = self.edges / self.calibration.rate(self.workload, name, self.graph)
        return self.alone(p)._replace(memory=(needed,), compute_seconds=seconds, mapped=True)

    def divided(self, name: str, alpha: float | None = None) -> Placement:
        """The graph over the whole set, at ``alpha`` or balanced as far as memory allows."""
        rates = self.rates()
        shares = rates / rates.sum()
        smallest = self.smallest_alpha(name, shares)
        if alpha is not None:
            stats = self.stats(name, shares, alpha)
        else:
            stats = self.balanced(name, shares, smallest)
            if not self.fits_on(stats, [self.cpu]):  # only now: the search divides the graph often
                largest = self.largest_alpha(name, shares, smallest)
                stats = self.balanced(name, shares, smallest, largest)
        spent, sent = self.seconds(stats)
        return Placement(
            tuple(self.names), name, float(stats.edge_shares[self.cpu]), smallest, stats.beta,
            stats.beta_aggregated, tuple(self.memory(stats)), tuple(self.allowed), spent, sent,
            parts=stats,
        )  # fmt: skip

    def rates(self) -> np.ndarray:
        """Edges a second of each part. CPU parts share the rate of all their threads."""
        rates = np.empty(len(self.devices))
        together = sum(self.threads)
        for p, (device, threads) in enumerate(zip(self.devices, self.threads, strict=True)):
            rates[p] = self.rate(device, together)
            if device.traits.has_threads:
                rates[p] *= threads / together
        return rates

    def rate(self, device: Device, threads: int) -> float:
        """Edges a second of one device, a CPU with ``threads`` threads."""
        name = f"{device.kind}:{threads}" if device.traits.has_threads else str(device)
        return self.calibration.rate(self.workload, name, self.graph)

    def stats(self, name: str, shares: np.ndarray, alpha: float) -> PartitionStats:
        """The statistics of a partition, kept because making one takes as long as many runs."""
        how = f"{name}:alpha={float(alpha)!r}"
        key = (how, *shares)
        if key not in self._measured:
            part_of = partition(self.graph, how, shares.tolist(), cpu=self.cpu)
            k = len(self.devices)
            self._measured[key] = measure_partition(self.graph, part_of, k, pulls=self.pulls)
        return self._measured[key]

    def memory(self, stats: PartitionStats) -> list[int]:
        """Bytes that each part needs."""
        return estimate_memory(self.traffic.declaration, self.graph, "auto", stats)

    def fits_on(self, stats: PartitionStats, parts: Iterable[int]) -> bool:
        """Whether these parts fit their memory."""
        needed = self.memory(stats)
        return all(needed[p] <= self.allowed[p] for p in parts)

    @once
    def costs(self) -> Costs:
        """The costs of parts: as measured on the set, or by the rates of devices and links."""
        rates = self.rates()
        if len(self.devices) > 1 and not self.take_turns:
            names = [
                f"{device.kind}:{threads}" if threads else str(device)
                for device, threads in zip(self.devices, self.threads, strict=True)
            ]
            costs = self.calibration.costs(self.workload, names, self.graph, rates)
            if costs is not None:
                return costs
        nbytes = self.traffic.values * self.traffic.nbytes
        slowest = [
            max(nbytes / self.calibration.link(one, other) for other in self.names)
            for one in self.names
        ]
        return Costs(tuple(1 / rates), (0.0,) * len(rates), tuple(slowest), 0.0, 0.0)

    def seconds(self, stats: PartitionStats) -> tuple[float, float]:
        """Seconds of the slowest part: computation, and communication with synchronization."""
        compute, communicate = self.costs.compute_seconds(stats), self.costs.message_seconds(stats)
        fixed = self.costs.fixed_seconds(stats)
        if self.take_turns:
            return float(compute.sum()), float(communicate.sum()) + fixed
        slowest = int(np.argmax(compute + communicate))
        return float(compute[slowest]), float(communicate[slowest]) + fixed

    def balanced(
        self, name: str, shares: np.ndarray, smallest: float, largest: float = 1.0
    ) -> PartitionStats:
        """A partition where the first CPU ends with the others, as far as memory allows."""
        alpha = min(max(float(shares[self.cpu]), smallest), largest)
        best = self.stats(name, shares, alpha)
        stats = best
        for _ in range(_BALANCING):
            parts = self.costs.part_seconds(stats)
            others = max(float(parts[p]) for p in range(len(parts)) if p != self.cpu)
            apart = float(parts[self.cpu]) / max(others, 1e-12)
            if self.take_turns or abs(apart - 1) < _EVEN:
                break
            # This assumes that the time of a part is proportional to its share.
            even = alpha / (alpha + (1 - alpha) * apart) if 0 < alpha < 1 else alpha
            alpha = min(max(smallest, even), largest)
            stats = self.stats(name, shares, alpha)
            best = min(best, stats, key=lambda one: sum(self.seconds(one)))
        return best

    def smallest_alpha(self, name: str, shares: np.ndarray, steps: int = _STEPS) -> float:
        """The least share of the first CPU at which the rest fits the other devices."""
        k = len(self.devices)
        others = [p for p in range(k) if p != self.cpu]
        whole = estimate_memory(self.traffic.declaration, self.graph)[0]
        # A ghost takes less than a vertex, except for its slots in boxes: two in each direction.
        if all(self.allowed[p] > 8 * k * whole for p in others):
            return 0.0

        def fit(alpha: float) -> bool:
            return self.fits_on(self.stats(name, shares, alpha), others)

        if fit(0.0):
            return 0.0
        low, high = 0.0, 1.0
        for _ in range(steps):
            middle = (low + high) / 2
            low, high = (low, middle) if fit(middle) else (middle, high)
        return high

    def largest_alpha(
        self, name: str, shares: np.ndarray, smallest: float, steps: int = _STEPS
    ) -> float:
        """The largest share that fits the first CPU, but not below the smallest."""

        def fit(alpha: float) -> bool:
            return self.fits_on(self.stats(name, shares, alpha), [self.cpu])

        if not fit(smallest):
            return smallest
        low, high = smallest, 1.0
        for _ in range(steps):
            middle = (low + high) / 2
            low, high = (middle, high) if fit(middle) else (low, middle)
        return low


def _threads(devices: Sequence[Device]) -> list[int]:
    """Threads of each CPU part: its number, or its share of the remaining cores."""
    unnumbered = sum(one.traits.has_threads and one.number is None for one in devices)
    numbered = sum(one.number or 0 for one in devices if one.traits.has_threads)
    each = max(1, (num_threads() - numbered) // unnumbered) if unnumbered else 0
    return [(one.number or each) if one.traits.has_threads else 0 for one in devices]


def _allowed(
    devices: Sequence[Device], limits: Sequence[int | None], *, shared: bool = True
) -> list[int]:
    """Bytes for each part: its share of the free memory, within its limit."""
    places = [str(one) if one.traits.is_card else "host" for one in devices]
    allowed: list[int] = []
    for place, one, limit in zip(places, devices, limits, strict=True):
        free = available_memory() if place == "host" else _gpu_memory(one.number or 0)
        each = free // (places.count(place) if shared else 1)
        allowed.append(each if limit is None else min(each, limit))
    return allowed


def _gpu_memory(ordinal: int) -> int:
    from evener.device.cuda import free_memory, on

    with on(ordinal):
        return int(free_memory())


def as_dict(one: Placement) -> dict[str, Any]:
    """A placement as plain numbers and lists."""
    return {
        "devices": list(one.devices),
        "edges_mapped": one.mapped,
        "partitioner": one.partitioner,
        "alpha": one.alpha,
        "alpha_min": one.alpha_min,
        "beta": one.beta,
        "beta_aggregated": one.beta_aggregated,
        "memory_bytes": list(one.memory),
        "allowed_bytes": list(one.allowed),
        "fits": one.fits,
        "parts": None if one.parts is None else one.parts.as_dict(),
        "seconds": one.seconds,
        "compute_seconds": one.compute_seconds,
        "communication_seconds": one.communication_seconds,
    }
