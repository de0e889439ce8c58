"""Every error that Evener raises on purpose; one sentence each, without a traceback of ours."""

from collections.abc import Iterable

from evener import tracebacks


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

    def __init__(self, *args: object):
        super().__init__(*args)
        tracebacks.shorten_uncaught()

    def _render_traceback_(self) -> list[str]:
        """What notebooks and IPython show."""
        return tracebacks.render(self)


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


class MissingNameError(EvenerError, AttributeError):
    """The package or a result has no such name; says which are near.

    Examples
    --------
    >>> import evener as ev
    >>> ev.components
    Traceback (most recent call last):
        ...
    evener.errors.MissingNameError: module 'evener' has no attribute 'components' (did you mean ...
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


class GraphWarning(UserWarning):
    """A note about a graph that was loaded: nothing is wrong, but it may not be what was meant.

    Examples
    --------
    >>> import warnings
    >>> from evener.errors import GraphWarning
    >>> warnings.simplefilter("ignore", GraphWarning)  # to hear no more of them
    """


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A suggestion to put behind an unknown name, or nothing where no known name is near.

    Examples
    --------
    >>> from evener.errors import did_you_mean
    >>> f"there is no algorithm 'bsf'{did_you_mean('bsf', ['bfs', 'heat'])}"
    "there is no algorithm 'bsf' (did you mean 'bfs'?)"
    >>> did_you_mean("xyz", ["bfs", "heat"])
    ''
    """
    import difflib  # only here: it makes no import slower

    near = difflib.get_close_matches(given, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def shown(value: object) -> str:
    """A value in a message: short, and on one line.

    Examples
    --------
    >>> import numpy as np
    >>> from evener.errors import shown
    >>> shown("high"), shown([1, 2]), shown(np.ones((30, 2)))
    ("'high'", '[1, 2]', 'an array of shape (30, 2)')
    """
    text = " ".join(repr(value).split())
    if len(text) <= 40:
        return text
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"an array of shape {tuple(shape)}"
