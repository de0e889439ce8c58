"""What the threads of a stage do together, with an implementation for each target.

The operators in `operators/shared` are written over these names (single program, multiple data).
A CPU thread works alone; 32 GPU threads are the lanes of a warp and must all call `append`, `flush`
and `add_up` together, so that a loop over them runs until the last lane has nothing left to do:

    base, last = first_round(team, size)
    while base < size:
        i = base + lane(team)
        if i < size: ...
        held = append(team, held, 0, frontier, joins, v)
        base, last = another_round(team, base, last, size)
    flush(team, held, 0, frontier)
"""

from __future__ import annotations

import numpy as np

from evener.device import atomic, by_target, compiled, sync
from evener.device.warp import CANCEL as CANCEL_OF_GRID
from evener.device.warp import (
    ballot,
    count_bits,
    fence_host,
    shuffle,
    shuffle_xor,
    sync_block,
    thread_of_block,
)  # fmt: skip
from evener.device.warp import barrier as barrier_of_grid
from evener.device.warp import hear as hear_host
from evener.device.warp import told as tell_host
from evener.operators.cpu import frontier as cpu
from evener.operators.gpu import frontier as gpu
from evener.operators.gpu.frontier import EDGES as EDGES_ON_GRID
from evener.operators.gpu.frontier import FLAG, TURNS, below, sum_of_warp, work
from evener.operators.gpu.frontier import FORM as FORM_ON_GRID
from evener.operators.gpu.frontier import append as append_of_warp
from evener.operators.gpu.frontier import flush as flush_of_warp
from evener.operators.gpu.world import BOXED, ROW
from evener.operators.gpu.world import meet as meet_of_grids
from evener.operators.shared.frontier import ALL, QUEUE, SIZE

LOOKS = 256  # of a GPU at another's flag between two at whether all must give up


# ---- meeting ------------------------------------------------------------------------------------

# Wait until all threads of the team are here, and see their writes.
barrier = by_target(
    cpu=lambda team: sync.barrier(team.sync, team.threads),
    gpu=lambda team: barrier_of_grid(team.sync),
)
# Wait until no thread reads a frontier that is about to be written: a GPU has three for each of a
# CPU's, and takes them in turn.
let_go = by_target(
    cpu=lambda team: sync.barrier(team.sync, team.threads),
    gpu=lambda team: None,
)
# Empty a frontier; a GPU's was empty when it was taken.
empty = by_target(cpu=cpu.empty, gpu=lambda team, frontier: None)


# ---- division of work ---------------------------------------------------------------------------

# The number of this thread among those that run a loop together, and their number.
lane = by_target(cpu=lambda team: 0, gpu=lambda team: team.lane)
lanes = by_target(cpu=lambda team: 1, gpu=lambda team: 32)
# Whether this thread is the one, or in the warp, that does the work of a single thread.
leads = by_target(cpu=lambda team: team.thread == 0, gpu=lambda team: team.rank == 0)


@compiled(allocates=False)
def share(team, first, last):
    """A thread's share of a range: first, last, step."""
    begin, stop = cpu.stretch_of(team.thread, team.threads, first, last)
    return begin, stop, 1


@share.on_gpu
def _(team, first, last):
    return first + team.thread, last, team.threads


# The same from 0 on; on a GPU the warps with the least to do take the first numbers.
share_of_idle = by_target(
    cpu=lambda team, size: share(team, 0, size),
    gpu=lambda team, size: (team.threads - 1 - team.thread, size, team.threads),
)
# As `share` for all lanes together: a thread adds its `lane` to these numbers.
rounds = by_target(
    cpu=lambda team, first, last: share(team, first, last),
    gpu=lambda team, first, last: (first + 32 * team.rank, last, team.threads),
)


@compiled(allocates=False)
def first_one(team, size):
    """A thread's first number below ``size``, and the end of its run.

    CPU threads claim runs of numbers, so that a delayed thread leaves the rest to others.
    """
    amount = cpu.stretch(team, size)
    first = sync.claim(team.sync, amount)
    return first, first + amount


@first_one.on_gpu
def _(team, size):
    return team.thread, size


@compiled(allocates=False)
def another_one(team, i, last, size):
    """The next number, and the end of its run; the loop ends when it reaches ``size``."""
    i += 1
    if i < last:
        return i, last
    return first_one(team, size)


@another_one.on_gpu
def _(team, i, last, size):
    return i + team.threads, size


# The same for all lanes together: a thread adds its `lane` to the number.
first_round = by_target(
    cpu=lambda team, size: first_one(team, size),
    gpu=lambda team, size: (team.rank * 32, size),
)
another_round = by_target(
    cpu=lambda team, base, last, size: another_one(team, base, last, size),
    gpu=lambda team, base, last, size: (base + team.threads, size),
)


# ---- frontiers ----------------------------------------------------------------------------------

# Turn bits into a queue; other forms stay as they are.
to_queue = by_target(cpu=cpu.to_queue, gpu=gpu.to_queue)
# Whether a frontier is a queue, bits or all vertices; the word that counts its outgoing arcs.
form_of = by_target(
    cpu=lambda frontier: frontier.info[cpu.FORM],
    gpu=lambda frontier: frontier.info[FORM_ON_GRID],
)
arcs_word = by_target(cpu=lambda: cpu.EDGES, gpu=lambda: EDGES_ON_GRID)


@compiled(allocates=False)
def member(frontier, i):
    """The i-th vertex of a frontier that is a queue or all vertices."""
    if form_of(frontier) == ALL:
        return frontier.queue.dtype.type(i)
    return frontier.queue[np.uint64(i)]


# Add ``v`` to a queue if it ``joins``; returns how many are in the buffer. ``region``, 0 or 1,
# distinguishes two queues that are appended to at the same time.
append = by_target(
    cpu=cpu.append,
    gpu=lambda team, held, region, frontier, joins, v: append_of_warp(
        team, held, region, frontier.queue, frontier.info, SIZE, joins, v
    ),
)
# Move the buffer's content to the queue.
flush = by_target(
    cpu=cpu.flush,
    gpu=lambda team, held, region, frontier: flush_of_warp(
        team, held, region, frontier.queue, frontier.info, SIZE
    ),
)


@compiled(allocates=False)
def append_edge(team, held, frontier, joins, u, e):
    """As `append` for a frontier of edges: a source, and a place in the neighbour lists.

    A GPU has no buffer for them: it would hold two numbers for each lane.
    """
    if joins:
        frontier.buffer[0, held] = u
        frontier.buffer[1, held] = e
        held += 1
        if held == cpu.BUFFER:
            flush_edges(team, held, frontier)
            held = np.int64(0)
    return held


@append_edge.on_gpu
def _(team, held, frontier, joins, u, e):
    mask = ballot(joins)
    if mask != 0:
        at = np.int64(0)
        if team.lane == 0:
            at = np.int64(atomic.add(frontier.info, SIZE, count_bits(mask)))
        at = shuffle(at, 0) + below(team, mask)
        if joins:
            frontier.src[np.uint64(at)] = u
            frontier.edge[np.uint64(at)] = e
    return held


@compiled(allocates=False)
def flush_edges(team, held, frontier):
    """Move the buffer's content to the queue of edges."""
    if held > 0:
        at = np.uint64(atomic.add(frontier.info, SIZE, held))
        for i in range(held):
            frontier.src[at + np.uint64(i)] = frontier.buffer[0, i]
            frontier.edge[at + np.uint64(i)] = frontier.buffer[1, i]


flush_edges.on_gpu(lambda team, held, frontier: None)


@compiled(allocates=False)
def become_queue(team, frontier, size):
    """Make what was written to the queue of an empty frontier its content."""
    if team.thread == 0:
        frontier.info[SIZE] = size
        frontier.info[cpu.FORM] = QUEUE
        frontier.info[cpu.EDGES] = 0
    barrier(team)


@become_queue.on_gpu
def _(team, frontier, size):
    if team.thread == 0:
        frontier.info[SIZE] = size
    barrier_of_grid(team.sync)


# ---- numbers ------------------------------------------------------------------------------------


@compiled(allocates=False)
def add_up(team, counts, at, number):
    """Add each thread's count to a shared word."""
    if number > 0:
        atomic.add(counts, at, np.int64(number))


@add_up.on_gpu
def _(team, counts, at, number):
    number = sum_of_warp(number)
    if team.lane == 0 and number > 0:
        atomic.add(counts, at, number)


@compiled(allocates=False)
def largest(team, value, scratch):
    """The largest of all threads' values, which are not negative, for each thread."""
    scratch[8 * team.thread] = value
    barrier(team)
    for thread in range(team.threads):
        value = max(value, scratch[8 * thread])
    return value


@largest.on_gpu
def _(team, value, scratch):
    for power in range(5):
        value = max(value, shuffle_xor(value, 1 << power))
    word = work(team, FLAG)  # 0 when a stage begins
    if team.lane == 0 and value > 0:
        atomic.max(scratch, word, value)
    barrier_of_grid(team.sync)
    return scratch[word]


# The sum over the threads that run a loop together, for each of them.
sum_of_lanes = by_target(cpu=lambda number: number, gpu=lambda number: sum_of_warp(number))


@compiled(allocates=False)
def add_alone(array, at, number):
    """Add to an element that no other thread adds to.

    A GPU uses an atomic anyway: it need not wait for the old value.
    """
    array[at] += number


@add_alone.on_gpu
def _(array, at, number):
    atomic.add(array, at, np.int64(number))


# Whether there is room for a row of a superstep's figures.
has_row = by_target(
    cpu=lambda rows, row: row < len(rows),
    gpu=lambda rows, row: (row + 1) * ROW <= len(rows),
)


@compiled(allocates=False)
def put_in_row(rows, row, word, number):
    """Write a word of that row."""
    rows[row, word] = number


@put_in_row.on_gpu
def _(rows, row, word, number):
    rows[row * ROW + word] = number


# ---- parts --------------------------------------------------------------------------------------


# Wait for all threads of all parts here; on a CPU returns whether the run must stop.
meet = by_target(
    cpu=lambda world: sync.barrier(world.sync, world.threads),
    gpu=meet_of_grids,
)


@compiled(allocates=False)
def meet_having_written(world):
    """Meet; what was written to the hub is visible before a flag is."""
    meet(world)


@meet_having_written.on_gpu
def _(world):
    sync_block()
    if thread_of_block() == 0:
        fence_host()
    meet(world)


# Whether the host or a part requests a stop, and why.
wish_to_stop = by_target(
    cpu=lambda team, world: sync.load(world.sync, sync.CANCEL),
    gpu=lambda team, world: np.int64(team.sync[CANCEL_OF_GRID]),
)
# Whether a thread is gone, so that no other waits for it: never on a GPU.
is_gone = by_target(
    cpu=lambda world: sync.load(world.sync, sync.CANCEL) == sync.ABORT,
    gpu=lambda world: False,
)
# The number of emitted ghosts in a part's box.
box_size = by_target(
    cpu=lambda world, p, stamp: world.boxed[p, SIZE],
    gpu=lambda world, p, stamp: world.boxed[p * BOXED + stamp % TURNS],
)


@compiled(allocates=False)
def set_box_size(world, p, stamp, size):
    """Set it for a part on another machine."""
    world.boxed[p, SIZE] = size


@set_box_size.on_gpu
def _(world, p, stamp, size):
    world.boxed[p * BOXED + stamp % TURNS] = size


# ---- machines -----------------------------------------------------------------------------------


# Raise a flag of the hub, after all writes of this machine.
publish = by_target(
    cpu=lambda flags, at, value: sync.publish(flags, at, value),
    gpu=lambda flags, at, value: tell_host(flags, at, value),
)
# Read a flag of the hub, and see what the other machine wrote before it.
hear = by_target(
    cpu=lambda flags, at: sync.load(flags, at),
    gpu=lambda flags, at: hear_host(flags, at),
)
# Pause between two looks at a flag.
pause = by_target(cpu=lambda: sync.pause(), gpu=lambda: None)


@compiled(allocates=False)
def await_flag(flags, at, reached, give_up, gave_up):
    """Wait until a flag reaches a number; returns whether all must give up."""
    looks = 0
    while gave_up == 0 and hear(flags, at) < reached:
        looks += 1
        if looks < sync.SPINS:
            sync.pause()
        elif hear(flags, give_up) != 0:
            break
        elif looks < sync.SPINS + sync.YIELDS:
            sync.give_way()
        else:
            sync.doze()
    return hear(flags, give_up)


@await_flag.on_gpu
def _(flags, at, reached, give_up, gave_up):
    looks = 0
    while gave_up == 0 and hear(flags, at) < reached:
        looks += 1
        if looks % LOOKS == 0:
            gave_up = hear(flags, give_up)
    return gave_up
