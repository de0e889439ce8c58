"""All errors that Evener raises deliberately: one sentence, without frames of Evener."""

from collections.abc import Iterable

from evener import tracebacks


class EvenerError(Exception):
    """Base class of all errors below.

    Examples
    --------
    >>> import evener as ev
    >>> try:
    ...     ev.bfs(ev.generate.path(3), 7, device="python")
    ... except ev.EvenerError as error:
    ...     print(error)
    vertex 7 is not in the graph, whose labels are 0..2.
    """

    def __init__(self, *args: object):
        super().__init__(*args)
        tracebacks.shorten_uncaught()

    def _render_traceback_(self) -> list[str]:
        """The lines that notebooks and IPython show."""
        return tracebacks.render(self)


class GraphFormatError(EvenerError):
    """A file cannot be read as a graph; the message names file and line and says what was expected.

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
    """A graph, a vertex or an argument of a graph function is invalid.

    Examples
    --------
    >>> import evener as ev
    >>> ev.generate.path(3).index_of(7)
    Traceback (most recent call last):
        ...
    evener.errors.GraphError: vertex 7 is not in the graph, whose labels are 0..2.
    """


class DeviceError(EvenerError):
    """A device does not exist, cannot be used, or failed.

    Examples
    --------
    >>> import evener as ev
    >>> ev.bfs(ev.generate.path(3), 0, device="abacus")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    evener.errors.DeviceError: there is no device 'abacus'; there are 'auto', 'python', 'cpu', ...
    """


class MemoryBudgetError(EvenerError, MemoryError):
    """A request needs more memory than is available or allowed; raised before allocating.

    Examples
    --------
    >>> import evener as ev
    >>> ev.bfs(ev.generate.path(3), 0, device="python", memory_limit=8)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    evener.errors.MemoryBudgetError: BFS needs about ... on python, and memory_limit allows 8 B ...
    """


class MissingNameError(EvenerError, AttributeError):
    """The package or a result has no such attribute; the message suggests a similar one.

    Examples
    --------
    >>> import evener as ev
    >>> ev.components
    Traceback (most recent call last):
        ...
    evener.errors.MissingNameError: module 'evener' has no attribute 'components' (did you mean ...
    """


class ProgramError(EvenerError):
    """A graph program is invalid; the message names the program, the functor and the line.

    Examples
    --------
    >>> import evener as ev
    >>> class Widest(ev.Program):
    ...     width = ev.Field("int64", merge="largest")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    evener.errors.ProgramError: Widest, line 2 of ...: a field merges by 'largest'; it must be ...
    """


class GraphWarning(UserWarning):
    """A note about a loaded graph: it is valid, but may not be what was intended.

    Examples
    --------
    >>> import warnings
    >>> from evener.errors import GraphWarning
    >>> warnings.simplefilter("ignore", GraphWarning)  # to silence them
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to an unknown name; empty if no known name is similar.

    Examples
    --------
    >>> from evener.errors import did_you_mean
    >>> f"there is no algorithm 'bsf'{did_you_mean('bsf', ['bfs', 'heat'])}"
    "there is no algorithm 'bsf' (did you mean 'bfs'?)"
    >>> did_you_mean("xyz", ["bfs", "heat"])
    ''
    """
    import difflib  # here, so that it slows down no import

    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def short_repr(value: object) -> str:
    """A value for a message: short and on one line.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.errors import short_repr
    >>> short_repr("high"), short_repr([1, 2]), short_repr(np.ones((30, 2)))
    ("'high'", '[1, 2]', 'an array of shape (30, 2)')
    """
    text = " ".join(repr(value).split())
    if len(text) <= 40:
        return text
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"an array of shape {tuple(shape)}"
