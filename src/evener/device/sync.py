"""Threads that run one kernel together: barrier, claiming of work, cancellation.

All words that threads share live in one int64 array, a cache line apart. The thread that arrives
last at a barrier resets the counter of claimed work and passes on a wish to stop, so that all
threads leave the barrier with the same view of both.

The functions below `barrier` are plain Python for the interpreted device; compiled code gets
instructions (`evener.device.cpu_atomic`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from evener.device import atomic
from evener.device.compile import compiled

ARRIVED, GENERATION, NEXT, CANCEL, STOP = 0, 8, 16, 24, 32
WORDS = 40

ABORT = 2  # as CANCEL: a thread is gone, so nobody waits for it at a barrier any more
SPINS = 4000  # looks before a waiting thread gives way; some 60 microseconds
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


@compiled(allocates=False)
def barrier(sync, threads):
    """Wait until all threads are here; returns whether the run is to stop."""
    generation = load(sync, GENERATION)
    if arrive(sync, ARRIVED) == threads - 1:
        sync[ARRIVED] = 0
        sync[NEXT] = 0
        sync[STOP] = load(sync, CANCEL)
        publish(sync, GENERATION, generation + 1)
    else:
        looks = 0
        while load(sync, GENERATION) == generation:
            looks += 1
            if looks < SPINS:
                pause()
            elif load(sync, CANCEL) == ABORT:
                return True
            elif looks < SPINS + YIELDS:
                give_way()
            else:
                doze()
    return sync[STOP] != 0


def abort(sync: np.ndarray) -> None:
    """Let threads that wait for one that is gone leave their barriers, now and from now on."""
    sync[CANCEL] = ABORT
    sync[STOP] = ABORT


@compiled(allocates=False)
def claim(sync, amount):
    """Take the next ``amount`` items; returns the first of them."""
    return atomic.add(sync, NEXT, amount)
