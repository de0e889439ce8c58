"""The benchmark: algorithms × graphs × contenders, which take turns trial by trial."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evener import progress
from evener.bench.cases import (
    BC_SOURCES,
    Algorithm,
    check_graph,
    choose_sources,
    make_graph,
    reached_arcs,
    spec_of,
)
from evener.bench.contenders import Contender, Evener, Skipped, Timing, Trial
from evener.bench.findings import Finding, agree
from evener.bench.gapbs import Gapbs, check_build
from evener.bench.harness import preamble, summary, timed
from evener.bench.peers import PEERS, Peer, versions_of_peers
from evener.device import num_threads
from evener.engine.devices import choose_devices
from evener.errors import EvenerError
from evener.graph.csr import Graph
from evener.graph.generate.common import seed_of


class Options(NamedTuple):
    """What to measure."""

    algorithms: Sequence[Algorithm]
    graphs: Sequence[str]
    devices: Sequence[str] = ("cpu",)
    trials: int = 8
    sources: int = 4
    seed: int = 1
    peers: bool = False
    gapbs: Path | None = None


def run_matrix(options: Options, say: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Measure every case; returns the content of a results file.

    Parameters
    ----------
    options
        What to measure.
    say
        Called with a line of progress after each case.

    Examples
    --------
    >>> from evener.bench.cases import parse_algorithms
    >>> from evener.bench.matrix import Options, run_matrix
    >>> results = run_matrix(Options(parse_algorithms("bfs"), ["kron6"], trials=2, sources=1))
    >>> [(cell["contender"], cell["trials"]) for cell in results["cells"]]
    [('evener cpu', 2)]
    """
    for name in ("trials", "sources"):
        if getattr(options, name) < 1:
            raise EvenerError(f"{name} is {getattr(options, name)}; it must be at least 1.")
    seed_of(options.seed, low=0)  # checked before any graph is made
    threads = [_threads_of(device) for device in options.devices]
    for name in options.graphs:
        check_graph(name, options.seed)
    if options.gapbs is not None:
        check_build(options.gapbs)
    results = preamble("algorithms", options.seed)
    if options.peers:
        results["versions"] |= versions_of_peers()
    results |= {"threads": threads[0], "trials": options.trials, "graphs": []}
    results |= {"cells": [], "skipped": []}
    for name in options.graphs:
        with tempfile.TemporaryDirectory(prefix="evener-bench-") as scratch:
            _measure_graph(name, options, Path(scratch), results, say)
    return results


def _threads_of(device: str) -> int:
    """The number of threads of a device; other contenders use the same number."""
    first = choose_devices(device)[0][0]
    return first.number if first.kind == "cpu" and first.number else num_threads()


def _measure_graph(
    name: str, options: Options, scratch: Path, results: dict[str, Any], say: Callable[[str], None]
) -> None:
    seconds, graph = timed(lambda: make_graph(name, options.seed))
    sources = choose_sources(graph, max(options.sources, BC_SOURCES), options.seed)
    results["graphs"].append(
        {
            "name": name, "spec": spec_of(name, options.seed), "vertices": graph.num_vertices,
            "arcs": graph.num_edges, "directed": graph.directed, "load_s": round(seconds, 4),
            "sources": sources[: options.sources],
        }
    )  # fmt: skip
    say(f"{name}: {graph.num_vertices:,} vertices, {graph.num_edges:,} arcs in {seconds:.2f} s")
    contenders, gapbs = _contenders(graph, options, scratch, results["threads"])
    for algorithm in options.algorithms:
        groups: list[list[int]] = [[]]
        if algorithm.sources == 1:
            groups = [[source] for source in sources[: options.sources]]
        elif algorithm.sources:
            groups = [gapbs.sources_of_bc() if gapbs else sources[: algorithm.sources]]
        with progress.task(f"measuring {algorithm.name} on {name}"):
            cells, skipped = measure(graph, algorithm, contenders, groups, options.trials)
        place = {"graph": name, "algorithm": algorithm.name}
        results["cells"] += [{**place, **cell} for cell in cells]
        results["skipped"] += [{**place, **line} for line in skipped]
        times = [f"{cell['contender']} {cell['run']['median_s']:.4g} s" for cell in cells]
        say(f"{name} {algorithm.name}: {', '.join(times)}")


def _contenders(
    graph: Graph, options: Options, scratch: Path, threads: int
) -> tuple[list[Contender], Gapbs | None]:
    contenders: list[Contender] = [Evener(graph, device) for device in options.devices]
    gapbs = None
    if options.gapbs is not None:
        gapbs = Gapbs(options.gapbs, graph, scratch, threads)
        contenders.append(gapbs)
    if options.peers:
        contenders += [Peer(adapter, graph, threads) for adapter in PEERS]
    return contenders, gapbs


class _Turn:
    """The trials of one contender."""

    def __init__(self, contender: Contender, trial: Trial, first: Timing, trials: int):
        self.contender, self.trial = contender, trial
        self.timings: list[Timing] = []
        self.agrees: list[bool] = []
        self.trials, budget = trials, contender.budget_s
        if budget is not None:
            self.trials = min(trials, int(budget / max(first.wall_s, 1e-9)))
            if self.trials == 0:  # too slow for another trial, and for warming up to matter
                self.timings.append(first)

    def take(self, number: int, group: Sequence[int]) -> Timing | None:
        """Run trial ``number``; None if the contender has no trials left."""
        if len(self.timings) <= number < self.trials:
            self.timings.append(self.trial(group))
        return self.timings[number] if number < len(self.timings) else None


def measure(
    graph: Graph,
    algorithm: Algorithm,
    contenders: Sequence[Contender],
    groups: Sequence[Sequence[int]],
    trials: int,
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Measure one algorithm on one graph; the trials rotate through the groups of sources."""
    turns: list[_Turn] = []
    skipped = []
    for contender in contenders:
        try:
            trial = contender.prepare(algorithm)
            turns.append(_Turn(contender, trial, trial(groups[0]), trials))
        except Skipped as reason:
            skipped.append({"contender": contender.name, "why": str(reason)})
    for number in range(trials):
        group = groups[number % len(groups)]
        ours: Finding = {}
        for turn in turns:
            timing = turn.take(number, group)
            if timing is None:
                continue
            if isinstance(turn.contender, Evener):
                ours = ours or timing.finding
            else:
                same = agree(ours, timing.finding)
                turn.agrees += [] if same is None else [same]
    reached = reached_arcs(graph, [source for group in groups for source in group])
    mean = sum(reached.values()) / len(groups)
    arcs = algorithm.arcs(graph, int(mean))
    sources = [list(group) for group in groups]
    return [_cell(turn, turns[0], arcs, sources) for turn in turns], skipped


def _cell(turn: _Turn, ours: _Turn, arcs: float, groups: list[list[int]]) -> dict[str, Any]:
    run = [timing.run_s for timing in turn.timings]
    wall = [timing.wall_s for timing in turn.timings]
    cell: dict[str, Any] = {
        "contender": turn.contender.name,
        "trials": len(run),
        "run": summary(run),
        "wall": summary(wall),
        "arcs": int(arcs),
        "arcs_per_second": round(arcs / max(summary(run)["median_s"], 1e-9)),
        "sources": groups,
        "run_s": [round(seconds, 7) for seconds in run],
        **turn.contender.facts(),
    }
    if turn is not ours:
        theirs = max(summary(run)["median_s"], 1e-9)  # times on tiny graphs may round to 0
        for name, seconds in (("ratio", "run_s"), ("ratio_wall", "wall_s")):
            mine = summary([getattr(timing, seconds) for timing in ours.timings])["median_s"]
            cell[name] = round(mine / theirs, 4)
    if not isinstance(turn.contender, Evener):
        cell["agrees"] = all(turn.agrees) if turn.agrees else None
    return cell
