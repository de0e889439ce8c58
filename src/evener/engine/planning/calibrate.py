"""Rates of programs and links on this machine, measured once and stored on disk.

A rate is the edges of the graph over the seconds of a whole run, so it includes how often a program
visits an edge. A run takes time per edge, time per vertex and a fixed time. Runs on graphs of the
same kind (skewed, even, a lattice) and, as far as a second or two allows, of the same size separate
them. The costs of parts on a device set (`evener.engine.planning.cost_model`) come from runs of the
set over a few partitions.
"""

from __future__ import annotations

import contextlib
import functools
import json
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from evener.device import num_cores
from evener.device.kept_files import load_bytes, save_bytes
from evener.engine.codegen.analysis import pulls
from evener.engine.devices import Kind, named_devices
from evener.engine.measurement_keys import code_of, kind_of_graph, this_machine
from evener.engine.memory.edges import edges_mapped
from evener.engine.partition.partitioners import partition
from evener.engine.partition.stats import measure_partition
from evener.engine.planning.cost_model import Costs, Measured, fit
from evener.engine.results.result import Result
from evener.errors import EvenerError
from evener.graph import generate
from evener.graph.csr import Graph
from evener.programs.program import Declaration

EDGES_MAPPED = ", edges mapped"  # suffix of a GPU that reads them from the host's memory
_THIN, _LARGEST_THIN = 4, (20, 22)  # edges for each vertex; scale with few cores, and with many
_MANY_CORES = 8
_SMALL = 7  # scale of the graph on which exchanges are counted
_FEW = 8  # scale of the graph whose supersteps have almost no work
_TIMES, _ENOUGH_SECONDS = 3, 0.3  # at least: runs, and their seconds in total
_TIMES_OF_SETS, _FEW_SECONDS = 8, 0.05  # the same for each of several partitions


class Workload(NamedTuple):
    """A program to plan: its name, and a call that runs it on any graph from some vertex."""

    name: str
    call: Callable[..., Result]  # (graph, source index, device=…)


class Traffic(NamedTuple):
    """What a program sends: values per ghost in a run, bytes of a value; its declaration."""

    values: float
    nbytes: float
    declaration: Declaration


class Calibration:
    """Rates of this machine, looked up or measured on first use.

    ``again`` discards earlier measurements. Without ``sets`` no device sets are run, whose kernels
    take long to compile.
    """

    def __init__(self, *, again: bool = False, sets: bool = True) -> None:
        self._sets = sets
        self._name = f"rates-{this_machine()}.json"
        kept = None if again else load_bytes(self._name)
        self._known: dict[str, Any] = json.loads(kept or b"{}")
        self._traffic: dict[str, Traffic] = {}

    def rate(self, workload: Workload, device: str, like: Graph) -> float:
        """Edges a second of a program on one device, on a graph like this one and of its size."""
        scale = _scale(like, _largest(_traits(device)))
        edge, vertex, fixed = self._terms(workload, device, like, scale)
        m = max(1, like.num_edges)
        grown = self.growth(workload, device, like, scale)
        return m / (fixed + grown * (edge * m + vertex * like.num_vertices))

    def _terms(
        self, workload: Workload, device: str, like: Graph, scale: int
    ) -> tuple[float, float, float]:
        """Seconds for an edge, for a vertex, and independent of the size of a graph.

        A search visits few of many edges, so a graph with fewer edges per vertex shows the time for
        a vertex. A small graph shows the fixed time.
        """
        m, n, spent = self._spent(workload, device, like, scale)
        if kind_of_graph(like) == "lattice" or _factor(like) <= _THIN:
            fixed = self._fixed(workload, device, like, scale, spent)
            return (spent - fixed) / m, 0.0, fixed
        few, _, less = self._spent(workload, device, like, scale, _THIN)
        fixed = self._fixed(workload, device, like, scale, min(spent, less))
        edge = min(max(0.0, (spent - less) / (m - few)), (spent - fixed) / m)
        return edge, (spent - fixed - edge * m) / n, fixed

    def _fixed(
        self, workload: Workload, device: str, like: Graph, scale: int, spent: float
    ) -> float:
        """The part of the ``spent`` seconds that does not depend on the size of a graph."""
        if scale <= 2 * _FEW:
            return 0.0
        return min(self._spent(workload, device, like, _FEW)[2], 0.9 * spent)

    def _spent(
        self, workload: Workload, device: str, like: Graph, scale: int, factor: int = 0
    ) -> tuple[int, int, float]:
        """Edges and vertices of an example, and the seconds of a run on it."""
        key = f"{self._key(workload, device, like, scale)}{f', {factor}' if factor else ''}"
        if key not in self._known:
            graph = _example(like, scale, factor)
            taken = _seconds(workload, device, graph)
            self._keep(key, (max(1, graph.num_edges), graph.num_vertices, taken))
        m, n, seconds = self._known[key]
        return m, n, seconds

    def costs(
        self, workload: Workload, names: Sequence[str], like: Graph, rates: np.ndarray
    ) -> Costs | None:
        """What parts of such graphs cost on a device set; None if the set is not run.

        ``rates`` are the edges a second of each device, for shares that take equally long.
        """
        # On smaller graphs GPUs and many cores mostly wait.
        scale = _scale(like, max(_traits(name).example_scale for name in names))
        key = self._key(workload, "+".join(names), like, scale)
        if key not in self._known:
            if not self._sets:
                return None
            pulled = pulls(self.traffic(workload).declaration, "auto")
            try:
                runs = _timed_runs(workload, names, like, scale, rates, pulled)
            except EvenerError:
                return None
            self._keep(key, fit(runs, names)[0])
        kept = self._known[key]  # files turn tuples into lists
        costs = Costs(tuple(kept[0]), tuple(kept[1]), tuple(kept[2]), *kept[3:])
        larger = np.array([self.growth(workload, name, like, scale) for name in names])
        edge, vertex, message = (tuple((larger * one).tolist()) for one in costs[:3])
        costs = costs._replace(edge=edge, vertex=vertex, message=message)
        # Supersteps do not grow with a graph unless its diameter does.
        is_lattice = kind_of_graph(like) == "lattice"
        longer = max(1.0, like.num_vertices / 2.0**scale) ** 0.5 if is_lattice else 1
        return costs._replace(supersteps=costs.supersteps * longer)

    def growth(self, workload: Workload, device: str, like: Graph, scale: int) -> float:
        """How many times as long a CPU takes per edge of this graph as at that scale.

        The caches hold less of a larger graph. The ratio comes from two graphs with few edges, the
        larger one as large as a second allows.
        """
        if not _traits(device).has_threads or kind_of_graph(like) == "lattice":
            return 1.0
        larger = _scale(like, _largest_thin())
        if larger <= scale:
            return 1.0
        spent = [self._spent(workload, device, like, size, _THIN) for size in (scale, larger)]
        fixed = self._fixed(workload, device, like, scale, min(seconds for _, _, seconds in spent))
        each = [(seconds - fixed) / m for m, _, seconds in spent]
        return max(1.0, each[1] / each[0])

    def _key(self, workload: Workload, device: str, like: Graph, scale: int) -> str:
        code = code_of(self.traffic(workload).declaration)
        towards = "directed" if like.directed else "undirected"
        # Programs may need weights, and kernels depend on their dtype.
        weights = "unweighted" if like._weights is None else str(like._weights.dtype)
        kind = f"{kind_of_graph(like)} {scale}×{_factor(like)} {towards} {weights}"
        return f"{workload.name} {code} on {device}: {kind}"

    def link(self, one: str, other: str) -> float:
        """Bytes a second between two devices."""
        gpus = [name for name in (one, other) if _traits(name).is_card]
        if not gpus:
            return self._measured("link host", _host_rate)
        # From one GPU to another a value passes through the host.
        rates = [
            self._measured(f"link {name}", functools.partial(_gpu_rate, name)) for name in gpus
        ]
        return 1 / sum(1 / rate for rate in rates)

    def traffic(self, workload: Workload) -> Traffic:
        """What a program sends, counted in a reference run of two parts."""
        if workload.name not in self._traffic:
            graph = generate.rmat(_SMALL, 8, seed=1, weights=(1, 9))
            result = _run(workload, "python+python", graph)
            declaration = result._declaration
            assert declaration is not None
            sizes = [np.asarray(getattr(result, name)).itemsize for name in result._fields]
            ghosts = sum(result.stats["ghosts"])
            self._traffic[workload.name] = Traffic(
                result.stats["exchanged"] / max(1, ghosts),
                float(np.mean(sizes or [8])) + graph._indices.itemsize,
                declaration,
            )
        return self._traffic[workload.name]

    def _measured(self, key: str, measure: Callable[[], float]) -> float:
        if key not in self._known:
            self._keep(key, measure())
        return self._known[key]

    def _keep(self, key: str, value: Any) -> None:
        self._known[key] = value
        content = json.dumps(self._known, indent=1, ensure_ascii=False)
        save_bytes(self._name, content.encode())


def _factor(graph: Graph) -> int:
    """Edges per vertex of the example: 2, 4, 8, 16 or 32, whichever is nearest."""
    mean = graph.degree_spread()[1] / (1 if graph.directed else 2)
    return 1 << min(5, max(1, round(np.log2(max(mean, 1)))))


def _traits(device: str) -> Kind:
    """The traits of a device, by the name under which it is measured."""
    return named_devices(device.removesuffix(EDGES_MAPPED))[0].traits


def _largest(kind: Kind) -> int:
    """The scale of the largest example for a kind of device."""
    # On small graphs many cores mostly wait for each other.
    return kind.example_scale + 2 * (kind.has_threads and num_cores() >= _MANY_CORES)


def _largest_thin() -> int:
    """The scale of the largest example with few edges."""
    return _LARGEST_THIN[num_cores() >= _MANY_CORES]


def _scale(graph: Graph, largest: int) -> int:
    return min(largest, max(4, round(np.log2(max(2, graph.num_vertices)))))


def _example(like: Graph, scale: int, factor: int = 0) -> Graph:
    kind, factor = kind_of_graph(like), factor or _factor(like)
    options: dict[str, Any] = {"seed": 1, "weights": (1, 255)}
    if kind == "lattice":
        graph = generate.grid(1 << (scale // 2), 1 << (scale - scale // 2), **options)
    else:
        options["directed"] = like.directed
        make = generate.rmat if kind == "skewed" else generate.uniform
        graph = make(scale, factor, **options)
    weights = None  # as in the graph: kernels are compiled for what it has
    if like._weights is not None and graph._weights is not None:
        weights = graph._weights.astype(like._weights.dtype)
    return Graph(graph._indptr, graph._indices, weights, directed=like.directed)


def _run(workload: Workload, device: str, graph: Graph, **options: Any) -> Result:
    name = device.removesuffix(EDGES_MAPPED)
    where = contextlib.nullcontext() if name == device else edges_mapped()
    with warnings.catch_warnings(), where:
        warnings.simplefilter("ignore")  # of answers that have not converged
        return workload.call(graph, int(np.argmax(graph.degrees)), device=name, **options)


def _seconds(workload: Workload, device: str, graph: Graph, *, of_loop: bool = False) -> float:
    """Seconds of the fastest run after one that compiles: other work only slows runs."""
    _run(workload, device, graph)
    spent: list[float] = []
    while len(spent) < _TIMES or (sum(spent) < _ENOUGH_SECONDS and len(spent) < 100):
        result = _run(workload, device, graph)
        spent.append(loop_seconds(result) if of_loop else result.stats["run_seconds"])
    return max(1e-7, min(spent))


def loop_seconds(result: Result) -> float:
    """Seconds of the loop of a run; on a CPU alone it is nearly all of a run."""
    stats = result.stats
    alone = stats.get("device_seconds", stats["run_seconds"])
    return float(stats.get("loop_seconds", alone))


def _timed_runs(
    workload: Workload, names: Sequence[str], like: Graph, scale: int, rates: np.ndarray,
    pulled: bool,
) -> list[Measured]:  # fmt: skip
    """Runs of a set over partitions whose edges, vertices and ghosts vary independently.

    One graph is so small that its run takes the time to begin and to synchronize. Two others are
    divided at the share of the first CPU that the rates suggest, and at a larger one: one like the
    graph, and one with fewer edges but more vertices, which shows the time of messages. Each device
    runs the former alone, once.
    """
    k, device = len(names), "+".join(names)
    shares = rates / rates.sum()
    cpu = next((p for p, name in enumerate(names) if _traits(name).has_threads), 0)
    even = float(shares[cpu])
    more = (1 + even) / 2
    small, large = _example(like, _FEW), _example(like, scale)
    wide = _example(like, max(scale, _scale(like, _largest_thin())), _THIN)
    designs = [
        (small, "random", even),
        (wide, "high", even), (wide, "low", even), (wide, "random", more),
        (large, "random", even), (large, "high", more), (large, "random", more),
    ]  # fmt: skip
    runs = []
    for graph, name, alpha in designs:
        part_of = partition(graph, f"{name}:alpha={alpha!r}", shares.tolist(), cpu=cpu)
        runs.append(_timed_run(workload, device, graph, part_of, k, pulled))
    for name in dict.fromkeys(names):
        whole = np.full(large.num_vertices, names.index(name), np.int32)
        stats = measure_partition(large, whole, k, pulls=pulled)
        spent = _seconds(workload, name, large, of_loop=True)
        start = 0.0 if scale <= 2 * _FEW else _seconds(workload, name, small, of_loop=True)
        runs.append(Measured(stats, 0, spent, alone=True, start=start))
    return runs


def _timed_run(
    workload: Workload, device: str, graph: Graph, part_of: np.ndarray, k: int, pulled: bool
) -> Measured:
    """The fastest of some runs over one partition, after one that divides and compiles."""
    partitioner = functools.partial(_constant, part_of)
    first = _run(workload, device, graph, partition=partitioner)
    loops: list[float] = []
    arounds: list[float] = []
    while len(loops) < _TIMES_OF_SETS or (sum(loops) < _FEW_SECONDS and len(loops) < 30):
        result = _run(workload, device, graph, partition=partitioner)
        loops.append(loop_seconds(result))
        arounds.append(result.stats["run_seconds"] - loops[-1])
        if sum(loops) > _ENOUGH_SECONDS:
            break
    stats = measure_partition(graph, part_of, k, pulls=pulled)
    return Measured(stats, first.stats["supersteps"], max(1e-7, min(loops)), min(arounds))


def _constant(part_of: np.ndarray, graph: Graph, shares: Sequence[float]) -> np.ndarray:
    """A partitioner that returns ``part_of``."""
    return part_of


def _host_rate() -> float:
    from evener.device.link_speed import host_rate

    return host_rate()


def _gpu_rate(name: str) -> float:
    from evener.device.link_speed import gpu_rate

    return gpu_rate(int(name.partition(":")[2] or 0))
