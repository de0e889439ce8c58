"""Threads that run one kernel together: barrier, claiming of work, cancellation.

All words that threads share live in one int64 array, a cache line apart. The thread that arrives
last at a barrier resets the counter of claimed work and passes on a request to stop, so that all
threads leave the barrier with the same view of both.

A thread that waits looks at the word for some microseconds, which is all that a partner takes that
runs, and then parks: where other processes want the cores, the partner may be the one that needs
this core. Looking on, or giving way again and again, would cost a turn of the scheduler for each
barrier (a search of 800 levels took 170 ms instead of 5 beside one busy process).

The functions below `barrier` are plain Python for the interpreted device; compiled code gets
instructions (`evener.device.cpu.atomic`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from evener.device import atomic
from evener.device.compile import compiled

ARRIVED, GENERATION, NEXT, CANCEL, STOP, PARKED = 0, 8, 16, 24, 32, 40
# Words of a kernel whose first thread leads (`evener.device.crew`).
CALL, PLACE, WANTED, LEFT, MADE, ENDED, WAITED = range(48, 104, 8)
GRAIN, LEAST_WAIT, ALONE_UNTIL, CAUTION = range(104, 108)  # which the leader alone reads
SAVED = 112
SAVED_WORDS = 64
# How far a run is, for whoever waits for it: supersteps done, the size of the frontier, arcs.
TOLD = SAVED + SAVED_WORDS
TOLD_WORDS = 8
WORDS = TOLD + TOLD_WORDS

NOTHING = np.int64(1) << np.int64(62)  # beyond all items
ABORT = 2  # as CANCEL: a thread is gone, so nobody waits for it at a barrier any more
PATIENCE = 60_000  # cycles for which a waiting thread looks on before it parks: 20 to 30 µs
PARK_NANOSECONDS = 20_000_000  # it then looks again by itself: `abort` wakes nobody
SPINS = 4000  # looks before a thread that waits for another device gives way; some 60 µs
YIELDS = 200  # times it gives way before it sleeps


def new_sync() -> np.ndarray:
    """The shared words of one run."""
    return np.zeros(WORDS, np.int64)


def arrive(array: Any, index: Any) -> Any:
    """Add one, publishing all writes so far; return what was there."""
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
    """A clock that only counts up, in units that the host works out afterwards."""
    return time.perf_counter_ns()


def doze() -> None:
    """Sleep for some microseconds."""


def park(array: Any, index: Any, seen: Any, nanoseconds: Any) -> None:
    """Sleep until `unpark` of this word, if it still is what was ``seen``, but no longer."""


def unpark(array: Any, index: Any) -> None:
    """Wake all that are parked at a word."""


@compiled(allocates=False)
def barrier(sync, threads):
    """Wait until all threads are here; returns whether the run is to stop."""
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
    """Wake those who sleep until a word changes; it has changed."""
    fence()  # either they see the word, or this thread sees that they sleep
    if load(sync, PARKED) > 0:
        unpark(sync, word)


@compiled(allocates=False)
def sleep(sync, word, seen):
    """Sleep until a word is no longer what was seen."""
    arrive(sync, PARKED)
    fence()
    park(sync, word, seen, PARK_NANOSECONDS)
    atomic.add(sync, PARKED, -1)


@compiled(allocates=False)
def show(sync, thread, supersteps, frontier, arcs):
    """Tell whoever waits how far the run is: supersteps in all, and the arcs of this thread."""
    if thread == 0:
        sync[TOLD] = supersteps
        sync[TOLD + 1] = frontier
    atomic.add(sync, TOLD + 2, arcs)


def told(syncs: list[np.ndarray]) -> tuple[int, int, int]:
    """Supersteps, size of the frontier and arcs visited of teams that run in step."""
    steps = max(int(sync[TOLD]) for sync in syncs)
    frontier, arcs = (sum(int(sync[TOLD + i]) for sync in syncs) for i in (1, 2))
    return steps, frontier, arcs


def abort(sync: np.ndarray) -> None:
    """Let threads that wait for one that is gone leave their barriers, now and from now on."""
    sync[CANCEL] = ABORT
    sync[STOP] = ABORT


@compiled(allocates=False)
def claim(sync, amount):
    """Take the next ``amount`` items; returns the first of them, none after a request to stop."""
    if sync[CANCEL] != 0:
        return NOTHING
    return atomic.add(sync, NEXT, amount)
