"""Parts of a graph as grids of one block each in plain Python, which meet each other.

See `grid_simulator`: here each part has a block of its own, and a meeting of all of them.
"""

import threading

import numpy as np

from evener.device import warp
from evener.engine import gpu, gpu_parts, native_parts
from evener.engine.gpu_parts_memory import gather_fields, place_parts
from evener.engine.hub import new_hub
from evener.engine.job import set_up
from evener.engine.parts import divide_by
from evener.operators.policies import policy_of
from grid_simulator import PATIENCE, THREADS, Block, Meeting, Translator, here

ALLS = gpu_parts.LINKS + 1  # the fields of all parts, among the arguments of a kernel


class PartBlock(Block):
    """The block of one part."""

    def __init__(self, part: int, world: Meeting):
        super().__init__()
        self.part, self.world = part, world

    def replacements(self):
        def meet(sync, share):
            self.world.exchange(self.part * THREADS + here.thread, None)

        return {**super().replacements(), warp.meet_at: meet}


class Simulation:
    """Kernels of some parts that run, each as a block, beside whatever else does."""

    def __init__(self, kernel, arguments):
        world = Meeting(len(arguments) * THREADS)
        self.blocks = [PartBlock(i, world) for i in range(len(arguments))]
        kernels = [Translator(block).function(kernel) for block in self.blocks]
        self.failures: list[BaseException] = []

        def run(i: int, thread: int) -> None:
            here.thread = thread
            try:
                with np.errstate(all="ignore"):
                    kernels[i](*arguments[i])
            except BaseException as error:
                self.failures.append(error)
                for meeting in (world, *(m for b in self.blocks for m in (*b.warps, b.all))):
                    meeting.barrier.abort()

        self.threads = [
            threading.Thread(target=run, args=(i, thread), daemon=True)
            for i in range(len(arguments))
            for thread in range(THREADS)
        ]
        for thread in self.threads:
            thread.start()

    def check(self):
        for error in self.failures:
            if not isinstance(error, threading.BrokenBarrierError):
                raise error

    def wait(self):
        for thread in self.threads:
            thread.join(2 * PATIENCE)
        self.check()
        if self.failures:
            raise self.failures[0]


def simulate_parts(
    program, graph, k, partition="random", schedule="auto", direction="auto", policy="refined",
    **parameters,
):  # fmt: skip
    """The job after it ran on the simulated parts, its fields as arrays."""
    job = set_up(program, graph, parameters, lazy=True)
    gpu._reset_scalars(job)
    chosen = policy_of(policy)
    plan = gpu_parts.make_plan(job, direction, schedule, chosen)
    parts = divide_by(graph, partition, [1 / k] * k, **native_parts.lists_of(job, direction))
    arguments = gpu_parts.simulated_arguments(job, plan, parts, THREADS, chosen, list(range(k)))
    Simulation(plan.kernel, arguments).wait()
    fields = {name: arguments[0][ALLS][i] for i, name in enumerate(job.declaration.fields)}
    at = place_parts(np, parts, graph.degrees, list(range(k)))
    job.fields = gather_fields(np, job, at, fields)
    for name, partial in zip(job.declaration.scalars, arguments[0][9], strict=True):
        job.scalars[name] = partial[0]
    return job


def simulate_hybrid(
    program, graph, kinds, partition="random", direction="auto", policy="refined", **parameters
):
    """A job on parts of the cpu, compiled, and simulated ones, which a hub joins.

    ``kinds`` is a list such as ``["cpu", "cuda"]``.
    """
    k, chosen = len(kinds), policy_of(policy)
    job = set_up(program, graph, parameters)
    gpu._reset_scalars(job)
    plan = gpu_parts.make_plan(job, direction, "auto", chosen, hub=True)
    parts = divide_by(graph, partition, [1 / k] * k, **native_parts.lists_of(job, direction))
    machine_of = [int(kind == "cuda") for kind in kinds]
    hub = new_hub(np.zeros, job, parts, machine_of, plan.lowered)
    local = [p for p, kind in enumerate(kinds) if kind == "cuda"]
    arguments = gpu_parts.simulated_arguments(job, plan, parts, THREADS, chosen, local, hub)
    threads = [int(kind == "cpu") for kind in kinds]
    on_cpu = native_parts._Run(job, parts, threads, chosen, direction, lambda kernel: hub)
    assert on_cpu.kernel.carried == plan.lowered.carried
    on_gpu = Simulation(plan.kernel, arguments)
    try:
        on_cpu.go(on_gpu.check, hub.give_up)
    finally:
        on_gpu.wait()
    on_cpu.collect(1.0)
    for i, (name, whole) in enumerate(job.fields.items()):
        for p in local:
            part, field = parts.parts[p], arguments[0][ALLS][i]
            if not program.declaration.fields[name].replicated:
                base = int(parts.bases[p])
                whole[part.ids[: part.owned]] = field[base : base + part.owned]
    return job
