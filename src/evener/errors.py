"""Every error that Evener raises on purpose; one sentence each, without a traceback of ours."""


class EvenerError(Exception):
    """Base of all errors below: catch it to catch whatever Evener refuses."""


class GraphFormatError(EvenerError):
    """A file is not the graph it claims to be: says which file, which line, what was expected."""


class GraphError(EvenerError, ValueError):
    """A graph, a vertex or an argument of a graph function does not fit."""


class DeviceError(EvenerError):
    """A device was named that is not there, or failed."""


class MemoryBudgetError(EvenerError, MemoryError):
    """A request needs more memory than there is; raised before anything is allocated."""


class ProgramError(EvenerError):
    """A graph program contradicts itself: names the program, the functor and the line."""
