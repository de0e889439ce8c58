"""Parts of a graph as grids of one block each in plain Python, which meet each other.

See `gpu_simulator`: here each part has a block of its own, and a meeting of all of them.
"""

import threading
import time
from functools import partial

import numpy as np

from evener.device import warp
from evener.engine.deferred_arrays import new_array
from evener.engine.job import set_up
from evener.engine.memory import parts_gpu as memory
from evener.engine.memory.hub import new_hub
from evener.engine.memory.layout import HostMemory
from evener.engine.partition.divide import divide_by
from evener.engine.targets.parts_cpu import Teams
from evener.engine.targets.parts_gpu import lowered_parts
from evener.engine.targets.sets import lists_of
from evener.operators.shared.policies import policy_of
from gpu_simulator import THREADS, Block, Lanes, Meeting, Translator, here

PATIENCE = 120  # seconds


def left_over(length, dtype):
    """An array as it comes from a pool of memory: with what somebody else left there."""
    return np.full(length * np.dtype(dtype).itemsize, 0xFF, np.uint8).view(dtype)


HostMemory.scratch = staticmethod(left_over)


class PartBlock(Block):
    """The block of one part."""

    def __init__(self, lanes: Lanes, part: int, world: Meeting):
        super().__init__(lanes)
        self.lanes_of_all, self.part, self.world = lanes, part, world

    def replacements(self):
        def meet(sync, share):
            self.world.exchange(self.part * THREADS + here.thread, None)

        def hear(array, index):
            time.sleep(0.0005)  # whoever waits for another machine leaves the interpreter to it
            self.lanes_of_all.give_way()
            return array[index]

        return {**super().replacements(), warp.meet_at: meet, warp.hear: hear}


class Simulation:
    """Kernels of some parts that run, each as a block, beside whatever else does."""

    def __init__(self, kernel, arguments):
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(kernel, arguments), daemon=True)
        self.thread.start()

    def _run(self, kernel, arguments):
        lanes = Lanes()
        world = Meeting(lanes, len(arguments) * THREADS)
        try:
            for part, given in enumerate(arguments):
                own = Translator(PartBlock(lanes, part, world)).function(kernel)
                for thread in range(THREADS):
                    lanes.add(thread, partial(own, *given))
            lanes.run()
        except BaseException as error:
            self.failure = error

    def check(self):
        if self.failure is not None:
            raise self.failure

    def wait(self):
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the simulation does not end"
        self.check()


def simulate_parts(
    program, graph, k, partition="random", schedule="auto", direction="auto", policy="refined",
    **parameters,
):  # fmt: skip
    """The job after it ran on the simulated parts, its fields as arrays."""
    job = set_up(program, graph, parameters, deferred=True)
    job.begin()
    chosen = policy_of(policy)
    plan = lowered_parts(job, direction, schedule, chosen)
    parts = divide_by(graph, partition, [1 / k] * k, **lists_of(job, direction))
    arguments = memory.simulated_arguments(job, plan, parts, THREADS, chosen, list(range(k)))
    Simulation(plan.function, arguments).wait()
    at = memory.place_parts(np, parts, graph.degrees, list(range(k)))
    job.fields = memory.gather_fields(np, job, at, arguments[0].between.common.fields._asdict())
    for name, total in arguments[0].partials._asdict().items():
        job.scalars[name] = total[0]
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
    job = set_up(program, graph, parameters, deferred=True)
    job.begin()
    plan = lowered_parts(job, direction, "auto", chosen, hub=True)
    parts = divide_by(graph, partition, [1 / k] * k, **lists_of(job, direction))
    machine_of = [int(kind == "cuda") for kind in kinds] if "cpu" in kinds else list(range(k))
    hub = new_hub(left_over, job, parts, machine_of, plan.kernel)
    hub.reset()
    local = [p for p, kind in enumerate(kinds) if kind == "cuda"]
    if "cpu" not in kinds:
        given = [
            memory.simulated_arguments(job, plan, parts, THREADS, chosen, [p], hub) for p in local
        ]
        for card in [Simulation(plan.function, arguments) for arguments in given]:
            card.wait()
        _take(job, parts, {p: arguments for p, (arguments,) in enumerate(given)})
        return job
    arguments = memory.simulated_arguments(job, plan, parts, THREADS, chosen, local, hub, room)
    threads = [int(kind == "cpu") for kind in kinds]
    on_cpu = Teams(job, parts, threads, chosen, direction, hub, growth=64)
    assert on_cpu.kernel.plan.carried == plan.plan.carried
    on_gpu = Simulation(plan.function, arguments)
    try:
        on_cpu.go(on_gpu.check, hub.give_up)
    finally:
        on_gpu.wait()
    on_cpu.collect()
    _take(job, parts, dict.fromkeys(local, arguments[0]))
    return job


def _take(job, parts, arguments):
    """Fill the fields of a job from those of simulated parts."""
    job.fields = {name: new_array(field) for name, field in job.fields.items()}
    for name, whole in job.fields.items():
        for p, given in arguments.items():
            part, field = parts.parts[p], getattr(given.between.common.fields, name)
            if not job.declaration.fields[name].replicated:
                base = int(parts.bases[p])
                whole[part.ids[: part.owned]] = field[base : base + part.owned]
            elif len(arguments) == len(parts.parts):
                whole[:] = field[p * len(whole) : (p + 1) * len(whole)]
