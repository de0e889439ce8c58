"""The parser of the command line: one subcommand for each module, errors in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

Run = Callable[[argparse.Namespace], None]

_EXAMPLE = """\
example:
  evener generate rmat kron.evg --scale 16 --seed 1
  evener run bfs kron.evg --source 0
  evener convert kron.evg kron.mtx
"""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of examples, and leaves room for long options."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=30)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and whose help ends in an example.

    ``prepare``, where a command sets it, sees the words first and adds the options that depend on
    them.
    """

    prepare: Callable[[Sequence[str]], None] | None = None

    def __init__(self, **options: Any):
        super().__init__(allow_abbrev=False, formatter_class=_HelpFormatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, with the options that these very words bring along."""
        if self.prepare is not None:
            self.prepare(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Leave with exit code 2 and one line that says where help is."""
        sys.stderr.write(f"evener: error: {message}; see {self.prog} --help.\n")
        sys.exit(2)


def build_parser() -> Parser:
    """The parser with all commands.

    Examples
    --------
    >>> from evener.cli.parser import build_parser
    >>> build_parser().parse_args(["info", "roads.gr", "--check"]).check
    True
    """
    from evener.cli import bench, convert, devices, generate, info, plan, warm
    from evener.cli import run as run_command
    from evener.versions import evener_version

    parser = Parser(
        prog="evener",
        description="Graph analytics on every processor there is: runs algorithms on CPUs, on GPUs "
        "and on both\ntogether, and makes, reads, checks and converts graphs. evener devices lists "
        "what is here.",
        epilog=_EXAMPLE,
    )
    parser.add_argument("--version", action="version", version=f"evener {evener_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (run_command, info, convert, generate, devices, plan, warm, bench):
        module.add_command(commands)
    return parser


def new_command(commands: Any, name: str, run: Run | None, summary: str, example: str) -> Parser:
    """Add one command: its summary, its example and the function that runs it."""
    description = f"{summary[0].upper()}{summary[1:]}."
    epilog = f"example:\n{example}"
    parser: Parser = commands.add_parser(name, help=summary, description=description, epilog=epilog)
    parser.set_defaults(run=run)
    return parser


def add_direction(parser: argparse.ArgumentParser) -> None:
    """Add ``--directed`` and ``--undirected``; ``arguments.directed`` is None without either."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--directed", dest="directed", action="store_true", default=None,
        help="take each line of the file as one arc",
    )  # fmt: skip
    group.add_argument(
        "--undirected", dest="directed", action="store_false", default=None,
        help="take each line of the file as an edge in both directions",
    )  # fmt: skip


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON")
