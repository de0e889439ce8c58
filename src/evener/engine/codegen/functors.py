"""Functors and the types of their arguments.

Functors are compiled one by one, before their kernel, so that a mistake is reported with its line.
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

# Dtypes of totals: looking up a functor's result on disk takes longer than a small run.
_total_dtypes: dict[Any, np.dtype] = {}


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
    """The weights if the program reads them, else none: then one kernel serves all graphs."""
    if graph._weights is None or not job.declaration.uses_weights:
        return np.empty(0, np.int32)
    return graph._weights


def unsigned(array: np.ndarray) -> np.ndarray:
    """A view of an array as unsigned numbers: an index that cannot be negative needs no branch."""
    return array.view(f"u{array.dtype.itemsize}")


def fingerprints_of(d: Declaration) -> tuple[str, ...]:
    """The fingerprints of a program's functors, which cover the globals that they read."""
    return tuple(fingerprint(functor.function) for functor in d.functors.values())


def kernel_key(job: Job) -> tuple[Any, ...]:
    """The key of a job's kernels: its functors, and the dtypes of fields and scalars.

    Dtypes are part of it because neutral values are written into a kernel.
    """
    d = job.declaration
    declared: tuple[Field | Scalar, ...] = (*d.fields.values(), *d.scalars.values())
    dtypes = tuple(field_dtype(one.dtype, job.graph) for one in declared)
    return job.program, fingerprints_of(d), dtypes


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
    """The dtype of a gather's totals: 64 bits for integers."""
    use = next(iter(stage.uses()))
    key = (fingerprint(d.functors[use.name].function), kind_of((vertex, state)))
    if key not in _total_dtypes:
        given = {"src": vertex, "dst": vertex, "edge": np.uint64(0), "s": state}
        _check(d, functors, use, given, inner=False)  # unlike inner code, kept on disk
        dtype = functors[use.name].result_dtype(*(given[name] for name in use.arguments))
        wide = {"b": np.int64, "i": np.int64, "u": np.uint64}
        _total_dtypes[key] = np.dtype(wide.get(dtype.kind, dtype))
    return _total_dtypes[key]


def name_totals(job: Job, kernel: Kernel, vertex: np.generic, state: Any) -> None:
    """Name the neutral value of each gather of a kernel, in the dtype of its totals."""
    d, functors = job.declaration, functors_of(job, kernel)
    stages = [gather.stage for gather in kernel.plan.gathers]
    kernel.totals = tuple(total_dtype(d, functors, stage, vertex, state) for stage in stages)
    for number, (stage, dtype) in enumerate(zip(stages, kernel.totals, strict=True)):
        value = 0 if stage.combine_is_functor else neutral(stage.combine, dtype)
        kernel.names[f"neutral_of_{number}"] = dtype.type(value)


def compile_kernel(d: Declaration, worker: Compiled, *examples: Any) -> None:
    """Compile a kernel whose functors have been compiled."""
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
    """Name the program if a compiled functor raises, for example for an index beyond a tuple."""
    try:
        yield
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ProgramError(
            f"a functor of {d.name} raised {said}; device='python' reports the line."
        ) from None


def _check(
    d: Declaration, functors: dict[str, Compiled], use: Use, given: dict[str, Any], inner: bool
) -> Any:
    functor, arguments = d.functors[use.name], [given[name] for name in use.arguments]
    try:
        returned = compile_alone(functors[use.name], *arguments, inner=inner)
    except CompileError as error:
        raise ProgramError(location_of(d, functor, error.line) + f"{error.what}.") from None
    if use.returns and not is_number(returned):
        wanted = "a number" if use.role in ("gather", "combine", "reduce") else "True or False"
        raise ProgramError(
            location_of(d, functor, functor.line)
            + f"returns {describe(returned)}; as {use.role} it must return {wanted}."
        )
    return returned


def location_of(d: Declaration, functor: Any, line: int) -> str:
    """The start of a message about a line of a functor."""
    return f"{d.name}.{functor.name}, line {line} of {functor.file}: "
