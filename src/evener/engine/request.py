"""The options of a run, checked once, before any work is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evener.engine.devices import Device, choose_devices, device_from_environment
from evener.engine.memory.estimate import estimate_memory, parse_limits, require_within
from evener.engine.partition.partitioners import parse_partitioner
from evener.engine.preallocation import AS_NEEDED, Preallocation, parse_preallocate
from evener.engine.repeatable import threads_allowed
from evener.errors import EvenerError
from evener.graph.csr import Graph
from evener.operators.shared.policies import Policy, policy_of
from evener.programs.program import Program

DIRECTIONS = ("auto", "push", "pull")
_REFINED = policy_of("refined")


@dataclass(frozen=True)
class Request:
    """The options of a run, for the target that takes it."""

    devices: tuple[Device, ...]
    why: str = "as asked for"  # the reason for these devices
    explicit: bool = True  # the user named the devices: no other device takes over
    partition: Any = "auto"
    direction: str = "auto"
    schedule: str = "auto"
    device_arrays: bool = False
    limits: tuple[int | None, ...] = (None,)  # bytes of memory, for each device
    left: tuple[int | None, ...] = ()  # bytes of each limit beyond the estimated need
    policy: Policy = _REFINED
    preallocation: Preallocation = AS_NEEDED

    @property
    def names(self) -> list[str]:
        """The names of the devices."""
        return [str(one) for one in self.devices]

    @property
    def cards(self) -> int:
        """How many of the devices are GPUs."""
        return sum(one.traits.is_card for one in self.devices)

    @property
    def all_cards(self) -> bool:
        """Whether all devices are GPUs."""
        return self.cards == len(self.devices)

    def on(self, *devices: Device, **changes: Any) -> Request:
        """The same request for other devices, which the user did not name."""
        return replace(self, devices=devices, explicit=False, **changes)


def request_of(
    program: type[Program],
    graph: Graph,
    parameters: dict[str, Any],
    *,
    device: str,
    exchange: Any,
    memory_limit: Any,
    preallocate: Any,
    deterministic: bool,
    **options: Any,
) -> Request:
    """Check the options of `run` and choose its devices; the first wrong option raises."""
    preallocation = parse_preallocate(preallocate)
    require_direction(options["direction"])
    devices, why = choose_devices(device)
    if deterministic and hasattr(program, "declaration"):
        devices, why = _repeatable(program, device, devices, why)
    request = Request(tuple(devices), why, device != "auto", preallocation=preallocation, **options)
    require_suitable(request, exchange)
    limits = tuple(parse_limits(memory_limit, request.names))
    request = replace(request, limits=limits, policy=policy_of(exchange))
    if not hasattr(program, "declaration"):  # `set_up` refuses it
        return request
    free = device == "auto" and not deterministic and device_from_environment() is None
    if free and request.all_cards:
        request = _placed(request, program, graph, parameters, memory_limit)
    if len(request.devices) == 1 and not request.cards and request.limits[0] is not None:
        needed = estimate_memory(program.declaration, graph, request.direction, transposing=True)
        left = require_within(program.declaration.name, needed, request.limits, request.names)
        request = replace(request, left=tuple(left))
    return request


def require_direction(direction: str) -> None:
    """Refuse an unknown direction."""
    if direction not in DIRECTIONS:
        allowed = ", ".join(map(repr, DIRECTIONS))
        raise EvenerError(f"direction is {direction!r}; it must be one of {allowed}.")


def require_suitable(request: Request, exchange: Any) -> None:
    """Refuse options that do not apply to the devices of a run."""
    partition, alone = request.partition, len(request.devices) == 1
    if alone and not (isinstance(partition, str) and partition == "auto"):
        raise EvenerError(f"partition={partition!r} needs a device set, such as 'python+python'.")
    policy_of(exchange)
    if alone and exchange != "refined":
        raise EvenerError(f"exchange={exchange!r} needs a device set, such as 'cpu+cpu'.")
    on_gpu = {
        "schedule": request.schedule != "auto" and not request.cards,
        "device_arrays": request.device_arrays and not request.all_cards,
    }
    for name, refused_here in on_gpu.items():
        if refused_here:
            raise EvenerError(f"{name} is for a GPU; leave it out, or use device='cuda'.")
    if not callable(partition):
        parse_partitioner(partition, len(request.devices))  # now, before a long ``start``


def _repeatable(
    program: type[Program], device: str, devices: list[Device], why: str
) -> tuple[list[Device], str]:
    """Devices on which every run of a program gives the same result."""
    if device == "auto" and device_from_environment() is None:
        devices, why = choose_devices("cpu")[0], "deterministic=True"
    threads = threads_allowed(program, devices)
    if threads is None or devices[0].number == threads:
        return devices, why
    (one,) = devices
    return [Device(one.kind, threads)], f"deterministic=True, and threads of {one} would race"


def _placed(
    request: Request,
    program: type[Program],
    graph: Graph,
    parameters: dict[str, Any],
    memory_limit: Any,
) -> Request:
    """Choose devices for a program too large for the GPU, if the user named none."""
    if request.schedule != "auto" or request.device_arrays:
        return request
    from evener.engine.planning.larger_than_gpu import limits_of_both, place_larger

    limits = limits_of_both(memory_limit, request.limits[0])
    choice = place_larger(program, graph, parameters, limits, direction=request.direction)
    if choice is None:
        return request
    devices, partition, limits_there, why = choice
    return replace(
        request, devices=tuple(devices), partition=partition, limits=tuple(limits_there), why=why
    )
