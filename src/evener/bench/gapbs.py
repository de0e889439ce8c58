"""GAPBS, the C++ reference for graph kernels, run on the same graph and sources.

Its programs read a serialized graph (``.sg``, with weights ``.wsg``): a byte for directed or not,
the numbers of arcs and vertices and the row starts (all 64-bit), then 32-bit neighbours, each
followed by its weight in a ``.wsg``; for directed graphs the in-arcs follow in the same form. The
programs time their trials themselves, without startup and loading.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evener.bench.cases import BC_SOURCES, ITERATIONS, Algorithm
from evener.bench.contenders import Skipped, Timing, Trial
from evener.bench.findings import Finding
from evener.errors import EvenerError
from evener.graph.csr import Graph

PROGRAMS = {"bfs": "bfs", "sssp": "sssp", "pagerank": "pr", "cc": "cc", "bc": "bc"}
DELTAS = (4, 16, 64, 256, 1024)  # tried first; then half and twice the best until neither is better

_TRIAL = re.compile(r"^Trial Time:\s+([\d.]+)", re.MULTILINE)
_SOURCE = re.compile(r"^\s*Source:?\s+(\d+)", re.MULTILINE)
_TOP = re.compile(r"^(\d+):([\d.e+-]+)$", re.MULTILINE)
_COUNTS = {
    "reached": re.compile(r"Tree (?:has|reaches) (\d+) nodes"),
    "components": re.compile(r"There are (\d+) components"),
}


def write_serialized(graph: Graph, path: Path) -> None:
    """Write a graph in the serialized form of GAPBS, with weights if the suffix is ``.wsg``.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.bench.gapbs import write_serialized
    >>> write_serialized(ev.generate.path(3), tmp_path / "path.sg")
    >>> (tmp_path / "path.sg").stat().st_size
    65
    """
    with_weights = path.suffix == ".wsg"
    if with_weights and (graph.weights is None or graph.weights.dtype != np.int32):
        raise Skipped("GAPBS takes only 32-bit integer weights")
    with open(path, "wb") as file:
        file.write(struct.pack("<?qq", graph.directed, graph.num_edges, graph.num_vertices))
        for rows in (graph, graph.transpose()) if graph.directed else (graph,):
            rows.indptr.astype("<i8").tofile(file)
            ends = rows.indices.astype("<i4", copy=False)
            if with_weights:
                assert rows.weights is not None
                ends = np.column_stack((ends, rows.weights))
            ends.tofile(file)


def trial_times(output: str) -> list[float]:
    """The seconds of each trial in the output of a GAPBS program.

    Examples
    --------
    >>> from evener.bench.gapbs import trial_times
    >>> trial_times("Read Time: 0.1\\nTrial Time:          0.00512\\nAverage Time: 0.00512")
    [0.00512]
    """
    return [float(seconds) for seconds in _TRIAL.findall(output)]


def findings(output: str, sources: Sequence[int]) -> Finding:
    """The finding in the output of a GAPBS program that ran with ``-a``.

    Examples
    --------
    >>> from evener.bench.gapbs import findings
    >>> findings("SSSP Tree reaches 12 nodes", [3])
    {'reached': 12}
    """
    found: Finding = {}
    for name, pattern in _COUNTS.items():
        match = pattern.search(output)
        if match:
            found[name] = int(match[1])
    if "components" not in found:  # cc lists component sizes in the same format
        top = [int(vertex) for vertex, _ in _TOP.findall(output) if int(vertex) not in sources]
        if top:
            found["top"] = top[0]
    return found


def check_build(folder: Path) -> None:
    """Refuse a folder in which a GAPBS program is missing."""
    for program in PROGRAMS.values():
        if not os.access(folder / program, os.X_OK):
            raise EvenerError(
                f"{folder} has no program {program!r}; --gapbs takes the folder of a built GAPBS."
            )


class Gapbs:
    """A build of GAPBS on one graph."""

    name = "GAPBS"
    budget_s: float | None = None

    def __init__(self, folder: Path, graph: Graph, scratch: Path, threads: int):
        check_build(folder)
        self.folder, self.graph, self.scratch = folder, graph, scratch
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self._facts: dict[str, Any] = {}

    def prepare(self, algorithm: Algorithm) -> Trial:
        """Return a trial; for shortest paths, first find the best bucket width."""
        self._facts = {}
        if algorithm.name == "sssp":
            self._facts["delta"] = self._best_delta()
        return lambda sources: self._trial(algorithm.name, sources)

    def facts(self) -> dict[str, Any]:
        """The bucket width."""
        return self._facts

    def sources_of_bc(self) -> list[int]:
        """The sources of its betweenness: it draws several itself, or accepts only one."""
        output = self._output("bc", ["-i", str(BC_SOURCES), "-n", "1", "-l"])
        return [int(source) for source in _SOURCE.findall(output)][:BC_SOURCES]

    def _trial(self, name: str, sources: Sequence[int]) -> Timing:
        output = self._output(name, [*self._options(name, sources), "-a"])
        seconds = trial_times(output)[-1]
        found = findings(output, sources if name == "bc" else ())
        if name == "bc" and "nan" in output:  # the path counts overflowed
            found = {}
        return Timing(seconds, seconds, found)

    def _options(self, name: str, sources: Sequence[int]) -> list[str]:
        if name == "pagerank":
            return ["-i", str(ITERATIONS), "-t", "0", "-n", "1"]
        if name == "bc":
            return ["-i", str(BC_SOURCES), "-n", "1"]
        # The first of two trials warms up: it starts the threads.
        options = ["-n", "2"]
        if sources:
            options += ["-r", str(sources[0])]
        if name == "sssp":
            options += ["-d", str(self._facts["delta"])]
        return options

    def _output(self, name: str, options: list[str]) -> str:
        program = self.folder / PROGRAMS[name]
        path = self.scratch / ("graph.wsg" if name == "sssp" else "graph.sg")
        if not path.exists():
            write_serialized(self.graph, path)
        run = subprocess.run(
            [program, "-f", path, *options],
            capture_output=True, text=True, check=False, env=self.environment,
        )  # fmt: skip
        if run.returncode or not trial_times(run.stdout):
            last = (run.stderr.strip() or run.stdout.strip() or "no output").splitlines()[-1]
            raise EvenerError(f"{program} failed with code {run.returncode}: {last}")
        return run.stdout

    def _best_delta(self) -> int:
        source = int(self.graph.degrees.argmax())
        seconds: dict[int, float] = {}

        def measure(delta: int) -> None:
            output = self._output("sssp", ["-n", "2", "-r", str(source), "-d", str(delta)])
            seconds[delta] = min(trial_times(output))

        for delta in DELTAS:
            measure(delta)
        while True:
            best = min(seconds, key=seconds.__getitem__)
            untried = {max(best // 2, 1), best * 2} - seconds.keys()
            if not untried:
                return best
            for delta in untried:
                measure(delta)
