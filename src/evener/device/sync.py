"""Threads that run one kernel together: barrier, claiming of work, cancellation.

All shared words live in one int64 array, a cache line apart. The last thread to arrive at a
barrier resets the counter of claimed work and passes on a stop request, so that all threads leave
the barrier with the same view of both.

A waiting thread spins for some microseconds, which is all that a running partner takes, and then
parks: if other processes want the cores, the partner may need this one. Spinning on, or yielding
again and again, would cost a scheduler time slice per barrier (a search of 800 levels took 170 ms
instead of 5 beside one busy process).

The functions before `barrier` are plain Python for the interpreted device; compiled code gets
instructions (`evener.device.cpu.atomic`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from evener.device import atomic
from evener.device.compile import compiled

ARRIVED, GENERATION, NEXT, CANCEL, STOP, PARKED = 0, 8, 16, 24, 32, 40
# Words of a kernel with a leader (`evener.device.crew`).
CALL, PLACE, WANTED, LEFT, MADE, ENDED, WAITED = range(48, 104, 8)
GRAIN, LEAST_WAIT, ALONE_UNTIL, CAUTION = range(104, 108)  # read by the leader only
SAVED = 112
SAVED_WORDS = 64
# Progress of a run, for the waiting caller: supersteps, size of the frontier, arcs.
TOLD = SAVED + SAVED_WORDS
TOLD_WORDS = 8
WORDS = TOLD + TOLD_WORDS

NOTHING = np.int64(1) << np.int64(62)  # beyond all items
ABORT = 2  # as CANCEL: a thread is gone, so no other waits for it at a barrier
PATIENCE = 60_000  # cycles that a waiting thread spins before it parks: 20 to 30 µs
PARK_NANOSECONDS = 20_000_000  # then it checks again: `abort` wakes no thread
SPINS = 4000  # spins of a thread that waits for another device before it yields; some 60 µs
YIELDS = 200  # yields before it sleeps


def new_sync() -> np.ndarray:
    """The shared words of one run."""
    return np.zeros(WORDS, np.int64)


def arrive(array: Any, index: Any) -> Any:
    """Add one, publishing all writes so far; return the old value."""
    return atomic.add(array, index, 1)


def load(array: Any, index: Any) -> Any:
    """Read a word that another thread publishes."""
    return array[index]


def publish(array: Any, index: Any, value: Any) -> None:
    """Write a word, after all writes so far."""
    array[index] = value


def fence() -> None:
    """Order all reads and writes before it and after it."""


def pause() -> None:
    """Tell the processor that this thread is waiting."""


def give_way() -> None:
    """Let the system run another thread on this core."""


def prefetch(array: Any, index: Any) -> None:
    """Tell the processor that an element will be read soon."""


def cycles() -> int:
    """A monotonic clock, in units that the host determines afterwards."""
    return time.perf_counter_ns()


def doze() -> None:
    """Sleep for some microseconds."""


def park(array: Any, index: Any, seen: Any, nanoseconds: Any) -> None:
    """Sleep until `unpark` of this word or a timeout, if it still is ``seen``."""


def unpark(array: Any, index: Any) -> None:
    """Wake all threads parked at a word."""


@compiled(allocates=False)
def barrier(sync, threads):
    """Wait until all threads are here; returns whether the run must stop."""
    if threads == 1:
        sync[NEXT] = 0
        sync[STOP] = load(sync, CANCEL)
        return sync[STOP] != 0
    generation = load(sync, GENERATION)
    if arrive(sync, ARRIVED) == threads - 1:
        sync[ARRIVED] = 0
        sync[NEXT] = 0
        sync[STOP] = load(sync, CANCEL)
        publish(sync, GENERATION, generation + 1)
        wake(sync, GENERATION)
    else:
        began = cycles()
        while load(sync, GENERATION) == generation:
            if cycles() - began < PATIENCE:
                pause()
            elif load(sync, CANCEL) == ABORT:
                return True
            else:
                sleep(sync, GENERATION, generation)
        if cycles() - began > PATIENCE:
            sync[WAITED] = cycles() - began
    return sync[STOP] != 0


@compiled(allocates=False)
def wake(sync, word):
    """Wake the threads that sleep until a word changes; it has."""
    fence()  # either they see the word, or this thread sees that they sleep
    if load(sync, PARKED) > 0:
        unpark(sync, word)


@compiled(allocates=False)
def sleep(sync, word, seen):
    """Sleep until a word is no longer ``seen``."""
    arrive(sync, PARKED)
    fence()
    park(sync, word, seen, PARK_NANOSECONDS)
    atomic.add(sync, PARKED, -1)


@compiled(allocates=False)
def show(sync, thread, supersteps, frontier, arcs):
    """Report progress to the waiting caller: supersteps in all, and this thread's arcs."""
    if thread == 0:
        sync[TOLD] = supersteps
        sync[TOLD + 1] = frontier
    atomic.add(sync, TOLD + 2, arcs)


def progress_of(syncs: list[np.ndarray]) -> tuple[int, int, int]:
    """Supersteps, size of the frontier and visited arcs of teams that run in step."""
    steps = max(int(sync[TOLD]) for sync in syncs)
    frontier, arcs = (sum(int(sync[TOLD + i]) for sync in syncs) for i in (1, 2))
    return steps, frontier, arcs


def abort(sync: np.ndarray) -> None:
    """Let threads that wait for one that is gone leave their barriers, now and later."""
    sync[CANCEL] = ABORT
    sync[STOP] = ABORT


@compiled(allocates=False)
def claim(sync, amount):
    """Claim the next ``amount`` items; returns the first, `NOTHING` after a stop request."""
    if sync[CANCEL] != 0:
        return NOTHING
    return atomic.add(sync, NEXT, amount)
