"""Compiled functions over chunks, run by all cores, cancellable between chunks.

``@parallel`` turns ``kernel(chunk, *arrays)`` into ``kernel(number_of_chunks, *arrays)``: a team of
threads claims chunks from one counter until none is left. What a chunk does must not depend on the
thread, so results are the same for any number of threads. Ctrl-C moves the counter past the end:
every thread finishes its chunk, and the caller gets the interrupt.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from evener import progress
from evener.device import atomic, crew, interrupts
from evener.device.compile import Compiled
from evener.device.limits import num_cores
from evener.device.locks import OwnLock
from evener.device.mapped_files import require_whole
from evener.device.sync import CANCEL, abort, progress_of
from evener.device.thread_pool import Pool
from evener.errors import EvenerError

_POLL_SECONDS = 0.05  # how often a waiting caller checks for Ctrl-C and reports progress
_GRACE_SECONDS = 1.0  # for threads to stop in, before they are abandoned
_PAST_THE_END = np.int64(1) << np.int64(62)

_team: Pool | None = None
_team_lock = OwnLock()
_chosen = threading.local()


def num_threads() -> int:
    """Threads that compiled work uses now: the cores granted, unless `use_threads` is active."""
    return getattr(_chosen, "threads", None) or num_cores()


@contextlib.contextmanager
def use_threads(threads: int) -> Iterator[None]:
    """Use this many threads for compiled work started by this Python thread."""
    if threads < 1:
        raise EvenerError(f"use_threads got {threads}; it must be a whole number of at least 1.")
    before = getattr(_chosen, "threads", None)
    _chosen.threads = threads
    try:
        yield
    finally:
        _chosen.threads = before


def _pool() -> Pool:
    global _team
    with _team_lock:
        if _team is None:
            _team = Pool(4 * max(num_cores(), 8))  # room for a few callers at once
        return _team


def _forget_team() -> None:
    """Start a new team when the child of a fork needs one: it has no threads.

    No thread is there to release the locks.
    """
    global _team, _team_lock, _together
    _team, _team_lock, _together = None, OwnLock(), OwnLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_team)


class Parallel:
    """A chunk kernel and the compiled loop that claims its chunks."""

    def __init__(self, function: Callable[..., None]):
        functools.update_wrapper(self, function)
        self.kernel = Compiled(function)
        self._worker = Compiled(_claiming_loop(self.kernel, function.__name__))

    def __call__(self, num_chunks: int, *args: Any) -> None:
        """Run chunks ``0..num_chunks-1`` and return when all are done."""
        if num_chunks <= 0:
            return
        counter = np.zeros(1, dtype=np.int64)
        values = (counter, np.int64(num_chunks), args)
        # Compiled on this thread: Ctrl-C then interrupts the compiler, not a team member.
        worker = self._worker.entry_for(*values)
        if num_chunks == 1:
            worker(*values)  # not worth waking a thread
            require_whole()
            return
        threads = min(num_threads(), num_chunks)
        running: list[concurrent.futures.Future[None]] = []
        try:
            with interrupts.held_back():
                running = _pool().submit([(worker, values)] * threads)
            _wait(running, counter, num_chunks)
        except BaseException:
            counter[0] = _PAST_THE_END
            concurrent.futures.wait(running)
            raise
        require_whole()


def _claiming_loop(kernel: Compiled, name: str) -> Callable[..., None]:
    def claim_chunks(counter, limit, args):
        chunk = atomic.add(counter, 0, 1)
        while chunk < limit:
            kernel(chunk, *args)
            chunk = atomic.add(counter, 0, 1)

    claim_chunks.__name__ = f"{name}_chunks"
    return claim_chunks


def _wait(
    running: list[concurrent.futures.Future[None]], counter: np.ndarray, num_chunks: int
) -> None:
    while True:
        done, waiting = concurrent.futures.wait(running, timeout=_POLL_SECONDS)
        if not waiting:
            break
        progress.report(min(int(counter[0]), num_chunks), num_chunks)
    for future in done:
        future.result()


def parallel(function: Callable[..., None]) -> Parallel:
    """Compile ``function(chunk, *args)`` and run it over chunks ``0..n-1`` on all cores.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.device import parallel
    >>> @parallel
    ... def square(chunk, values):
    ...     values[chunk] = chunk * chunk
    >>> values = np.zeros(4, dtype=np.int64)
    >>> square(4, values)
    >>> values.tolist()
    [0, 1, 4, 9]
    """
    return Parallel(function)


_together = OwnLock()  # one kernel with barriers at a time: its threads must all run


def run_together(worker: Compiled, threads: int, sync: np.ndarray, *args: Any) -> bool:
    """Run ``worker(thread, threads, sync, *args)`` on ``threads`` threads with barriers.

    Ctrl-C stops them at their next barrier, and the caller gets the interrupt. If a thread raises,
    the others stop waiting for it at the next poll. Returns whether a worker reported that it could
    not continue.
    """
    entry = worker.entry_for(0, threads, sync, *args)
    calls = [(entry, (t, threads, sync, *args)) for t in range(threads)]
    # A team of one waits for no other, so it need not have the cores to itself.
    with _together if threads > 1 else contextlib.nullcontext():
        running = _run_all(calls, [sync])
    return max(bool(future.result()) for future in running)  # read all: one may have raised


_learned = [0, 0]  # by the last leader


def run_led(entry: Callable[..., Any], threads: int, sync: np.ndarray, *args: Any) -> bool:
    """Run ``entry(thread, threads, sync, *args)``: thread 0 leads, the others help if they can.

    The leader needs no helper (`evener.device.crew`), so any number of such kernels may run at
    once, and the call ends with the leader. Returns whether the leader could not continue.
    """
    calls = [(entry, (t, threads, sync, *args)) for t in range(threads)]
    crew.ready(sync, _learned)
    running = _run_all(calls, [sync], needed=1)
    _learned[:] = crew.learned_by(sync)
    return max(bool(future.result()) for future in running if future.done())


def most_threads() -> int:
    """How many threads can run one kernel together."""
    return _pool().most


def run_teams(
    worker: Compiled,
    teams: list[tuple[int, np.ndarray, tuple[Any, ...]]],
    world: np.ndarray,
    watch: Callable[[], None] | None = None,
    let_go: Callable[[], None] | None = None,
) -> list[list[int]]:
    """Run a worker on several teams at once, which share the barriers of ``world``.

    A team is a number of threads, their shared words, and further arguments. Returns the results
    of all threads of all teams. If a thread raises or returns less than 0, the others stop waiting
    for it at the next poll. If other devices take part, ``watch`` is called regularly and raises
    when one has failed, and ``let_go`` ends all waiting between devices.
    """
    calls: list[tuple[Any, tuple[Any, ...]]] = []
    for k, sync, args in teams:
        entry = worker.entry_for(0, k, sync, *args)
        calls += [(entry, (t, k, sync, *args)) for t in range(k)]
    with _together:
        running = _run_all(calls, [world, *(team[1] for team in teams)], watch, let_go)
    returned = iter(running)
    return [[next(returned).result() for _ in range(threads)] for threads, _, _ in teams]


def _run_all(
    calls: list[tuple[Any, tuple[Any, ...]]],
    syncs: list[np.ndarray],
    watch: Callable[[], None] | None = None,
    let_go: Callable[[], None] | None = None,
    needed: int | None = None,
) -> list[concurrent.futures.Future[Any]]:
    """Run calls that wait for each other until all end; the first words pass on a stop.

    They run on their own threads, so that this one sees Ctrl-C. Waits for the first ``needed``
    calls only, by default for all.
    """

    def wait(waiting: Any) -> Any:
        _, waiting = concurrent.futures.wait(waiting, _POLL_SECONDS)
        done = [future for future in running if future.done()]
        if any(future.exception() or (future.result() or 0) < 0 for future in done):
            for sync in syncs:
                abort(sync)
            if let_go is not None:
                let_go()
        return waiting

    running: Any = []
    waiting: Any = []
    try:
        with interrupts.held_back():  # between two calls it would leave the first waiting
            running = _pool().submit(calls)
            waiting = running[:needed]
        while waiting:
            waiting = wait(waiting)
            if watch is not None:
                watch()
            progress.report_supersteps(*progress_of(syncs))
    except BaseException as error:
        if syncs[0][CANCEL] == 0:
            syncs[0][CANCEL] = 1
        if let_go is not None and not isinstance(error, KeyboardInterrupt):
            let_go()
        if not _wait_for_the_end(waiting, wait) and let_go is not None:
            let_go()  # other devices wait for threads that never come
        raise
    return running


def _wait_for_the_end(waiting: Any, wait: Callable[[Any], Any]) -> bool:
    """Wait a while for threads that were asked to stop: a functor may never return.

    Returns whether they stopped.
    """
    deadline = time.monotonic() + _GRACE_SECONDS
    with contextlib.suppress(KeyboardInterrupt):  # a second one ends the wait
        while waiting and time.monotonic() < deadline:
            waiting = wait(waiting)
    if waiting:
        _abandon(len(waiting))
    return not waiting


def _abandon(threads: int) -> None:
    """Abandon threads that do not stop; the next run gets others."""
    global _team
    with _team_lock:
        _team = None
    warnings.warn(
        f"{threads} {'thread' if threads == 1 else 'threads'} did not stop within "
        f"{_GRACE_SECONDS:g} seconds and will run on until this process ends: is there an endless "
        "loop in a functor? Later runs get new threads.",
        RuntimeWarning,
        stacklevel=2,
    )
