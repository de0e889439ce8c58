"""``evener devices``: what there is to compute on, and what this version does with it."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from evener.cli.output import print_json, print_table
from evener.cli.parser import add_json, new_command

_TODAY = "This version builds graphs and runs programs on the CPU; it uses no GPU."


def add_command(commands: Any) -> None:
    """Add ``devices`` to the parser."""
    parser = new_command(
        commands, "devices", run, "list the processors and memory that Evener sees",
        "  evener devices\n  EVENER_THREADS=2 evener devices --json",
    )  # fmt: skip
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print a row for each device."""
    from evener.device.limits import format_bytes
    from evener.device.probe import list_devices, why_no_cuda

    devices = list_devices()
    notes = [_TODAY]
    if not any(device.kind == "cuda" for device in devices):
        notes.insert(0, why_no_cuda() or "")
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
