"""The texts of all kernels: every program, for every target, in every direction.

Writing them needs no compiler. ``python tests/kernel_texts.py FOLDER`` writes a file for each, so
that two versions can be compared by ``diff -r``. A dozen are kept in ``tests/golden``, with their
plans, as examples and as a test: ``python tests/kernel_texts.py`` writes them anew, which is done
where a change of them is meant.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from device_sets import PROGRAMS
from evener.engine.codegen.print_cpu_led import lower_cpu
from evener.engine.codegen.print_gpu import lower_gpu
from evener.engine.codegen.print_parts_cpu import lower_parts_cpu
from evener.engine.codegen.print_parts_gpu import lower_parts_gpu
from evener.engine.codegen.printer import Kernel
from evener.engine.job import Job, set_up
from evener.errors import EvenerError
from evener.operators.shared.policies import policy_of
from evener.programs import Program
from programs.cases import CASES, MORE_STAGES, STAGES, WHOLE, parameters_for
from programs.examples import programs

GOLDEN = Path(__file__).parent / "golden"
MEASURE = policy_of("refined").measure
DIRECTIONS = ("auto", "push", "pull")
TARGETS: dict[str, Callable[[Job, str], Kernel]] = {
    "cpu": lambda job, direction: lower_cpu(job, direction, None),
    "cpu_parts": lambda job, direction: lower_parts_cpu(job, direction, None, MEASURE),
    "cpu_parts_of_one_thread": lambda job, direction: lower_parts_cpu(
        job, direction, None, MEASURE, single=True
    ),
    "cpu_beside_gpu": lambda job, direction: lower_parts_cpu(
        job, direction, None, MEASURE, hub=True
    ),
    "gpu": lambda job, direction: lower_gpu(job, direction, None),
    "gpu_by_degree": lambda job, direction: lower_gpu(job, direction, None, relabels=True),
    "gpu_parts": lambda job, direction: lower_parts_gpu(job, direction, None, "auto", MEASURE),
    "gpu_beside_cpu": lambda job, direction: lower_parts_gpu(
        job, direction, None, "auto", MEASURE, hub=True
    ),
}


KEPT = (
    *(f"bfs.BFS-{target}" for target in TARGETS if target not in ("gpu_by_degree", "cpu_parts")),
    "sssp.SSSP-cpu", "sssp.SSSP-cpu_beside_gpu", "sssp.SSSP-gpu",
    "pagerank.DanglingPageRank-cpu", "pagerank.DanglingPageRank-gpu_by_degree",
    "betweenness.Betweenness-gpu",
)  # fmt: skip


def all_programs() -> list[type[Program]]:
    """Those of the library, of the examples, and of tests, each once."""
    return list(dict.fromkeys([*CASES, *STAGES, *MORE_STAGES, *programs(), *PROGRAMS]))


def told(kernel: Kernel | str) -> str:
    """A kernel's text, and what the names in it stand for."""
    if isinstance(kernel, str):
        return kernel
    lines = [kernel.text.rstrip(), ""]
    for name, value in sorted(kernel.names.items()):
        python = getattr(value, "python", None)
        if name in kernel.helpers:
            text = kernel.helpers[name].splitlines()
            lines += [f"# {name}:", *(f"#     {line}" for line in text)]
        elif python is not None:
            lines.append(f"# {name}: {python.__module__}.{python.__qualname__}")
        elif isinstance(value, np.generic | int | float | bool):
            lines.append(f"# {name}: {value!r}")
    return "\n".join(lines) + "\n"


def name_of(program: type[Program]) -> str:
    """The name of a program with that of its module."""
    return f"{program.__module__.rpartition('.')[2]}.{program.__name__}"


def kernels() -> Iterator[tuple[str, Kernel | str]]:
    """Names and kernels of all programs; a comment where there is no kernel."""
    for program in all_programs():
        graph, parameters = CASES.get(program) or (WHOLE, parameters_for(program, WHOLE))
        for target, write in TARGETS.items():
            for direction in DIRECTIONS:
                job = set_up(program, graph, parameters, deferred=target != "cpu")
                for name, scalar in job.declaration.scalars.items():
                    job.scalars[name] = scalar.merge
                name = f"{name_of(program)}-{target}-{direction}"
                try:
                    yield name, write(job, direction)
                except EvenerError as error:
                    yield name, f"# {error}\n"


def golden(kernel: Kernel) -> str:
    """What is kept of a kernel: its plan and its text."""
    plan = "".join(f"# {line}\n" for line in str(kernel.plan).splitlines())
    return f"{plan}\n{kernel.text}"


def kept(found: Iterable[tuple[str, Kernel | str]]) -> dict[str, str]:
    """The texts of those that are kept, by the names of their files."""
    wanted = {f"{name}-auto": f"{name}.txt" for name in KEPT}
    return {wanted[name]: golden(kernel) for name, kernel in found if name in wanted}  # type: ignore[arg-type]


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else GOLDEN
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:]:
        texts = {f"{name}.py": told(kernel) for name, kernel in kernels()}
    else:
        texts = kept(kernels())
    for name, text in texts.items():
        (folder / name).write_text(text)
