"""Runs whose results are bitwise identical every time: ``deterministic=True``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evener.engine.devices import Device
from evener.errors import DeviceError
from evener.programs.program import Declaration
from evener.programs.stages import Advance, Edges, Gather, Reduce, walk


def threads_allowed(program: Any, devices: Sequence[Device]) -> int | None:
    """The number of threads of a repeatable run: 1, or None for any number.

    DeviceError if writes of the program race on these devices with any number of threads.
    """
    if getattr(program, "repeatable", False) is True:
        return None
    if all(one.traits.takes_turns for one in devices):
        return None
    d: Declaration = program.declaration
    if len(devices) == 1 and devices[0].traits.has_threads:
        return None if _is_orderless(d) else 1
    named = "+".join(map(str, devices))
    raise DeviceError(
        f"deterministic=True: {d.name} may differ from run to run on {named}; use device='cpu'."
    )


def _is_orderless(d: Declaration) -> bool:
    """Whether no update of a program depends on the order of threads on one CPU.

    A gather adds the edges of a vertex in order. The threads of an advance race.
    """
    for stage in walk(d.loop):
        if isinstance(stage, Advance | Edges):
            return False
        if isinstance(stage, Gather) and stage.asynchronous:
            return False
        if isinstance(stage, Reduce) and not stage.over_all and stage.op in ("sum", "any"):
            return False
    return True
