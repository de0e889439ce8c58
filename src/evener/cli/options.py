"""Options from signatures: the parameters of a function or a program become command options.

The annotation of a parameter determines how its text is read (`evener.algorithms.arguments` has the
annotations for vertices), its default makes it optional, and the docstring describes it. So a new
algorithm needs no code here.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from evener.cli.generate import plain_sentence, read_docstring
from evener.errors import GraphError, ProgramError
from evener.graph.csr import Graph
from evener.programs.program import Program

_ENGINE = {"graph", "device"}  # parameters of every algorithm that are not options of its own


class Option(NamedTuple):
    """One parameter: its name, the words of its annotation, its default and its description."""

    name: str
    kinds: frozenset[str]
    default: Any
    text: str

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is inspect.Parameter.empty

    @property
    def flag(self) -> str:
        """The flag to type, such as ``--max-iterations``."""
        return "--" + self.name.replace("_", "-")

    @property
    def example(self) -> str:
        """A value to type."""
        return "0=1" if self.kinds & {"VertexValues", "Mapping"} else "0"


def options_of_function(function: Callable[..., Any]) -> list[Option]:
    """The options of an algorithm.

    Examples
    --------
    >>> from evener.algorithms import pagerank
    >>> from evener.cli.options import options_of_function
    >>> [option.flag for option in options_of_function(pagerank)][:3]
    ['--damping', '--tol', '--max-iterations']
    """
    _, about = read_docstring(function)
    return [
        Option(name, _kinds(p), p.default, plain_sentence(about.get(name, "")))
        for name, p in inspect.signature(function).parameters.items()
        if name not in _ENGINE and p.kind is not p.VAR_KEYWORD
    ]


def options_of_program(program: type[Program]) -> list[Option]:
    """The options of a program: the parameters of its ``start``, and its `Param`s.

    Examples
    --------
    >>> from evener.algorithms.sssp import SSSP
    >>> from evener.cli.options import options_of_program
    >>> [option.flag for option in options_of_program(SSSP)]
    ['--source', '--delta']
    """
    d = program.declaration
    options = {}
    for name, p in d.start_parameters.items():
        of_vertices = name in d.vertex_parameters
        kinds = frozenset({"SomeLabels"}) if of_vertices else _kinds(p)
        text = "a vertex, or several separated by commas" if of_vertices else "a parameter of start"
        options[name] = Option(name, kinds, p.default, text)
    for name, param in d.params.items():
        dtype = param.dtype
        kinds = frozenset({{"b": "bool", "f": "float"}.get(getattr(dtype, "kind", "f"), "int")})
        options.setdefault(name, Option(name, kinds, param.default, f"a parameter, {dtype}"))
    return list(options.values())


def add_options(parser: argparse.ArgumentParser, options: Sequence[Option], owner: str) -> None:
    """Add options to the parser of a command."""
    group = parser.add_argument_group(f"options of {owner}") if options else parser
    for option in options:
        settings: dict[str, Any] = {"dest": _destination(option), "required": option.required}
        shown = "" if option.required or option.default is None else f" (default: {_show(option)})"
        settings["help"] = (option.text + shown).replace("%", "%%")
        if "bool" in option.kinds:
            settings["action"] = argparse.BooleanOptionalAction
        else:
            settings |= {"type": _reader(option), "metavar": _metavar(option)}
        try:
            group.add_argument(option.flag, **settings)
        except argparse.ArgumentError:
            raise ProgramError(
                f"{owner} has a parameter {option.name!r}, but {option.flag} is an option of "
                "the command; rename the parameter."
            ) from None


def call_arguments(
    arguments: argparse.Namespace, options: Sequence[Option], graph: Graph
) -> dict[str, Any]:
    """Convert command-line options to arguments of a call, looking up vertices in the graph."""
    values = {}
    for option in options:
        value = getattr(arguments, _destination(option))
        if value is not None:
            values[option.name] = _with_graph(option, value, graph)
    return values


def read_labels(graph: Graph, text: str, flag: str) -> Any:
    """One label of a graph, or a list if the text has commas (``3,`` is a list of one).

    Examples
    --------
    >>> import evener as ev
    >>> from evener.cli.options import read_labels
    >>> g = ev.Graph.from_edges([0], [1], labels=["Bonn", "Ulm, Donau"])
    >>> read_labels(g, "Ulm, Donau", "--source"), read_labels(g, "Bonn,", "--source")
    ('Ulm, Donau', ['Bonn'])
    """
    named = graph._labels.kind == "objects"
    if "," not in text or (named and text in graph._labels._lookup()):
        return read_label(graph, text, flag)
    return [read_label(graph, part.strip(), flag) for part in text.split(",") if part.strip()]


def read_label(graph: Graph, text: str, flag: str) -> Any:
    """One label: a whole number if the labels of the graph are numbers."""
    if graph._labels.kind == "objects":
        label: Any = text
    else:
        try:
            label = int(text)
        except ValueError:
            label = text
    try:
        graph.index_of(label)
    except GraphError as error:
        raise GraphError(f"{flag}: {error}") from None
    return label


def _kinds(parameter: inspect.Parameter) -> frozenset[str]:
    """The words of an annotation; without one, the type of the default."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        has_default = parameter.default is not parameter.empty
        return frozenset({type(parameter.default).__name__} if has_default else ())
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    words = (text or str(annotation)).split("|")
    return frozenset(word.strip().partition("[")[0].rpartition(".")[2] for word in words)


def _destination(option: Option) -> str:
    return f"parameter_{option.name}"


def _metavar(option: Option) -> str:
    if option.kinds & {"VertexValues", "Mapping"}:
        return "V=X,…"
    if option.kinds & {"Label", "SomeLabels"}:
        return "V"
    return "N" if "int" in option.kinds else "X"


def _show(option: Option) -> str:
    default = option.default
    if isinstance(default, bool):
        return "yes" if default else "no"
    return default.__name__ if isinstance(default, type) else str(default)


def _reader(option: Option) -> Callable[[str], Any]:
    """The reader for argparse: it parses numbers; `_with_graph` looks vertices up later."""

    def read(text: str) -> Any:
        if option.kinds & {"Label", "SomeLabels", "VertexValues", "Mapping"}:
            return text
        if "int" in option.kinds and (whole := _number(text, int)) is not None:
            return whole
        if "float" in option.kinds and (number := _number(text, float)) is not None:
            return number
        if option.kinds & {"int", "float"} and "str" not in option.kinds:
            wanted = "a number" if "float" in option.kinds else "a whole number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
        return text

    return read


def _number(text: str, kind: type) -> Any:
    try:
        return kind(text)
    except ValueError:
        return None


def _with_graph(option: Option, value: Any, graph: Graph) -> Any:
    if option.kinds & {"VertexValues", "Mapping"}:
        return _values(option, value, graph)
    if "SomeLabels" in option.kinds:
        count = _number(value, int) if "int" in option.kinds else None
        return read_labels(graph, value, option.flag) if count is None else count
    return read_label(graph, value, option.flag) if "Label" in option.kinds else value


def _values(option: Option, text: str, graph: Graph) -> Any:
    """A number, or pairs of a vertex and a number."""
    if "Mapping" not in option.kinds and (number := _number(text, float)) is not None:
        return number
    values = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        label, _, value = pair.rpartition("=")
        number = _number(value, float)
        if not label or number is None:
            example = "3=1.5,7=0" if "Mapping" in option.kinds else "1.5, or 3=1.5,7=0"
            raise GraphError(
                f"{option.flag} is {text!r}; expected vertices and numbers: {example}."
            )
        values[read_label(graph, label.strip(), option.flag)] = number
    return values
