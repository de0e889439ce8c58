"""Compiled functions over chunks, run by all cores, cancellable between chunks.

``@parallel`` turns ``kernel(chunk, *arrays)`` into ``kernel(number_of_chunks, *arrays)``: a team of
threads claims chunks from one counter until none is left. What a chunk does must not depend on
which thread does it, so results are the same for any number of threads. Ctrl-C moves the counter
past the end: every thread finishes its chunk, and the interrupt goes on to the caller.
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
from evener.device.sync import CANCEL, abort, told
from evener.device.thread_pool import Pool
from evener.errors import EvenerError

_POLL_SECONDS = 0.05  # how often a waiting caller looks for Ctrl-C and reports progress
_GRACE_SECONDS = 1.0  # that threads have to stop in, after which they are left alone
_PAST_THE_END = np.int64(1) << np.int64(62)

_team: Pool | None = None
_team_lock = OwnLock()
_chosen = threading.local()


def num_threads() -> int:
    """Threads that compiled work uses now: the cores granted, unless `use_threads` says else."""
    return getattr(_chosen, "threads", None) or num_cores()


@contextlib.contextmanager
def use_threads(threads: int) -> Iterator[None]:
    """Use this many threads for compiled work started by this Python thread."""
    if threads < 1:
        raise EvenerError(f"use_threads was given {threads}; it must be a whole number from 1 up.")
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
    """After a fork the child has no threads: start a new team when one is needed.

    Whoever held a lock is not there to let it go.
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
        given = (counter, np.int64(num_chunks), args)
        # Compiled on this thread: Ctrl-C then interrupts the compiler, not a team member.
        worker = self._worker.entry_for(*given)
        if num_chunks == 1:
            worker(*given)  # not worth waking anybody
            require_whole()
            return
        threads = min(num_threads(), num_chunks)
        running: list[concurrent.futures.Future[None]] = []
        try:
            with interrupts.held_back():
                running = _pool().submit([(worker, given)] * threads)
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
    """Run ``worker(thread, threads, sync, *args)`` on so many threads that meet at barriers.

    Ctrl-C asks them to stop; they do at their next barrier, and the interrupt goes on to the
    caller. A thread that raises is gone: the others are let go at the next look. Returns whether a
    worker said that it could not go on.
    """
    entry = worker.entry_for(0, threads, sync, *args)
    calls = [(entry, (t, threads, sync, *args)) for t in range(threads)]
    # A team of one waits for nobody, so it need not have the cores to itself.
    with _together if threads > 1 else contextlib.nullcontext():
        running = _run_all(calls, [sync])
    return max(bool(future.result()) for future in running)  # all of them: one may have raised


_learned = [0, 0]  # by the last run that was led


def run_led(worker: Compiled, threads: int, sync: np.ndarray, *args: Any) -> bool:
    """Run ``worker(thread, threads, sync, *args)``: thread 0 leads, the others help if they can.

    The leader needs nobody else (`evener.device.crew`), so any number of such kernels may run at
    once, and the call ends with the leader. Returns whether the leader could not go on.
    """
    entry = worker.entry_for(0, threads, sync, *args)
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
    """Run a worker on several teams at once, which meet each other at the barriers of ``world``.

    A team is a number of threads, the words they share, and further arguments. Returns what each
    thread of each team returned. A thread that raises, or returns less than 0, is gone: the others
    are let go at the next look. Where other devices take part, ``watch`` is called now and then and
    raises if one of them has failed, and ``let_go`` has nobody wait for the others any more.
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
    """Run calls that wait for each other, until none is left; the first words pass on a stop.

    They run on threads of their own, so that Ctrl-C is seen here. Only the first ``needed`` calls
    are waited for, all of them unless said.
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
        with interrupts.held_back():  # between two of them it would leave the first waiting
            running = _pool().submit(calls)
            waiting = running[:needed]
        while waiting:
            waiting = wait(waiting)
            if watch is not None:
                watch()
            progress.report_supersteps(*told(syncs))
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
    """Wait for threads that were asked to stop, but not for ever: a functor may never return.

    Returns whether they stopped.
    """
    deadline = time.monotonic() + _GRACE_SECONDS
    with contextlib.suppress(KeyboardInterrupt):  # asked twice: it has waited long enough
        while waiting and time.monotonic() < deadline:
            waiting = wait(waiting)
    if waiting:
        _abandon(len(waiting))
    return not waiting


def _abandon(threads: int) -> None:
    """Leave threads alone that do not stop, and let the next run have others."""
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
