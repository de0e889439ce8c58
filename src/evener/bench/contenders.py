"""Contenders of the benchmark: Evener on a device, and the interface for other libraries.

A contender prepares for an algorithm once, untimed, and returns a trial: a function of the sources
that runs the work once and returns its times and its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from evener.bench.cases import Algorithm
from evener.bench.findings import Finding
from evener.bench.harness import timed
from evener.errors import EvenerError
from evener.graph.csr import Graph


class Timing(NamedTuple):
    """One trial: seconds of the work itself and of the whole call, and a summary of the answer."""

    run_s: float
    wall_s: float
    finding: Finding


Trial = Callable[[Sequence[int]], Timing]


class Contender(Protocol):
    """A library or device that is measured on a graph."""

    name: str
    budget_s: float | None  # time limit for all trials

    def prepare(self, algorithm: Algorithm) -> Trial:
        """Prepare for an algorithm; raises `Skipped` if it cannot be measured."""
        ...

    def facts(self) -> dict[str, Any]:
        """Further facts about the last measurement."""
        ...


class Skipped(Exception):
    """A contender does not take part; the message gives the reason."""


class WrongAnswerError(EvenerError):
    """An answer of Evener failed its verification, so its times are meaningless."""


LONG = ("pagerank", "bc")  # long enough that a warm-up trial would make no difference


class Evener:
    """Evener on one device; each answer is verified, untimed."""

    budget_s: float | None = None

    def __init__(self, graph: Graph, device: str):
        self.graph, self.device = graph, device
        self.name = f"evener {device}"
        self._facts: dict[str, Any] = {}
        self._verified: dict[tuple[str, tuple[int, ...]], dict[str, np.ndarray]] = {}

    def prepare(self, algorithm: Algorithm) -> Trial:
        """Return a trial; the first one compiles or loads code, and its times become facts."""
        self._facts = {}
        return lambda sources: self._trial(algorithm, sources)

    def facts(self) -> dict[str, Any]:
        """Seconds of the first call for compiling or loading code and for setup; supersteps."""
        return self._facts

    def _trial(self, algorithm: Algorithm, sources: Sequence[int]) -> Timing:
        if self._facts and algorithm.name not in LONG:
            # Wakes cores that slept while others ran; GAPBS warms up in the same way.
            algorithm.run(self.graph, sources, self.device)
        wall, result = timed(lambda: algorithm.run(self.graph, sources, self.device))
        stats = result.stats
        if not self._facts:
            self._facts = {
                "device": self.device,
                "first_call_s": round(wall, 6),
                "compile_s": round(stats.get("compile_seconds", 0.0), 6),
                "setup_s": round(stats["setup_seconds"], 6),
                "verified": True,
            }
        self._facts["supersteps"] = stats["supersteps"]
        self._verify(algorithm, result, sources)
        return Timing(stats["run_seconds"], wall, algorithm.summarize(result, sources))

    def _verify(self, algorithm: Algorithm, result: Any, sources: Sequence[int]) -> None:
        """Verify an answer unless it equals a verified one."""
        key = (algorithm.name, tuple(sources))
        fields, before = result.to_numpy(), self._verified.get(key)
        if before is not None and all(
            np.array_equal(fields[name], before[name], equal_nan=fields[name].dtype.kind == "f")
            for name in fields
        ):
            return
        try:
            algorithm.verify(self.graph, result, sources)
        except AssertionError as error:
            raise WrongAnswerError(
                f"{algorithm.name} on {self.device} from {list(sources)} is wrong: {error}."
            ) from None
        self._verified[key] = fields
