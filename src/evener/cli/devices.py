"""``evener devices``: the devices of this machine, and which of them run programs."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from evener.cli.output import print_json, print_table
from evener.cli.parser import add_json, new_command

if TYPE_CHECKING:
    from evener.device.probe import DeviceInfo

_ONLY_CPU = "Programs run on the CPU."


def add_command(commands: Any) -> None:
    """Add ``devices`` to the parser."""
    parser = new_command(
        commands, "devices", run, "list the processors and memory that Evener can use",
        "  evener devices\n  EVENER_THREADS=2 evener devices --json",
    )  # fmt: skip
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print a row for each device."""
    from evener.device.limits import format_bytes
    from evener.device.probe import list_devices

    devices = list_devices()
    notes = _where_programs_run(devices)
    if arguments.json:
        print_json({"devices": [dataclasses.asdict(device) for device in devices], "notes": notes})
        return
    rows = []
    for device in devices:
        memory = "?" if device.memory_bytes is None else format_bytes(device.memory_bytes)
        if device.memory_available_bytes is not None:
            memory += f", {format_bytes(device.memory_available_bytes)} available"
        cores = "?" if device.cores is None else str(device.cores)
        rows.append((device.name, cores, memory, device.description, device.note))
    print_table(("device", "cores", "memory", "what", "used for"), rows)
    for note in notes:
        print(note)


def _where_programs_run(devices: list[DeviceInfo]) -> list[str]:
    """Say which devices programs can run on, and why a GPU cannot be used."""
    from evener.device.cuda import why_not
    from evener.device.probe import why_no_cuda

    gpus = [device for device in devices if device.kind == "cuda"]
    if not gpus:
        reason = why_no_cuda()
        return [_ONLY_CPU] if reason is None else [reason, _ONLY_CPU]
    names = [device.name for device in gpus if device.available]
    if not names:
        return ["No GPU responds.", _ONLY_CPU]
    missing = why_not()
    if missing is not None:
        return [f"No GPU is used: {missing}", _ONLY_CPU]
    every = "+".join(names)
    if len(names) == 1:
        return [f"Programs run on the CPU, on the GPU and on both: cpu, {every}, cpu+{every}."]
    return [
        "Programs run on the CPU, on one GPU or several, and on all together: "
        f"cpu, {names[0]}, {every}, cpu+{every}."
    ]
