"""``evener warm``: fill the cache of compiled code, so that first calls are fast.

Every algorithm runs on a small graph of each kind, without options and with each of its options in
turn, since some options select other programs; and a small graph is written and read in every
format.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evener import algorithms, progress
from evener.cli.algorithm import ALGORITHM_HELP, Algorithm, find_algorithm
from evener.cli.options import Option
from evener.cli.output import print_json, print_table
from evener.cli.parser import add_json, new_command
from evener.errors import DeviceError, EvenerError, GraphError
from evener.graph.csr import Graph
from evener.graph.files import FORMATS, load

# Kernels differ by what a graph stores; vertices and arcs are counted in 32 bits up to 2**31.
_WEIGHTS = (None, np.int32, np.float32, np.float64)
_ROWS = ("a b\n", "1 2\n", "1 2 3\n", "5 77777777777\n")
_GRAPHS = "graph-"  # records of checked graphs, which are in the same folder
_COMPILED = ("*.bin", "kernel-*.cubin")  # compiled for the CPU, and for a GPU


class Warmed(NamedTuple):
    """One algorithm on one device: how many of its calls needed compiling."""

    algorithm: str
    device: str
    compiled: int
    found: int
    seconds: float


def add_command(commands: Any) -> None:
    """Add ``warm`` to the parser."""
    parser = new_command(
        commands, "warm", run, "compile the algorithms now, so that first calls are fast",
        "  evener warm\n  evener warm bfs pagerank --json",
    )  # fmt: skip
    parser.add_argument("algorithms", metavar="ALGORITHM", nargs="*", help=ALGORITHM_HELP)
    parser.add_argument("--device", metavar="D", help="only this device (default: all present)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Compile and print a row for each algorithm and device."""
    from evener.device.kept_files import cache_folder

    chosen = [find_algorithm(name) for name in arguments.algorithms or algorithms.__all__]
    loads = not arguments.algorithms
    devices = compiling_devices(arguments.device)
    folder = cache_folder()
    _check_writable(folder)
    rows: list[Warmed] = []
    with progress.task("compiling"):
        graphs = example_graphs()
        if loads:
            rows.append(_warm_loading(graphs, folder))
        for device in devices:
            for algorithm in chosen:
                progress.report(len(rows), loads + len(devices) * len(chosen))
                progress.set_note(f"{algorithm.name} for {device}")
                rows.append(_warm(algorithm, device, graphs, folder))
    if arguments.json:
        print_json({"cache": str(folder), "warmed": [row._asdict() for row in rows]})
        return
    print_table(
        ("algorithm", "device", "compiled", "in the cache", "seconds"),
        [(r.algorithm, r.device, str(r.compiled), str(r.found), f"{r.seconds:.2f}") for r in rows],
    )
    print(f"{len(graphs)} kinds of graph; compiled code is in {folder}")


def compiling_devices(requested: str | None) -> list[str]:
    """The devices to compile for: the requested one, or all that are available.

    Examples
    --------
    >>> from evener.cli.warm import compiling_devices
    >>> compiling_devices("cpu:2")
    ['cpu:2']
    """
    from evener.device.probe import list_devices
    from evener.engine.devices import choose_devices

    if requested is not None:
        if all(device.kind == "python" for device in choose_devices(requested)[0]):
            raise DeviceError(
                f"device {requested!r} interprets programs, so there is nothing to compile; name "
                "another device."
            )
        return [requested]
    names = []
    for device in list_devices():
        try:
            choose_devices(device.name)
        except DeviceError:  # present, but this version does not support it
            continue
        if device.available and device.kind != "python":
            names.append(device.name)
    return names


def example_graphs() -> list[Graph]:
    """A small graph of each kind: directed and undirected, unweighted and with each weight dtype.

    Examples
    --------
    >>> from evener.cli.warm import example_graphs
    >>> len(example_graphs())
    8
    """
    src, dst = np.arange(7), np.arange(1, 8)
    graphs = []
    for dtype in _WEIGHTS:
        weight = None if dtype is None else np.ones(7, dtype)
        for directed in (False, True):
            graph = Graph.from_edges(src, dst, weight, directed=directed)
            graph.transpose()  # so that code compiled from here on belongs to programs
            graphs.append(graph)
    return graphs


def _warm(algorithm: Algorithm, device: str, graphs: list[Graph], folder: Path) -> Warmed:
    compiled = found = 0
    seconds = 0.0
    for graph in graphs:
        for arguments in variants(algorithm.options, graph):
            before = _compiled_files(folder)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about results that have not converged
                    result = algorithm.call(graph, device=device, **arguments)
            except GraphError:
                if graph.weights is None:  # the algorithm needs weights
                    continue
                raise
            seconds += result.stats.get("compile_seconds", 0.0)
            began = time.perf_counter()
            result.to_numpy()  # fields computed on first access, such as parents, have programs
            seconds += time.perf_counter() - began
            if _compiled_files(folder) - before:
                compiled += 1
            else:
                found += 1
    return Warmed(algorithm.name, device, compiled, found, seconds)


def variants(options: list[Option], graph: Graph) -> list[dict[str, Any]]:
    """Arguments for calls of an algorithm: the required ones, then each option in turn.

    Examples
    --------
    >>> from evener import generate
    >>> from evener.algorithms import bfs
    >>> from evener.cli.options import options_of_function
    >>> from evener.cli.warm import variants
    >>> variants(options_of_function(bfs), generate.path(3))
    [{'source': 0}, {'source': 0, 'target': 0}, {'source': 0, 'cutoff': 1}]
    """
    required = {o.name: _example(o, graph) for o in options if o.required}
    others = {o.name: _other_value(o, graph) for o in options if not o.required}
    return [required, *(required | {name: x} for name, x in others.items() if x is not None)]


def _other_value(option: Option, graph: Graph) -> Any:
    """A value that may select another program than the default; None if no value does."""
    if option.kinds & {"VertexValues", "Mapping", "Label"}:
        return _example(option, graph)
    if isinstance(option.default, bool):
        return not option.default
    if option.name == "dtype":
        return np.float32
    return 1 if option.default is None else None  # other numbers select the same program


def _warm_loading(graphs: list[Graph], folder: Path) -> Warmed:
    """Write each graph in each format that can hold it, read it, and use its methods."""
    compiled = found = 0
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what a format cannot express
        for line in _ROWS:  # files without Evener's note, as other programs write them
            path = Path(place) / "rows.el"
            path.write_text(line * 150)
            _use_methods(load(path, header=False))
        every = itertools.product((*graphs, *_labelled_graphs()), FORMATS.items())
        for graph, (format, suffixes) in every:
            before, path = _compiled_files(folder), Path(place) / f"graph{suffixes[0]}"
            # Some formats cannot hold the graph, and some need an extra that is not installed.
            with contextlib.suppress(EvenerError):
                graph.save(path)
                _use_methods(load(path, verify=True) if format == "evg" else load(path))
                if _compiled_files(folder) - before:
                    compiled += 1
                else:
                    found += 1
    return Warmed("loading", "cpu", compiled, found, time.perf_counter() - began)


def _labelled_graphs() -> list[Graph]:
    """Graphs with many parallel arcs, labelled by names or by numbers with gaps."""
    graphs = []
    for labels in (["a", "b", "c"], [5, 1 << 20, 1 << 40]):
        src, dst = np.arange(150) % 3, np.arange(150) % 2
        for weight in (None, *(np.ones(150, dtype) for dtype in _WEIGHTS[1:])):
            graphs.append(Graph.from_edges(src, dst, weight, labels=labels))
    return graphs


def _use_methods(graph: Graph) -> None:
    """Call the methods that people use on a graph they have loaded."""
    graph.symmetrize()
    for duplicates in ("first", "min", "sum"):
        graph.simplify(duplicates)
    graph.largest_component()
    graph.ego(graph.labels[:1].tolist()[0], 1)


def _compiled_files(folder: Path) -> set[Path]:
    """The files of compiled code."""
    paths = (path for pattern in _COMPILED for path in folder.glob(pattern))
    return {path for path in paths if not path.name.startswith(_GRAPHS)}


def _example(option: Option, graph: Graph) -> Any:
    """An example value for a required option."""
    first = graph.labels[0].item()
    if option.kinds & {"VertexValues", "Mapping"}:
        return {first: 1.0}
    if option.kinds & {"Label", "SomeLabels"}:
        return first
    raise EvenerError(
        f"{option.flag} is required and has no default, so the program cannot be compiled by warm; "
        "run it once instead."
    )


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EvenerError(
            f"compiled code cannot be stored in {folder}: {error.strerror}; "
            "set EVENER_CACHE to a writable folder."
        ) from None
