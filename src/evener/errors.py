"""Every error that Evener raises on purpose; one sentence each, without a traceback of ours."""


class EvenerError(Exception):
    """Base of all errors below: catch it to catch whatever Evener refuses.

    Examples
    --------
    >>> import evener as ev
    >>> try:
    ...     ev.bfs(ev.generate.path(3), 7, device="python")
    ... except ev.EvenerError as error:
    ...     print(error)
    vertex 7 is not in the graph, whose labels are 0..2.
    """


class GraphFormatError(EvenerError):
    """A file is not the graph it claims to be: says which file, which line, what was expected.

    Examples
    --------
    >>> import evener as ev
    >>> _ = (tmp_path / "roads.el").write_text("0 1\\n1 x\\n")
    >>> ev.load(tmp_path / "roads.el")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    evener.errors.GraphFormatError: ...roads.el, line 2: 'x' is not a vertex id; expected a ...
    """


class GraphError(EvenerError, ValueError):
    """A graph, a vertex or an argument of a graph function does not fit.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.path(3).index_of(7)
    Traceback (most recent call last):
        ...
    evener.errors.GraphError: vertex 7 is not in the graph, whose labels are 0..2.
    """


class DeviceError(EvenerError):
    """A device was named that is not there, or failed.

    Examples
    --------
    >>> import evener as ev
    >>> ev.bfs(ev.generate.path(3), 0, device="abacus")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    evener.errors.DeviceError: there is no device 'abacus'; there are 'auto', 'python', 'cpu', ...
    """


class MemoryBudgetError(EvenerError, MemoryError):
    """A request needs more memory than there is; raised before anything is allocated.

    Examples
    --------
    >>> import evener as ev
    >>> ev.bfs(ev.generate.path(3), 0, device="python", memory_limit=8)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    evener.errors.MemoryBudgetError: BFS needs about ... on python, and memory_limit allows 8 B ...
    """


class ProgramError(EvenerError):
    """A graph program contradicts itself: names the program, the functor and the line.

    Examples
    --------
    >>> import evener as ev
    >>> class Widest(ev.Program):
    ...     width = ev.Field("int64", merge="largest")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    evener.errors.ProgramError: Widest, line 2 of ...: a field merges by 'largest'; it must be ...
    """
