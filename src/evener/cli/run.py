"""``evener run``: run an algorithm or a user's program on a graph."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from evener.cli.algorithm import ALGORITHM_HELP, Algorithm, find_algorithm
from evener.cli.graphs import (
    GRAPH_HELP,
    Loaded,
    add_read_options,
    read_options,
    read_with_direction,
)
from evener.cli.options import add_options, call_arguments
from evener.cli.output import print_fields, print_json, print_table
from evener.cli.parser import Parser, add_force, add_json, new_command
from evener.cli.results import check_table, edges_traversed, write_trace
from evener.engine.partition.partitioners import PARTITIONERS
from evener.engine.results.frames import show, write_table
from evener.errors import EvenerError
from evener.graph.files.source import STANDARD
from evener.operators.gpu.schedules import SCHEDULES

if TYPE_CHECKING:
    import polars

    from evener.engine.results.result import Result
    from evener.engine.results.trace import Trace

# Options of `evener.run`, which checks them.
_ENGINE = {
    "device": (
        "D",
        "auto (default), python, cpu, cpu:4, cuda, or a set: cpu+cpu, cpu+cuda",
    ),
    "partition": (
        "P",
        "how a set divides the vertices: auto (default), " + ", ".join(PARTITIONERS),
    ),
    "memory_limit": ("L", "the memory a run may take: 4GiB, or by device: cpu=4GiB,cuda:0=2GiB"),
    "exchange": ("X", "what parts exchange: refined (default), maximal_subset, all"),
    "direction": ("WAY", "push along out-edges, pull along in-edges, or auto (default)"),
    "schedule": (
        "S",
        "how a GPU assigns edges to threads: auto (default), " + ", ".join(SCHEDULES),
    ),
}

_SWITCHES = {
    "check": "check indices, divisions, overflow and NaN in functors: slower, for debugging",
    "deterministic": "give the same bits in every run, with one thread if necessary",
}

_ENDS = 5  # vertices shown at each end of a long path
_OF_SETS = ("device", "partition", "exchange", "memory_limit")


def add_command(commands: Any) -> None:
    """Add ``run`` to the parser."""
    parser = new_command(
        commands, "run", run, "run an algorithm, or a program of your own, on a graph",
        "  evener run bfs roads.gr --source 17 -o depths.csv\n"
        "  evener run pagerank rmat:scale=16,seed=1 --damping 0.9 --top 3\n"
        "  evener run examples/widest_path.py:Widest grid:rows=9,weights=1-9 --source 0\n\n"
        "evener run ALGORITHM --help lists the options of an algorithm.",
    )  # fmt: skip
    argument = parser.add_argument("algorithm", metavar="ALGORITHM", help=ALGORITHM_HELP)
    parser.add_argument("graph", metavar="GRAPH", help=GRAPH_HELP)
    _add_common(parser)
    parser.prepare = lambda words: _add_options_of(parser, argument, words)


def run(arguments: argparse.Namespace) -> None:
    """Load, run, write the requested files and report."""
    from evener.engine.devices import choose_devices

    algorithm = arguments.chosen
    choose_devices("auto" if arguments.device is None else arguments.device)
    _check_files(arguments)  # before a long load
    loaded = read_with_direction(arguments.graph, **read_options(arguments))
    parameters = call_arguments(arguments, algorithm.options, loaded.graph)
    engine = {name: getattr(arguments, name) for name in (*_ENGINE, *_SWITCHES)}
    options = {name: value for name, value in engine.items() if value is not None}
    result = algorithm.call(loaded.graph, **parameters, **options)
    if arguments.trace is not None:  # before anything is written, since it may take another run
        result.trace = _compared_trace(result, algorithm, loaded, {**parameters, **options})
    outputs = arguments.output or []
    if outputs:
        table = result.to_polars()
        for output in outputs:
            write_table(table, output)
    if arguments.trace is not None:
        write_trace(result, arguments.trace)
    facts = {
        "algorithm": algorithm.name,
        "parameters": {name: _for_json(value) for name, value in parameters.items()},
        **describe_run(loaded, result, arguments.graph, from_source=algorithm.from_source),
        **_path(result, parameters),
        "output": outputs[0] if len(outputs) == 1 else outputs or None,
        "trace": arguments.trace,
    }
    top = result._highlights(arguments.top)
    if arguments.json:
        print_json({**facts, "top": _rows(top)})
        return
    # If the table goes to standard output, the report goes to standard error.
    with redirect_stdout(sys.stderr if STANDARD in outputs else sys.stdout):
        print_fields(_as_fields(facts, result._extra))
        if len(top):
            print()
            print_table(top.columns, [[show(value) for value in row] for row in top.iter_rows()])


def _check_files(arguments: argparse.Namespace) -> None:
    """Refuse output files that cannot be written, or that are the same file."""
    outputs, named = arguments.output or [], set()
    if STANDARD in outputs and arguments.json:
        raise EvenerError("--json and -o - would both write to standard output; leave one out.")
    for output in outputs:
        file = check_table(output, "results", "-o", force=arguments.force).resolve()
        if file in named:
            raise EvenerError(f"-o names {output} twice; name it once.")
        named.add(file)
    if arguments.trace is not None:
        trace = check_table(arguments.trace, "traces", "--trace", force=True)
        if trace.resolve() in named:
            raise EvenerError(
                f"-o and --trace both name {arguments.trace}, and one would replace the other; "
                "name two files."
            )


def describe_run(
    loaded: Loaded, result: Result, path: str, *, from_source: bool = False
) -> dict[str, Any]:
    """The facts about a run for ``evener run --json``; ``from_source`` as in `edges_traversed`.

    Examples
    --------
    >>> import evener as ev
    >>> from evener.cli.graphs import read_graph
    >>> from evener.cli.run import describe_run
    >>> loaded = read_graph("path:num_vertices=4")
    >>> describe_run(loaded, ev.bfs(loaded.graph, 0, device="python"), "path")["edges"]
    3
    """
    graph, stats = loaded.graph, result.stats
    seconds = {"load": loaded.seconds}
    for what in ("setup", "compile", "run"):
        seconds[what] = stats.get(f"{what}_seconds", 0.0)
    edges, arcs = stats.get("edges"), edges_traversed(result, from_source=from_source)
    timed = seconds["run"] > 0
    facts = {
        "graph": {
            "path": path,
            "num_vertices": graph.num_vertices,
            "num_edges": graph.num_edges,
            "directed": graph.directed,
        },
        "device": stats.get("device"),
        "threads": stats.get("threads"),
        "reached": int(result.reached.sum()) if result._is_search else None,
        "supersteps": stats.get("supersteps"),
        "edges": edges,
        "edges_per_second": edges / seconds["run"] if edges is not None and timed else None,
        "edges_traversed": arcs,
        "teps": arcs / seconds["run"] if timed else None,
        "seconds": seconds,
    }
    if "converged" in stats:
        facts["converged"] = stats["converged"]
    return facts | {name: _for_json(getattr(result, name)) for name in result._extra}


def show_path(path: Sequence[Any] | None, length: float | None = None) -> str:
    """A path on one line, with its length unless that equals its hops; a long path is abridged.

    Examples
    --------
    >>> from evener.cli.run import show_path
    >>> show_path(["Bonn", "Ulm"], 2.5), show_path(None)
    ('Bonn → Ulm (1 hop, length 2.5)', 'none: the target was not reached')
    >>> show_path(range(100), 99)
    '0 → 1 → 2 → 3 → 4 → … → 95 → 96 → 97 → 98 → 99 (99 hops)'
    """
    if path is None:
        return "none: the target was not reached"
    shown = [str(label) for label in path]
    if len(shown) > 3 * _ENDS:
        shown[_ENDS:-_ENDS] = ["…"]
    hops = len(path) - 1
    about = f"{hops:,} {'hop' if hops == 1 else 'hops'}"
    if length is not None and length != hops:
        about += f", length {show(length)}"
    return f"{' → '.join(shown)} ({about})"


def show_rate(edges_per_second: float | None) -> str:
    """Edges per second in millions.

    Examples
    --------
    >>> from evener.cli.run import show_rate
    >>> show_rate(1.25e9), show_rate(12_345.0), show_rate(None)
    ('1,250', '0.0123', '-')
    """
    if edges_per_second is None:
        return "-"
    millions = edges_per_second / 1e6
    return f"{millions:,.0f}" if millions >= 100 else f"{millions:.3g}"


def _path(result: Result, parameters: dict[str, Any]) -> dict[str, Any]:
    """The path to the target, if the run had one and kept parents; None if it was not reached."""
    target = parameters.get("target")
    if target is None or "parent" not in result._fields or not result._is_search:
        return {}
    v = result.graph.index_of(target)
    if not isinstance(v, int):  # a user's program may take several targets
        return {}
    if not result.reached[v]:
        return {"path": None, "path_length": None}
    return {"path": _for_json(result.path_to(target)), "path_length": _for_json(result[target])}


def _compared_trace(
    result: Result, algorithm: Algorithm, loaded: Loaded, arguments: dict[str, Any]
) -> Trace:
    """The trace; for a device set with its redundant work, which takes a run on one device."""
    devices = str(result.stats["device"]).split("+")
    if len(devices) == 1:
        return result.trace
    options = {name: value for name, value in arguments.items() if name not in _OF_SETS}
    options["device"] = devices[0].partition(":")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first run has shown them
        return result.trace.beside(algorithm.call(loaded.graph, **options).trace)


def _add_common(parser: argparse.ArgumentParser) -> None:
    for name, (metavar, text) in _ENGINE.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=text)
    for name, text in _SWITCHES.items():
        parser.add_argument(f"--{name}", action="store_true", default=None, help=text)
    parser.add_argument(
        "-o", "--output", metavar="OUT", action="append",
        help="write one row per vertex: .csv, .tsv, .parquet, .json or .jsonl; - prints CSV; "
        "may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--trace", metavar="T",
        help="write a trace of all supersteps: .json for Chrome and Perfetto, .csv as a table; for "
        "a set, this also runs one of its devices, for comparison",
    )  # fmt: skip
    add_force(parser)
    parser.add_argument(
        "--top", metavar="K", type=_count, default=5,
        help="number of top vertices to show (default: 5)",
    )  # fmt: skip
    add_read_options(parser)
    add_json(parser)


def _add_options_of(parser: Parser, argument: argparse.Action, words: Sequence[str]) -> None:
    """Add the options of the algorithm that the words name, and make the help describe it."""
    first_pass = Parser(prog=parser.prog, add_help=False)
    first_pass.is_strict = False
    first_pass.add_argument("algorithm", nargs="?")
    _add_common(first_pass)
    name = first_pass.parse_known_args(list(words))[0].algorithm
    if name is None:
        return
    algorithm = find_algorithm(name)
    parser.prog = f"{parser.prog} {name}"
    parser.description = f"{algorithm.summary[:1].upper()}{algorithm.summary[1:]}."
    needs = "".join(f" {o.flag} {o.example}" for o in algorithm.options if o.required)
    parser.epilog = f"example:\n  {parser.prog} rmat:scale=10,weights=1-255{needs}"
    parser.usage = f"{parser.prog} GRAPH{needs} [options]".replace("%", "%%")
    argument.help = argparse.SUPPRESS
    parser.set_defaults(chosen=algorithm)
    add_options(parser, algorithm.options, algorithm.name)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def _as_fields(facts: dict[str, Any], extra: Iterable[str]) -> dict[str, str]:
    graph, seconds = facts["graph"], facts["seconds"]
    kind = "directed" if graph["directed"] else "undirected"
    parameters = ", ".join(f"{name}={value}" for name, value in facts["parameters"].items())
    threads = facts["threads"]
    if isinstance(threads, list):  # of a device set
        threads = " + ".join(map(str, threads))
    fields = {
        "algorithm": facts["algorithm"] + (f" ({parameters})" if parameters else ""),
        "graph": f"{graph['path']}: {graph['num_vertices']:,} vertices, "
        f"{graph['num_edges']:,} arcs, {kind}",
        "device": str(facts["device"]) + (f", threads: {threads}" if threads else ""),
        "seconds": ", ".join(f"{what} {spent:.3g}" for what, spent in seconds.items()),
        "supersteps": "-" if facts["supersteps"] is None else f"{facts['supersteps']:,}",
        "edges": "-" if facts["edges"] is None else f"{facts['edges']:,} visited",
    }
    if facts["edges_per_second"] is not None:
        fields["edges"] += f", {show_rate(facts['edges_per_second'])} million per second"
    if facts["teps"] is not None:
        fields["TEPS"] = f"{show_rate(facts['teps'])} million"
    if facts["reached"] is not None:
        fields["reached"] = f"{facts['reached']:,} of {graph['num_vertices']:,} vertices"
        if facts.get("path") is not None:
            fields["reached"] += " before it stopped at the target"
    if "path" in facts:
        fields["path"] = show_path(facts["path"], facts["path_length"])
    if "converged" in facts:
        fields["converged"] = "yes" if facts["converged"] else "no"
    fields |= {name: show(facts[name]) for name in extra}
    outputs = facts["output"] if isinstance(facts["output"], list) else [facts["output"]]
    written = [path for path in (*outputs, facts["trace"]) if path]
    if written:
        fields["written"] = ", ".join(written)
    return fields


def _rows(frame: polars.DataFrame) -> list[dict[str, Any]]:
    return [{name: _for_json(v) for name, v in row.items()} for row in frame.iter_rows(named=True)]


def _for_json(value: Any) -> Any:
    """Convert a value for JSON; labels of other types become text."""
    if isinstance(value, dict):
        return {str(name): _for_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
