"""`Result`: the result of a run, by the user's labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evener.engine.job import Job
from evener.engine.results.arrays import Columns
from evener.engine.results.frames import as_html, write_table
from evener.engine.results.trace import MOST_ROWS, Trace
from evener.errors import EvenerError, GraphError, MissingNameError, ProgramError, did_you_mean
from evener.graph.csr import Graph
from evener.graph.generate.common import whole
from evener.graph.labels import label_column
from evener.programs.fields import HIDDEN, ID, VERTEX, Field
from evener.programs.program import Declaration

if TYPE_CHECKING:
    import pandas
    import polars


class Result:
    """The result of a run: ``r.depth`` is the array of the field ``depth``, indexed ``0..n-1``.

    A scalar that the program declares has its final value.

    ``r[label]`` is the value of the first field that the program declares, at one vertex or, for
    several labels, an array of them. Arrays that hold vertices hold indices; ``r[label]``,
    `path_to` and the frames give labels. Arrays that stay on a GPU (``device_arrays=True``) are
    copied once, when one of these or `to_numpy` reads them.

    An algorithm adds further results with ``_attach(count=3)``, and replaces or adds a field with
    ``_set_field``: names that no field can have, because of the underscore.

    Attributes
    ----------
    graph
        The graph of the run.
    stats
        Device, seconds of setting up, compiling and running, supersteps, edges visited.
    trace
        A row for each superstep, with exceptions that `evener.engine.results.trace.Trace` lists.

    Examples
    --------
    >>> from evener import Graph
    >>> from evener.algorithms.bfs import bfs
    >>> r = bfs(Graph.from_edges([0, 1], [1, 2], labels=["a", "b", "c"]), "a", device="python")
    >>> r.depth.tolist(), r["c"], r.path_to("c")
    ([0, 1, 2], 2, ['a', 'b', 'c'])
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        fields: Mapping[str, Any],
        *,
        holds_vertices: set[str] | frozenset[str] = frozenset(),
        stats: dict[str, Any] | None = None,
        trace: Trace | None = None,
        reasons: list[str] | None = None,
        untouched: dict[str, Any] | None = None,
        shows_reach: str | None = None,
    ):
        self._name = name
        self._fields = Columns(fields)
        self._holds_vertices = set(holds_vertices)
        self._reasons = reasons or []
        self._untouched = untouched or {}  # values of fields where the run wrote nothing
        self._shows_reach = shows_reach  # the field of a search that shows what was `reached`
        self._extra: dict[str, Any] = {}
        self._declaration: Declaration | None = None  # of the program that ran
        self.graph = graph
        self.stats: dict[str, Any] = stats if stats is not None else {}
        if trace is None:  # `not trace` would build its rows
            trace = Trace(name, str(self.stats.get("device", "?")), [])
        self.trace = trace

    @classmethod
    def _of(cls, job: Job, reasons: list[str]) -> Result:
        """The result of a job that ran."""
        d = job.declaration
        shown = {name: field for name, field in d.fields.items() if not name.startswith(HIDDEN)}
        fields = {
            name: array if shown[name].missing is None else Export(shown[name], array)
            for name, array in job.fields.items()
            if name in shown
        }
        vertices = {name for name, field in shown.items() if field.dtype is VERTEX}
        untouched = {
            name: field.initial(job.fields[name].dtype) if field.missing is None else field.missing
            for name, field in shown.items()
        }
        reach = [name for name, field in shown.items() if field.missing is not None]
        reach += shown  # a field with a value for missing vertices, else the first
        trace = Trace(d.name, str(job.stats.get("device", "?")), job.make_trace or job.trace)
        result = cls(
            d.name, job.graph, fields, holds_vertices=vertices, stats=job.stats, trace=trace,
            reasons=reasons, untouched=untouched,
            shows_reach=reach[0] if d.vertex_parameters and reach else None,
        )  # fmt: skip
        result._declaration = d
        return result._attach(**{name: value.item() for name, value in job.scalars.items()})

    # ---- what algorithms add --------------------------------------------------------------

    def _attach(self, **extra: Any) -> Result:
        """Add attributes that are no vertex arrays, or functions that build them; returns self."""
        self._extra.update(extra)
        return self

    def _set_field(self, name: str, array: Any, *, holds_vertices: bool = False) -> Result:
        """Replace or add a vertex array, or a function that builds it; returns self."""
        self._fields[name] = array
        (self._holds_vertices.add if holds_vertices else self._holds_vertices.discard)(name)
        return self

    # ---- values ---------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):  # unpickling looks these up before they exist
            if name in self._fields:
                return self._fields[name]
            if name in self._extra:
                value = self._extra[name]
                if callable(value):
                    value = self._extra[name] = value()
                return value
        has = [*self.__dict__.get("_fields", ()), *self.__dict__.get("_extra", ())]
        methods = [name for name, value in vars(Result).items() if callable(value)]
        public = [*has, *(m for m in methods if not m.startswith("_"))]
        near = "" if name.startswith("_") else did_you_mean(name, public)
        raise MissingNameError(
            f"the result has no {name!r}{near}; it has {', '.join(has) or 'no fields'}, "
            "and methods such as top and to_polars."
        )

    def __getstate__(self) -> dict[str, Any]:
        extra = {name: getattr(self, name) for name in self._extra}  # functions do not pickle
        return {**self.__dict__, "_extra": extra, "_declaration": None}

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._fields, *self._extra})

    def __getitem__(self, label: Any) -> Any:
        name = self._first()
        index = self.graph.index_of(label)
        values = self._fields.on_host(name)[index]
        if name in self._holds_vertices:
            labels, absent = self._labels_of(np.atleast_1d(values))
            named = [
                None if no else label for label, no in zip(labels.tolist(), absent, strict=True)
            ]
            return named[0] if isinstance(index, int) else named
        return values.item() if isinstance(index, int) else values

    @property
    def reached(self) -> np.ndarray:
        """Whether a search reached each vertex: an array of booleans, indexed ``0..n-1``.

        Only a run that starts from given vertices has it: ``bfs``, ``sssp``, ``sswp``, and programs
        whose ``start`` takes a vertex.

        Examples
        --------
        >>> import evener as ev
        >>> r = ev.bfs(ev.Graph.from_edges([0, 2], [1, 3]), 0, device="python")
        >>> r.reached.tolist(), int(r.reached.sum())
        ([True, True, False, False], 2)
        """
        if "reached" in self._fields:  # a program may have a field of this name
            return self._fields["reached"]
        if not self._is_search:
            raise AttributeError  # `__getattr__` then raises a full message
        assert self._shows_reach is not None
        values = self._fields.on_host(self._shows_reach)
        return ~_is_untouched(values, self._untouched.get(self._shows_reach))

    @property
    def _is_search(self) -> bool:
        return self._shows_reach in self._fields

    def path_to(self, label: Any) -> list[Any]:
        """The labels along the path that ``parent`` gives, from a source to this vertex.

        Examples
        --------
        >>> from evener import generate
        >>> from evener.algorithms.bfs import bfs
        >>> bfs(generate.path(4), 0, device="python").path_to(3)
        [0, 1, 2, 3]
        """
        if "parent" not in self._fields:
            raise ProgramError(f"{self._name} keeps no parents, so there are no paths to follow.")
        v = self.graph.index_of(label)
        if not isinstance(v, int):
            raise GraphError("path_to takes one vertex; call it for each.")
        if not self._is_reached(v):
            raise GraphError(f"vertex {label!r} was not reached, so no path leads to it.")
        parent, path = self._fields.on_host("parent"), [v]
        while 0 <= (above := int(parent[path[-1]])) != path[-1]:
            path.append(above)
            if len(path) > len(parent):
                raise GraphError(f"the parents of vertex {label!r} form a cycle.")
        return self.graph._labels.take(np.array(path[::-1])).tolist()

    def _is_reached(self, v: int) -> bool:
        """Whether a vertex has a parent, or like a source a value in the first field."""
        first = self._first()
        if self._fields.on_host("parent")[v] >= 0:
            return True
        value = self._fields.on_host(first)[v : v + 1]
        return not _is_untouched(value, self._untouched.get(first), v)[0]

    # ---- tables ---------------------------------------------------------------------------

    def to_numpy(self) -> dict[str, np.ndarray]:
        """The arrays by name, indexed ``0..n-1``; those of vertices hold indices.

        Examples
        --------
        >>> import evener as ev
        >>> arrays = ev.bfs(ev.generate.path(3), 0, device="python").to_numpy()
        >>> arrays["depth"].tolist(), arrays["parent"].tolist()
        ([0, 1, 2], [-1, 0, 1])
        """
        return {name: self._fields.on_host(name) for name in self._fields}

    def to_polars(self) -> polars.DataFrame:
        """A frame with the labels as column ``vertex``, then the fields; a missing vertex is null.

        Examples
        --------
        >>> from evener import generate
        >>> from evener.algorithms.bfs import bfs
        >>> bfs(generate.path(3), 0, device="python").to_polars().rows()
        [(0, 0, None), (1, 1, 0), (2, 2, 1)]
        """
        return self._frame(np.arange(self.graph.num_vertices))

    def to_pandas(self) -> pandas.DataFrame:
        """As `to_polars`, for pandas; integers that may be missing have its type ``Int64``.

        Examples
        --------
        >>> from evener import generate
        >>> from evener.algorithms.bfs import bfs
        >>> bfs(generate.path(3), 0, device="python").to_pandas()["depth"].tolist()
        [0, 1, 2]
        """
        try:
            import pandas
        except ImportError:
            raise EvenerError("to_pandas needs pandas; install it: pip install pandas.") from None
        columns: dict[str, Any] = {"vertex": self.graph.labels}
        for name, array in self.to_numpy().items():
            columns[name] = array
            if name in self._holds_vertices:
                labels, absent = self._labels_of(array)
                if labels.dtype == object:
                    columns[name] = labels
                else:
                    columns[name] = pandas.arrays.IntegerArray(labels, absent)
        return pandas.DataFrame(columns)

    def to_parquet(self, path: Any) -> None:
        """Write the frame of `to_polars` to a Parquet file, which appears whole or not at all.

        Examples
        --------
        >>> import evener as ev
        >>> import polars as pl
        >>> ev.bfs(ev.generate.path(3), 0, device="python").to_parquet(tmp_path / "bfs.parquet")
        >>> pl.read_parquet(tmp_path / "bfs.parquet").rows()
        [(0, 0, None), (1, 1, 0), (2, 2, 1)]
        """
        write_table(self.to_polars(), path, ".parquet")

    def to_csv(self, path: Any) -> None:
        """Write the frame of `to_polars` as CSV, compressed if the name ends in .gz or .zst.

        Examples
        --------
        >>> import evener as ev
        >>> ev.bfs(ev.generate.path(3), 0, device="python").to_csv(tmp_path / "bfs.csv")
        >>> (tmp_path / "bfs.csv").read_text()
        'vertex,depth,parent\\n0,0,\\n1,1,0\\n2,2,1\\n'
        """
        write_table(self.to_polars(), path, ".csv")

    def top(self, k: int = 10, by: str | None = None) -> polars.DataFrame:
        """The k vertices with the largest values of a field, by default the first one.

        Ties are in the order of the vertices, NaN comes last. Vertices that a search did not reach
        are left out.

        Examples
        --------
        >>> from evener import generate
        >>> from evener.algorithms.bfs import bfs
        >>> bfs(generate.path(3), 0, device="python").top(1)["vertex"].to_list()
        [2]
        """
        name = self._first() if by is None else by
        if name not in self._fields:
            raise ProgramError(f"the result has no {name!r}; it has {', '.join(self._fields)}.")
        values, k = self._fields.on_host(name), whole("k", k)
        among = np.flatnonzero(self.reached) if self._is_search else np.arange(len(values))
        values = values[among]
        last = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        ascending = np.lexsort((-among, values, ~last))
        return self._frame(among[ascending[::-1][:k]])

    def _highlights(self, k: int) -> polars.DataFrame:
        """The top vertices; the largest groups, if the first field holds vertices.

        Examples
        --------
        >>> import evener as ev
        >>> g = ev.Graph.from_edges([0, 2, 3], [1, 3, 4])
        >>> ev.connected_components(g, device="python")._highlights(1).rows()
        [(2, 3)]
        """
        import polars

        if not self._fields:
            return polars.DataFrame()
        first = self._first()
        if first not in self._holds_vertices:
            return self.top(k)
        members, counts = np.unique(self._fields.on_host(first), return_counts=True)
        largest = np.argsort(-counts, kind="stable")[:k]
        column = label_column(first, *self._labels_of(members[largest]))
        return polars.DataFrame([column, polars.Series("vertices", counts[largest])])

    def _frame(self, chosen: np.ndarray) -> polars.DataFrame:
        import polars

        columns = [label_column("vertex", *self._labels_of(chosen))]
        for name, array in self.to_numpy().items():
            if name in self._holds_vertices:
                columns.append(label_column(name, *self._labels_of(array[chosen])))
            else:
                columns.append(polars.Series(name, array[chosen]))
        return polars.DataFrame(columns)

    def _first(self) -> str:
        if not self._fields:
            raise ProgramError(f"{self._name} declares no fields.")
        return next(iter(self._fields))

    def _labels_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels of vertices, and a mask of values that are no vertex, such as -1."""
        absent = (indices < 0) | (indices >= self.graph.num_vertices)
        if self.graph._labels.kind != "objects":
            return self.graph._labels.take(np.where(absent, 0, indices)), absent
        labels = np.full(len(indices), None, dtype=object)
        labels[~absent] = self.graph._labels.take(indices[~absent])
        return labels, absent

    # ---- showing --------------------------------------------------------------------------

    def explain(self) -> str:
        """What ran, where and why, in a few lines.

        Examples
        --------
        >>> import evener as ev
        >>> print(ev.bfs(ev.generate.path(3), 0, device="python").explain())  # doctest: +ELLIPSIS
        BFS ran on python: as asked for.
        Direction: auto; the interpreter pushed.
        Supersteps: 3.
        Edges visited: 2.
        Seconds (setup): ...
        """
        return "\n".join([*self._reasons, *self._counts()])

    def _counts(self) -> list[str]:
        lines = []
        if "supersteps" in self.stats:
            supersteps = self.stats["supersteps"]
            lines.append(f"Supersteps: {supersteps:,}.")
            # The length of a trace builds its rows: only for long runs.
            if supersteps > MOST_ROWS and len(self.trace) == MOST_ROWS:
                lines.append(f"The trace has only the first {MOST_ROWS:,} rows.")
        if "edges" in self.stats:
            lines.append(f"Edges visited: {self.stats['edges']:,}.")
        for what in ("setup", "compile", "run"):
            if f"{what}_seconds" in self.stats:
                lines.append(f"Seconds ({what}): {self.stats[f'{what}_seconds']:.3g}.")
        return lines

    def __repr__(self) -> str:
        extra = [f"{name} {getattr(self, name)!r}" for name in self._extra]
        what = ", ".join([*self._fields, *extra]) or "no fields"
        n, device = self.graph.num_vertices, self.stats.get("device", "?")
        return f"Result({self._name} on {device}: {what}; {n:,} vertices)"

    def _repr_html_(self) -> str:
        top = self._highlights(10)
        return as_html(repr(self), top.columns, top.iter_rows())


class Export(NamedTuple):
    """Builds the array that users see: ``missing`` replaces the initial value.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.engine.results.result import Export
    >>> from evener.programs import Field
    >>> Export(Field(np.int64, merge="min", missing=np.inf), np.array([3, 2**63 - 1]))().tolist()
    [3.0, inf]
    """

    declared: Field
    array: np.ndarray

    def __call__(self) -> np.ndarray:
        """The array for users."""
        array, missing = self.array, self.declared.missing
        if missing is None:
            return array
        unset = _is_untouched(array, self.declared.initial(array.dtype))
        if array.dtype.kind in "iub" and isinstance(missing, float):
            array = array.astype(np.float64)
        return np.where(unset, array.dtype.type(missing), array)


def _is_untouched(values: np.ndarray, initial: Any, first: int = 0) -> np.ndarray:
    """Where values are still the initial one; ``first`` is the vertex of the first value."""
    if initial is ID:
        return values == np.arange(first, first + len(values), like=values)
    return np.isnan(values) if initial != initial else values == initial
