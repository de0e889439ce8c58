"""``evener show``: the plan or kernel of a program on a device, without running it."""

from __future__ import annotations

import argparse
from typing import Any

from evener.cli.algorithm import ALGORITHM_HELP, programs_of
from evener.cli.graphs import GRAPH_HELP, add_read_options, read_options, read_with_direction
from evener.cli.parser import new_command
from evener.graph.generate import rmat


def add_command(commands: Any) -> None:
    """Add ``show`` to the parser."""
    parser = new_command(
        commands, "show", run, "show the plan or the kernel of a program on a device",
        "  evener show bfs --device cpu+cuda\n"
        "  evener show sssp roads.gr --device cuda --text\n"
        "  evener show examples/widest_path.py:Widest --ptx --device cuda",
    )  # fmt: skip
    parser.add_argument("program", metavar="PROGRAM", help=ALGORITHM_HELP)
    parser.add_argument(
        "graph", metavar="GRAPH", nargs="?",
        help=f"{GRAPH_HELP} (default: a small weighted graph); direction and weights affect the "
        "kernel",
    )  # fmt: skip
    parser.add_argument(
        "--device", metavar="D", default="cpu",
        help="cpu (default), cpu:1, cuda, or a set: cpu+cpu, cpu+cuda; present or not",
    )  # fmt: skip
    parser.add_argument(
        "--direction", metavar="WAY", default="auto", help="push, pull, or auto (default)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--plan", action="store_true", help="the loop, its stages and exchanges as a tree (default)"
    )
    what.add_argument("--text", action="store_true", help="the Python text of the kernel")
    what.add_argument("--ptx", action="store_true", help="the PTX code for a GPU")
    add_read_options(parser)


def run(arguments: argparse.Namespace) -> None:
    """Lower the program and print the requested form."""
    from evener.engine.lower import lower

    program, *others = programs_of(arguments.program)
    if arguments.graph is None:
        graph = rmat(8, 8, seed=1, weights=(1, 9))
    else:
        graph = read_with_direction(arguments.graph, **read_options(arguments)).graph
    lowered = lower(program, graph, device=arguments.device, direction=arguments.direction)
    if arguments.ptx:
        print(lowered.ptx)
    elif arguments.text:
        print(lowered.text)
    else:
        print(lowered.plan)
    if others and not (arguments.ptx or arguments.text):
        place = f"{program.__module__}:"
        print(f"\nOther programs of {arguments.program}: ", end="")
        print(", ".join(f"{place}{other.__name__}" for other in others))
