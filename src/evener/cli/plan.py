"""``evener plan``: the predicted cost of each placement of a graph on devices."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from evener.cli.algorithm import ALGORITHM_HELP, Algorithm, find_algorithm
from evener.cli.graphs import GRAPH_HELP, add_read_options, read_options, read_with_direction
from evener.cli.output import print_json, print_table
from evener.cli.parser import add_json, new_command
from evener.errors import DeviceError, EvenerError
from evener.graph.csr import Graph

if TYPE_CHECKING:
    from evener.engine.planning.calibrate import Workload
    from evener.engine.planning.planner import Placement

# Arguments for algorithms that would otherwise take long; the plan mentions them.
_PARAMETERS: dict[str, dict[str, Any]] = {"betweenness": {"sources": 1}}


def add_command(commands: Any) -> None:
    """Add ``plan`` to the parser."""
    parser = new_command(
        commands, "plan", run, "predict seconds and memory of each placement on some devices",
        "  evener plan kron.evg --device cpu:1+cpu:1\n"
        "  evener plan kron.evg --device cpu+cuda --program pagerank --memory-limit cuda=8GiB",
    )  # fmt: skip
    parser.add_argument("graph", metavar="GRAPH", help=GRAPH_HELP)
    parser.add_argument(
        "--device",
        metavar="D",
        required=True,
        help="a set such as cpu+cpu, or auto (EVENER_DEVICE if it is set)",
    )
    parser.add_argument(
        "--program", metavar="P", default="bfs", help=f"{ALGORITHM_HELP} (default: bfs)"
    )
    parser.add_argument(
        "--partition", metavar="P", help="only these partitioners, comma-separated (default: all)"
    )
    parser.add_argument(
        "--memory-limit",
        metavar="L",
        help="limit for all devices, such as 4GiB, or by name: cpu=4GiB,cuda=2GiB",
    )
    parser.add_argument(
        "--measure", action="store_true", help="measure the rates of this machine again"
    )
    add_read_options(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Calibrate if needed, and print a row for each placement."""
    from evener import progress
    from evener.device.cuda import why_not
    from evener.engine.devices import choose_devices, device_from_environment, parse_devices
    from evener.engine.memory.estimate import parse_limits
    from evener.engine.partition.partitioners import parse_partitioner
    from evener.engine.planning.calibrate import Calibration
    from evener.engine.planning.planner import as_dict, choose, plan

    device = arguments.device
    if device == "auto" and device_from_environment() is not None:
        device = "+".join(map(str, choose_devices(device)[0]))
    elif device == "auto":
        device = "cpu" if why_not() else "cpu+cuda"
    devices = parse_devices(device)
    limits = parse_limits(arguments.memory_limit, [str(one) for one in devices])
    partitioners = None if arguments.partition is None else arguments.partition.split(",")
    if partitioners is not None and len(devices) == 1:
        raise EvenerError(
            f"--partition {arguments.partition} needs a device set, such as cpu+cpu; the device is "
            f"{device}."
        )
    for name in partitioners or ():
        if ":" in name:
            raise EvenerError(
                f"partitioner {name!r} has options, but a plan chooses the shares itself; give "
                "only its name."
            )
        parse_partitioner(name)
    algorithm = find_algorithm(arguments.program)
    loaded = read_with_direction(arguments.graph, **read_options(arguments))
    with progress.task("planning"):
        found = plan(
            loaded.graph, devices, workload_of(algorithm, loaded.graph), partitioners=partitioners,
            limits=limits, calibration=Calibration(again=arguments.measure),
        )  # fmt: skip
    best = choose(found)
    notes = [
        f"{algorithm.name} with {n}={v}." for n, v in _PARAMETERS.get(algorithm.name, {}).items()
    ]
    try:
        choose_devices(device)
    except DeviceError as error:  # plans are allowed for devices that are not available
        notes.append(str(error))
    if arguments.json:
        rows = [as_dict(one) | {"chosen": one is best} for one in found]
        print_json({"program": algorithm.name, "placements": rows, "notes": notes})
        return
    print_table(
        ("device", "partitioner", "α", "least α", "β", "β aggregated", "memory", "seconds", ""),
        [
            (*_row(one), "fastest" if one is best else "" if one.fits else "too large")
            for one in found
        ],
    )
    for note in notes:
        print(note)


def workload_of(algorithm: Algorithm, graph: Graph) -> Workload:
    """The workload that the planner runs to calibrate for an algorithm or program.

    Examples
    --------
    >>> from evener import generate
    >>> from evener.cli.plan import workload_of
    >>> from evener.cli.algorithm import find_algorithm
    >>> path = generate.path(4)
    >>> workload_of(find_algorithm("bfs"), path).call(path, 3, device="python").depth.tolist()
    [3, 2, 1, 0]
    """
    from evener.engine.planning.calibrate import Workload

    for option in algorithm.options:
        known = option.kinds & {"VertexValues", "Mapping", "Label", "SomeLabels"}
        if option.required and not known:
            raise EvenerError(
                f"{algorithm.name} needs {option.flag}, which has no default; plan another program."
            )

    def call(graph: Graph, source: int, **where: Any) -> Any:
        parameters = {
            option.name: {source: 1.0} if option.kinds & {"VertexValues", "Mapping"} else source
            for option in algorithm.options
            if option.required
        }
        return algorithm.call(graph, **parameters, **_PARAMETERS.get(algorithm.name, {}), **where)

    return Workload(algorithm.name, call)


def _row(one: Placement) -> tuple[str, ...]:
    from evener.device.limits import format_bytes
    from evener.engine.planning.calibrate import EDGES_MAPPED

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    return (
        "+".join(one.devices) + (EDGES_MAPPED if one.mapped else ""),
        one.partitioner or "-",
        share(one.alpha),
        share(one.alpha_min),
        share(one.beta),
        share(one.beta_aggregated),
        " + ".join(map(format_bytes, one.memory)),
        f"{one.seconds:.3g}",
    )
