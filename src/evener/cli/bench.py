"""``evener bench``: time the algorithms, optionally against GAPBS and other libraries."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from evener.cli.output import print_json, print_table
from evener.cli.parser import add_force, add_json, new_command
from evener.cli.results import check_file
from evener.errors import EvenerError


def add_command(commands: Any) -> None:
    """Add ``bench`` to the parser."""
    parser = new_command(
        commands, "bench", run, "time the algorithms on several graphs and verify each answer",
        "  evener bench --graphs kron14,grid200 --algorithms bfs,sssp\n"
        "  evener bench --gapbs ../gapbs -o results.json\n"
        "  evener bench --graphs kron20 --peers\n\n"
        "Graphs: kronN and kronNxK (R-MAT of scale N, K edges per vertex), uniformN, gridN "
        "(N × N, 5 %\nof the edges removed), a generator such as rmat:scale=16, or a file.",
    )  # fmt: skip
    parser.add_argument(
        "--algorithms", metavar="A,…", default="bfs,sssp,pagerank,cc,bc",
        help="which of bfs, sssp, pagerank, cc, bc (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--graphs", metavar="G,…", default="kron20,uniform20,kron18x48,grid1500",
        help="graphs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--device", metavar="D,…", default="cpu", help="devices to compare (default: cpu)"
    )
    parser.add_argument(
        "--trials", metavar="N", type=int, default=8, help="trials of each case (default: 8)"
    )
    parser.add_argument(
        "--sources", metavar="N", type=int, default=4,
        help="sources among which the trials of a search rotate (default: 4)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", metavar="S", type=int, default=1, help="seed of graphs and sources (default: 1)"
    )
    parser.add_argument(
        "--peers", action="store_true",
        help="also time SciPy, NetworkX, NetworKit, igraph, python-graphblas and rustworkx, "
        "if installed",
    )  # fmt: skip
    parser.add_argument("--gapbs", metavar="DIR", help="also time the GAPBS programs built in DIR")
    parser.add_argument("-o", "--out", metavar="OUT", help="write all results to a file, as JSON")
    add_force(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Measure, then print a table and write the results."""
    from evener.bench.cases import parse_algorithms, parse_graphs
    from evener.bench.harness import write_results
    from evener.bench.matrix import Options, run_matrix
    from evener.bench.report import COLUMNS, rows_of, skips_of, totals_of

    out = None
    if arguments.out is not None:
        out = check_file(arguments.out, "-o", force=arguments.force)
    devices = [device.strip() for device in arguments.device.split(",") if device.strip()]
    if not devices:
        raise EvenerError("--device is empty; name one, such as cpu.")
    options = Options(
        parse_algorithms(arguments.algorithms), parse_graphs(arguments.graphs), devices,
        arguments.trials, arguments.sources, arguments.seed, arguments.peers,
        None if arguments.gapbs is None else Path(arguments.gapbs).expanduser(),
    )  # fmt: skip
    results = run_matrix(options, _say)
    if out is not None:
        write_results(out, results)
    if arguments.json:
        print_json(results)
        return
    print_table(COLUMNS, rows_of(results))
    for line in [*skips_of(results), *totals_of(results)]:
        print(line)


def _say(line: str) -> None:
    """Report progress: such a benchmark takes minutes."""
    print(line, file=sys.stderr, flush=True)
