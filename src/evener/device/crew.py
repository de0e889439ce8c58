"""Kernels led by one thread, which runs the loop alone and calls helpers for large stages.

The *leader* runs the whole loop. If a stage is worth more than one thread, it opens a *call*.
Helpers that are awake join; after a short wait the leader closes the call and starts with those
that joined, its *crew*. No thread waits for a helper without a core, and a stage that is not worth
a call costs neither a barrier nor an atomic. Small supersteps, of which a search on a road network
has thousands, thus cost one thread's work, even beside busy processes.

A helper that loses its core during a stage makes the others wait for a scheduler time slice. After
such a wait the leader works alone for a while, except on stages longer than a time slice: first
for eight times the wait, then for longer each time.

A helper waits for calls, runs the stage of the call as part of a team (`evener.device.sync`) and
leaves. The leader saves the variables that the stage needs beside the call. Between calls a helper
spins for some microseconds and then parks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evener.device import atomic
from evener.device.compile import compiled
from evener.device.sync import (
    ABORT,
    ALONE_UNTIL,
    CALL,
    CANCEL,
    CAUTION,
    ENDED,
    GRAIN,
    LEAST_WAIT,
    LEFT,
    MADE,
    PATIENCE,
    PLACE,
    WAITED,
    WANTED,
    arrive,
    cycles,
    give_way,
    load,
    pause,
    publish,
    sleep,
    wake,
)

# The word CALL: how many threads joined, whether more may, and above both the number of the call.
JOINED = np.int64(0xFFFF)
OPEN = np.int64(1) << np.int64(16)
NUMBER = np.int64(1) << np.int64(17)

WORTH = 1024  # arcs, or similar small items of work, that justify one more thread
LONG = 1 << 22  # work that takes longer than a scheduler time slice: some 10 ms
LEAST_CAUTION, MOST_CAUTION = 8, 64  # a leader works alone for this many times its wait
# The leader waits for helpers for a fraction of the stage's likely time: cycles per item of work,
# but at least as long as a helper that is awake needs to join.
PATIENCE_A_PIECE, LEAST_PATIENCE, MOST_PATIENCE = 0.4, 3_000, 400_000.0


def ready(sync: np.ndarray, learned: Sequence[int]) -> None:
    """Set the words that guide a leader; `learned` is from the last one."""
    sync[GRAIN], sync[LEAST_WAIT] = WORTH, LEAST_PATIENCE
    sync[CAUTION], sync[ALONE_UNTIL] = learned


def learned_by(sync: np.ndarray) -> tuple[int, int]:
    """What a leader learned about the machine: its caution, and until when it works alone."""
    return int(sync[CAUTION]), int(sync[ALONE_UNTIL])


@compiled(allocates=False)
def worth(sync, threads, work):
    """How many threads to use for some work."""
    if work < 2 * sync[GRAIN] or threads == 1:
        return np.int64(1)
    if work < LONG and cycles() < sync[ALONE_UNTIL]:
        return np.int64(1)
    return min(np.int64(threads), np.int64(work // sync[GRAIN]))


@compiled(allocates=False)
def muster(sync, place, wanted, work):
    """Call helpers; returns the size of the crew, leader included."""
    sync[PLACE] = place
    sync[WANTED] = wanted - 1
    sync[LEFT] = 0
    sync[MADE] = 0
    sync[WAITED] = 0
    call = (load(sync, CALL) // NUMBER + 1) * NUMBER + OPEN
    publish(sync, CALL, call)
    wake(sync, CALL)
    patience = max(min(work * PATIENCE_A_PIECE, MOST_PATIENCE), sync[LEAST_WAIT])
    began = cycles()
    while load(sync, CALL) & JOINED < wanted - 1 and cycles() - began < patience:
        pause()
    return (atomic.add(sync, CALL, -OPEN) & JOINED) + 1


@compiled(allocates=False)
def dismiss(sync, hands):
    """Wait until all helpers have left the stage; returns how many functor calls they made."""
    began = cycles()
    while True:
        left = load(sync, LEFT)
        if left == hands - 1 or load(sync, CANCEL) == ABORT:
            break
        if cycles() - began < PATIENCE:
            pause()
        else:
            sleep(sync, LEFT, left)
    _learn(sync, max(sync[WAITED], cycles() - began))
    return sync[MADE]


@compiled(allocates=False)
def _learn(sync, waited):
    """Become more cautious after waiting for a thread that did not run, else less."""
    if sync[CAUTION] < 0:
        return  # a leader that never works alone
    if waited > PATIENCE:
        sync[CAUTION] = min(max(2 * sync[CAUTION], LEAST_CAUTION), MOST_CAUTION)
        sync[ALONE_UNTIL] = cycles() + sync[CAUTION] * waited
    elif sync[CAUTION] > 0 and cycles() > sync[ALONE_UNTIL] + sync[CAUTION] * PATIENCE:
        sync[CAUTION] = 0


@compiled(allocates=False)
def join(sync):
    """Wait for a call and join it; returns its place (0 at the end) and what `Team` needs."""
    began = cycles()
    while True:
        call = load(sync, CALL)
        if load(sync, ENDED) != 0 or load(sync, CANCEL) == ABORT:
            return np.int64(0), np.int64(0), np.int64(0)
        if call & OPEN and call & JOINED < sync[WANTED]:
            if atomic.cas(sync, CALL, call, call + 1) == call:
                hand = (call & JOINED) + 1
                place = sync[PLACE]
                return place, hand, _closed(sync)
        elif cycles() - began < PATIENCE:
            pause()
        else:
            sleep(sync, CALL, call)
            began = cycles()


@compiled(allocates=False)
def _closed(sync):
    """Wait until the leader has closed the call; returns the size of the crew."""
    began = cycles()
    while True:
        call = load(sync, CALL)
        if not call & OPEN or load(sync, CANCEL) == ABORT:
            return (call & JOINED) + 1
        if cycles() - began < 2 * MOST_PATIENCE:
            pause()
        else:  # the leader may need this core
            give_way()


@compiled(allocates=False)
def leave(sync, made):
    """Leave a stage and report how many functor calls were made."""
    atomic.add(sync, MADE, made)
    arrive(sync, LEFT)
    wake(sync, LEFT)


@compiled(allocates=False)
def end(sync, outcome):
    """Dismiss all helpers for good; returns the kernel's result."""
    publish(sync, ENDED, 1)
    atomic.add(sync, CALL, NUMBER)
    wake(sync, CALL)
    return outcome
