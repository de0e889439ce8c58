"""`lower`: show what a program becomes on a device, without running it."""

from __future__ import annotations

from typing import Any

from evener.device.cuda import capability_here
from evener.engine.codegen.plan import KernelPlan
from evener.engine.codegen.printer import Kernel
from evener.engine.devices import named_devices
from evener.engine.job import Job, without_start
from evener.engine.request import Request, require_direction, require_suitable
from evener.engine.targets.table import Target, target_of
from evener.errors import DeviceError
from evener.graph.csr import Graph, require_graph
from evener.operators.shared.policies import policy_of
from evener.programs.program import Program

CAPABILITY = (8, 0)  # of the PTX if there is no GPU


class Lowered:
    """A program lowered for devices."""

    def __init__(self, job: Job, request: Request, target: Target):
        self._job, self._request, self._target = job, request, target
        self._kernels: list[Kernel] = target.module.lower(job, request)

    @property
    def device(self) -> str:
        """The devices that it was lowered for."""
        return "+".join(self._request.names)

    @property
    def plan(self) -> KernelPlan:
        """What the kernel does, as a tree that prints as text. A set has one plan."""
        return self._kernels[0].plan

    @property
    def text(self) -> str:
        """The kernel as Python, after the helper functions generated for it.

        Operators that it calls are in `evener.operators`; ``f_name`` is the functor ``name``. For
        CPUs with GPUs there are two kernels, the GPU's first.
        """
        return "\n\n".join(_whole(kernel) for kernel in self._kernels)

    @property
    def ptx(self) -> str:
        """The kernel as PTX; this needs the compiler of an extra, but no GPU.

        It is for the GPU of this machine, or else for compute capability 8.0.
        """
        if not self._request.cards:
            raise DeviceError(
                f"there is no PTX for {self.device}; lower the program for 'cuda', or look at .text"
            )
        module = self._target.module
        return module.ptx(self._job, self._request, capability_here() or CAPABILITY)

    def __repr__(self) -> str:
        return f"Lowered({self._job.declaration.name} for {self.device}; see .plan, .text, .ptx)"


def lower(
    program: type[Program],
    graph: Graph,
    *,
    device: str = "cpu",
    direction: str = "auto",
    schedule: str = "auto",
    exchange: Any = "refined",
    partition: Any = "auto",
    **parameters: Any,
) -> Lowered:
    """Lower a program for a device to show what would run; nothing is compiled or run.

    Parameters
    ----------
    program
        A subclass of `Program`.
    graph
        A graph; the kernel depends on its direction, weights and dtypes.
    device, direction, schedule, exchange, partition
        As for `run`. The devices need not exist.
    **parameters
        Parameters of the program; optional, because ``start`` is not called.

    Returns
    -------
    Lowered
        ``.plan``, what the kernel does; ``.text``, the kernel as Python; ``.ptx``, for a GPU.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.algorithms.bfs import BFS
    >>> lowered = ev.lower(BFS, ev.generate.path(9), device="cpu+cpu")
    >>> print(lowered.plan)
    BFS, direction auto
      loop 1 until the frontier is empty
        advance reach where unreached
          all parts choose
            pull:
              spread the frontier with depth
              pull
            push:
              push
              deliver depth, parent of emitted vertices
    """
    require_graph(graph)
    require_direction(direction)
    request = Request(
        tuple(named_devices(device)), partition=partition, direction=direction, schedule=schedule,
        policy=policy_of(exchange),
    )  # fmt: skip
    require_suitable(request, exchange)
    job = without_start(program, graph, parameters)
    for name, scalar in job.declaration.scalars.items():
        job.scalars[name] = scalar.merge  # a placeholder: only the name matters
    return Lowered(job, request, target_of(request.devices))


def _whole(kernel: Kernel) -> str:
    """The text of a kernel after those of its helpers."""
    return "\n\n\n".join([*(text.rstrip() for text in kernel.helpers.values()), kernel.text])
