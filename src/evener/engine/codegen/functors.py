"""Functors, and the types of what they are given.

They are compiled one by one before their kernel is, so that a mistake is told where it stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from evener.device.compile import Compiled, forget_functions, kind_of
from evener.device.diagnose import CompileError, compile_alone, describe, is_number
from evener.device.keys import fingerprint
from evener.device.tuples import Identity, tuple_type
from evener.engine.job import Job, field_dtype
from evener.errors import ProgramError
from evener.graph.csr import Graph
from evener.programs.fields import Field, Scalar, neutral
from evener.programs.kinds import Use
from evener.programs.program import Declaration
from evener.programs.stages import Gather, walk

if TYPE_CHECKING:
    from evener.engine.codegen.printer import Kernel

OFFERED = ("weight", "id", "degree", "superstep", "num_vertices", "changed")

# What functors return for values of some kinds: to find it on disk takes longer than a small run.
_totals: dict[Any, np.dtype] = {}


def state_of(d: Declaration) -> Any:
    """The type of a program's ``s``: fields, parameters, scalars, and what every program has."""
    return tuple_type("State", (*d.fields, *d.params, *d.scalars, *OFFERED))


def functors_of(job: Job, kernel: Kernel) -> dict[str, Compiled]:
    """The compiled functors of a kernel by their names."""
    return {name: kernel.names[f"f_{name}"] for name in job.declaration.functors}


def examples_of(job: Job) -> tuple[np.generic, Any]:
    """A vertex and a state, of the types that functors get in the kernel."""
    d = job.declaration
    state = state_of(d)(
        *job.fields.values(), *job.params.values(), *job.scalars.values(),
        weights_of(job, job.graph), Identity(), job.graph.degrees, 0, job.graph.num_vertices, False,
    )  # fmt: skip
    return unsigned(job.graph._indices)[:0].dtype.type(0), state


def weights_of(job: Job, graph: Graph) -> np.ndarray:
    """The weights, where the program reads them: one kernel serves all graphs where it does not."""
    if graph._weights is None or not job.declaration.uses_weights:
        return np.empty(0, np.int32)
    return graph._weights


def unsigned(array: np.ndarray) -> np.ndarray:
    """The same memory as unsigned numbers: an index that cannot be negative costs no branch."""
    return array.view(f"u{array.dtype.itemsize}")


def texts_of(d: Declaration) -> tuple[str, ...]:
    """All that decides what the functors of a program do, with the globals that they read."""
    return tuple(fingerprint(functor.function) for functor in d.functors.values())


def kernel_key(job: Job) -> tuple[Any, ...]:
    """What kernels of a job are found by: its functors, and the dtypes of what the graph decides.

    Neutral values of fields and scalars are written into a kernel, hence their dtypes.
    """
    d = job.declaration
    declared: tuple[Field | Scalar, ...] = (*d.fields.values(), *d.scalars.values())
    dtypes = tuple(field_dtype(one.dtype, job.graph) for one in declared)
    return job.program, texts_of(d), dtypes


def check_functors(
    d: Declaration, functors: dict[str, Compiled], vertex: np.generic, state: Any
) -> None:
    """Compile every functor for the types it will get; ProgramError for the first that fails.

    The kernel needs them for the same types, so nothing is compiled twice.
    """
    given = {"src": vertex, "dst": vertex, "v": vertex, "edge": np.uint64(0), "s": state}
    for stage in walk(d.loop):
        uses = list(stage.uses())
        if isinstance(stage, Gather):  # what one functor returns, the others take
            value = _check(d, functors, uses[0], given, inner=True)
            given |= {"a": value, "b": value}
            for combine in uses[2:]:
                _check(d, functors, combine, given, inner=True)
            dtype = total_dtype(d, functors, stage, vertex, state)
            given["total"], uses = dtype.type(0), [uses[1]]
        for use in uses:
            _check(d, functors, use, given, inner=True)


def total_dtype(
    d: Declaration, functors: dict[str, Compiled], stage: Gather, vertex: np.generic, state: Any
) -> np.dtype:
    """What the values of a gather add up in: integers in 64 bits."""
    use = next(iter(stage.uses()))
    key = (fingerprint(d.functors[use.name].function), kind_of((vertex, state)))
    if key not in _totals:
        given = {"src": vertex, "dst": vertex, "edge": np.uint64(0), "s": state}
        _check(d, functors, use, given, inner=False)  # it is kept on disk
        dtype = functors[use.name].result_dtype(*(given[name] for name in use.arguments))
        wide = {"b": np.int64, "i": np.int64, "u": np.uint64}
        _totals[key] = np.dtype(wide.get(dtype.kind, dtype))
    return _totals[key]


def name_totals(job: Job, kernel: Kernel, vertex: np.generic, state: Any) -> None:
    """Name the neutral value of each gather of a kernel, in the dtype that it adds up in."""
    d, functors = job.declaration, functors_of(job, kernel)
    stages = [gather.stage for gather in kernel.plan.gathers]
    kernel.totals = tuple(total_dtype(d, functors, stage, vertex, state) for stage in stages)
    for number, (stage, dtype) in enumerate(zip(stages, kernel.totals, strict=True)):
        value = 0 if stage.combine_is_functor else neutral(stage.combine, dtype)
        kernel.names[f"neutral_of_{number}"] = dtype.type(value)


def compile_kernel(d: Declaration, worker: Compiled, *examples: Any) -> None:
    """Compile a kernel whose functors compile, each by itself."""
    try:
        compile_alone(worker, *examples)
    except CompileError as error:
        raise ProgramError(
            f"{d.name} does not compile, though its functors do: {error.what}."
        ) from None
    finally:
        forget_functions()


@contextlib.contextmanager
def raised_as_mistakes(d: Declaration) -> Iterator[None]:
    """Name the program where a compiled functor raises, for an index beyond a tuple, say."""
    try:
        yield
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ProgramError(
            f"a functor of {d.name} raised {said}; device='python' tells the line."
        ) from None


def _check(
    d: Declaration, functors: dict[str, Compiled], use: Use, given: dict[str, Any], inner: bool
) -> Any:
    functor, arguments = d.functors[use.name], [given[name] for name in use.arguments]
    try:
        returned = compile_alone(functors[use.name], *arguments, inner=inner)
    except CompileError as error:
        raise ProgramError(place_of(d, functor, error.line) + f"{error.what}.") from None
    if use.returns and not is_number(returned):
        wanted = "a number" if use.role in ("gather", "combine", "reduce") else "True or False"
        raise ProgramError(
            place_of(d, functor, functor.line)
            + f"returns {describe(returned)}; as {use.role} it must return {wanted}."
        )
    return returned


def place_of(d: Declaration, functor: Any, line: int) -> str:
    """How a message about a line of a functor begins."""
    return f"{d.name}.{functor.name}, line {line} of {functor.file}: "
