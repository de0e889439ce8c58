"""Devices by name: which exist, which ``"auto"`` chooses, and how many threads each CPU has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from evener.device import num_cores, num_threads
from evener.device.cuda import require, why_not
from evener.device.team import most_threads
from evener.errors import DeviceError, did_you_mean


class Kind(NamedTuple):
    """The traits of a kind of device, for planning and checking runs."""

    has_threads: bool = False  # as many as its number, or a share of the cores
    is_card: bool = False  # has its own memory; its number selects the GPU
    takes_turns: bool = False  # runs after other devices of a set, not at the same time
    example_scale: int = 8  # of a graph on which a run takes at most a second
    arcs_a_bucket: int = 12  # if the engine chooses the width of buckets


KINDS = {
    "python": Kind(takes_turns=True),
    "cpu": Kind(has_threads=True, example_scale=18),
    "cuda": Kind(is_card=True, example_scale=20, arcs_a_bucket=256),
}


class Device(NamedTuple):
    """One device by name: ``cpu`` may have a number of threads, ``cuda`` that of a GPU."""

    kind: str
    number: int | None = None

    @property
    def traits(self) -> Kind:
        """The traits of its kind."""
        return KINDS[self.kind]

    def __str__(self) -> str:
        return self.kind if self.number is None else f"{self.kind}:{self.number}"


def cores_of(devices: Sequence[Device]) -> list[int]:
    """Threads of each CPU in a set: those without a number share the remaining cores.

    Examples
    --------
    >>> from evener.engine.devices import Device, cores_of
    >>> cores_of([Device("cpu", 1), Device("cpu", 3)])
    [1, 3]
    """
    named = sum(one.number or 0 for one in devices)
    others = sum(one.number is None for one in devices)
    share = max(1, (num_threads() - named) // max(1, others))
    return [one.number or share for one in devices]


def threads_of(devices: Sequence[Device]) -> list[int]:
    """Threads of each device of a set; 0 for those that have none."""
    counts = iter(cores_of([one for one in devices if one.traits.has_threads]))
    return [next(counts) if one.traits.has_threads else 0 for one in devices]


def choose_devices(device: str) -> tuple[list[Device], str]:
    """The devices that a name stands for, and the reason for the choice.

    Examples
    --------
    >>> from evener.engine.devices import choose_devices
    >>> choose_devices("python+python")
    ([Device(kind='python', number=None), Device(kind='python', number=None)], 'as asked for')
    """
    if not isinstance(device, str):
        raise DeviceError(f"device is {device!r}; it must be a name such as 'cpu' or 'cpu:4'.")
    if device != "auto":
        return _runnable(device), "as asked for"
    named = device_from_environment()
    if named is None:
        name, why = _fastest()
        return _runnable(name), why
    try:
        return _runnable(named), "EVENER_DEVICE says so"
    except DeviceError as error:
        raise DeviceError(f"EVENER_DEVICE is {named!r}: {error}") from None


def named_devices(device: str) -> list[Device]:
    """The devices that a name stands for, present or not."""
    if device == "auto":
        return choose_devices(device)[0]
    return [_parse(one) for one in device.split("+")]


def device_from_environment() -> str | None:
    """The device that ``EVENER_DEVICE`` names in place of ``"auto"``, or None."""
    name = os.environ.get("EVENER_DEVICE", "")
    return None if name in ("", "auto") else name


def _runnable(name: str) -> list[Device]:
    """The devices of a named set; DeviceError if programs cannot run on it."""
    devices = [_parse(one) for one in name.split("+")]
    _require_threads(devices)
    if any(one.traits.takes_turns for one in devices) and any(
        one.traits.is_card for one in devices
    ):
        raise DeviceError(
            f"device {name!r}: python combines with CPUs, not with GPUs; leave one out."
        )
    _require_gpus(devices)
    return devices


def parse_devices(name: str) -> list[Device]:
    """The devices of a named set; DeviceError if a GPU is missing.

    Examples
    --------
    >>> from evener.engine.devices import parse_devices
    >>> parse_devices("cpu:2+python")
    [Device(kind='cpu', number=2), Device(kind='python', number=None)]
    """
    devices = [_parse(one) for one in name.split("+")]
    _require_gpus(devices)
    return devices


def _require_threads(devices: list[Device]) -> None:
    for one in devices:
        if one.traits.has_threads and one.number is not None and one.number > most_threads():
            cores = num_cores()
            here = "1 core" if cores == 1 else f"{cores} cores"
            raise DeviceError(
                f"{one} asks for {one.number} threads; this machine grants {here}, and at most "
                f"{most_threads()} threads run together: name cpu:{cores}, or cpu for all cores."
            )


def _require_gpus(devices: list[Device]) -> None:
    for one in devices:
        if one.traits.is_card:
            require(one.number)


def _fastest() -> tuple[str, str]:
    why = why_not()
    if why is None:
        return "cuda", "there is a GPU"
    return "cpu", f"the CPU is the fastest here ({why.rstrip('.')})"


def _parse(one: str) -> Device:
    kind, colon, number = one.strip().partition(":")
    known = KINDS.get(kind)
    if known is not None and not colon:
        return Device(kind)
    count = int(number) if number.isascii() and number.isdecimal() else -1
    if known is not None and ((known.is_card and count >= 0) or (known.has_threads and count > 0)):
        return Device(kind, count)
    near = " (did you mean 'cuda'?)" if kind == "gpu" else did_you_mean(kind, ("auto", *KINDS))
    raise DeviceError(
        f"there is no device {one!r}{near}; there are 'auto', 'python', 'cpu', 'cpu:N', 'cuda' and "
        "'cuda:N'."
    )


def require_together(threads: list[int]) -> None:
    """Refuse parts with more threads in total than can run at once."""
    if sum(threads) > most_threads():
        advice = "name fewer" if max(threads) == 1 else "name fewer, or 'cpu:1' for each"
        raise DeviceError(
            f"{len(threads)} partitions need {sum(threads)} threads that run at once; at most "
            f"{most_threads()} can: {advice}."
        )
