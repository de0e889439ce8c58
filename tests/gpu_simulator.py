"""A grid of one block in plain Python: what a GPU would do, lane by lane, on a machine without one.

The threads of the block are greenlets: one runs until it meets others, those of its warp at each
vote and shuffle, those of the block at each barrier. If some do not come, the run fails. No thread
is interrupted, so atomics are plain. Functions are taken as their text; the stubs of
`evener.device.warp` are replaced.

What stays uncovered, and is left to a GPU: see `UNCOVERED`.
"""

import collections
import threading
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet

from evener.device import atomic, serial, warp
from evener.device.compile import Compiled
from evener.device.keys import globals_read
from evener.device.tuples import named
from evener.engine.codegen.print_resume import MORE_ROOM
from evener.engine.job import set_up
from evener.engine.memory.gpu import put_first
from evener.engine.memory.gpu_graph import fill_fields, in_users_order
from evener.engine.memory.layout import HostMemory
from evener.engine.targets import gpu
from evener.operators.gpu import vertices
from evener.operators.gpu.trace import STATUS
from evener.operators.shared.record import Record

# Instructions that do nothing here, or are those of one machine that sees all memory at once.
UNCOVERED = {
    "sync_warp": "lanes meet at votes and shuffles only, so a missing one is not noticed",
    "barrier, meet_at, arrive": "there is one block: they are those of the block, or of parts",
    "load_now, load_after": "memory is the same for all threads, there is no cache to go round",
    "told, hear, fence_host": "as above, between GPU and host",
    "prefetch": "it changes no result",
    "unknown": "it only stops a compiler from unrolling",
    "cycles": "a clock",
}
THREADS = 64
here = threading.local()  # .thread: the number of the one that runs


class Lanes:
    """Threads of a GPU that take turns on one thread of Python: each runs until it must wait.

    A wait that nobody can end fails at once. Those whom a wait has kept continue in the order in
    which they came, or in the reverse, in turn: what depends on that order differs between runs.
    """

    def __init__(self) -> None:
        self.ready: collections.deque[greenlet] = collections.deque()
        self.unfinished = 0

    def add(self, thread: int, run: Callable[[], None]) -> None:
        def whole() -> None:
            with np.errstate(all="ignore"):
                run()
            self.unfinished -= 1

        lane = greenlet(whole)
        lane.thread = thread
        self.ready.append(lane)
        self.unfinished += 1

    def run(self) -> None:
        """Run all to their ends."""
        while self.ready:
            lane = self.ready.popleft()
            here.thread = lane.thread
            lane.switch()
        if self.unfinished:
            raise RuntimeError(f"{self.unfinished} threads wait for others that do not come")

    def give_way(self) -> None:
        """Let the others run, then continue."""
        lane = getcurrent()
        self.ready.append(lane)
        lane.parent.switch()


class Meeting:
    """Threads that exchange a value each; two boards in turn, so that one wait suffices."""

    def __init__(self, lanes: Lanes, size: int):
        self.lanes, self.size = lanes, size
        self.boards = [[None] * size, [None] * size]
        self.turns = [0] * size
        self.waiting: list[greenlet] = []
        self.backwards = False

    def exchange(self, seat: int, value: Any) -> list[Any]:
        board = self.boards[self.turns[seat] & 1]
        self.turns[seat] += 1
        board[seat] = value
        lane = getcurrent()
        self.waiting.append(lane)
        if len(self.waiting) == self.size:
            self.lanes.ready.extend(reversed(self.waiting) if self.backwards else self.waiting)
            self.waiting = []
            self.backwards = not self.backwards
        lane.parent.switch()
        return board


class Block:
    """What the threads of a block share, and the functions that stand for instructions."""

    def __init__(self, lanes: Lanes) -> None:
        self.warps = [Meeting(lanes, 32) for _ in range(THREADS // 32)]
        self.all = Meeting(lanes, THREADS)
        self.shared: dict[Any, np.ndarray] = {}
        self.calls = [0] * THREADS

    def lanes(self, value: Any) -> list[Any]:
        return self.warps[here.thread >> 5].exchange(here.thread & 31, value)

    def ballot(self, holds: Any) -> Any:
        return np.uint32(sum(1 << i for i, bit in enumerate(self.lanes(bool(holds))) if bit))

    def shuffle(self, value: Any, lane: Any) -> Any:
        return self.lanes(value)[int(lane) & 31]

    def shuffle_up(self, value: Any, delta: Any) -> Any:
        lane = here.thread & 31
        board = self.lanes(value)
        return board[lane - int(delta)] if lane >= delta else value

    def shuffle_xor(self, value: Any, mask: Any) -> Any:
        return self.lanes(value)[(here.thread & 31) ^ int(mask)]

    def sync_block(self, *_: Any) -> None:
        self.all.exchange(here.thread, None)

    def shared_buffer(self, like: Any) -> Any:
        key = (self.calls[here.thread], "buffer")
        self.calls[here.thread] += 1
        room = np.empty(warp.BUFFER * THREADS // 32, like.dtype)
        return self.shared.setdefault(key, room)

    def shared_parts(self, like: Any) -> Any:
        return self.shared.setdefault(like.dtype, np.empty(THREADS // 32, like.dtype))

    def replacements(self) -> dict[Any, Any]:
        atomics = types.SimpleNamespace(**{name: getattr(atomic, name) for name in atomic.__all__})
        return {
            warp.thread_of_block: lambda: here.thread,
            warp.ballot: self.ballot,
            warp.shuffle: self.shuffle,
            warp.shuffle_up: self.shuffle_up,
            warp.shuffle_xor: self.shuffle_xor,
            warp.sync_warp: lambda: None,
            warp.sync_block: self.sync_block,
            warp.meet: self.sync_block,
            warp.shared_buffer: self.shared_buffer,
            warp.shared_parts: self.shared_parts,
            atomic: atomics,
            serial: atomics,
        }


class Translator:
    """Functions with the names that they read replaced, recursively."""

    def __init__(self, block: Block):
        self.made = {id(old): new for old, new in block.replacements().items()}
        self.keep: list[Any] = []

    def translate(self, name: str, value: Any) -> Any:
        if name == "BLOCK":
            return THREADS
        if name == "WARPS_POWER":
            return (THREADS // 32).bit_length() - 1
        if id(value) in self.made:
            return self.made[id(value)]
        if isinstance(value, Compiled):
            self.keep.append(value)  # so that its id stays its own
            self.made[id(value)] = self.function((value.of_gpu or value).python)
            return self.made[id(value)]
        return value

    def function(self, given: Any) -> Any:
        scope = given.__globals__
        names = {
            name: self.translate(name, scope[name])
            for name in globals_read(given.__code__)
            if name in scope
        }
        cells = tuple(
            types.CellType(self.translate("", c.cell_contents)) for c in given.__closure__ or ()
        )
        names["__builtins__"] = __builtins__
        return types.FunctionType(
            given.__code__, names, given.__name__, given.__defaults__, cells or None
        )


def simulate(
    program: Any, graph: Any, schedule: str, direction: str, room: int = 0, **parameters: Any
) -> Any:
    """The job after it ran on the simulated grid, its fields as arrays.

    ``room``: for so many recorded vertices, at first; the kernel may ask for more.
    """
    job = set_up(program, graph, parameters, deferred=True)
    job.begin()
    plan = gpu._lowered(job, direction, schedule)
    arguments, at = gpu._arguments(HostMemory(), job, plan, room or 64 * graph.num_vertices + 64)
    put_first(arguments, gpu.frontier_of(job, at))
    fixed = {name for name, field in job.declaration.fields.items() if field.replicated}
    fields = fill_fields(np, job.fields, at, fixed)
    arguments = arguments._replace(fields=named("Fields", fields))
    job.launches = 1
    while run_block(plan.function, arguments) == MORE_ROOM:
        job.launches += 1
        longer = (np.concatenate([a, np.empty(2 * len(a), a.dtype)]) for a in arguments.kept)
        arguments = arguments._replace(kept=Record(*longer))
    for name, total in arguments.partials._asdict().items():
        job.scalars[name] = total[0]
    gpu._write_stats(job, arguments.trace, arguments.trace, 0.0, schedule)
    job.fields = in_users_order(fields, at, fixed)
    return job


def run_block(given: Any, arguments: tuple[Any, ...]) -> int:
    """Run a kernel; returns how it ended."""
    lanes = Lanes()
    kernel = Translator(Block(lanes)).function(given)
    for thread in range(THREADS):
        lanes.add(thread, partial(kernel, *arguments))
    lanes.run()
    return int(arguments.trace[STATUS])


assert vertices.WARPS_POWER  # the name that the translator replaces
