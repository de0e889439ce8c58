"""Threads that wait for work: awake for a few milliseconds after the last, then asleep.

A core that sleeps takes up to milliseconds to wake, as long as a whole run on a small graph; a
caller often comes back sooner. So a thread that has finished *lingers*: it looks for new work,
giving way to anybody else who wants its core, before it goes to sleep.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from evener.device.compile import compiled
from evener.device.sync import cycles, give_way, load

# How long a thread lingers: so many looks, giving way after each, two to four milliseconds in all;
# but where others want its core a look takes as long as their turns, so ticks of the clock count
# too: two milliseconds of a processor's.
LOOKS, TICKS = 5000, 6_000_000
OFTEN = 8  # calls after which a process counts as one that goes on calling


@compiled(allocates=False)
def linger(posted, seen):
    """Wait until the word differs from what was ``seen``, or for a while."""
    looks, began = 0, cycles()
    while load(posted, 0) == seen and looks < LOOKS and cycles() - began < TICKS:
        give_way()
        looks += 1


class Pool:
    """Threads of one process, started when there is work for them."""

    def __init__(self, most: int):
        self.most = most
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._posted = np.zeros(1, np.int64)  # changes whenever there is new work
        self._started = self._free = self._calls = 0
        self._lingers = False

    def submit(self, calls: list[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Future[Any]]:
        """Begin these calls, each on a thread of its own while there are so many."""
        futures: list[Future[Any]] = [Future() for _ in calls]
        with self._lock:
            self._calls += 1
            if self._calls == OFTEN:
                threading.Thread(target=self._learn_to_linger, name="evener-compiles").start()
            self._posted += 1
            self._free -= len(calls)
            for _ in range(min(-self._free, self.most - self._started)):
                self._started += 1
                self._free += 1
                threading.Thread(
                    target=self._serve, name=f"evener-{self._started}", daemon=True
                ).start()
        for number, (future, call) in enumerate(zip(futures, calls, strict=True)):
            self._waiting.put((future, number, *call))
        return futures

    def _learn_to_linger(self) -> None:
        """Compile, or find compiled: on a thread of its own, so that nobody waits for it."""
        linger.compile_for(self._posted, 0)
        self._lingers = True

    def _serve(self) -> None:
        while True:
            future, number, function, arguments = self._waiting.get()
            seen = int(self._posted[0])
            result: Any = None
            try:
                result = function(*arguments)
            except BaseException as error:
                self._done()
                future.set_exception(error)
            else:
                self._done()
                future.set_result(result)
            del future, function, arguments, result  # or they would live until the next call
            if number > 0 and self._lingers:  # the first of several leaves a core to the caller
                linger(self._posted, seen)

    def _done(self) -> None:
        with self._lock:
            self._free += 1
