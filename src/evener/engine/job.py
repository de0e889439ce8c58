"""A job: one program on one graph with its parameters, ready for a device to run.

A device reads the declaration and the graph, changes the arrays of `Job.fields` in place, writes
`Job.scalars` and `Job.stats`, and returns nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evener.engine.bucket_width import bucket_width
from evener.engine.deferred_arrays import Counting, DeferredArray
from evener.engine.preallocation import AS_NEEDED, Preallocation
from evener.errors import EvenerError, GraphError, ProgramError, short_repr
from evener.graph.csr import Graph
from evener.graph.spread import distance_dtype
from evener.programs.fields import DISTANCE, ID, REAL, VERTEX, WEIGHT, Field, Param, neutral
from evener.programs.mistakes import line_of, no_parameter
from evener.programs.program import RUN_OPTIONS, Declaration, Program
from evener.programs.stages import Repeat, walk


@dataclass
class Job:
    """A run that is set up but not started."""

    program: type[Program]
    graph: Graph
    params: dict[str, Any]
    fields: dict[str, np.ndarray]
    frontier: np.ndarray | None  # ascending indices, None: all vertices
    scalars: dict[str, Any] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    trace: list[dict[str, Any]] = field(default_factory=list)
    make_trace: Callable[[], list[dict[str, Any]]] | None = None  # builds it when read
    preallocation: Preallocation = AS_NEEDED
    left: list[int | None] = field(default_factory=list)  # bytes for records, if a limit applies
    arguments: dict[str, Any] = field(default_factory=dict)  # all parameters, as the user gave them
    deferred: bool = False  # whether fields are `DeferredArray`

    def begin_again(self) -> None:
        """Reset fields and frontier to their state at the beginning of the run."""
        fresh = set_up(self.program, self.graph, self.arguments, deferred=self.deferred)
        self.fields, self.frontier = fresh.fields, fresh.frontier

    @property
    def declaration(self) -> Declaration:
        """What the program declares."""
        return self.program.declaration

    def begin(self, **stats: Any) -> None:
        """Initialize stats and scalars."""
        self.stats.update(supersteps=0, edges=0, **stats)
        for name, scalar in self.declaration.scalars.items():
            dtype = field_dtype(scalar.dtype, self.graph)
            self.scalars[name] = dtype.type(neutral(scalar.merge, dtype))

    def names_of(self, otherwise: list[str]) -> list[str]:
        """The devices of the parts as the user wrote them."""
        names = str(self.stats.get("device", "")).split("+")
        return names if len(names) == len(otherwise) else otherwise

    def value_of(self, number: Any) -> Any:
        """The number in a stage, or the value of the parameter that it names."""
        return self.params[number.name] if isinstance(number, Param) else number


def set_up(
    program: type[Program], graph: Graph, parameters: dict[str, Any], *, deferred: bool = False,
    arcs_a_bucket: int = 12,
) -> Job:  # fmt: skip
    """Allocate the fields, check the parameters and call the program's ``start``.

    ``deferred``: fields are `DeferredArray`, for a device with its own memory. If the width of
    buckets is ``"auto"``, ``arcs_a_bucket`` determines it (`evener.engine.bucket_width`).
    """
    d = _declared(program, graph)
    for name in _widths(d):
        if isinstance(parameters.get(name), str) and parameters[name] == "auto":
            parameters = {**parameters, name: bucket_width(graph, arcs_a_bucket)}
    arguments = _start_arguments(d, graph, parameters)
    params = {name: _param(d, p, graph, parameters) for name, p in d.params.items()}
    _refuse_unknown(d, parameters)
    instance = program.__new__(program)
    fields = {name: _allocate(f, graph, deferred) for name, f in d.fields.items()}
    for name, value in {**fields, **params}.items():
        setattr(instance, name, value)
    instance.graph, instance.num_vertices = graph, graph.num_vertices
    frontier = _frontier(d, graph, _started(d, instance, arguments))
    for name, array in fields.items():
        if getattr(instance, name) is not array:
            raise ProgramError(
                f"{d.name}.start replaces self.{name}; assign to its elements (self.{name}[:] = …)."
            )
    job = Job(program, graph, params, fields, frontier, arguments=parameters, deferred=deferred)
    for stage in walk(d.loop):
        if isinstance(stage, Repeat) and stage.order is not None:
            delta = job.value_of(stage.order.delta)
            if not delta > 0:
                raise ProgramError(f"{d.name}: delta is {delta}; it must be above 0.")
    return job


def without_start(program: type[Program], graph: Graph, parameters: dict[str, Any]) -> Job:
    """A job for lowering only: ``start`` is not called, so no source is needed.

    Parameters without a value are 0.
    """
    d = _declared(program, graph)
    _refuse_unknown(d, parameters)
    values = dict.fromkeys(_widths(d), 1)
    values |= {name: 0 for name, p in d.params.items() if p.default is None}
    values |= {name: value for name, value in parameters.items() if value != "auto"}
    params = {name: _param(d, p, graph, values) for name, p in d.params.items()}
    fields = {name: _allocate(f, graph, True) for name, f in d.fields.items()}
    return Job(program, graph, params, fields, None, arguments=parameters, deferred=True)


def _declared(program: type[Program], graph: Graph) -> Declaration:
    if not (isinstance(program, type) and issubclass(program, Program)):
        raise ProgramError(f"run takes a subclass of Program, not {program!r}.")
    if not hasattr(program, "declaration"):
        raise ProgramError(f"{program.__name__} is only a base of programs; run a subclass of it.")
    d = program.declaration
    if d.uses_weights and graph._weights is None:
        raise GraphError(f"{d.name} needs weights, but the graph has none.")
    return d


def _widths(d: Declaration) -> list[str]:
    """The parameters that are widths of buckets."""
    orders = [stage.order for stage in walk(d.loop) if isinstance(stage, Repeat) and stage.order]
    return [order.delta.name for order in orders if isinstance(order.delta, Param)]


def _started(d: Declaration, instance: Any, arguments: dict[str, Any]) -> Any:
    """Call ``start``; its errors become ProgramErrors of one sentence."""
    try:
        return instance.start(**arguments)
    except (EvenerError, MemoryError):
        raise
    except Exception as error:
        code = getattr(instance.start, "__code__", None)
        line = line_of(error, instance.start, code.co_firstlineno if code else 0)
        raise ProgramError(
            f"{d.name}.start, line {line}: {type(error).__name__}: {error}."
        ) from error


def field_dtype(kind: Any, graph: Graph) -> np.dtype:
    """The dtype of a field on this graph; REAL is float64 unless the run has replaced it."""
    if kind is REAL:
        return np.dtype(np.float64)
    if kind is DISTANCE:
        return distance_dtype(graph)
    if kind is VERTEX:
        return graph._indices.dtype
    if kind is WEIGHT:
        weights = graph._weights
        if weights is None or weights.dtype.kind == "i":
            return np.dtype(np.int64)
        return weights.dtype
    return kind


def _allocate(declared: Field, graph: Graph, deferred: bool) -> Any:
    dtype, n = field_dtype(declared.dtype, graph), graph.num_vertices
    initial = declared.initial(dtype)
    if not deferred:
        return np.arange(n, dtype=dtype) if initial is ID else np.full(n, initial, dtype)
    array = DeferredArray(n, dtype, 0 if initial is ID else initial)
    if initial is ID:
        array[:] = Counting(n)
    return array


def _start_arguments(d: Declaration, graph: Graph, parameters: dict[str, Any]) -> dict[str, Any]:
    arguments = {}
    for name, parameter in d.start_parameters.items():
        if name in parameters:
            value = parameters[name]
            arguments[name] = graph.index_of(value) if name in d.vertex_parameters else value
        elif parameter.default is parameter.empty:
            raise ProgramError(f"{d.name} needs {name}=.")
    return arguments


def _param(d: Declaration, declared: Param, graph: Graph, parameters: dict[str, Any]) -> Any:
    value = parameters.get(declared.name, declared.default)
    if declared.dtype is VERTEX or declared.dtype is WEIGHT:
        raise ProgramError(f"{d.name}.{declared.name}: a parameter has a plain dtype.")
    dtype = field_dtype(declared.dtype, graph)
    if _is_several(value):
        raise ProgramError(
            f"{d.name}: {declared.name} is given {_several(value)}, but a Param holds one value; "
            "what differs from vertex to vertex is a Field, which start fills."
        )
    try:
        converted = dtype.type(value)
    except (TypeError, ValueError, OverflowError):
        raise ProgramError(f"{d.name}: {declared.name} is {value!r}; expected {dtype}.") from None
    if dtype.kind in "iub" and converted != value:
        raise ProgramError(f"{d.name}: {declared.name} is {value!r}; expected {dtype}.")
    return converted


def _is_several(value: Any) -> bool:
    """Whether a value is an array or a collection of any library."""
    if hasattr(value, "ndim"):
        return bool(value.ndim > 0)
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _several(value: Any) -> str:
    """An array or a collection, for a message."""
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"an array of shape {tuple(shape)}"


def _refuse_unknown(d: Declaration, parameters: dict[str, Any]) -> None:
    known = [*d.start_parameters, *d.params]
    for name in parameters:
        if name not in known:
            raise no_parameter(d.name, name, known, RUN_OPTIONS)


def _frontier(d: Declaration, graph: Graph, returned: Any) -> np.ndarray | None:
    """The set that ``start`` returned, in ascending order."""
    if returned is None:
        return None
    try:
        flat = [np.atleast_1d(np.asarray(part, dtype=np.int64)) for part in _parts(returned)]
        frontier = np.unique(np.concatenate(flat)) if flat else np.empty(0, np.int64)
    except (TypeError, ValueError, OverflowError):
        raise ProgramError(
            f"{d.name}.start returns {short_repr(returned)}; it must return the indices of the "
            "first frontier's vertices, or None for all."
        ) from None
    if len(frontier) and (frontier[0] < 0 or frontier[-1] >= graph.num_vertices):
        raise ProgramError(f"{d.name}.start returns a frontier with a vertex out of range.")
    return frontier


def _parts(returned: Any) -> list[Any]:
    """``[source]`` holds one array when several sources were given."""
    if isinstance(returned, np.ndarray):
        return [returned]
    if np.isscalar(returned):
        return [returned]
    return list(returned)
