"""Sets of CPUs and GPUs: compiled kernels on all at once, joined by a hub in host memory.

All CPU parts are one machine, each GPU with its parts another
(`operators.shared.between_machines`). Every machine runs the whole loop; machines shake hands where
a kernel over parts exchanges or agrees on something, and the host only watches for failures. If
there are only GPUs, and all can reach the memory of the first, they exchange there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from evener.device import cuda as device
from evener.device import interrupts
from evener.device.cuda import POLL_SECONDS, SPIN_SECONDS, TELL_SECONDS
from evener.device.download import downloaded
from evener.engine.codegen.analysis import pulls
from evener.engine.codegen.functors import state_of
from evener.engine.codegen.print_parts_cpu import lower_parts_cpu
from evener.engine.codegen.print_resume import MORE_ROOM
from evener.engine.codegen.printer import Kernel
from evener.engine.deferred_arrays import new_array
from evener.engine.devices import require_together, threads_of
from evener.engine.job import Job
from evener.engine.memory.estimate import estimate_memory
from evener.engine.memory.gpu import Lowered
from evener.engine.memory.hub import HubMemory, new_hub
from evener.engine.partition.divide import Parts, put_back
from evener.engine.partition.partitioners import partition as assign
from evener.engine.partition.stats import measure_partition
from evener.engine.preallocation import RecordIsFull, out_of_room
from evener.engine.request import Request
from evener.engine.results.trace import PartRows, rows_of_parts
from evener.engine.targets import sets
from evener.engine.targets.parts_cpu import Teams
from evener.engine.targets.parts_gpu import (
    Card,
    NoRoom,
    lower_beside_others,
    lowered_parts,
    most_recorded_on,
    one_at_a_time,
    require_few_parts,
)
from evener.engine.targets.parts_gpu import ptx as ptx
from evener.graph.gpu import graph_cache
from evener.operators.shared.policies import Policy

REPEATS_START = True


# Shares of the edges that the first CPU may get. A GPU does 20 to 40 times the work of 16 cores
# (benchmarks/results/parts_cuda.json): more than the first share only if its memory requires it.
CPU_SHARES = (1 / 16, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8)
ROOM = 64  # largest room of a record, as a multiple of the vertices


def machines_of(ordinals: Sequence[int | None]) -> list[int]:
    """The machine of each part: all CPUs are one, and each GPU is one with all of its parts.

    Examples
    --------
    >>> from evener.engine.targets.hybrid import machines_of
    >>> machines_of([None, 0, 1, None, 0])
    [0, 1, 2, 0, 1]
    """
    known: dict[int | None, int] = {}
    return [known.setdefault(ordinal, len(known)) for ordinal in ordinals]


@one_at_a_time
def run(job: Job, request: Request) -> list[str]:
    """Run a job; returns the lines for `explain()`."""
    cards = [None if one.kind == "cpu" else one.number or 0 for one in request.devices]
    return run_hybrid(
        job, threads_of(request.devices), cards, request.partition, request.direction,
        request.schedule, request.policy, request.limits,
    )  # fmt: skip


def lower(job: Job, request: Request) -> list[Kernel]:
    """The kernels of a job, not compiled: the GPU's and the CPU's, printed from one plan."""
    gpu = lower_beside_others(job, request)
    threads = [count for count in threads_of(request.devices) if count]
    if not threads:
        return [gpu]
    state, measure = state_of(job.declaration), request.policy.measure
    single = max(threads) == 1
    return [gpu, lower_parts_cpu(job, request.direction, state, measure, True, single, gpu.plan)]


def run_hybrid(
    job: Job,
    threads: list[int],
    ordinals: Sequence[int | None],
    partition: Any,
    direction: str,
    schedule: str,
    policy: Policy,
    limits: Sequence[int | None] = (),
) -> list[str]:
    """Divide the graph among CPUs and GPUs and run a job; returns the lines for `explain()`.

    Each part has threads, or else the number of a GPU.
    """
    require_together(threads)
    require_few_parts(ordinals)
    job.begin(threads=threads)
    if job.graph.num_vertices == 0:
        return sets.nothing_to_do(job, direction)
    shares = _shares(ordinals)
    first = next((p for p, count in enumerate(threads) if count), 0)
    names = [f"cpu:{count}" if count else "cuda" for count in threads]

    def run(partition: Any) -> tuple[Parts, list[Card]]:
        parts = sets.divided(job, partition, shares, limits, names, direction, cpu=first)
        try:
            return parts, _run(job, parts, threads, ordinals, direction, schedule, policy)
        except NoRoom:
            parts.on_gpus.clear()  # to make room for the next attempt
            raise

    if partition == "auto" and any(threads):
        # Kept with the graph, because its parts on a GPU leave less memory for the next choice.
        key = ("auto", job.program, tuple(ordinals), tuple(limits), direction)
        before = graph_cache(job.graph).pop(key, None)
        for partition in _choices(before, job, ordinals, shares, first, limits, direction):
            try:
                parts, cards = run(partition)
                break
            except NoRoom as error:  # the estimate was too low, or memory is taken
                no_room = error
        else:
            raise no_room
        graph_cache(job.graph)[key] = partition
    else:
        parts, cards = run(partition)
    where = "memory of the first GPU" if _is_on_card(cards[0].hub) else "memory that all reach"
    blocks = " + ".join(str(sum(card.blocks)) for card in cards)
    return [
        sets.partition_reason(partition, parts),
        f"Threads: {' + '.join(map(str, threads))}, 0 for parts on a GPU. Blocks of the GPUs: "
        f"{blocks}. Direction: {direction}.",
        f"All devices ran the loop at the same time and met in {where}.",
    ]


def _choices(before: str | None, *options: Any) -> Iterator[str]:
    """Partitions to try: the one that fitted before, then those that should fit."""
    if before is not None:
        yield before
    yield from _by_degree(*options)


def _by_degree(
    job: Job, ordinals: Sequence[int | None], shares: list[float], first: int,
    limits: Sequence[int | None], direction: str,
) -> list[str]:  # fmt: skip
    """The default partitions of CPUs and GPUs: few vertices of high degree on the CPU.

    They begin with the least share at which the rest fits the GPUs, and go on with larger ones.
    Several CPUs divide their share.
    """
    d, k = job.declaration, len(shares)
    free = {o: _memory_of(o) // ordinals.count(o) for o in set(ordinals) if o is not None}
    allowed = [
        free[o] if limit is None else min(free[o], limit)
        for o, limit in zip(ordinals, limits or [None] * k, strict=True)
        if o is not None
    ]
    names = [_with_share_on_cpus(share, ordinals, shares) for share in CPU_SHARES]
    if min(allowed) > 8 * k * estimate_memory(d, job.graph, direction)[0]:  # with boxes
        return names
    on_gpus = [p for p, ordinal in enumerate(ordinals) if ordinal is not None]
    for i, name in enumerate(names):
        part_of = assign(job.graph, name, shares, cpu=first)
        stats = measure_partition(job.graph, part_of, k, pulls=pulls(d, direction))
        needed = estimate_memory(d, job.graph, direction, stats)
        if all(needed[p] <= has for p, has in zip(on_gpus, allowed, strict=True)):
            return names[i:]
    return names[-1:]


def _with_share_on_cpus(
    share: float, ordinals: Sequence[int | None], shares: list[float]
) -> str:  # fmt: skip
    """The partition by degree with this share of the edges on all CPUs together."""
    cpus = sum(ordinal is None for ordinal in ordinals)
    if cpus == 1:
        return f"high:alpha={share!r}"
    on_gpus = sum(one for one, o in zip(shares, ordinals, strict=True) if o is not None)
    of_each = [
        share / cpus if o is None else (1 - share) * one / on_gpus
        for one, o in zip(shares, ordinals, strict=True)
    ]
    return f"high:shares={'/'.join(map(repr, of_each))}"


def _memory_of(ordinal: int) -> int:
    with device.on(ordinal):
        return device.free_memory()


def _shares(ordinals: Sequence[int | None]) -> list[float]:
    """Equal shares for CPUs; GPUs divide the rest by their memory, each among its parts."""
    k = len(ordinals)
    sizes = [
        0.0 if ordinal is None else device.total_memory(ordinal) / ordinals.count(ordinal)
        for ordinal in ordinals
    ]
    rest = sum(ordinal is not None for ordinal in ordinals) / k
    return [1 / k if size == 0 else rest * size / sum(sizes) for size in sizes]


def _run(
    job: Job, parts: Parts, threads: list[int], ordinals: Sequence[int | None], direction: str,
    schedule: str, policy: Policy,
) -> list[Card]:  # fmt: skip
    began = time.perf_counter()
    lowered = lowered_parts(job, direction, schedule, policy, hub=True)
    machine_of = machines_of(ordinals)
    hub = _hub(job, parts, machine_of, ordinals, lowered)
    local: dict[int, list[int]] = {}  # the parts of each machine that is a GPU
    for p, ordinal in enumerate(ordinals):
        if ordinal is not None:
            local.setdefault(machine_of[p], []).append(p)
    places = [ordinals[mine[0]] or 0 for mine in local.values()]
    on_gpus = [p for mine in local.values() for p in mine]
    largest = max(parts.parts[p].owned for p in on_gpus)
    most = most_recorded_on(job, lowered, parts, on_gpus)
    room = job.preallocation.first(job, largest, most) if lowered.plan.replays else 1
    planned, growth = time.perf_counter() - began, 1
    while True:
        on_cpu = None
        if any(threads):
            on_cpu = Teams(job, parts, threads, policy, direction, hub, growth, lowered.plan)
        began = time.perf_counter()
        cards = []
        for mine, ordinal in zip(local.values(), places, strict=True):
            with device.on(ordinal):
                shared = places.count(ordinal)  # number of machines on it
                cards.append(Card(job, lowered, parts, mine, policy, room, hub, shared))
        on_gpus_spent = time.perf_counter() - began
        compiled = on_cpu.compile_seconds if on_cpu is not None else 0.0
        job.stats["compile_seconds"] = planned + compiled + on_gpus_spent
        try:
            job.stats["loop_seconds"] = _go(on_cpu, cards, hub)
        except RecordIsFull:
            needed = max(card.needed for card in cards)
            if needed == 0:  # it was the CPU
                growth = sets.grown_parts(job, parts, growth)
            elif room > ROOM * job.graph.num_vertices:
                raise out_of_room(job) from None
            else:
                needed = max(needed, room + 1)
                room = job.preallocation.more(job, largest, room, needed, most, times=4)
            job.begin_again()
            continue
        rows = {}
        if on_cpu is not None:
            rows = on_cpu.rows(job.stats["loop_seconds"])
            on_cpu.collect()
        job.fields = {name: new_array(field) for name, field in job.fields.items()}
        _join(job, parts, cards, rows)
        return cards


def _go(on_cpu: Teams | None, cards: list[Card], hub: HubMemory) -> float:
    """Run all machines; no machine waits for one that failed. Returns the seconds of the loop."""
    hub.reset()
    for card in cards:  # before any runs: allocating may wait until a card is idle
        with card.here():
            card.prepare()
            device.synchronize()
    started, begun = time.perf_counter(), False

    def watch() -> None:
        nonlocal begun
        begun = True
        _are_done(cards)

    try:
        with interrupts.held_back():  # else Ctrl-C could leave the first waiting
            for card in cards:
                with card.here():
                    card.start()
        if on_cpu is not None:
            on_cpu.go(watch, hub.give_up)
        else:
            reported = started
            while not _are_done(cards):
                now = time.perf_counter()
                if now - started > SPIN_SECONDS:
                    time.sleep(POLL_SECONDS)
                if now - reported > TELL_SECONDS:
                    reported = now
                    with cards[0].here():
                        device.tell_progress(cards[0].syncs)
    except KeyboardInterrupt:
        if on_cpu is None:
            _stop(cards[:1])
        elif not begun:  # else the team has passed the request on
            hub.give_up()
        _wait_for_stops(cards)
        raise
    except RecordIsFull:  # the full part tells all others, which then end
        hub.give_up()
        _end(cards)
        raise
    except BaseException:
        hub.give_up()  # for machines that wait for the failed one
        if on_cpu is None:
            _stop(cards)
        _wait_for_stops(cards)
        raise
    _end(cards)
    seconds = time.perf_counter() - started
    if any(card.ended == MORE_ROOM for card in cards):
        raise RecordIsFull
    return seconds


def _stop(cards: list[Card]) -> None:
    """Have kernels stop at the next superstep; the one that failed may not react."""
    for card in cards:
        with contextlib.suppress(Exception), card.here():
            card.ask_to_stop()


def _are_done(cards: list[Card]) -> bool:
    """Whether all cards have ended; the error of any is raised."""
    done = [card.is_done() for card in cards]
    return all(done)


def _wait_for_stops(cards: list[Card]) -> None:
    """Wait for kernels that were asked to stop, within a time limit."""
    for card in cards:
        with contextlib.suppress(Exception), card.here():
            card.wait_for_stop()


def _end(cards: list[Card]) -> None:
    """Wait for all cards, even if one fails: their memory is about to be freed."""
    errors = []
    for card in cards:
        try:
            with card.here():
                card.wait()
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _hub(
    job: Job, parts: Parts, machine_of: list[int], ordinals: Sequence[int | None], lowered: Lowered
) -> HubMemory:
    """The hub of these parts and this kernel, kept with them."""
    key = ("hub", lowered.key, tuple(machine_of), tuple(ordinals))
    if key not in parts.on_gpus:
        cards = [ordinal for ordinal in ordinals if ordinal is not None]
        boxes = None
        if len(cards) == len(ordinals) and device.join_peers(cards):
            boxes = device.on_card
        with device.on(cards[0]):
            hub = new_hub(device.pinned, job, parts, machine_of, lowered.kernel, boxes)
            # A machine that gives up reads unwritten words: bits there would be ghosts.
            hub.bits[:] = 0
        parts.on_gpus[key] = hub
    return parts.on_gpus[key]


def _is_on_card(hub: HubMemory) -> bool:
    """Whether the boxes are in a GPU's memory."""
    return not isinstance(hub.box, np.ndarray)


def _join(job: Job, parts: Parts, cards: list[Card], rows: dict[int, PartRows]) -> None:
    """Add the results of GPUs to those of the CPU, for whose parts there are rows."""
    alone = not rows
    if alone:
        nothing = dict.fromkeys(("bytes_sent", "bytes_useful", "bytes_of_all"), 0)
        job.stats.update(memory=[0] * len(parts.parts), **nothing, **sets.sizes_of(parts))
    landing, seconds = _landing(parts, cards), []
    for card in cards:
        with card.here():
            _take_fields(job, parts, card, landing, alone)
            stats = card.stats()
            if alone:
                job.stats["supersteps"] = stats["supersteps"]
                job.scalars.update(card.scalars())
            rows |= card.rows()
        seconds.append(stats["device_seconds"])
        for p, nbytes in zip(card.local, stats["memory"], strict=True):
            job.stats["memory"][p] = nbytes
        for name in ("edges", "bytes_sent", "bytes_useful", "bytes_of_all"):
            job.stats[name] += stats[name]
    job.stats["device_seconds"] = max(seconds)
    in_order = [rows[p] for p in sorted(rows)]
    job.make_trace = lambda: rows_of_parts(in_order)


def _take_fields(
    job: Job, parts: Parts, card: Card, landing: np.ndarray, alone: bool
) -> None:  # fmt: skip
    """Copy what a card's parts own; replicated fields too if GPUs are ``alone``."""
    n = job.graph.num_vertices
    for name, field in card.fields.items():
        if job.declaration.fields[name].replicated:
            if alone:  # all copies are equal
                first = card.local[0] * n
                job.fields[name][:] = downloaded(field[first : first + n])
            continue
        for p in card.local:
            part, base = parts.parts[p], int(parts.bases[p])
            mine = landing[: part.owned * field.dtype.itemsize].view(field.dtype)
            field[base : base + part.owned].get(out=mine)
            put_back(job.fields[name], part, mine)


def _landing(parts: Parts, cards: list[Card]) -> np.ndarray:
    """Locked memory for the values of a part on a GPU, kept with the parts.

    A copy to new memory of the host takes ten times as long.
    """
    most = max(parts.parts[p].owned for card in cards for p in card.local)
    nbytes = most * max((field.dtype.itemsize for field in cards[0].fields.values()), default=1)
    landing = parts.on_gpus.get("landing")
    if landing is None or len(landing) < nbytes:
        landing = parts.on_gpus["landing"] = device.pinned(max(1, nbytes), np.uint8)
    return landing
