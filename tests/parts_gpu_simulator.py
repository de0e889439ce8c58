"""Parts of a graph as grids of one block each in plain Python, which meet each other.

See `gpu_simulator`: here each part has a block of its own, and a meeting of all of them.
"""

import threading
import time

import numpy as np

from evener.device import warp
from evener.engine.deferred import new_array
from evener.engine.job import set_up
from evener.engine.memory.hub import new_hub
from evener.engine.memory.parts_gpu import gather_fields, place_parts
from evener.engine.partition.divide import divide_by
from evener.engine.targets import parts_cpu as native_parts
from evener.engine.targets import parts_gpu as gpu_parts
from evener.engine.targets import parts_gpu_plan as gpu_parts_plan
from evener.engine.targets.grid import reset_scalars
from evener.operators.shared.policies import policy_of
from gpu_simulator import PATIENCE, THREADS, Block, Meeting, Translator, here

ALLS = gpu_parts.LINKS + 1  # the fields of all parts, among the arguments of a kernel


def left_over(length, dtype):
    """An array as it comes from a pool of memory: with what somebody else left there."""
    return np.full(length * np.dtype(dtype).itemsize, 0xFF, np.uint8).view(dtype)


gpu_parts_plan.SimulatedMemory.scratch = staticmethod(left_over)


class PartBlock(Block):
    """The block of one part."""

    def __init__(self, part: int, world: Meeting):
        super().__init__()
        self.part, self.world = part, world

    def replacements(self):
        def meet(sync, share):
            self.world.exchange(self.part * THREADS + here.thread, None)

        def hear(array, index):
            time.sleep(0.0005)  # whoever waits for another machine leaves the interpreter to it
            return array[index]

        return {**super().replacements(), warp.meet_at: meet, warp.hear: hear}


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
    reset_scalars(job)
    chosen = policy_of(policy)
    plan = gpu_parts.lowered_parts(job, direction, schedule, chosen)
    parts = divide_by(graph, partition, [1 / k] * k, **native_parts.lists_of(job, direction))
    arguments = gpu_parts.simulated_arguments(job, plan, parts, THREADS, chosen, list(range(k)))
    Simulation(plan.function, arguments).wait()
    fields = {name: arguments[0][ALLS][i] for i, name in enumerate(job.declaration.fields)}
    at = place_parts(np, parts, graph.degrees, list(range(k)))
    job.fields = gather_fields(np, job, at, fields)
    for name, partial in zip(job.declaration.scalars, arguments[0][9], strict=True):
        job.scalars[name] = partial[0]
    return job


def simulate_hybrid(
    program, graph, kinds, partition="random", direction="auto", policy="refined", room=None,
    **parameters,
):  # fmt: skip
    """A job on parts of the cpu, compiled, and simulated ones, which a hub joins.

    ``kinds`` is a list such as ``["cpu", "cuda"]``; without a cpu each part is a card of its own.
    Simulated parts have ``room`` for so many recorded vertices.
    """
    k, chosen = len(kinds), policy_of(policy)
    job = set_up(program, graph, parameters, lazy=True)
    reset_scalars(job)
    plan = gpu_parts.lowered_parts(job, direction, "auto", chosen, hub=True)
    parts = divide_by(graph, partition, [1 / k] * k, **native_parts.lists_of(job, direction))
    machine_of = [int(kind == "cuda") for kind in kinds] if "cpu" in kinds else list(range(k))
    hub = new_hub(left_over, job, parts, machine_of, plan.kernel)
    hub.reset()
    local = [p for p, kind in enumerate(kinds) if kind == "cuda"]
    if "cpu" not in kinds:
        given = [
            gpu_parts.simulated_arguments(job, plan, parts, THREADS, chosen, [p], hub)
            for p in local
        ]
        for card in [Simulation(plan.function, arguments) for arguments in given]:
            card.wait()
        _take(job, parts, {p: arguments for p, (arguments,) in enumerate(given)})
        return job
    arguments = gpu_parts.simulated_arguments(job, plan, parts, THREADS, chosen, local, hub, room)
    threads = [int(kind == "cpu") for kind in kinds]
    on_cpu = native_parts._Run(
        job, parts, threads, chosen, direction, lambda kernel: hub, growth=64
    )
    assert on_cpu.kernel.plan.carried == plan.plan.carried
    on_gpu = Simulation(plan.function, arguments)
    try:
        on_cpu.go(on_gpu.check, hub.give_up)
    finally:
        on_gpu.wait()
    on_cpu.collect(1.0)
    _take(job, parts, dict.fromkeys(local, arguments[0]))
    return job


def _take(job, parts, arguments):
    """Fill the fields of a job from those of simulated parts."""
    job.fields = {name: new_array(field) for name, field in job.fields.items()}
    for i, (name, whole) in enumerate(job.fields.items()):
        for p, given in arguments.items():
            part, field = parts.parts[p], given[ALLS][i]
            if not job.declaration.fields[name].replicated:
                base = int(parts.bases[p])
                whole[part.ids[: part.owned]] = field[base : base + part.owned]
            elif len(arguments) == len(parts.parts):
                whole[:] = field[p * len(whole) : (p + 1) * len(whole)]
