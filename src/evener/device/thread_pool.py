"""A pool of threads, started on demand and kept."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from evener.device.locks import OwnLock


class Pool:
    """The threads of one process, started on demand."""

    def __init__(self, most: int):
        self.most = most
        self._lock = OwnLock()
        self._waiting: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._started = self._free = 0

    def submit(self, calls: list[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Future[Any]]:
        """Start these calls, each on its own thread as far as there are threads."""
        futures: list[Future[Any]] = [Future() for _ in calls]
        with self._lock:
            self._free -= len(calls)
            for _ in range(min(-self._free, self.most - self._started)):
                self._started += 1
                self._free += 1
                threading.Thread(
                    target=self._serve, name=f"evener-{self._started}", daemon=True
                ).start()
        for future, call in zip(futures, calls, strict=True):
            self._waiting.put((future, *call))
        return futures

    def _serve(self) -> None:
        while True:
            future, function, arguments = self._waiting.get()
            result: Any = None
            try:
                result = function(*arguments)
            except BaseException as error:
                self._done()
                future.set_exception(error)
            else:
                self._done()
                future.set_result(result)
            del future, function, arguments, result  # else they live until the next call

    def _done(self) -> None:
        with self._lock:
            self._free += 1
