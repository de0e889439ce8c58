"""``device="auto"`` for a graph larger than the GPU: the placement predicted to be fastest.

The candidates are the CPU alone, both with the vertices of high degree on the CPU, and the GPU with
edges in the host's memory. Rates are measured once on this machine and stored on disk; the choice
is kept with the graph.
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
from evener.graph.gpu import graph_cache
from evener.programs.program import Program

PARTITIONER = "high"  # only one: finding its least share divides the graph several times


Limits = tuple[int | None, int | None]  # of the CPU and of the GPU


class Choice(NamedTuple):
    """Devices, a partition for them, their limits, and the reason."""

    devices: list[Device]
    partition: str
    limits: list[int | None]
    why: str


def limits_of_both(memory_limit: Any, limit: int | None) -> Limits:
    """The limits of CPU and GPU if the GPU's is ``limit``: a single limit applies to both.

    Examples
    --------
    >>> from evener.engine.planning.larger_than_gpu import limits_of_both
    >>> limits_of_both("1KiB", 1024), limits_of_both({"cuda": 1024}, 1024)
    ((1024, 1024), (None, 1024))
    """
    named = isinstance(memory_limit, Mapping | list | tuple) or "=" in str(memory_limit)
    return (None if named else limit, limit)


def place_larger(
    program: type[Program], graph: Graph, parameters: dict[str, Any], limits: Limits,
    *, direction: str = "auto", calibration: Calibration | None = None,
) -> Choice | None:  # fmt: skip
    """Where to run what exceeds the first GPU; None if it fits, or no rate can be measured.

    ``limits`` are what the run may take on the CPU and on the GPU, or None for all free memory.
    """
    limit = limits[1]
    with gpu.on(0):
        allowed = gpu.free_memory() + bytes_of_graph(graph, 0)
    allowed = allowed if limit is None else min(allowed, limit)
    estimated = (
        "needed",
        program,
        direction,
    )  # kept, because estimating would slow down short runs
    if estimated not in graph_cache(graph):
        graph_cache(graph)[estimated] = estimate_memory(program.declaration, graph, direction)[0]
    needed = graph_cache(graph)[estimated]
    if needed <= allowed:
        return None
    key = ("auto", program, limits)
    if key not in graph_cache(graph):
        best = _best(program, graph, parameters, limits, calibration)
        if best is None:
            return None
        graph_cache(graph)[key] = _choice(best, limits, needed, allowed)
    return graph_cache(graph)[key]


def _best(
    program: type[Program], graph: Graph, parameters: dict[str, Any], limits: Limits,
    calibration: Calibration | None,
) -> Placement | None:  # fmt: skip
    """The planner's choice; None for a program whose rates cannot be measured on another graph."""
    d = program.declaration
    options = {name: value for name, value in parameters.items() if name not in d.vertex_parameters}
    if any(isinstance(v, Sized | Mapping) and not isinstance(v, str) for v in options.values()):
        return None  # such as values for each vertex

    def call(other: Graph, source: int, **where: Any) -> Any:
        sources = dict.fromkeys(d.vertex_parameters & parameters.keys(), source)
        return run(program, other, **(options | sources | where))

    devices = named_devices("cpu+cuda")
    try:
        placements = plan(
            graph, devices, Workload(d.name, call), partitioners=[PARTITIONER],
            limits=limits, calibration=calibration or Calibration(sets=False),
        )  # fmt: skip
        return choose(placements)
    except EvenerError:
        return None  # the run itself raises the error


def _choice(best: Placement, limits: Limits, needed: int, allowed: int) -> Choice:
    devices = named_devices("+".join(best.devices))
    partition = "auto" if best.partitioner is None else f"{best.partitioner}:alpha={best.alpha!r}"
    of_each = [limits[one.traits.is_card] for one in devices]
    how = ", with edges in the host's memory" if best.mapped else ""
    why = (
        f"it needs about {format_bytes(needed)}, the GPU has {format_bytes(allowed)}, and the "
        f"planner predicts {best.seconds:.3g} s here{how}"
    )
    return Choice(devices, partition, of_each, why)
