"""``evener generate``: make a graph; the arguments of each generator become options."""

from __future__ import annotations

import argparse
import inspect
import re
import time
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from evener.cli.convert import OUT_HELP, write_graph
from evener.cli.graphs import Loaded, check_output
from evener.cli.parser import add_json, new_command

# Help for arguments that all kinds share.
_COMMON = {
    "weights": "random weights from a range: integers such as 1-255, or floats such as 0.5-2.0",
    "seed": "the same seed gives the same graph",
    "directed": "store each edge as one arc, not in both directions",
    "device": "where to make the graph: cpu, cuda or cuda:N",
}
_METAVARS = {"weights": "LOW-HIGH", "device": "D"}
_EXAMPLES = {
    "rmat": "--scale 16 --edge-factor 16 --seed 1 --weights 1-255",
    "uniform": "--scale 16 --edge-factor 8",
    "regular": "--num-vertices 10000 --degree 4",
    "geometric": "--num-vertices 10000 --seed 7",
    "delaunay": "--num-vertices 10000",
    "grid": "--rows 1000 --columns 500 --removed 0.1",
    "tree": "--height 10 --branching 3",
}
_ANY_EXAMPLE = "--num-vertices 1000"


def add_command(commands: Any) -> None:
    """Add ``generate`` and its kinds to the parser."""
    from evener.graph.generate import KINDS

    parser = new_command(
        commands, "generate", None, "make a graph and save it",
        "  evener generate rmat kron.evg --scale 16 --edge-factor 16 --seed 1 --weights 1-255\n"
        "  evener generate grid grid.mtx --rows 1000 --columns 1000\n\n"
        "evener generate KIND --help lists the options of a kind.",
    )  # fmt: skip
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True, title="kinds")
    for kind, generator in KINDS.items():
        _add_kind(kinds, kind, generator)


def run(arguments: argparse.Namespace) -> None:
    """Generate, save and report in one line."""
    from evener.graph.generate import from_spec

    check_output(arguments.out, arguments.to)
    options = {
        name: getattr(arguments, name)
        for name in arguments.names
        if getattr(arguments, name) is not None
    }
    started = time.perf_counter()
    graph = from_spec(f"{arguments.kind}:" + ",".join(f"{n}={v}" for n, v in options.items()))
    loaded = Loaded(graph, time.perf_counter() - started)
    write_graph(loaded, arguments.out, arguments.to, arguments.json, "generated")


def _add_kind(kinds: Any, kind: str, generator: Callable[..., Any]) -> None:
    summary, about = read_docstring(generator)
    example = f"  evener generate {kind} {kind}.evg {_EXAMPLES.get(kind, _ANY_EXAMPLE)}"
    parser = new_command(kinds, kind, run, plain_sentence(summary), example)
    parser.add_argument("out", metavar="OUT", help=OUT_HELP)
    parameters = inspect.signature(generator).parameters
    for name, parameter in parameters.items():
        text = _COMMON.get(name) or plain_sentence(about.get(name, ""))
        _add_option(parser, name, parameter, text)
    parser.add_argument("--to", metavar="F", help="format of OUT (default: by its suffix)")
    add_json(parser)
    parser.set_defaults(names=list(parameters))


def _add_option(
    parser: argparse.ArgumentParser, name: str, parameter: inspect.Parameter, text: str
) -> None:
    option = "--" + name.replace("_", "-")
    default = parameter.default
    if isinstance(default, bool):
        shown = f"{text} (default: {'yes' if default else 'no'})"
        action = argparse.BooleanOptionalAction
        parser.add_argument(option, dest=name, action=action, default=None, help=shown)
        return
    required = default is parameter.empty
    if required:
        text += " (required)"
    elif default is not None:
        text += f" (default: {default})"
    metavar = _METAVARS.get(name, "N" if "int" in str(parameter.annotation) else "X")
    parser.add_argument(
        option,
        dest=name,
        metavar=metavar,
        type=_value,
        required=required,
        help=text.replace("%", "%%"),
    )


def _value(text: str) -> str:
    """Check a value for a specification, whose items are separated by commas."""
    if not text.strip() or re.search(r"[,=]", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not one number or range")
    return text


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The summary of a numpydoc docstring, and its description of each parameter.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.cli.generate import read_docstring
    >>> read_docstring(ev.generate.rmat)[1]["edge_factor"]
    'Edges drawn per vertex.'
    """
    lines = (inspect.getdoc(function) or "").splitlines() or [""]
    about: dict[str, str] = {}
    names: list[str] = []
    described = lines[lines.index("Parameters") + 2 :] if "Parameters" in lines else []
    for line, following in zip_longest(described, described[1:], fillvalue=""):
        if following.startswith("---"):
            break  # the next section
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.partition(":")[0].split(",")]
        elif line:
            for name in names:
                about[name] = f"{about.get(name, '')} {line.strip()}".strip()
    return lines[0], about


def plain_sentence(text: str) -> str:
    """Turn a docstring sentence into help: no backquotes, no full stop, no initial capital."""
    return text[:1].lower() + text[1:].replace("`", "").removesuffix(".")
