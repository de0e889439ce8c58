"""`Program`: a class whose body declares fields, functors and a loop of stages.

Nothing here runs a program. Making the class collects and checks the declarations of its body; the
engine reads the result, `Program.declaration`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from evener.errors import ProgramError
from evener.programs.access import Accesses, infer
from evener.programs.before import with_copies
from evener.programs.fields import HIDDEN, VERTEX, Field, Param, Scalar, Vertex
from evener.programs.flow import resolve
from evener.programs.functors import Functor
from evener.programs.helpers import with_helpers
from evener.programs.kinds import Loop
from evener.programs.stages import Backwards, Repeat, Stage, walk

if TYPE_CHECKING:
    from evener.graph.csr import Graph

RUN_OPTIONS = (
    "device", "partition", "exchange", "direction", "schedule", "memory_limit", "preallocate",
    "device_arrays", "check", "deterministic", "dtype",
    "sources_at_once",
)  # fmt: skip
RESERVED = (
    "count", "index", "id", "graph", "stats", "trace", "top", "explain", "weight", "degree",
    "superstep", "num_vertices", "changed", "before", "path_to", *RUN_OPTIONS,
)  # fmt: skip


@dataclass(frozen=True)
class Declaration:
    """The checked declarations of a program."""

    name: str
    fields: dict[str, Field]
    params: dict[str, Param]
    scalars: dict[str, Scalar]
    functors: dict[str, Functor]
    loop: tuple[Stage, ...]
    accesses: dict[tuple[str, str], Accesses] = field(default_factory=dict)  # name, role
    start_parameters: dict[str, inspect.Parameter] = field(default_factory=dict)
    vertex_parameters: frozenset[str] = frozenset()

    @property
    def uses_weights(self) -> bool:
        """Whether a functor reads the weight of an edge."""
        return any("weight" in found.offered for found in self.accesses.values())

    @cached_property
    def replays(self) -> bool:
        """Whether frontiers are recorded, for `backwards`."""
        return any(isinstance(stage, Backwards) for stage in walk(self.loop))

    def touched(self, stage: Stage) -> list[Accesses]:
        """The accesses of the functors of one stage."""
        return [self.accesses[use.name, use.role] for use in stage.uses()]


class Program:
    """The base of all programs.

    A body declares fields, parameters and scalars, functors, ``start`` and ``loop``; see the
    README for an example. ``start`` runs once on the host: it may assign fields
    (``self.depth[source] = 0``, ``self.rank[:] = 1``) and returns the first frontier as a sequence
    of indices, or None for all vertices. ``repeatable = True`` declares that the answer does not
    depend on the order of updates, as with shortest distances.

    Examples
    --------
    >>> import evener as ev
    >>> class Within(ev.Program):
    ...     hops = ev.Field("int64", merge="min", missing=-1)
    ...     limit = ev.Param("int64", 2)
    ...     @ev.functor
    ...     def reach(src, dst, edge, s):
    ...         return ev.atomic.min(s.hops, dst, s.superstep + 1) > s.superstep + 1
    ...     def start(self, source: ev.Vertex):
    ...         self.hops[source] = 0
    ...         return [source]
    ...     loop = ev.stages.repeat(ev.stages.advance(reach), max_supersteps=limit)
    >>> ev.run(Within, ev.generate.path(5), source=0, device="python").hops.tolist()
    [0, 1, 2, -1, -1]
    """

    declaration: ClassVar[Declaration]
    loop: Loop = ()
    repeatable: bool = False
    graph: Graph  # in start, like num_vertices; the others are for functors
    num_vertices: int
    superstep: int
    changed: bool

    def __init_subclass__(cls, abstract: bool = False, **options: Any):
        super().__init_subclass__(**options)
        if not abstract:
            cls.declaration = _declare(cls)

    if TYPE_CHECKING:

        def start(self, *args: Any, **kwargs: Any) -> Any:
            """Accept any arguments: a program declares its own."""

    else:

        def start(self) -> Any:
            """Set up a run; by default the first frontier is all vertices."""
            return None


def program_cache(program: type[Program], what: str) -> dict[Any, Any]:
    """A cache of a program, which lives as long as the class.

    It is an attribute of the class. A table of weak references would keep classes alive: kernels
    refer to functors, functors to the globals of their module, and those to the class.
    """
    tables = vars(program).get("_memory")
    if tables is None:
        tables = program._memory = {}  # type: ignore[attr-defined]
    return tables.setdefault(what, {})


def _declare(cls: type[Program]) -> Declaration:
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        members.update(vars(base))

    def of(kind: type) -> dict[str, Any]:
        return {
            name: value
            for name, value in members.items()
            if isinstance(value, kind) and (kind is Functor or getattr(value, "name", None) == name)
        }

    loop = cls.loop if isinstance(cls.loop, tuple) else (cls.loop,)
    start = inspect.signature(cls.start).parameters
    parameters = {name: p for name, p in start.items() if name != "self"}
    declaration = Declaration(
        cls.__name__, of(Field), of(Param), of(Scalar), of(Functor), loop,
        start_parameters=parameters,
        vertex_parameters=frozenset(n for n, p in parameters.items() if _is_vertex(p.annotation)),
    )  # fmt: skip
    _check_names(declaration)
    _check_loop(declaration)
    declaration = with_copies(with_helpers(declaration))
    declaration = replace(declaration, loop=resolve(declaration.name, declaration.loop))
    _infer_accesses(declaration)
    return declaration


def _is_vertex(annotation: Any) -> bool:
    """Whether an annotation is `Vertex`, as an object or as text."""
    if isinstance(annotation, str):
        return annotation.rsplit(".", 1)[-1] == "Vertex"
    return annotation is Vertex


def _check_names(d: Declaration) -> None:
    for name in [*d.fields, *d.params, *d.scalars, *d.start_parameters]:
        if name in RESERVED or name.startswith(("to_", "_", HIDDEN)):
            raise ProgramError(f"{d.name}.{name}: that name is reserved; choose another.")
    for name in d.start_parameters.keys() & (d.fields.keys() | d.scalars.keys()):
        raise ProgramError(f"{d.name}.{name} is both declared and an argument of start.")
    for name, declared in d.fields.items():
        if declared.dtype is VERTEX and declared.merge == "sum":
            raise ProgramError(f"{d.name}.{name} holds vertices; they cannot be summed.")
        if declared.follows is not None:
            _check_follower(d, name, declared)


def _check_follower(d: Declaration, name: str, declared: Field) -> None:
    leader = d.fields.get(declared.follows.name)  # type: ignore[union-attr]
    if leader is None:
        raise ProgramError(f"{d.name}.{name} follows a field that the program does not have.")
    if leader.follows is not None:
        raise ProgramError(f"{d.name}.{name} follows {leader.name}, which itself follows.")
    if leader.merge not in ("min", "max"):
        raise ProgramError(
            f"{d.name}.{name} follows {leader.name}, which must merge by 'min' or 'max'."
        )
    if leader.replicated != declared.replicated:
        raise ProgramError(
            f"{d.name}.{name} follows {leader.name}; both or neither must be replicated."
        )


def _check_loop(d: Declaration) -> None:
    if not d.loop:
        raise ProgramError(f"{d.name} has no loop; set loop = repeat(…).")
    for stage in d.loop:
        if not isinstance(stage, Stage):
            raise ProgramError(f"{d.name}.loop holds {stage!r}, which is not a stage.")
    recorded = False
    for stage in walk(d.loop):
        if isinstance(stage, Repeat):
            recorded = recorded or stage.record
            _check_repeat(d, stage)
        elif isinstance(stage, Backwards) and not recorded:
            raise ProgramError(f"{d.name}: backwards needs a repeat with record=True before it.")
        elif stage.into is not None:
            _require(d, stage.into, d.scalars, f"{type(stage).__name__.lower()} goes into")


def _check_repeat(d: Declaration, stage: Repeat) -> None:
    _require(d, stage.max_supersteps, d.params, "max_supersteps is")
    if stage.until is None and stage.max_supersteps is None and not stage.makes_frontier:
        raise ProgramError(
            f"{d.name}: a repeat would never end; it needs until=, max_supersteps= or a stage that "
            f"makes a frontier."
        )
    if stage.order is None:
        return
    _require(d, stage.order.field, d.fields, "nearest orders by")
    _require(d, stage.order.delta, d.params, "nearest has as delta")
    if not (stage.takes_frontier and stage.makes_frontier):
        raise ProgramError(
            f"{d.name}: a repeat with order= needs stages that take a frontier and make a new one, "
            f"such as an advance without over='all'."
        )


def _require(d: Declaration, value: Any, declared: dict[str, Any], what: str) -> None:
    """Refuse a declaration of another program; by name, since a subclass may redeclare it."""
    if isinstance(value, Field | Param | Scalar) and value.name not in declared:
        raise ProgramError(f"{d.name}: {what} something that the program does not declare.")


def _infer_accesses(d: Declaration) -> None:
    singles = {*d.params, *d.scalars}
    for stage in walk(d.loop):
        for use in stage.uses():
            found = d.functors.get(use.name)
            if found is None:
                raise ProgramError(f"{d.name} has no functor {use.name}.")
            if (use.name, use.role) not in d.accesses:
                d.accesses[use.name, use.role] = infer(d.name, found, use, d.fields, singles)
