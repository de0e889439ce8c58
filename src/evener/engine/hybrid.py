"""Sets of CPUs and a GPU: compiled kernels on both at once, joined by a hub in the host's memory.

All CPU parts are one machine, the GPU with its parts another (`evener.operators.hub`). Both run
the whole loop; they shake hands where a kernel over parts exchanges or agrees on something, and the
host does nothing in between but look whether one has failed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from evener.device import cuda as device
from evener.engine import gpu
from evener.engine.gpu_parts import Card, trace_rows
from evener.engine.gpu_parts_plan import make_plan
from evener.engine.hub import HubMemory, new_hub
from evener.engine.job import Job
from evener.engine.memory import require_parts
from evener.engine.native_parts import _Run, lists_of, name_of, require_threads
from evener.engine.partitioners import partition as assign
from evener.engine.parts import Parts, divide_by, put_back
from evener.engine.trace import share_of
from evener.errors import DeviceError, MemoryBudgetError
from evener.operators.policies import Policy

ROOM = 64  # times the vertices: more than this a record is not given


def run_hybrid(
    job: Job,
    threads: list[int],
    ordinals: list[int | None],
    partition: Any,
    direction: str,
    schedule: str,
    policy: Policy,
    limits: Sequence[int | None] = (),
) -> list[str]:
    """Divide the graph among CPUs and a GPU and run a job; returns what there is to say about it.

    Each part has threads, or else the number of a GPU.
    """
    k, cards = len(threads), {ordinal for ordinal in ordinals if ordinal is not None}
    if len(cards) > 1:
        raise DeviceError("this version joins CPUs with one GPU only; name one.")
    require_threads(threads)
    job.stats.update(supersteps=0, edges=0, threads=threads)
    gpu._reset_scalars(job)
    job.fields = {name: np.array(field) for name, field in job.fields.items()}
    if job.graph.num_vertices == 0:
        return [f"Direction: {direction}. There was nothing to do."]
    shares, first = [1 / k] * k, next(p for p, count in enumerate(threads) if count)
    if any(limit is not None for limit in limits):
        names = [f"cpu:{count}" if count else "cuda" for count in threads]
        part_of = assign(job.graph, partition, shares, cpu=first)
        require_parts(job.declaration, job.graph, part_of, limits, names, direction)
    began = time.perf_counter()
    parts = divide_by(job.graph, partition, shares, cpu=first, **lists_of(job, direction))
    job.stats["partition_seconds"] = time.perf_counter() - began
    with device.on(cards.pop()):
        card = _run(job, parts, threads, direction, schedule, policy)
    owned = " + ".join(f"{part.owned:,}" for part in parts.parts)
    return [
        f"Partition: {name_of(partition)}, {k} parts with {owned} vertices.",
        f"Threads: {' + '.join(map(str, threads))}, 0 for parts on the GPU, which has "
        f"{sum(card.blocks)} blocks. Direction: {direction}.",
        "CPU and GPU ran the loop at the same time and met in memory that both reach.",
    ]


def _run(
    job: Job, parts: Parts, threads: list[int], direction: str, schedule: str, policy: Policy
) -> Card:
    began = time.perf_counter()
    plan = make_plan(job, direction, schedule, policy, hub=True)
    local = [p for p, count in enumerate(threads) if count == 0]
    hub = _hub(job, parts, threads, plan)
    room = max(parts.parts[p].owned for p in local) + 1
    while True:
        on_cpu = _Run(job, parts, threads, policy, direction, lambda kernel: hub)
        assert on_cpu.kernel.carried == plan.lowered.carried
        card = Card(job, plan, parts, local, policy, room, hub)
        job.stats["compile_seconds"] = time.perf_counter() - began
        started = time.perf_counter()
        try:
            _go(on_cpu, card, hub)
        except MemoryBudgetError:
            if room > ROOM * job.graph.num_vertices:
                raise
            room *= 4  # the GPU's record was full, as it has no more than it was given
            continue
        job.stats["loop_seconds"] = time.perf_counter() - started
        on_cpu.collect(job.stats["loop_seconds"])
        _join(job, parts, card, local)
        return card


def _go(on_cpu: _Run, card: Card, hub: HubMemory) -> None:
    """Run both; whichever fails, nobody waits for it."""
    hub.reset()
    card.start()
    try:
        on_cpu.go(card.check, hub.give_up)
    except KeyboardInterrupt:
        card.wait()  # both were told to stop, and did
        raise
    except BaseException:
        hub.give_up()
        card.wait()
        raise
    card.wait()


def _hub(job: Job, parts: Parts, threads: list[int], plan: Any) -> HubMemory:
    """The hub of these parts and this kernel, kept with them."""
    key = ("hub", plan.key, tuple(count > 0 for count in threads))
    if key not in parts.on_gpus:
        machine_of = [int(count == 0) for count in threads]
        parts.on_gpus[key] = new_hub(device.pinned, job, parts, machine_of, plan.lowered)
    return parts.on_gpus[key]


def _join(job: Job, parts: Parts, card: Card, local: list[int]) -> None:
    """Add what the GPU found to what the CPU did."""
    for name, field in card.fields.items():
        if job.declaration.fields[name].replicated:
            continue  # all copies are the same
        for p in local:
            part, base = parts.parts[p], int(parts.bases[p])
            put_back(job.fields[name], part, field[base : base + part.owned].get())
    found = card.stats()
    job.stats["device_seconds"] = found["device_seconds"]
    for p, nbytes in zip(local, found["memory"], strict=True):
        job.stats["memory"][p] = nbytes
    for name in ("edges", "bytes_sent", "bytes_useful", "bytes_of_all"):
        job.stats[name] += found[name]
    here, there = job.make_trace, card.told()
    assert here is not None
    threads = job.stats["threads"]

    def make() -> list[dict[str, Any]]:
        return [_row(a, b, threads) for a, b in zip(here(), trace_rows(*there), strict=False)]

    job.make_trace = make


def _row(here: dict[str, Any], there: dict[str, Any], threads: list[int]) -> dict[str, Any]:
    """One superstep of both, with lists in the order of the parts."""
    row = {**here, "seconds": max(here["seconds"], there["seconds"])}
    for name, value in here.items():
        if isinstance(value, list):
            one, other = iter(value), iter(there[name])
            row[name] = [next(one if count else other) for count in threads]
    for name in ("frontier", "edges", "bytes", "useful_bytes", "bytes_of_all"):
        row[name] = here[name] + there[name]
    row["useful_share"] = share_of(row["useful_bytes"], row["bytes_of_all"])
    return row
