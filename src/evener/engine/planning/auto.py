"""``device="auto"`` where a graph is larger than the GPU: what the planner finds fastest.

The choice is between the CPU alone, both together with the vertices of high degree on the CPU, and
the GPU with edges in the host's memory. Rates are measured on this machine once and kept on disk;
what was chosen is kept with the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, NamedTuple

from evener.device import cuda as gpu
from evener.device import format_bytes
from evener.engine.devices import Device, named_devices
from evener.engine.memory.edges import bytes_of_graph
from evener.engine.memory.estimate import estimate_memory
from evener.engine.planning.calibrate import Calibration, Workload
from evener.engine.planning.planner import Placement, choose, plan
from evener.engine.run import run
from evener.errors import EvenerError
from evener.graph.csr import Graph
from evener.graph.gpu import kept
from evener.programs.program import Program

PARTITIONER = "high"  # one alone: to look for its least share divides the graph several times


Limits = tuple[int | None, int | None]  # of the CPU and of the GPU


class Choice(NamedTuple):
    """Devices, a partition for them, what each may take, and why these."""

    devices: list[Device]
    partition: str
    limits: list[int | None]
    why: str


def limits_of_both(memory_limit: Any, limit: int | None) -> Limits:
    """What CPU and GPU may take, if that of the GPU is ``limit``: the same, if it is one for all.

    Examples
    --------
    >>> from evener.engine.planning.auto import limits_of_both
    >>> limits_of_both("1KiB", 1024), limits_of_both({"cuda": 1024}, 1024)
    ((1024, 1024), (None, 1024))
    """
    named = isinstance(memory_limit, Mapping | list | tuple) or "=" in str(memory_limit)
    return (None if named else limit, limit)


def place_larger(
    program: type[Program], graph: Graph, parameters: dict[str, Any], limits: Limits,
    *, direction: str = "auto", calibration: Calibration | None = None,
) -> Choice | None:  # fmt: skip
    """Where to run what the first GPU has no room for; None where it has, or nothing is known.

    ``limits`` are what the run may take on the CPU and on the GPU, or None for what is free there.
    """
    limit = limits[1]
    with gpu.on(0):
        allowed = gpu.free_memory() + bytes_of_graph(graph, 0)
    allowed = allowed if limit is None else min(allowed, limit)
    estimated = ("needed", program, direction)  # kept too: a short run would feel it
    if estimated not in kept(graph):
        kept(graph)[estimated] = estimate_memory(program.declaration, graph, direction)[0]
    needed = kept(graph)[estimated]
    if needed <= allowed:
        return None
    key = ("auto", program, limits)
    if key not in kept(graph):
        best = _best(program, graph, parameters, limits, calibration)
        if best is None:
            return None
        kept(graph)[key] = _choice(best, limits, needed, allowed)
    return kept(graph)[key]


def _best(
    program: type[Program], graph: Graph, parameters: dict[str, Any], limits: Limits,
    calibration: Calibration | None,
) -> Placement | None:  # fmt: skip
    """The planner's choice; None for a program whose rates cannot be measured on another graph."""
    d = program.declaration
    given = {name: value for name, value in parameters.items() if name not in d.vertex_parameters}
    if any(isinstance(v, Sized | Mapping) and not isinstance(v, str) for v in given.values()):
        return None  # values for each vertex, say

    def call(other: Graph, source: int, **where: Any) -> Any:
        sources = dict.fromkeys(d.vertex_parameters & parameters.keys(), source)
        return run(program, other, **(given | sources | where))

    devices = named_devices("cpu+cuda")
    try:
        found = plan(
            graph, devices, Workload(d.name, call), partitioners=[PARTITIONER],
            limits=limits, calibration=calibration or Calibration(sets=False),
        )  # fmt: skip
        return choose(found)
    except EvenerError:
        return None  # the run itself says what is wrong


def _choice(best: Placement, limits: Limits, needed: int, allowed: int) -> Choice:
    devices = named_devices("+".join(best.devices))
    partition = "auto" if best.partitioner is None else f"{best.partitioner}:alpha={best.alpha!r}"
    of_each = [limits[one.traits.is_card] for one in devices]
    how = ", with edges in the host's memory" if best.mapped else ""
    why = (
        f"it needs about {format_bytes(needed)}, of which the GPU has {format_bytes(allowed)}, and "
        f"the planner predicts {best.seconds:.3g} s here{how}"
    )
    return Choice(devices, partition, of_each, why)
