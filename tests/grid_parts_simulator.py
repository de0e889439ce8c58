"""Parts of a graph as grids of one block each in plain Python, which meet each other.

See `grid_simulator`: here each part has a block of its own, and a meeting of all of them.
"""

import threading

import numpy as np

from evener.device import warp
from evener.engine import gpu, gpu_parts
from evener.engine.gpu_parts_memory import gather_fields, place_parts
from evener.engine.job import set_up
from evener.engine.partitioners import partition as assign
from evener.operators.policies import policy_of
from grid_simulator import PATIENCE, THREADS, Block, Meeting, Translator, here


class PartBlock(Block):
    """The block of one part."""

    def __init__(self, part: int, world: Meeting):
        super().__init__()
        self.part, self.world = part, world

    def replacements(self):
        def meet(sync, share):
            self.world.exchange(self.part * THREADS + here.thread, None)

        return {**super().replacements(), warp.meet_at: meet}


def simulate_parts(
    program, graph, k, partition="random", schedule="auto", direction="auto", policy="refined",
    **parameters,
):  # fmt: skip
    """The job after it ran on the simulated parts, its fields as arrays."""
    job = set_up(program, graph, parameters, lazy=True)
    gpu._reset_scalars(job)
    chosen = policy_of(policy)
    plan = gpu_parts.make_plan(job, direction, schedule, chosen)
    parts = gpu_parts._divide(job, assign(graph, partition, [1 / k] * k), k, direction)
    arguments = gpu_parts.simulated_arguments(job, plan, parts, THREADS, chosen)
    world = Meeting(k * THREADS)
    blocks = [PartBlock(p, world) for p in range(k)]
    kernels = [Translator(block).function(plan.kernel) for block in blocks]
    failures: list[BaseException] = []

    def run(part: int, thread: int) -> None:
        here.thread = thread
        try:
            with np.errstate(all="ignore"):
                kernels[part](*arguments[part])
        except BaseException as error:
            failures.append(error)
            for meeting in (world, *(m for b in blocks for m in (*b.warps, b.all))):
                meeting.barrier.abort()

    threads = [
        threading.Thread(target=run, args=(p, i), daemon=True)
        for p in range(k)
        for i in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
    for error in failures:
        if not isinstance(error, threading.BrokenBarrierError):
            raise error
    if failures:
        raise failures[0]
    fields = {name: arguments[0][17][i] for i, name in enumerate(job.declaration.fields)}
    at = place_parts(np, parts, graph.degrees)
    job.fields = gather_fields(np, job, at, fields)
    for name, partial in zip(job.declaration.scalars, arguments[0][9], strict=True):
        job.scalars[name] = partial[0]
    return job
